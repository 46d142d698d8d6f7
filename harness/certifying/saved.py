"""A schedule that violates a claim of a query, as a file: what to run again, here or on another cluster.

The file names the query and does not hold its code. It says what the code must still be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final, Literal

import msgspec

from ..contracts.cluster import Cluster
from ..contracts.query import Query
from ..contracts.registry import Named, Registry
from ..contracts.scenario import Scenario
from ..core.errors import MissingTool, ScenarioChanged, StorageFailed, Unsupported
from ..core.workload import Workload
from ..recording.claims_and_faults import SavedClaim
from ..recording.schedule_files import ScheduleFormat
from ..running.run import new_run_id
from ..worlds.embedded.cluster import EmbeddedCluster
from .conclusion import Planned
from .killing import kill
from .losing_power import lose_again
from .recovery_worker import RecoveryWorker
from .recovery_worker_kills import (
    IN_RECOVERY_WORKERS,
    RecoveryWorkerKiller,
    call_as_in,
    is_of_recovery_workers,
    is_replayed_here,
    needs_journal,
    points_passed,
    recovery_worker_of_its_own,
)
from .rejudging import JudgedRun, judge_run
from .relocating import relocated
from .request import CampaignRequest

COUNTEREXAMPLE: Final = "counterexample.json"
"""Its name in a certificate's folder."""
KIND: Final = "crashes-of-a-query"
VERSION: Final = 2
_Some = msgspec.Meta(min_length=1)
_Positive = msgspec.Meta(ge=1)


class SavedSchedule(msgspec.Struct, frozen=True):
    """What the file holds."""

    kind: Literal["crashes-of-a-query"]
    version: int
    origin: str
    """`module:attribute` of what was certified; empty where it existed in one process only."""
    subject: dict[str, Any]
    """What the query says of itself."""
    workload: str
    """Its name."""
    seed: int
    workload_seed: int
    events: Annotated[int, _Positive]
    batch_events: Annotated[int, _Positive]
    claims: Annotated[tuple[SavedClaim, ...], _Some]
    planned: Annotated[tuple[Planned, ...], _Some]
    fed_from: str
    """`module:attribute` of the workload, where one was asked for; empty where it is the query's usual one."""


class _Subject(msgspec.Struct, frozen=True):
    """What a replay needs of a query's description."""

    mode: str
    key: tuple[str, ...]
    schema: str
    settings: dict[Annotated[str, msgspec.Meta(pattern=r"^spark\.")], str]


def write_saved(path: Path, saved: SavedSchedule) -> None:
    """Raises StorageFailed."""
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(saved), indent=2) + b"\n")
    except OSError as error:
        raise StorageFailed(f"cannot write {path}: {error.strerror or error}") from error


def is_saved(path: Path) -> bool:
    """Whether a file says of itself that it is one of these."""
    try:
        found = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("kind") == KIND


_FORMAT: Final = ScheduleFormat(
    SavedSchedule,
    VERSION,
    "a schedule of a query, as `streamproof certify` keeps them",
    "certify the query again to have it anew",
)


def read_saved(path: Path) -> SavedSchedule:
    """Raises InvalidCounterexample, or UnknownCounterexampleVersion."""
    return _FORMAT.read(path, lambda found: msgspec.convert(found.subject, _Subject))


