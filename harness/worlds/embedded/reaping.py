"""Which processes belong to a run, and how they are ended: all of them, for certain, and no others.

Every process that a run starts carries labels in its environment, and its descendants inherit them: executors, Python
daemons and Python workers included. So a run is found again by reading /proc, whoever started what and whatever has
been reparented since. The session, which descendants inherit too, is a second sign for the moment in which a process
that just calls exec shows no environment.

A process is named by its pid and its start, and signalled through a pidfd, so that a pid which the kernel has given
away again is never hit. Linux only.

Run as a module, this is the watchdog of one run: it outlives the harness by the moment it takes to end the run.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...contracts.injection import Part
from ...crash_points.files.mounts import unmount_all
from ...install.settings import DAEMON_MODULE

RUN: Final = "STREAMPROOF_RUN"
ROLE: Final = "STREAMPROOF_ROLE"
NODE: Final = "STREAMPROOF_NODE"
OWNER: Final = "STREAMPROOF_OWNER"
SCRATCH: Final = "STREAMPROOF_SCRATCH"

MARKER: Final = "streamproof-run"
"""A scratch folder holds a file of this name that says whose it is; no other folder is ever removed."""

PROC = Path("/proc")


@dataclass(frozen=True)
class ProcessId:
    """A pid together with its start (in clock ticks since boot): unique until the machine boots again."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> ProcessId | None:
        """None when there is no such process, or only a zombie, which holds nothing any more."""
        stat = _stat(pid)
        return None if stat is None or stat.gone else cls(pid, stat.started)

    @classmethod
    def of_child(cls, pid: int) -> ProcessId:
        """Of a child that has not been waited for: it is listed even if it has ended already."""
        stat = _stat(pid)
        assert stat is not None, f"{pid} is no child of ours that has not been waited for"
        return cls(pid, stat.started)

    @classmethod
    def parse(cls, text: str) -> ProcessId | None:
        pid, _, started = text.partition(":")
        return cls(int(pid), int(started)) if pid.isdecimal() and started.isdecimal() else None

    def __str__(self) -> str:
        return f"{self.pid}:{self.started}"

    def alive(self) -> bool:
        return ProcessId.of(self.pid) == self

    def end(self) -> None:
        """SIGKILL it, if it is still there."""
        self.signal(signal.SIGKILL)

    def stop(self) -> None:
        """SIGSTOP it, if it is still there."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT it, if it is still there."""
        self.signal(signal.SIGCONT)

    def stopped(self) -> bool:
        stat = _stat(self.pid)
        return stat is not None and stat.started == self.started and stat.state == "T"

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it is still there."""
        with _Pidfd(self) as fd:
            if fd is not None:
                try:
                    signal.pidfd_send_signal(fd, number)
                except ProcessLookupError:
                    return  # It ended by itself between the two calls.

    def wait_gone(self, seconds: float | None = None) -> bool:
        """Whether it is gone (a zombie is), once that is so or `seconds` have passed."""
        with _Pidfd(self) as fd:
            if fd is None:
                return True
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            return bool(poll.poll(None if seconds is None else max(0, round(seconds * 1000))))


class _Pidfd:
    """A handle on exactly this process; None when it is gone."""

    def __init__(self, process: ProcessId) -> None:
        self._process = process
        self._fd: int | None = None

    def __enter__(self) -> int | None:
        try:
            self._fd = os.pidfd_open(self._process.pid)
        except ProcessLookupError:
            return None
        # Checked after the handle is open: the pid cannot be given away under an open handle.
        return self._fd if self._process.alive() else None

    def __exit__(self, *_: object) -> None:
        if self._fd is not None:
            os.close(self._fd)


@dataclass(frozen=True)
class LabelledProcess:
    """A live process that carries a run's labels."""

    process: ProcessId
    parent: int
    session: int
    run: str
    node: str
    owner: ProcessId | None
    scratch: str | None
    command: str

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def kind(self) -> str:
        """What it is to Spark, read off its command line; `python-worker` includes the daemon that forks them."""
        for sign, kind in _SIGNS:
            if sign in self.command:
                return kind
        return "other"


_SIGNS = (
    ("org.apache.spark.executor.", "executor"),
    ("org.apache.spark.deploy.worker.Worker", "worker"),
    ("org.apache.spark.deploy.master.Master", "master"),
    ("org.apache.spark.deploy.SparkSubmit", "driver-jvm"),
    ("pyspark.daemon", "python-worker"),
    ("pyspark.worker", "python-worker"),
    (DAEMON_MODULE, "python-worker"),
    ("embedded.reaping ", "watchdog"),
    (" -m ", "driver"),
)


