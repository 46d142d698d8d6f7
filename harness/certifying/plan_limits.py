"""What a plan of crashes leaves out, each said in the certificate under *not covered* where it is so."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..core.addresses import Point
from .conclusion import Planned
from .plan import Victim
from .planning import after_effects_of_tasks, of_disks
from .profile import Profile
from .within_calls import leaves_calls_whole

NONE_CUT = (
    "A death in the middle of a write to a file: none goes here from one page of a file (4 KiB mostly) into another, "
    "as those of larger batches may."
)
ONE_CUT = (
    "A death in the middle of a write to a file at every place where it can fall: a write that goes from one page of a "
    "file (4 KiB mostly) into another is cut once, between two pages near its middle, and of writes that follow each "
    "other in a file the first such one. A shorter one is whole or not there."
)
ONE_BATCH = (
    "Executors, Python workers and nodes that die in batches of every kind, and with every task: they die at each kind "
    "of point that tasks pass in one batch, but for operations on files, with the first task that comes there, and "
    "executors also with the last that leaves something."
)
LINES_OF_TASKS = (
    "Executors, Python workers and nodes that die at every line of a task's code: of lines between which nothing "
    "durable was left, a Python worker dies at the first."
)
BETWEEN_FILES = (
    "Executors, Python workers and nodes that die between two operations of a task on the sink's files where no line "
    "of the query's code lies between them, as within one call: there, the driver alone dies. What it puts right when "
    "it begins a batch again, a task that Spark tries again in the same batch finds half done."
)
WITHIN_CALLS = (
    "A Python worker that dies after every operation of a task on the sink's files: within one call, where no line of "
    "the query's code lies between two of them, it dies after the first two and the last of one kind, on files whose "
    "names differ by numbers alone, each in one batch. No executor dies there, and no node."
)
BOTH_AT_ONCE = (
    "Two attempts of one task side by side, as by speculation, or where an executor that is thought to be lost goes on "
    "writing: here, a task is tried again when what ran it is dead. Let each attempt write under a name of its own, "
    "and have one of them count."
)
JVM_ALONE = (
    "An executor's JVM that dies and leaves its Python workers, as where the kernel takes its memory: an executor dies "
    "with them here. A worker that lives on takes the end of its connection for the end of its rows, so that the "
    "`close` of a foreach writer is called without an error, of a part of them."
)
STORE_ONCE = (
    "A store outside that refuses a connection, stays away for longer than one request, or answers with an error: one "
    "request at a time is lost, or its answer, of those that may change something, each in one batch, and who asks "
    "again gets through. Nor a request that is done late, after its sender died or gave up and somebody has looked "
    "whether it was: let it have a key of its own, by which the store does it once."
)
SPLIT_ONCE = (
    "A driver that is taken for dead, is replaced and wakes up, at every point and in batches of every kind: it is "
    "paused before its sink begins a batch, after that, and before its commit, each in one batch. No task runs then."
)
NO_DISK = (
    "A disk that refuses an operation on a file, and a query that lives on: who names the victim `disk` has each "
    "operation of one batch refused once, with an I/O error."
)
DISK_ONCE = (
    "A disk that refuses more than one operation on a file, or the same again, and what it refuses in batches of every "
    "kind: each operation of one batch is refused, once. And a task that Spark tries again after an I/O error: with "
    "one task slot, the query fails with the first, and is started again."
)


def left_out(
    profile: Profile,
    victims: Collection[Victim],
    of_driver: Sequence[Planned],
    of_nodes: Sequence[Planned],
    of_calls: Sequence[Planned],
    of_messages: Sequence[Planned],
    split_brains: Sequence[Planned],
) -> list[str]:
    """The sentences, about a plan that has these crashes: of the driver, of other nodes, of Python workers within one
    call, messages and answers that are lost, and drivers that wake up beside another."""
    found = _of_writes(of_driver)
    if of_nodes:
        found.append(ONE_BATCH)
    if any(one.crash.line is not None for one in of_nodes):
        found.append(LINES_OF_TASKS)
    if of_calls:
        found.append(WITHIN_CALLS)
    if of_nodes and leaves_calls_whole(profile, of_calls):
        found.append(BETWEEN_FILES)
    if after_effects_of_tasks(of_nodes):
        found.append(BOTH_AT_ONCE)
    if profile.python and any(one.crash.victim is Victim.EXECUTOR for one in of_nodes):
        found.append(JVM_ALONE)
    if of_messages:
        found.append(STORE_ONCE)
    if split_brains:
        found.append(SPLIT_ONCE)
    if Victim.DISK not in victims:
        found.append(NO_DISK)
    elif of_disks(profile, victims):
        found.append(DISK_ONCE)
    return found


def _of_writes(of_driver: Sequence[Planned]) -> list[str]:
    """Where operations on files are crash points."""
    of_files = [one.crash for one in of_driver if one.crash.point is Point.FILE]
    return [ONE_CUT if any(crash.is_half_write for crash in of_files) else NONE_CUT] if of_files else []
