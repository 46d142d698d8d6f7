"""All that a collation tells, by name."""

from __future__ import annotations

from streamproof.harness.judging.collation import Collation

NAMES = tuple(name for name, one in vars(Collation).items() if isinstance(one, property))


def told_by(collation: Collation) -> dict[str, object]:
    return {name: getattr(collation, name) for name in NAMES}