@dataclass(frozen=True)
class Labels:
    """What the processes of one run are told about themselves."""

    run: str
    owner: ProcessId
    scratch: Path

    def environment(self, node: str, role: str) -> dict[str, str]:
        return {RUN: self.run, OWNER: str(self.owner), SCRATCH: str(self.scratch), NODE: node, ROLE: role}


def mark_scratch(scratch: Path, run: str, owner: ProcessId | None) -> None:
    (scratch / MARKER).write_text(f"{run} {owner}")


def remove_scratch(scratch: Path, run: str, owner: ProcessId | None) -> None:
    """Remove the scratch folder of this run under this owner, if that is what it is."""
    marker = scratch / MARKER
    try:
        is_the_runs = marker.read_text() == f"{run} {owner}"
    except (FileNotFoundError, NotADirectoryError):
        # Empty, it may be the run's too, whose owner had no time to mark it.
        with contextlib.suppress(OSError):
            scratch.rmdir()
        return
    while is_the_runs and scratch.exists():
        with contextlib.suppress(FileNotFoundError):  # Another one removes it too; go on with what it left.
            # The marker last: a folder whose removal was cut short is still known to be the run's.
            for entry in scratch.iterdir():
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                elif entry != marker:
                    entry.unlink()
            marker.unlink(missing_ok=True)
            scratch.rmdir()


def this_process() -> ProcessId:
    me = ProcessId.of(os.getpid())
    assert me is not None, "this process runs, so /proc lists it"
    return me


def labelled_processes(run: str | None = None, sessions: Mapping[int, str] | None = None) -> list[LabelledProcess]:
    """Every live process of this user that carries labels: of all runs, or of one.

    `sessions` maps the sessions that are known to be the run's to their node; a member of one counts although its
    environment cannot be read yet. Processes of another pid namespace (a container's) are left out: their owner's pid
    means nothing here.
    """
    return list(_labelled(run, sessions or {}))


def node_of(pid: int, run: str) -> str | None:
    """The node that a live process of a run is labelled with; None where there is none."""
    try:
        labels, stat = _labels(PROC / str(pid) / "environ"), _stat(pid)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    return labels.get(NODE) if stat is not None and not stat.gone and labels.get(RUN) == run else None


