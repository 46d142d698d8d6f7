"""What a fault can do to a query, beside what it can do to the nodes of any cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ....crash_points.outside.relay import ANSWERS_LOST, REQUESTS_LOST
from ....recording.history import Bite, Proof
from ..control.machines import ClusterMachines, Heal, Striking, healed_aside
from ..control.nodes import Nodes
from .refusing import Refusals


class StruckQuery(Protocol):
    """The query that it is done to."""

    def has_ended(self) -> bool:
        """Whether nothing is left to be disturbed."""

    def has_input_left(self) -> bool:
        """Whether any batch may be left that is not committed."""

    def freeze(self, wake: Callable[[], None]) -> Callable[[Proof], Proof]:
        """Its driver was frozen, so that the next begins beside it; `wake` lets it go on. What is returned makes of
        the proof that it went on the one that the two were there at once."""

    def lose_answer(self) -> int:
        """Let the answer that is held be lost, and its connection break. Returns its size, 0 where there is none."""

    def lose_request(self) -> int:
        """Let the request that is held be lost, and its connection break. Returns how many: 0 where none is."""

    @property
    def refusals(self) -> Refusals | None:
        """None: its folders do not lie in the file layer."""


class QueryMachines(ClusterMachines):
    def __init__(self, nodes: Nodes, node_of: Mapping[str, str], struck: StruckQuery, striking: Striking) -> None:
        """At a point that is held, something is under way by that alone."""

        def outstanding() -> bool:
            return not struck.has_ended() and (not striking.by_the_clock or struck.has_input_left())

        super().__init__(nodes, node_of, outstanding, striking)
        self._struck = struck

    def lose_answer(self, targets: Sequence[str]) -> list[Bite]:
        return self._lose(targets, self._struck.lose_answer, ANSWERS_LOST)

    def lose_request(self, targets: Sequence[str]) -> list[Bite]:
        return self._lose(targets, self._struck.lose_request, REQUESTS_LOST)

    def _lose(self, targets: Sequence[str], lose: Callable[[], int], what: str) -> list[Bite]:
        outstanding = self._outstanding()
        hit, nowhere = self._nodes(targets)
        lost = Proof(lose(), what)
        self.hit |= hit.keys()
        bites = [Bite(target, None, (), outstanding) for target in nowhere]
        held = self._striking.exact
        on_each = [(target, node, self._on(node)) for node, target in hit.items()]
        return [
            *bites,
            *(Bite(target, node, on, outstanding, None, (), held, proof=lost) for target, node, on in on_each),
        ]

    def fail_writes(self, targets: Sequence[str], *, once: bool = False) -> list[Bite]:
        """Where the folders lie in the file layer, each operation that would change them, at which their caller could
        die, is refused; in containers, what is written to the folder of the checkpoints."""
        refusals = self._struck.refusals
        if refusals is None:
            return super().fail_writes(targets, once=once)
        outstanding = self._outstanding()
        hit, nowhere = self._nodes(targets)
        bites = [Bite(target, None, (), outstanding) for target in nowhere]
        for node, target in hit.items():
            self.lasting.append((target, healed_aside(refusals.begin(frozenset({node}), once).end)))
            bites.append(self._lasting_bite(target, node, self._on(node)))
        self.hit |= hit.keys()
        if once:
            # What is held is answered before this is.
            self._striking.heal()
        return bites

    def split_brain(self, targets: Sequence[str]) -> list[Bite]:
        """What it lets go on is the same as of a pause, when the deployment says so."""
        bites = self.pause(targets)
        for place, (target, heal) in enumerate(self.lasting):
            woken = self._struck.freeze(self._striking.heal)
            self.lasting[place] = (target, _woken(heal, woken))
        return bites


def _woken(heal: Callable[[], object], woken: Callable[[Proof], Proof]) -> Heal:
    def healed() -> Proof:
        seen = heal()
        assert isinstance(seen, Proof), "a pause heals at once"
        return woken(seen)

    return healed
