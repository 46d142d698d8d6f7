"""What is run inside containers, of the run or of the harness's own: no more than a Python is needed there.

The source of this file is handed to `python3 -c` with the name of an operation and its arguments, so it imports the
standard library alone. What an operation finds out it prints, one JSON object a line.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")
REFUSALS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO})
FILLER = ".filler"
_SETTLE = 0.02
"""Seconds between two attempts of what goes on until it is told to end."""


def say(**found: object) -> None:
    print(json.dumps(found), flush=True)


# -- limits -----------------------------------------------------------------------------------------------------------


_NEEDED_AGAIN = ("total_workingset_refault_file", "total_workingset_refault_anon")


def counters() -> dict[str, int]:
    """What the kernel has counted of this container's cgroup, of either version, and what it holds."""
    events, legacy = _fields("memory.events"), _fields("memory/memory.oom_control")
    stat, legacy_stat = _fields("memory.stat"), _fields("memory/memory.stat")
    failures = _number("memory/memory.failcnt") + _number("memory/memory.memsw.failcnt")
    used = _number("memory.current") or _number("memory/memory.usage_in_bytes")
    cached = stat.get("file", legacy_stat.get("total_cache", 0)) - stat.get("shmem", legacy_stat.get("total_shmem", 0))
    return {
        "throttled": (_fields("cpu.stat") or _fields("cpu/cpu.stat")).get("nr_throttled", 0),
        # Newer kernels count no failures with version 1 any more. What was taken away and is needed again shows there.
        "limited": events.get("max", failures + sum(legacy_stat.get(name, 0) for name in _NEEDED_AGAIN)),
        "oom_kills": events.get("oom_kill", legacy.get("oom_kill", 0)),
        "in_use": used - max(0, cached),
    }


