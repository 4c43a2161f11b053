"""`docs/security.md`: each of its threats names a test, and the tests are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"


def threats(page):
    """Yield (threat, the names between backticks in its last column)."""
    table = page.partition("| threat | OWASP | defence | test |\n|---|---|---|---|\n")[2]
    for line in table.partition("\n\n")[0].splitlines():
        cells = re.split(r"(?<!\\)\|", line.strip("|"))
        yield cells[0].strip(), re.findall(r"`((?:test_|tests/)[^`]+)`", cells[-1])


def test_each_threat_has_a_test_that_there_is():
    names = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    }
    rows = dict(threats(PAGE.read_text("utf-8")))
    assert len(rows) > 25
    for threat, tests in rows.items():
        assert tests, f"no test for: {threat}"
        for test in tests:
            there = "def test_" in (ROOT / test).read_text() if "/" in test else test in names
            assert there, f"{test} is no test ({threat})"
