"""Accounts: a file of names and password hashes, one a line, for every server of ours.

stategate ui --new-account ann >> accounts
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from stategate.stores.errors import UserError, user_error_context


def hashed(user: str, password: str) -> str:
    """Return a line of an accounts file: the user, and scrypt of the password with its salt."""
    salt = secrets.token_bytes(16)
    return f"{user}:scrypt${salt.hex()}${_scrypt(password, salt).hex()}"


def read_accounts(path: str | Path) -> dict[str, str]:
    """Return the hashes by user of an accounts file. Raises ``UserError``."""
    with user_error_context(f"cannot read the accounts in '{path}'"):
        lines = Path(path).expanduser().read_text(encoding="utf-8").splitlines()
    accounts: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        user, _, kept = line.strip().partition(":")
        if not line.strip() or line.startswith("#"):
            continue
        if not user or kept.count("$") != 2 or not kept.startswith("scrypt$"):
            raise UserError(
                f"'{path}' line {number} is no account: stategate ui --new-account NAME"
            )
        accounts[user] = kept
    if not accounts:
        raise UserError(f"'{path}' holds no account: stategate ui --new-account NAME >> {path}")
    return accounts


def checks(accounts: Mapping[str, str]) -> Callable[[str, str], bool]:
    """Return what says whether a user and a password are one of ``accounts``, in equal time."""

    def check(user: str, password: str) -> bool:
        _, salt, expected = accounts.get(user, f"scrypt${'00' * 16}${'00' * 32}").split("$")
        found = _scrypt(password, bytes.fromhex(salt)).hex()
        return hmac.compare_digest(found, expected) and user in accounts

    return check


def _scrypt(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(
        password.encode("utf-8", "replace"), salt=salt, n=1 << 14, r=8, p=1, dklen=32
    )