def _fields(name: str) -> dict[str, int]:
    path = CGROUPS / name
    if not path.exists():
        return {}
    pairs = (line.split() for line in path.read_text().splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def _number(name: str) -> int:
    path = CGROUPS / name
    return int(path.read_text()) if path.exists() else 0


def count() -> None:
    say(**counters())


def hog() -> None:
    """Take memory until the kernel ends a process for want of it; where that is another, say how many it ended."""
    before = counters()["oom_kills"]
    say(pid=os.getpid())
    held = []
    while (ended := counters()["oom_kills"] - before) == 0:
        held.append(b"\1" * (4 << 20))
    say(ended=ended)


# -- processes --------------------------------------------------------------------------------------------------------


EXECUTOR = "org.apache.spark.executor."
PYTHON = frozenset({"pyspark.daemon", "pyspark.worker", "streamproof.harness.worlds.spark.queries.warm_daemon"})


def processes() -> dict[int, tuple[int, list[str]]]:
    """Pid -> parent and command line, of all that lives here; zombies do not."""
    found = {}
    for name in filter(str.isdecimal, os.listdir(PROC)):
        try:
            fields = (PROC / name / "stat").read_text(errors="replace").rpartition(")")[2].split()
            command = (PROC / name / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[0] not in "ZX":
            found[int(name)] = int(fields[1]), command
    return found


def part_of(part: str, living: dict[int, tuple[int, list[str]]]) -> set[int]:
    """The executors with all that came from them, or Spark's Python workers alone. Whole arguments are compared: this
    file is one of the arguments of who runs it."""
    if part == "python":
        return {pid for pid, (_, command) in living.items() if not PYTHON.isdisjoint(command)}
    found = {pid for pid, (_, command) in living.items() if any(word.startswith(EXECUTOR) for word in command)}
    while children := {pid for pid, (parent, _) in living.items() if parent in found} - found:
        found |= children
    return found


def kill_part(part: str) -> None:
    """Stop all of it first: what is stopped cannot fork, and nobody starts another in its place before it is gone."""
    stopped: set[int] = set()
    quiet = 0
    while quiet < 2:
        fresh = part_of(part, processes()) - stopped
        _signal(fresh, signal.SIGSTOP)
        stopped |= fresh
        quiet = 0 if fresh else quiet + 1
    _signal(stopped, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while (left := stopped & processes().keys()) and time.monotonic() < deadline:
        time.sleep(0.002)
    say(killed=sorted(stopped), left=sorted(left))


def end(pid: str) -> None:
    _signal([int(pid)], signal.SIGKILL)
    say()


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue  # It has ended by itself.


# -- storage ----------------------------------------------------------------------------------------------------------


def write(folder: str) -> None:
    """Write and synchronize a small file, as checkpoints are written; say when it begins, then how long it took, or why
    it was refused."""
    began = time.monotonic()
    say(began=began)
    try:
        file, name = tempfile.mkstemp(dir=folder, prefix=".probe-")
        try:
            os.write(file, b"\1" * 4096)
            os.fsync(file)
        finally:
            os.close(file)
            os.unlink(name)
    except OSError as error:
        if error.errno not in REFUSALS:
            raise
        say(refused=errno.errorcode[error.errno or 0])
    else:
        say(seconds=time.monotonic() - began)


def keep_writing(folder: str, pause: str) -> None:
    """As `write`, again and again until this is ended."""
    say(pid=os.getpid())
    while True:
        write(folder)
        time.sleep(float(pause))


def fill(folder: str) -> None:
    """Fill the disk, and whatever gets free again, until the file that fills it is removed. Says how often it saw that
    the disk was full."""
    path = os.path.join(folder, FILLER)
    full = 0
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    block = b"\1" * (1 << 20)
    while os.fstat(file).st_nlink:
        try:
            os.write(file, block)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            full += 1
            say(full=full)
            time.sleep(_SETTLE)


def free(folder: str) -> None:
    """Remove what fills the disk."""
    os.unlink(os.path.join(folder, FILLER))
    say()


def lose(folder: str, *names: str) -> None:
    """Remove what a store has under these names, drafts included, and say how many files that were. One rename takes
    each entry away: whoever looks meanwhile sees it whole or not at all."""
    starts = tuple(f".{name}." for name in names)
    entries = [entry for entry in Path(folder).iterdir() if entry.name in names or entry.name.startswith(starts)]
    grave = Path(tempfile.mkdtemp(dir=folder, prefix=".lost-"))
    for entry in entries:
        try:
            entry.rename(grave / entry.name)
        except FileNotFoundError:
            continue  # A draft that has just been given its name.
    files = sum(1 for path in grave.rglob("*") if path.is_file())
    shutil.rmtree(grave)
    say(lost=files)


_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_REMOUNT, _MS_BIND = 32, 4096
_CLONE_NEWNS = 0x00020000


def remount(pid: str, folder: str, how: str) -> None:
    """Let a process of another container, and all of that container, see a mounted folder read-only, or writable. Says
    that it is gone where it has ended, which an engine hears a little later."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        namespace = os.open(PROC / pid / "ns" / "mnt", os.O_RDONLY)
    except (FileNotFoundError, ProcessLookupError):
        say(gone=True)
        return
    if libc.setns(namespace, _CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "cannot enter the container")
    kept = os.statvfs(folder).f_flag & (_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    flags = _MS_REMOUNT | _MS_BIND | kept | (_MS_RDONLY if how == "ro" else 0)
    target = os.fsencode(folder)
    deadline = time.monotonic() + 1
    # Busy while a file there is open to be written.
    while libc.mount(None, target, None, ctypes.c_ulong(flags), None):
        number = ctypes.get_errno()
        if number != errno.EBUSY or time.monotonic() > deadline:
            raise OSError(number, f"cannot remount {folder}: {os.strerror(number)}")
        time.sleep(0.001)
    say(readonly=bool(os.statvfs(folder).f_flag & os.ST_RDONLY))


def throttle(pid: str, cgroups: str, device: str, *limits: str) -> None:
    """Set `operations=` and `bytes=` a second that the container of this process may write to a disk; 0: no limit. Says
    what is in force, or that the process is gone. `cgroups` is where those of the machine are mounted."""
    try:
        say(**_throttled(PROC / pid, Path(cgroups), device, dict(limit.split("=") for limit in limits)))
    except (FileNotFoundError, ProcessLookupError):
        say(gone=True)
    except OSError as error:
        if error.errno != errno.ENODEV:
            raise
        say(gone=True)  # Its cgroup has been removed meanwhile.


def _throttled(process: Path, root: Path, device: str, wanted: Mapping[str, str]) -> dict[str, str]:
    lines = [line.split(":", 2) for line in (process / "cgroup").read_text().splitlines()]
    legacy = [path for _, controllers, path in lines if "blkio" in controllers.split(",")]
    found: dict[str, str] = {}
    if legacy:
        folder = root / "blkio" / legacy[0].lstrip("/")
        names = {"operations": "blkio.throttle.write_iops_device", "bytes": "blkio.throttle.write_bps_device"}
        for limit, value in wanted.items():
            (folder / names[limit]).write_text(f"{device} {value}")
            shown = dict(line.split() for line in (folder / names[limit]).read_text().splitlines())
            found[limit] = shown.get(device, "0")
    else:
        (unified,) = (path for number, _, path in lines if number == "0")
        file = root / unified.lstrip("/") / "io.max"
        names = {"operations": "wiops", "bytes": "wbps"}
        file.write_text(device + "".join(f" {names[k]}={'max' if v == '0' else v}" for k, v in wanted.items()))
        lines_now = [line.split() for line in file.read_text().splitlines()]
        limits_now = dict(pair.split("=") for first, *pairs in lines_now if first == device for pair in pairs)
        for limit in wanted:
            value = limits_now.get(names[limit], "max")
            found[limit] = "0" if value == "max" else value
    return found


def disk_writes(pid: str, cgroups: str, device: str) -> None:
    """How many write operations of the container of this process, to this disk, its processes had to wait for, as the
    kernel has counted them; and with cgroups of version 2, which does not set those apart, how many seconds any of it
    has waited for a disk. Says nothing of a container that has ended."""
    root = Path(cgroups)
    try:
        lines = [line.split(":", 2) for line in (PROC / pid / "cgroup").read_text().splitlines()]
        legacy = [path for _, controllers, path in lines if "blkio" in controllers.split(",")]
        if legacy:
            folder = root / "blkio" / legacy[0].lstrip("/")
            counted = [line.split() for line in (folder / "blkio.throttle.io_serviced").read_text().splitlines()]
            of_disk = {words[1]: int(words[2]) for words in counted if words[0] == device}
            # What is written back for nobody in particular counts as asynchronous.
            say(writes=max(0, of_disk.get("Write", 0) - of_disk.get("Async", 0)))
            return
        (unified,) = (path for number, _, path in lines if number == "0")
        folder = root / unified.lstrip("/")
        stats = [line.split() for line in (folder / "io.stat").read_text().splitlines()]
        pairs = dict(pair.split("=") for first, *words in stats if first == device for pair in words)
        say(writes=int(pairs.get("wios", 0)), waited=_stalled(folder / "io.pressure"))
    except (FileNotFoundError, ProcessLookupError):
        say(gone=True)
    except OSError as error:
        if error.errno != errno.ENODEV:
            raise
        say(gone=True)  # Its cgroup has been removed while it was read.


def _stalled(pressure: Path) -> float:
    """Seconds; 0 where the kernel does not count them."""
    try:
        text = pressure.read_text()
    except FileNotFoundError:
        return 0.0
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        return 0.0
    some = next(line for line in text.splitlines() if line.startswith("some "))
    return int(some.rpartition("total=")[2]) / 1e6


OPERATIONS: tuple[Callable[..., None], ...] = (
    *(count, hog, kill_part, end),
    *(write, keep_writing, fill, free, lose, remount, throttle, disk_writes),
)

if __name__ == "__main__":
    {operation.__name__: operation for operation in OPERATIONS}[sys.argv[1]](*sys.argv[2:])