def _labelled(run: str | None, sessions: Mapping[int, str]) -> Iterator[LabelledProcess]:
    me, namespace = os.geteuid(), os.readlink(PROC / "self/ns/pid")
    for name in os.listdir(PROC):
        if not name.isdecimal():
            continue
        pid = int(name)
        try:
            if os.stat(PROC / name).st_uid != me:
                continue
            labels = _labels(PROC / name / "environ")
            stat = _stat(pid)
            if stat is None or stat.gone:
                continue
            node = sessions.get(stat.session)
            belongs = RUN in labels if run is None else labels.get(RUN) == run or node is not None
            if not belongs or os.readlink(PROC / name / "ns/pid") != namespace:
                continue
            command = (PROC / name / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # It ended while we looked, or is not ours to see.
        yield LabelledProcess(
            process=ProcessId(pid, stat.started),
            parent=stat.parent,
            session=stat.session,
            run=labels.get(RUN, run or ""),
            node=labels.get(NODE, node or ""),
            owner=ProcessId.parse(labels.get(OWNER, "")),
            scratch=labels.get(SCRATCH),
            command=command,
        )


def _labels(environ: Path) -> dict[str, str]:
    pairs = (pair.split(b"=", 1) for pair in environ.read_bytes().split(b"\0") if pair.startswith(b"STREAMPROOF_"))
    return {pair[0].decode(): os.fsdecode(pair[1]) for pair in pairs if len(pair) == 2}


@dataclass(frozen=True)
class _Stat:
    state: str
    parent: int
    session: int
    threads: int
    started: int

    @property
    def gone(self) -> bool:
        """A process whose first thread has ended shows as a zombie while its other threads still run."""
        return self.state in "ZX" and self.threads <= 1


def _stat(pid: int) -> _Stat | None:
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, in parentheses, may hold anything, blanks and parentheses included.
    fields = text.rpartition(")")[2].split()
    parent, session, threads, started = (int(fields[position]) for position in (1, 3, 17, 19))
    return _Stat(fields[0], parent, session, threads, started)


@dataclass(frozen=True)
class AllEnded:
    """What `end_all` did: when the first signal went out, whom it hit, and who is alive nevertheless."""

    when: int
    gone_at: int
    processes: tuple[LabelledProcess, ...]
    survivors: tuple[LabelledProcess, ...]


def end_all(
    find: Callable[[], Iterable[LabelledProcess]], seconds: float = 10.0, number: signal.Signals = signal.SIGKILL
) -> AllEnded:
    """Signal what `find` lists, wait until it is gone, and list again, until two lists in a row are empty.

    A process that is forked between the listing and the killing is in the next list; once a list's processes are gone,
    none of them can fork. The second empty list is for a process that calls exec just while we look.
    """
    deadline = time.monotonic() + seconds
    hit: dict[ProcessId, LabelledProcess] = {}
    empty_lists = 0
    listed = list(find())
    when = time.monotonic_ns()
    while empty_lists < 2:
        for process in listed:
            process.process.signal(number)
        hit.update((process.process, process) for process in listed)
        for process in listed:
            process.process.wait_gone(deadline - time.monotonic())
        empty_lists = 0 if listed else empty_lists + 1
        if listed and time.monotonic() > deadline:
            break
        listed = list(find())
    survivors = tuple(process for process in hit.values() if process.process.alive())
    return AllEnded(when, time.monotonic_ns(), tuple(hit.values()), survivors)


def stop_all(find: Callable[[], Iterable[LabelledProcess]], seconds: float = 10.0) -> tuple[LabelledProcess, ...]:
    """SIGSTOP what `find` lists, wait until it has stopped, and list again, until two lists in a row hold nothing new.

    Returns what was seen to be stopped.
    """
    deadline = time.monotonic() + seconds
    hit: dict[ProcessId, LabelledProcess] = {}
    quiet_lists = 0
    while quiet_lists < 2 and time.monotonic() < deadline:
        fresh = [process for process in find() if process.process not in hit]
        for process in fresh:
            process.process.stop()
        hit.update((process.process, process) for process in fresh)
        while time.monotonic() < deadline and any(one.alive() and not one.stopped() for one in hit):
            time.sleep(0.001)
        quiet_lists = 0 if fresh else quiet_lists + 1
    return tuple(process for process in hit.values() if process.process.stopped())


def processes_of_part(part: Part, processes: Sequence[LabelledProcess]) -> list[LabelledProcess]:
    """Of a node: the processes of Spark's Python workers, or those and all else that comes from the executor."""
    found = {process.pid for process in processes if process.kind in _PARTS[part]}
    if part is Part.EXECUTOR:
        for process in sorted(processes, key=lambda process: process.process.started):
            if process.parent in found:
                found.add(process.pid)
    return [process for process in processes if process.pid in found]


_PARTS = {Part.EXECUTOR: ("executor", "python-worker"), Part.PYTHON: ("python-worker",)}


@dataclass(frozen=True)
class Reaped:
    """What was left behind by a run whose owner is gone, and is ended now."""

    run: str
    processes: tuple[LabelledProcess, ...]
    survivors: tuple[LabelledProcess, ...]


def reap() -> list[Reaped]:
    """End everything, on this machine, of runs whose owner is gone. Runs whose owner is alive are not touched."""
    me = os.getpid()
    orphans: dict[str, ProcessId | None] = {}
    for process in labelled_processes():
        if process.pid != me and (process.owner is None or not process.owner.alive()):
            orphans[process.run] = process.owner
    return [_reap_run(run, owner) for run, owner in sorted(orphans.items())]


def _reap_run(run: str, owner: ProcessId | None) -> Reaped:
    """A run's id can come back under another owner (the same run started again), so both must agree."""
    me = os.getpid()
    ended = end_all(lambda: (p for p in labelled_processes(run) if p.owner == owner and p.pid != me))
    unmount_all(run)
    for scratch in {process.scratch for process in ended.processes if process.scratch}:
        remove_scratch(Path(scratch), run, owner)
    return Reaped(run, ended.processes, ended.survivors)


def watch(run: str, owner: ProcessId, scratch: Path) -> None:
    """Wait until the owner is gone, however it went, and end the run."""
    owner.wait_gone()
    _reap_run(run, owner)
    # Also when no process was left to tell of it.
    remove_scratch(scratch, run, owner)


def _main(arguments: list[str]) -> None:
    run, owner_text, scratch = arguments
    owner = ProcessId.parse(owner_text)
    assert owner is not None, f"not a process: {owner_text!r}"
    watch(run, owner, Path(scratch))


if __name__ == "__main__":
    _main(sys.argv[1:])
