"""A Spark cluster that is kept up between runs, and verified to be clean before it serves another one.

Only master and workers stay. Each run has drivers, logs and checkpoints of its own; what it has left in the cluster's
folder is brought to the run's. A cluster that is not clean in time, on which a run has failed, or that was set up for
something else than the next run needs, is thrown away, and the record of the next run says why.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Final, Generic, Protocol, TypeVar

from ....contracts.cluster import Run
from ....core.errors import DeadlinePassed, StorageFailed, StreamproofError
from ....core.waiting import wait_until
from .nodes import Nodes

CLEAN_SECONDS: Final = 60.0
"""How long what goes by itself may take: as long as a node may take to come up."""


@dataclass(frozen=True)
class Unclean:
    """What is not as it was when a cluster came up, in words."""

    lasting: tuple[str, ...] = ()
    """What nothing puts right any more."""
    passing: tuple[str, ...] = ()
    """What goes by itself: a worker that was killed comes back, an application's executors go."""


class Keepable(Nodes, Protocol):
    """A cluster that can serve one run after the other."""

    @property
    def logs_folder(self) -> Path: ...

    def __enter__(self) -> Keepable: ...

    def stop(self) -> None:
        """End all that belongs to it."""

    def end_run(self) -> None:
        """End the drivers. Raises what went wrong with the cluster during the run."""

    def unclean(self) -> Unclean:
        """What keeps it from serving another run."""


C = TypeVar("C", bound=Keepable)


@dataclass(frozen=True)
class Warmth:
    """What a run's record says of the cluster that served it."""

    cluster: str
    """The label that everything of the cluster carries."""
    served: int
    """Runs before this one. The first has found it cold."""
    replaces: str
    """Why the cluster before it was thrown away; empty where there was none."""


@dataclass
class _Kept(Generic[C]):
    cluster: C
    folder: Path
    needs: object
    warmth: Warmth
    brought: Mapping[Path, int] = field(default_factory=dict)
    """Bytes of each log that runs before have been given."""


class WarmCluster(Generic[C]):
    """Owns at most one cluster; on leaving the context none is left."""

    def __init__(self, folder: Path) -> None:
        """Whatever it keeps has a folder of its own in this one, which goes with it."""
        self._folder = folder.resolve()
        self._kept: _Kept[C] | None = None
        self._thrown_away = ""

    def __enter__(self) -> WarmCluster[C]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._throw_away("")

    @property
    def keeps_one(self) -> bool:
        return self._kept is not None

    def give_up(self, reason: str) -> None:
        """End the cluster that is kept; the record of the run that gets the next one says why."""
        if self._kept is not None:
            self._throw_away(reason)

    @contextmanager
    def serve(self, run: Run, make: Callable[[str, Path], C], needs: object) -> Iterator[tuple[Run, C]]:
        """A clean cluster, and the run as it is there: its folder is one that the cluster's nodes see.

        A cluster is used again only for a run that `needs` the same. To start one, `make` is given the label of what
        belongs to it, and a folder that goes when the cluster does.
        """
        kept = self._ready(run, make, needs)
        run.recorder.deployed({"warm": asdict(kept.warmth)})
        kept.warmth = replace(kept.warmth, served=kept.warmth.served + 1, replaces="")
        inside = kept.folder / "runs" / str(kept.warmth.served)
        try:
            (inside / "checkpoints").mkdir(parents=True)
            yield replace(run, folder=inside), kept.cluster
            kept.cluster.end_run()
        except BaseException as problem:
            # It may have left anything.
            said = f": {problem}" if isinstance(problem, StreamproofError) else ""
            self._end(kept, run, inside, f"run {run.id} ended in {type(problem).__name__}{said}")
            raise
        self._end(kept, run, inside)

    def _end(self, kept: _Kept[C], run: Run, inside: Path, throw_away: str = "") -> None:
        assert run.folder is not None
        try:
            kept.brought = _bring_logs(kept.cluster.logs_folder, run.folder / "logs", kept.brought)
            if (inside / "checkpoints").is_dir():
                shutil.move(inside / "checkpoints", run.folder / "checkpoints")
        except OSError as error:
            raise StorageFailed(f"what run {run.id} has left cannot be brought to {run.folder}: {error}") from error
        finally:
            if throw_away:
                self._throw_away(throw_away)

    def _ready(self, run: Run, make: Callable[[str, Path], C], needs: object) -> _Kept[C]:
        if self._kept is not None and (reason := self._why_not(self._kept, needs)):
            self._throw_away(reason)
        if self._kept is None:
            label = f"{run.id}-cluster"
            folder = self._folder / label
            cluster = make(label, folder)
            cluster.__enter__()
            self._kept = _Kept(cluster, folder, needs, Warmth(label, 0, self._thrown_away))
            self._thrown_away = ""
        return self._kept

    def _why_not(self, kept: _Kept[C], needs: object) -> str:
        if kept.needs != needs:
            return "the next run needs another one"
        found = Unclean()

        def settled() -> bool:
            nonlocal found
            found = kept.cluster.unclean()
            return bool(found.lasting) or not found.passing

        with suppress(DeadlinePassed):
            wait_until(settled, CLEAN_SECONDS, "the cluster to be clean")
        return "; ".join((*found.lasting, *found.passing))

    def _throw_away(self, reason: str) -> None:
        kept, self._kept, self._thrown_away = self._kept, None, reason
        if kept is not None:
            kept.cluster.stop()


def _bring_logs(logs: Path, target: Path, before: Mapping[Path, int]) -> dict[Path, int]:
    """Copy what has been written since. Returns how much there is of each log."""
    sizes = {path: path.stat().st_size for path in logs.rglob("*") if path.is_file()}
    for path, size in sizes.items():
        known = before.get(path, 0)
        if size > known or path not in before:
            copy = target / path.relative_to(logs)
            copy.parent.mkdir(parents=True, exist_ok=True)
            with path.open("rb") as whole, copy.open("wb") as part:
                whole.seek(known)
                part.write(whole.read(size - known))
    return sizes
