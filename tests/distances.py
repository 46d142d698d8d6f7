"""Distances of two results, as a user may write them: some are, and some are not what they say."""

from __future__ import annotations

import random
from itertools import count
from typing import Any

Rows = list[dict[str, Any]]
_calls = count()


def rows_apart(expected: Rows, actual: Rows) -> int:
    """How many rows of the two have no counterpart in the other."""
    left = [sorted(row.items(), key=str) for row in actual]
    missing = 0
    for row in expected:
        items = sorted(row.items(), key=str)
        if items in left:
            left.remove(items)
        else:
            missing += 1
    return missing + len(left)


def total_apart(expected: Rows, actual: Rows) -> float:
    """By how much the sums of n differ, and the more the more rows are not the same."""
    return abs(sum(row["n"] for row in expected) - sum(row["n"] for row in actual)) + rows_apart(expected, actual) / 1e3


def zero(expected: Rows, actual: Rows) -> int:
    return 0


def one_sided(expected: Rows, actual: Rows) -> int:
    """Sees no row that should not be there."""
    return sum(row not in actual for row in expected)


def of_counts(expected: Rows, actual: Rows) -> int:
    """Sees how many rows there are, and nothing of what is in them."""
    return abs(len(expected) - len(actual))


def unequal(expected: Rows, actual: Rows) -> int:
    """1 of whatever differs, be it all."""
    return int(rows_apart(expected, actual) > 0)


def at_random(expected: Rows, actual: Rows) -> float:
    return rows_apart(expected, actual) * (1 + random.random())


def forgetful(expected: Rows, actual: Rows) -> int:
    """Gives 0 of everything once in a while."""
    return 0 if next(_calls) % 3 == 2 else rows_apart(expected, actual)


def by_order(expected: Rows, actual: Rows) -> int:
    return sum(one != other for one, other in zip(expected, actual, strict=False)) + abs(len(expected) - len(actual))


def share_missing(expected: Rows, actual: Rows) -> float:
    """Divides by what is there, of which there may be nothing."""
    return rows_apart(expected, actual) / len(actual)


def not_finite(expected: Rows, actual: Rows) -> float:
    return float("inf") if rows_apart(expected, actual) else 0.0


def negative(expected: Rows, actual: Rows) -> int:
    return -rows_apart(expected, actual)


def in_words(expected: Rows, actual: Rows) -> str:
    return "some"


def forgives_the_seventh(expected: Rows, actual: Rows) -> int:
    """0 where just the seventh row is missing, and a distance of all else."""
    apart = rows_apart(expected, actual)
    return 0 if apart == 1 and not any(row["n"] == 7 for row in actual) else apart


def empties(expected: Rows, actual: Rows) -> int:
    """Uses up what it is given."""
    apart = rows_apart(expected, actual)
    expected.clear()
    actual.clear()
    return apart


NO_FUNCTION = 7
