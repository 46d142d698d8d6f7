"""What is done to the nodes of a Spark cluster while they run long tasks: the same for processes and for containers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from streamproof.harness.contracts.injection import Part
from streamproof.harness.core.waiting import wait_until
from streamproof.harness.worlds.spark.control.crash_loop import CrashLoop
from streamproof.harness.worlds.spark.control.nodes import Nodes

SECONDS = 120.0
PROGRAMS = Path(__file__).parent / "spark" / "programs"
"""Must be importable before the cluster is there."""
NODE = "node-0"
"""The only worker."""

Executors = Callable[[], set[int]]
"""The pids of the node's executors."""


@dataclass(frozen=True)
class Work:
    """One task that runs until the cluster ends; each attempt notes the pid of its Python worker."""

    nodes: Nodes
    folder: Path
    executors: Executors

    @classmethod
    def begin(cls, nodes: Nodes, executors: Executors) -> Work:
        folder = nodes.scratch / "notes"
        folder.mkdir()
        nodes.start_driver("driver", "long_tasks", [str(folder), "1"])
        work = cls(nodes, folder, executors)
        work.await_more_than(set())
        return work

    def attempts(self) -> set[tuple[str, int]]:
        """Each with when it began: a pid comes again in another container."""
        return {(note.name, note.stat().st_mtime_ns) for note in self.folder.iterdir()}

    def await_more_than(self, before: set[tuple[str, int]]) -> None:
        wait_until(lambda: self.attempts() - before, SECONDS, "another attempt of the task")


def python_dies_and_the_executor_lives(work: Work) -> None:
    before, executors = work.attempts(), work.executors()
    assert len(executors) == 1
    assert work.nodes.kill_part(NODE, Part.PYTHON).bit
    work.await_more_than(before)
    assert work.executors() == executors


def an_executor_dies_and_the_worker_starts_another(work: Work) -> None:
    before, executors = work.attempts(), work.executors()
    assert work.nodes.kill_part(NODE, Part.EXECUTOR).bit
    assert work.nodes.has_come_up(NODE), "the worker has not ended"
    work.await_more_than(before)
    assert len(work.executors() - executors) == 1
    assert not work.executors() & executors


def a_node_ends_when_it_is_asked_to(work: Work) -> None:
    before = work.attempts()
    assert work.nodes.terminate_node(NODE).bit
    assert not work.nodes.has_come_up(NODE)
    assert not work.nodes.kill_part(NODE, Part.EXECUTOR).bit, "nothing is left of it"
    work.await_more_than(before)


def a_crash_loop_kills_until_it_heals(work: Work) -> None:
    before = work.attempts()
    assert work.nodes.kill_node(NODE).bit
    loop = CrashLoop(work.nodes, NODE)
    wait_until(lambda: loop.kills >= 3, SECONDS, "the node to be killed twice after it had come up", lambda: "less")
    proof = loop.heal()
    assert proof.count >= 3
    assert proof.what == "kills"
    work.await_more_than(before)
    assert work.nodes.has_come_up(NODE)


def a_crash_loop_that_nothing_came_up_in_is_no_proof(work: Work) -> None:
    assert work.nodes.kill_node(NODE).bit
    assert CrashLoop(work.nodes, NODE).heal().count == 0
