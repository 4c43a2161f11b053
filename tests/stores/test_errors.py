"""A missing optional package is a user's mistake with its fix; other import errors stay loud."""

import pytest

from stores.errors import MissingExtra, UserError, needs


def test_a_missing_package_names_the_extra_that_brings_it():
    with (
        pytest.raises(MissingExtra, match=r"'nowhere' is not installed: .*stategate\[qa\]"),
        needs("qa"),
    ):
        import nowhere.at.all  # noqa: F401
    assert issubclass(MissingExtra, UserError)


def test_other_errors_pass():
    with pytest.raises(ImportError), needs("qa"):
        from stores.errors import nothing_of_the_kind  # noqa: F401
