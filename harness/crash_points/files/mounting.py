"""The file layer of a run: a mounted folder, the process that serves it, and its journal."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ...core.errors import MissingTool, ProcessDied, StorageFailed
from ...core.waiting import wait_until
from ...core.wire import Endpoint
from .mounts import MOUNTED, mount_name, unmount
from .operations import LOOKS, OperationKind, read_operations
from .orders import Obeyed, ServingPlan, StandingOrder

Touched = tuple[tuple[int, int, int], ...]
FUSE_DEVICE = Path("/dev/fuse")
READY_SECONDS = 30.0
END_SECONDS = 10.0
# Made once, and here: msgspec ends the process with SIGSEGV where two threads are the first to ask for one type.
_obeyed = msgspec.json.Decoder(Obeyed).decode


def check_mounts() -> None:
    """Raises MissingTool where this machine cannot have a file system of ours, with what it lacks."""
    if not os.access(FUSE_DEVICE, os.R_OK | os.W_OK):
        raise MissingTool(
            f"{FUSE_DEVICE} is not there, or not open to this user: load the kernel's module fuse, or be root"
        )
    try:
        import mfusepy  # noqa: F401 - it looks for its library when it is imported
    except (ImportError, OSError) as error:
        raise MissingTool(f"no library for FUSE can be loaded ({error}): apt-get install fuse3") from error
    tool = "umount" if os.geteuid() == 0 else "fusermount3"
    if shutil.which(tool) is None:
        raise MissingTool(f"{tool} is not there, which unmounts: apt-get install fuse3 mount")


class MountedFolder:
    """Use it as a context manager: while it is entered, `mount` shows what `below` holds."""

    def __init__(self, home: Path, run: str, environment: Mapping[str, str], log: Path) -> None:
        """`home` is a folder of its own. `environment` is what its process gets, the run's labels among it."""
        self.mount, self.below, self.journal = home / MOUNTED, home / "below", home / "journal"
        self._nameless = home / "nameless"
        self._plan = home / "plan.json"
        self._name = mount_name(run)
        self._environment = dict(environment)
        self._touched: Touched = ()
        """What `StandingOrder` says of it."""
        self._log = log
        self._speaking = threading.Lock()

    def __enter__(self) -> MountedFolder:
        """Raises MissingTool where it cannot be mounted, StorageFailed where the folders cannot be made."""
        check_mounts()
        try:
            for folder in (self.mount, self.below, self._nameless):
                folder.mkdir(parents=True, exist_ok=True)
            places = (self.mount, self.below, self._nameless, self.journal)
            mount, below, nameless, journal = (str(place.resolve()) for place in places)
            plan = ServingPlan(mount, below, nameless, journal, self._name)
            self._plan.write_bytes(msgspec.json.encode(plan))
            self.journal.touch()
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "streamproof.harness.crash_points.files.serving", str(self._plan)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=self._environment,
                    start_new_session=True,
                )
        except OSError as error:
            raise StorageFailed(f"cannot prepare {self.mount}: {error.strerror or error}") from error
        try:
            wait_until(self._is_up, READY_SECONDS, f"{self.mount} to be mounted", self._said)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            self._process.stdout.close()
            unmount(self.mount)

    def announce(
        self,
        place: Endpoint,
        token: str,
        node: str,
        incarnation: int,
        asks_before: bool = False,
        others_live: bool = False,
    ) -> None:
        """From now on, tell `place` of each operation that changes something, and journal it. `asks_before`: tell of it
        before it is done, too. `others_live`: where the caller of one is killed, what others do is done. Raises
        ProcessDied."""
        self._obey(StandingOrder(place, token, node, incarnation, asks_before=asks_before, others_live=others_live))

    def be_quiet(self) -> None:
        """From now on, journal what is looked at alone. Raises ProcessDied."""
        self._obey(StandingOrder())

    @contextmanager
    def changing_below(self, touched: Callable[[], Touched] = tuple) -> Iterator[None]:
        """What lies below is changed within, without the kernel's knowing, which remembers nothing meanwhile: by names
        that are not there any more, libfuse would wait for itself. `touched` is asked for what `StandingOrder` says of
        it, once that is done. Raises ProcessDied."""
        self._obey(StandingOrder(remembers=False))
        yield
        self._touched = touched()
        self.be_quiet()

    def refused(self) -> int:
        """How many operations were refused, in all. Not to be asked by who has to answer one. Raises ProcessDied."""
        return self._obey(StandingOrder(as_before=True)).refused

    @property
    def position(self) -> int:
        """In the journal: what has been answered is before it."""
        return self.journal.stat().st_size

    def looked_at(self, begin: int) -> frozenset[tuple[OperationKind, str]]:
        """What has been looked at since a position: a kind of look, and a path."""
        return frozenset(
            (one.kind, one.path) for _, one in read_operations(self.journal, begin, self.position) if one.kind in LOOKS
        )

    def _obey(self, order: StandingOrder) -> Obeyed:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            told = msgspec.structs.replace(order, touched=self._touched)
            with self._speaking:
                self._process.stdin.write(msgspec.json.encode(told) + b"\n")
                self._process.stdin.flush()
                answered = self._process.stdout.readline()
        except OSError:
            answered = b""
        if not answered:
            raise ProcessDied(f"what serves {self.mount} ended with status {self._process.poll()}; {self._said()}")
        return _obeyed(answered)

    def _is_up(self) -> bool:
        if self._process.poll() is not None:
            raise MissingTool(f"{self.mount} cannot be mounted: {self._said()}")
        return os.path.ismount(self.mount)

    def _said(self) -> str:
        return f"its log ends: {self._log.read_text(errors='replace')[-2_000:].strip() or 'nothing was said'}"
