"""Which rows of a bank to let go: worth, how often and how well it advised, age."""

import time
from collections.abc import Callable

from stores.bank.bank import Bank, Row

_HALF_LIFE = 30 * 86400.0  # seconds in which a row that is not used loses half of its standing
_TRIED = 3  # uses from which the outcome says something about the advice
_USELESS = 0.2  # mean reward under which advice that was tried is useless


def standing(row: Row, now: float) -> float:
    """Return how much a row is worth keeping: worth, plus what its use earned, fading with age."""
    age = max(now - max(row.created, row.used or 0.0), 0.0)
    earned = 10.0 * row.helped * min(row.uses, _TRIED) / _TRIED if row.uses else 0.0
    return float((row.q + earned) * 0.5 ** (age / _HALF_LIFE))


def prune(
    bank: Bank,
    *,
    keep: int | None = None,
    min_q: float | None = None,
    older_than: float | None = None,
    useless: bool = False,
    clock: Callable[[], float] = time.time,
) -> int:
    """Remove rows and return how many went.

    ``min_q`` removes rows worth less, ``older_than`` those that many seconds old and never used,
    ``useless`` those limits as advice three times or more that earned next to nothing, and ``keep``
    the rows of least standing beyond that number.
    """
    now = clock()
    tests: list[tuple[str, tuple[float, ...]]] = []
    if min_q is not None:
        tests.append(("q < ?", (min_q,)))
    if older_than is not None:
        tests.append(("(uses = 0 and created < ?)", (now - older_than,)))
    if useless:
        tests.append(("(uses >= ? and helped < ?)", (_TRIED, _USELESS)))
    gone: set[int] = set()
    if tests:
        wanted = " or ".join(test for test, _ in tests)
        values = [value for _, limits in tests for value in limits]
        query = f"select n from rows where {wanted}"  # noqa: S608 - three fixed tests
        gone = {row["n"] for row in bank.query(query, values)}
    if keep is not None and len(bank) - len(gone) > keep:
        left = [row for row in bank.rows() if row.n not in gone]
        left.sort(key=lambda row: (-standing(row, now), row.n))
        gone |= {row.n for row in left[keep:]}
    if gone:
        bank.remove(sorted(gone))
    return len(gone)
