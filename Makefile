# Three commands: `make ui`, `make demo` and `make test`. Each sets up everything it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export HF_HUB_DISABLE_TELEMETRY := 1
export ANONYMIZED_TELEMETRY := False
unexport PYTHONDONTWRITEBYTECODE  # without bytecode every process compiles its libraries: seconds each time
.DEFAULT_GOAL := help
.PHONY: help setup demo test check faults audit ui lock clean

help: ## what can be made
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile

setup: $(VENV)/.ready ## make .venv with everything in it (torch first: its CPU build is small)

$(VENV)/.ready: pyproject.toml requirements.lock
	@command -v $(PYTHON) >/dev/null || { echo "no $(PYTHON): install Python 3.11 or newer"; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed: make PYTHON=python3.11"; exit 2; }
	@echo "setting up $(VENV): about a minute, the first time"
	@echo "[1/3] an empty environment" && $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@echo "[2/3] torch (200 MB; its CPU build comes by pip)"
	@$(BIN)/python -m pip install --progress-bar on --disable-pip-version-check "$$(sed -n 's/^# \(torch==.*\)/\1/p' requirements.lock)"
	@echo "[3/3] the libraries that requirements.lock names, and stategate itself"
	@$(BIN)/uv pip install --python $(BIN)/python --no-deps --require-hashes -r requirements.lock
	@$(BIN)/uv pip install --python $(BIN)/python --quiet --no-deps --no-build-isolation -e .
	@rm -rf *.egg-info  # what it says of entry points would outlive the next installation
	@mkdir -p $(VENV)/src && ln -sfn ../.. $(VENV)/src/stategate  # for mypy and editors, which read no import hooks
	@touch $@

demo: setup ## play one task with three memories at the same budget, and show where they part
	$(BIN)/stategate demo

# A browser and its server need both cores for themselves: beside other tests a redraw swallows clicks.
# What failed there is tried once more: a machine that stood still for a minute is no fault of the app.
test: setup check ## check, then every test: those in a browser by themselves (workers wait more than they work: three on two cores)
	$(BIN)/python -m pytest -n 3 --dist loadfile --ignore tests/ui/browser
	$(BIN)/python -m pytest tests/ui/browser || $(BIN)/python -m pytest --last-failed --last-failed-no-failures none tests/ui/browser

check: setup ## ruff, mypy strict and deptry
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/deptry .

faults: setup ## kill every scenario at each of its writes and at 200 moments (an hour or two)
	for scenario in $$(ls tests/faults/scenarios | sed -n 's/^\([a-z]*\)\.py$$/\1/p'); do \
	  $(BIN)/python -m tests.faults.killing $$scenario --every 1 --random 200 --full 50 || exit 1; done
	for scenario in $$(grep -l 'kept(' tests/faults/scenarios/[a-z]*.py | sed 's/.*\/\([a-z]*\)\.py/\1/'); do \
	  $(BIN)/python -m tests.faults.killing $$scenario --postgres --every 1 --random 50 --full 20 || exit 1; done

audit: setup ## known holes in what is installed (asks a public database), and all licences
	$(BIN)/python -m pip check
	$(BIN)/python -c "from importlib.metadata import distributions as d; \
	  print(*sorted({f'{x.name}: {x.metadata.get(\"License-Expression\") or (x.metadata.get(\"License\") or \"see its files\").splitlines()[0][:60]}' for x in d()}), sep='\n')"
	@timeout 600 $(BIN)/uv tool run pip-audit --disable-pip --require-hashes -r requirements.lock > .audit 2>&1; code=$$?; \
	  if [ $$code = 124 ] || grep -qE "could not be audited|ConnectionError|ServiceError|error: (Failed|Request)" .audit; then \
	    echo "pip-audit: the database of known holes does not answer here, so nothing was audited: run it elsewhere"; \
	  else cat .audit; exit $$code; fi; rm -f .audit

ui: setup ## open the Gradio app on this machine
	$(BIN)/stategate ui

lock: setup ## write requirements.lock anew, with hashes, from what is installed
	$(BIN)/python -m pip freeze --all --exclude-editable | sed 's/+cpu$$//' | grep -vE '^(pip|stategate|uv)\b' > .pins
	{ sed -n '1,2p' requirements.lock; grep '^torch==' .pins | sed 's/^/# /'; } > .lock
	grep -v '^torch==' .pins | $(BIN)/uv pip compile --no-deps --generate-hashes --no-header --no-annotate --quiet \
	  --python $(BIN)/python - >> .lock
	mv .lock requirements.lock && rm .pins

clean: ## remove .venv and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache build *.egg-info
