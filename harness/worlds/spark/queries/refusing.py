"""Operations on files that are refused to nodes of a query whose folders lie in the file layer."""

from __future__ import annotations

from ....crash_points.files.mounting import MountedFolder
from ....recording.history import Proof

SAID = "operations on files refused with an I/O error"


class Refusal:
    """To some nodes, until it is over."""

    def __init__(self, owner: Refusals, nodes: frozenset[str], once: bool) -> None:
        self.nodes = nodes
        self._owner = owner
        self._once = once
        self._over = False
        self._deeds: list[str] = []

    def takes(self, node: str, deed: str) -> bool:
        """Whether this operation is refused."""
        if self._over:
            return False
        # What was held when it began is the first that is asked about.
        self._over = self._once
        if node not in self.nodes:
            return False
        self._deeds.append(deed)
        return True

    def end(self) -> Proof:
        """Not to be called by who answers operations: what has been answered is waited for. Raises ProcessDied."""
        lost = self._owner.end(self)
        first = f" ({self._deeds[0]})" if self._deeds else ""
        return Proof(max(0, len(self._deeds) - lost), f"{SAID}{first}")


class Refusals:
    """Of one run. Its methods are called in the run server's loop, but for `end`."""

    def __init__(self, files: MountedFolder) -> None:
        self._files = files
        self._in_force: tuple[Refusal, ...] = ()
        self._answered = 0
        """How many operations were to be refused, in all."""

    def begin(self, nodes: frozenset[str], once: bool) -> Refusal:
        """`once`: no more than the operation that is held now, if it is one of theirs."""
        made = Refusal(self, nodes, once)
        self._in_force = (*self._in_force, made)
        return made

    def refuses(self, node: str, deed: str) -> bool:
        """Whether an operation that a node is about to do is refused."""
        # Each that is in force gets in its way.
        found = [one.takes(node, deed) for one in self._in_force]
        self._answered += any(found)
        return any(found)

    def end(self, refusal: Refusal) -> int:
        """Returns how many were to be refused, in all, and were not: who wanted them was killed before it heard."""
        self._in_force = tuple(one for one in self._in_force if one is not refusal)
        return self._answered - self._files.refused()
