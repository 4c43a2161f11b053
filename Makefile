# Three commands: `make ui`, `make demo` and `make test`. Each sets up everything it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export HF_HUB_DISABLE_TELEMETRY := 1
export ANONYMIZED_TELEMETRY := False
.DEFAULT_GOAL := help
.PHONY: help setup demo test check ui lock clean

help: ## what can be made
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile

setup: $(VENV)/.ready ## make .venv with everything in it (torch first: its CPU build is small)

$(VENV)/.ready: pyproject.toml requirements.lock
	@command -v $(PYTHON) >/dev/null || { echo "no $(PYTHON): install Python 3.11 or newer"; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed: make PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep '^torch==' requirements.lock)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

demo: setup ## run one real episode with the learned policy on the sample catalogue
	$(BIN)/stategate run demo --goal 3

test: setup check ## check, then every test
	$(BIN)/python -m pytest

check: setup ## ruff, mypy strict and deptry
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/deptry .

ui: setup ## open the Gradio app on this machine
	$(BIN)/stategate ui

lock: setup ## write requirements.lock anew from what is installed
	$(BIN)/python -m pip freeze --all --exclude-editable | grep -vE '^(pip|stategate)\b' | sed 's/+cpu$$//' > requirements.lock

clean: ## remove .venv and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache build *.egg-info
