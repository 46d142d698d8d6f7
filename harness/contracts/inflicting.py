"""Lets a kind of fault strike a cluster, and takes its word for nothing: what proves that it bit is what the cluster
itself has said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

from ..core.error_text import described_error
from ..core.errors import InvalidFault, StreamproofError
from ..core.schedule import Fault
from ..recording.history import Bite
from .injection import FaultKind, Link, Machines


def inflict(kind: FaultKind, machines: Machines, fault: Fault) -> list[Bite]:
    """Strike a cluster with a fault. Returns the proofs that the cluster gave.

    Raises InvalidFault where the kind fails, does nothing, strikes others than the fault's targets or not all of these,
    or returns other proofs than it was given.
    """
    heard = _Heard(machines)
    try:
        returned: object = kind.inflict(cast(Machines, heard), fault)
    except StreamproofError:
        raise
    except Exception as error:
        raise InvalidFault(f"the fault {kind.name} failed: {described_error(error)}") from error
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
    cut between ends need not have all of them: who is between two others can be what still connects them."""
    others = [name for name in dict.fromkeys(heard.struck) if name not in fault.targets]
    if others:
        return f"strikes {' and '.join(others)}, which it does not name"
    left = [] if heard.links else [name for name in fault.targets if name not in heard.struck]
    return f"does not strike {' and '.join(left)}" if left else ""


class _Heard:
    """A cluster, what its methods have been asked for, and what they have returned so far."""

    def __init__(self, machines: Machines) -> None:
        self.given: list[Bite] = []
        self.struck: list[str] = []
        """The targets, and the ends of links, that it was told."""
        self.links = False
        """Whether it was told any link."""
        self._machines = machines

    def __getattr__(self, name: str) -> Callable[..., list[Bite]]:
        method = getattr(self._machines, name)

        def done(*args: Any, **kwargs: Any) -> list[Bite]:
            bites: list[Bite] = method(*args, **kwargs)
            self.given += bites
            for told in _told((*args, *kwargs.values())):
                self.links |= isinstance(told, Link)
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
