"""A missing optional package is a user's mistake with its fix; other import errors stay loud."""

import pytest

from stategate.stores.errors import MissingExtra, UserError, extra_of, missing_extra, require_extra


def test_a_missing_package_names_the_extra_that_brings_it():
    with (
        pytest.raises(MissingExtra, match=r"'nowhere' is not installed: .*stategate\[qa\]"),
        require_extra("qa"),
    ):
        import nowhere.at.all  # noqa: F401
    assert issubclass(MissingExtra, UserError)


@pytest.mark.parametrize(
    ("package", "extra"),
    [("torch", "local"), ("tabulate", "eval"), ("sklearn", "train"), ("bs4", "qa"), ("ray", "ray")],
)
def test_any_package_of_an_extra_names_it_unasked(package, extra):
    line = missing_extra(ModuleNotFoundError("gone", name=f"{package}.inside"))
    assert str(line).endswith(f"pip install 'stategate[{extra}]'")


def test_what_no_extra_brings_stays_a_fault():
    assert missing_extra(ModuleNotFoundError("gone", name="nowhere")) is None
    assert missing_extra(ImportError("gone", name="torch")) is None
    assert extra_of("typer") is None
