"""Command lines tell a user's mistake in one line; other errors are ours and stay loud."""

import pytest

from stores.errors import ModelUnavailable, UserError, mistakes_in_one_line


@pytest.mark.parametrize("kind", [UserError, ModelUnavailable])
def test_one_line_and_exit_code_two(
    kind: type[UserError], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped, mistakes_in_one_line():
        raise kind("no run at 'x': name a folder")
    assert stopped.value.code == 2
    assert capsys.readouterr().err == "stategate: no run at 'x': name a folder\n"


def test_other_errors_pass_unless_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="ours"), mistakes_in_one_line():
        raise ValueError("ours")
    assert capsys.readouterr().err == ""
    with pytest.raises(SystemExit) as stopped, mistakes_in_one_line(OSError, ValueError):
        raise ValueError("the user's")
    assert stopped.value.code == 2
    assert capsys.readouterr().err == "stategate: the user's\n"
