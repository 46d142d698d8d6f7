"""Lets a kind of fault strike a cluster, and takes its word for nothing: what proves that it bit is what the cluster
itself has said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from ..core.error_text import described_error
from ..core.errors import InvalidFault, StreamproofError
from ..core.schedule import Fault
from ..recording.history import Bite
from .injection import FaultKind, Machines


def inflict(kind: FaultKind, machines: Machines, fault: Fault) -> list[Bite]:
    """Strike a cluster with a fault. Returns the proofs that the cluster gave.

    Raises InvalidFault where the kind fails, does nothing, or returns other proofs than it was given.
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
    return heard.given


class _Heard:
    """A cluster, and what its methods have returned so far."""

    def __init__(self, machines: Machines) -> None:
        self.given: list[Bite] = []
        self._machines = machines

    def __getattr__(self, name: str) -> Callable[..., list[Bite]]:
        method = getattr(self._machines, name)

        def done(*args: Any, **kwargs: Any) -> list[Bite]:
            bites: list[Bite] = method(*args, **kwargs)
            self.given += bites
            return list(bites)

        return done
