"""What a fault can do to the nodes of a cluster of processes or containers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ..injection import Machines
from ..recording.history import Bite, Proof
from .nodes import Nodes, Stop

T = TypeVar("T")
Heal = Callable[[], Proof]


class EmbeddedMachines(Machines):
    """The cluster, as one fault sees it, while its point is held."""

    def __init__(
        self, processes: Nodes, node_of: Mapping[str, str], outstanding: Callable[[], bool], exact: bool
    ) -> None:
        """`node_of` says which actor runs where; `exact`, whether the host of the point vouches for it."""
        self.lasting: list[tuple[str, Heal]] = []
        """Targets, and what ends what is done to them."""
        self._processes = processes
        self._node_of = node_of
        self._outstanding = outstanding
        self._exact = exact

    def crash(self, targets: Sequence[str], *, lose_handed_over: bool = False) -> list[Bite]:
        """Kill every process of the nodes, all at once."""
        if lose_handed_over:
            return super().crash(targets, lose_handed_over=True)
        outstanding = self._outstanding()
        hit, nowhere = self._nodes(targets)
        proofs = _at_once(self._processes.kill_node, hit)
        bites = [Bite(target, None, (), outstanding, gone=False) for target in nowhere]
        for node, target in hit.items():
            proof = proofs[node]
            on, held = self._on(node), self._exact
            bites.append(
                Bite(target, node, on, outstanding, proof.bit, proof.pids, held_at_address=held, proof=proof.proof)
            )
        return bites

    def pause(self, targets: Sequence[str]) -> list[Bite]:
        """Stop every process of the nodes; letting them go on heals."""
        outstanding = self._outstanding()
        hit, nowhere = self._nodes(targets)
        proofs = _at_once(self._processes.stop_node, hit)
        bites = [Bite(target, None, (), outstanding) for target in nowhere]
        for node, target in hit.items():
            proof = proofs[node]
            if not proof.pids:
                bites.append(Bite(target, None, (), outstanding))
                continue
            self.lasting.append((target, self._resume(proof)))
            bites.append(
                Bite(
                    target,
                    node,
                    self._on(node),
                    outstanding,
                    pids=proof.pids,
                    held_at_address=self._exact,
                    lasting=True,
                )
            )
        return bites

    def _resume(self, proof: Stop) -> Heal:
        def heal() -> Proof:
            self._processes.resume(proof)
            return proof.proof

        return heal

    def _nodes(self, targets: Sequence[str]) -> tuple[dict[str, str], list[str]]:
        """The nodes that the targets stand for, each with the first that does; and the targets that stand for none."""
        known = self._processes.nodes()
        hit: dict[str, str] = {}
        nowhere: list[str] = []
        for target in targets:
            node = self._node_of.get(target, target)
            if node in known:
                hit.setdefault(node, target)
            else:
                nowhere.append(target)
        return hit, nowhere

    def _on(self, node: str) -> tuple[str, ...]:
        return tuple(actor for actor, runs_on in self._node_of.items() if runs_on == node)


def _at_once(do: Callable[[str], T], nodes: Mapping[str, str]) -> dict[str, T]:
    with ThreadPoolExecutor(max_workers=max(1, len(nodes))) as pool:
        return dict(zip(nodes, pool.map(do, nodes), strict=True))
