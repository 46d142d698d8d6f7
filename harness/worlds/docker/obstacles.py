"""What stands in the way of packets between nodes, as the commands that put it up and take it down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ...recording.history import Proof

AddressOf = Callable[[str], str]
"""A node's, which every incarnation of it has."""


class Paired(Protocol):
    @property
    def pairs(self) -> Sequence[tuple[str, str]]:
        """Sender and receiver."""


@dataclass(frozen=True)
class Obstacle:
    """Shell commands by the node in whose network they do it."""

    put_up: Mapping[str, str]
    take_down: Mapping[str, str]
    """They fail where anything of it is left, and print first what it got in the way of."""
    proof: Callable[[Sequence[str]], Proof]
    """From all that was printed."""


def by_receiver(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The senders, each once, by who receives."""
    senders: dict[str, list[str]] = {}
    for sender, receiver in dict.fromkeys(pairs):
        senders.setdefault(receiver, []).append(sender)
    return senders


def by_sender(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The receivers, each once, by who sends."""
    return by_receiver((receiver, sender) for sender, receiver in pairs)
