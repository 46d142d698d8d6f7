"""Lets a kind of fault strike a cluster, and takes its word for nothing: what proves that it bit is what the cluster
itself has said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from ..core.error_text import somebodys_code
from ..core.errors import InvalidFault
from ..core.schedule import Fault
from ..recording.history import Bite
from .injection import FaultKind, Link, Machines


def inflict(kind: FaultKind, machines: Machines, fault: Fault) -> list[Bite]:
    """Strike a cluster with a fault. Returns the proofs that the cluster gave.

    Raises InvalidFault where the kind fails, does nothing, strikes others than the fault's targets or not all of these,
    or returns other proofs than it was given.
    """
    heard = _Heard(machines)
    with somebodys_code(InvalidFault, f"the fault {kind.name} failed"):
        returned: object = kind.inflict(cast(Machines, heard), fault)
    if not heard.given:
        raise InvalidFault(
            f"the fault {kind.name} did nothing to the cluster: its inflict() calls a method of Machines, as "
            "machines.crash(fault.targets)"
        )
    if not isinstance(returned, list) or returned != heard.given:
        raise InvalidFault(
            f"the fault {kind.name} returned {returned!r} as its proofs, and the cluster gave {heard.given!r}: let "
            "inflict() return what the methods of Machines give it, all of that, in that order"
        )
    if wrong := _misses(fault, heard):
        raise InvalidFault(
            f"the fault {kind.name} {wrong}: what is on record is `{fault}`, so let inflict() strike all whom that "
            "names, and nobody else"
        )
    return heard.given


def _misses(fault: Fault, heard: _Heard) -> str:
    """Whom it strikes that it does not name, or names and does not strike, in words; empty where there is none. What is
    cut between ends need not have all of them: who is between two others can be what still connects them. It is cut
    the way that the fault says."""
    others = [name for name in dict.fromkeys(heard.struck) if name not in fault.targets]
    if others:
        return f"strikes {' and '.join(others)}, which it does not name"
    if heard.links:
        return _other_ways(fault, heard.links)
    left = [name for name in fault.targets if name not in heard.struck]
    return f"does not strike {' and '.join(left)}" if left else ""


def _other_ways(fault: Fault, links: Sequence[Link]) -> str:
    """Which way it strikes what passes between ends, where that is not what is on record; empty where it is."""
    ways = {way for one in links for way in _ways(one)}
    meant = (
        {(fault.targets[0], fault.targets[1])} if fault.one_way else ways | {(second, first) for first, second in ways}
    )
    if ways == meant:
        return ""
    struck, named = (sorted(f"from {first} to {second}" for first, second in some) for some in (ways, meant))
    return f"strikes what passes {' and '.join(struck)}, and is to strike what passes {' and '.join(named)}"


def _ways(link: Link) -> set[tuple[str, str]]:
    way = link.first, link.second
    return {way} if link.one_way else {way, way[::-1]}


class _Heard:
    """A cluster, what its methods have been asked for, and what they have returned so far."""

    def __init__(self, machines: Machines) -> None:
        self.given: list[Bite] = []
        self.struck: list[str] = []
        """The targets, and the ends of links, that it was told."""
        self.links: list[Link] = []
        """Those that it was told."""
        self._machines = machines

    def __getattr__(self, name: str) -> Callable[..., list[Bite]]:
        method = getattr(self._machines, name)

        def done(*args: Any, **kwargs: Any) -> list[Bite]:
            bites: list[Bite] = method(*args, **kwargs)
            self.given += bites
            for told in _told((*args, *kwargs.values())):
                if isinstance(told, Link):
                    self.links.append(told)
                self.struck += (told.first, told.second) if isinstance(told, Link) else (told,)
            return list(bites)

        return done


def _told(amounts: tuple[Any, ...]) -> Iterator[str | Link]:
    """The targets and links among what a method was given."""
    for amount in amounts:
        if isinstance(amount, Link):
            yield amount
        elif isinstance(amount, list | tuple):
            yield from amount
