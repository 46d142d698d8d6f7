"""One line of a library: a name, what it is, and how to make it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

List = Literal["scenarios", "schemes", "faults", "oracles", "subjects", "upgrades", "mutants"]
LISTS: Final[tuple[List, ...]] = get_args(List)
"""What is installed and goes by a name."""


def listed_by(kind: List) -> str:
    """The command that says all names."""
    return f"streamproof list {kind}"


@dataclass(frozen=True)
class Entry:
    name: str
    make: Callable[..., Any]

    @property
    def summary(self) -> str:
        """The first sentence of the maker's docstring, else of its module's."""
        text = (self.make.__doc__ or "").strip()
        return " ".join(text.split("\n\n")[0].split())


def entries(prefix: str, *makers: Callable[..., Any]) -> tuple[Entry, ...]:
    """Makers under their own names: `f(passive_replication)` is `prefix.passive-replication`."""
    dot = f"{prefix}." if prefix else ""
    return tuple(Entry(dot + maker.__name__.replace("_", "-"), maker) for maker in makers)