def replay_saved(
    saved: SavedSchedule,
    query: Query,
    workload: Workload,
    cluster: Cluster,
    registry: Registry,
    folder: Path,
) -> JudgedRun:
    """Run the schedule again, into a run folder: of code that was repaired since, at the lines where it is now what was
    meant. Raises ScenarioChanged where query or workload are others now, and where the code passes nothing like it."""
    resized = replace(query, batch_events=saved.batch_events, settings=saved.subject["settings"])
    _check_same(saved, resized)
    if workload.name != saved.workload:
        raise ScenarioChanged(f"the input was {saved.workload!r}, and is {workload.name!r} now")
    fed = replace(workload, events=saved.events, seed=saved.workload_seed)
    claims = [claim.as_guarantee() for claim in saved.claims]
    named = Named(query.name, saved.origin or query.name, "", Scenario(resized, fed, claims=claims))
    planned = saved.planned
    here = cluster.name == EmbeddedCluster.name and is_replayed_here(resized, planned)
    request = CampaignRequest(resized, fed, tuple(claims), registry, saved.seed, saved.origin)
    if here or any(map(is_of_recovery_workers, planned)):
        planned = _kill_in_recovery_worker(folder, request, saved, cluster)
    else:
        if _is_repaired(request, saved) and any(one.crash.point in IN_RECOVERY_WORKERS for one in planned):
            with _recovery_worker(request) as worker:
                planned = _relocated(worker, request, planned)
        kill(folder, named, planned, cluster, registry, (), saved.seed)
    return judge_run(folder, [one.crash for one in planned], claims, registry.oracles)


def _kill_in_recovery_worker(
    folder: Path, request: CampaignRequest, saved: SavedSchedule, cluster: Cluster
) -> tuple[Planned, ...]:
    """Returns the crashes that were to strike, where the code is now. Raises Unsupported for a cluster that is no
    session of this machine's."""
    if cluster.name != EmbeddedCluster.name:
        raise Unsupported(
            f"{saved.planned[0]}: that is a matter of a session with one task slot on this machine, which the cluster "
            f"{cluster.name!r} is not; replay it with --cluster embedded"
        )
    with _recovery_worker(request) as worker:
        if worker.no_journal and any(map(needs_journal, saved.planned)):
            raise MissingTool(worker.no_journal)
        if saved.planned[0].crash.lost is not None:
            lose_again(folder, request, saved.planned[0].crash, worker)
            return saved.planned
        planned = saved.planned
        if _is_repaired(request, saved):
            planned = _relocated(worker, request, planned)
        # Nothing says here whether the query keeps in its JVM what a crash forgets.
        RecoveryWorkerKiller(worker, anew=True)(folder, request, planned, ())
        return planned


@contextmanager
def _recovery_worker(request: CampaignRequest) -> Iterator[RecoveryWorker]:
    query, name = request.query, new_run_id(request.query.name)
    with (
        TemporaryDirectory(prefix="streamproof-replay-") as work,
        recovery_worker_of_its_own(query, request.workload, Path(work), name) as worker,
    ):
        yield worker


def _is_repaired(request: CampaignRequest, saved: SavedSchedule) -> bool:
    """Whether the code is another by now."""
    return bool(request.query.describe().get("code") != saved.subject.get("code"))


def _relocated(worker: RecoveryWorker, request: CampaignRequest, planned: tuple[Planned, ...]) -> tuple[Planned, ...]:
    """Raises ScenarioChanged, and MissingTool where nothing says any more what is done to files."""
    if worker.no_journal and any(map(needs_journal, planned)):
        raise MissingTool(worker.no_journal)
    call_as_in(worker, planned)
    last_first = any(one.crash.last_first for one in planned)
    return relocated(planned, points_passed(worker, request, last_first))


def _check_same(saved: SavedSchedule, query: Query) -> None:
    now, then = _without_sources(query.describe()), _without_sources(saved.subject)
    differing = [name for name in now if name != "batch_events" and now[name] != then.get(name)]
    if differing:
        name = differing[0]
        raise ScenarioChanged(
            f"the query has changed since: its {name} was {then.get(name)!r}, and is {now[name]!r} now; check out the "
            "version that was certified"
        )


def _without_sources(described: Mapping[str, Any]) -> dict[str, Any]:
    """What its functions do is what a repair changes; they have to be called the same."""
    code = described.get("code")
    if not isinstance(code, dict):
        return dict(described)
    return {**described, "code": {part: one.get("name") for part, one in code.items() if isinstance(one, dict)}}
