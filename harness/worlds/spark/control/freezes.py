"""Who holds what is frozen: where several pauses meet on one node, it goes on when the last of them lets it."""

from __future__ import annotations

from .nodes import Stop


class Freezes:
    """Of one run, whose loop alone asks."""

    def __init__(self) -> None:
        self._held: list[Stop] = []
        """Of the pauses that are in force."""
        self._put_off: list[Stop] = []
        """Of those that are over, and whose processes others hold."""

    def hold(self, stop: Stop) -> None:
        self._held.append(stop)

    def let_go(self, stop: Stop) -> list[Stop]:
        """Of one that is over: what nobody holds any more, and is to go on."""
        self._held.remove(stop)
        self._put_off.append(stop)
        # By processes, not by nodes: a successor has nothing to do with who froze its predecessor.
        held = {pid for other in self._held for pid in other.pids}
        free = [one for one in self._put_off if held.isdisjoint(one.pids)]
        self._put_off = [one for one in self._put_off if one not in free]
        return free
