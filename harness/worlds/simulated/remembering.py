"""Whether a subject's code remembers something, in a run in the simulator, that a crash would have taken from a real
process: in files, iterators, objects that are not written in Python, or in modules of others.

A simulated crash takes what the world leads to, and what can be put back (`memory_outside`). So the same run is made
once more, and its world is carried into another process at some of its crashes, and goes on there until the next one
(`carried_over`). Where that comes to something else, it rests on what is in this process alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final

from ...contracts.cluster import Run
from ...core.kept_files import KeptFiles
from ...recording.recorder import MemoryRecorder
from .carried_over import OtherProcess, WorldsArrived
from .deployment import SimulatedDeployment

NAMED: Final = 5
"""Of what is found, so much is named."""
_CRASHES: Final = 3
"""At so many of them, from all over the run, its world is carried over."""


def find_remembered(
    run: Run,
    simulate: Callable[[Run], AbstractContextManager[SimulatedDeployment]],
    losses: Sequence[int],
    elsewhere: OtherProcess,
    files: KeptFiles,
) -> tuple[str, str]:
    """What is remembered, and what could not be looked at; empty where there is none. `losses` are the steps of the run
    in which a node was lost; `elsewhere` is of its subject as that was before the run, and `files` what the run has
    done to files."""
    steps = sorted(set(losses))
    carried = set(steps[:: -(-len(steps) // _CRASHES)])
    recorder = MemoryRecorder()
    digests: list[str | None] = []
    with elsewhere as other:
        with simulate(replace(run, recorder=recorder, show=lambda live: None)) as world:
            world.prepare()
            world.start()
            # What was written before a crash is heard of there. Nobody puts back what a crash takes, so that it may
            # come to something else.
            other.carry(world, recorder, run.scenario.deadline)
            digests.append(None)
            for step, following in zip(steps, [*steps[1:], None], strict=True):
                world.run_to(step)
                upto = None if following is None else following - 1
                if step in carried:
                    other.carry(world, recorder, run.scenario.deadline, upto)
                if upto is None:
                    world.drained(run.scenario.deadline)
                    world.stop()
                else:
                    world.run_to(upto)
                if step in carried:
                    digests.append(recorder.history().digest())
        arrived = other.arrived(files)
    return remembered(arrived, digests), not_looked_at(arrived)


def remembered(arrived: WorldsArrived, digests: Sequence[str | None]) -> str:
    """How worlds that were carried over show that something is remembered outside of them; empty where none does.
    `digests` are what they came to here; None where nobody has to come to the same."""
    if why := reread(arrived.files):
        return why
    known = [pair for pair in zip(arrived.digests, digests, strict=False) if None not in pair]
    if any(one != another for one, another in known):
        return "where it goes on in another process, it comes to something else"
    return ""


def reread(files: KeptFiles) -> str:
    """How what was done to files shows that; empty where it does not."""
    return f"it writes what it can read again ({', '.join(files.kept[:NAMED])})" if files.kept else ""


def left_in(files: KeptFiles) -> str:
    """What was done to files, and nobody knows what becomes of that; empty where nothing was."""
    if not files.written:
        return ""
    return f"what becomes of the files that it writes, which no crash takes: {', '.join(files.written[:NAMED])}"


def not_looked_at(arrived: WorldsArrived) -> str:
    """What worlds that were carried over do not show."""
    if arrived.failure:
        return (
            "whether anything survives a crash in objects that are not written in Python, or in files: its worlds "
            f"cannot go on in another process ({arrived.failure})"
        )
    return left_in(arrived.files)
