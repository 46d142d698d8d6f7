"""Runs a scenario: from its check to its verdicts, with everything released on every path."""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import msgspec

from ..contracts.cluster import Cluster, Live, Run
from ..contracts.injection import FaultKind
from ..contracts.query import Query
from ..contracts.registry import Named, Registry
from ..contracts.scenario import Scenario, check, check_carriers
from ..contracts.subject import SchemeSubject
from ..core.addresses import Address
from ..core.errors import StreamproofError
from ..core.guarantees import stated_recovery
from ..core.quantities import Duration
from ..core.verdicts import Verdict
from ..core.workload import Workload
from ..install.spark_choice import chosen_python
from ..judging.oracle import Oracle
from ..recording.claims_and_faults import SavedClaim, SavedFault
from ..recording.folder import VERSION, Description, RunFolder, read_history, write_json
from ..recording.history import History
from ..recording.recorder import MemoryRecorder
from ..recording.records import Stamped
from .carrying_out import carry_out
from .determinism import beginning
from .failed_oracles import kept
from .judgement import Judgement, examine_operators, judge_history

_FLUSHED_EVERY = 1.0
"""Seconds."""
_runs = count(1)
"""The runs of this process."""


@dataclass(frozen=True)
class Finished:
    """A run that has come to its verdicts."""

    folder: Path
    description: Description
    history: History
    judgement: Judgement


def check_scenario(scenario: Scenario, cluster: Cluster, registry: Registry) -> tuple[str, ...]:
    """Refuse, before anything starts, what this cluster cannot run or nobody can judge. Returns what carries each fault
    out."""
    check(scenario, cluster.places, registry.faults, registry.oracles)
    cluster.check(scenario)
    carriers = check_carriers(scenario, cluster.name, cluster.places, registry.faults)
    cluster.require(carriers)
    return carriers


def run_named(
    named: Named,
    cluster: Cluster,
    registry: Registry,
    *,
    seed: int,
    run_id: str | None = None,
    folder: Path | None = None,
    show: Callable[[Live], None] = lambda live: None,
    references: Sequence[Stamped] = (),
    passed: Callable[[Address], None] | None = None,
    patience: Duration | None = None,
) -> Finished:
    """Run a scenario into a folder of its own, and judge it. Without a folder it is `runs/` and the run's id.
    `references`, `passed` and `patience` are the run's, of a query (see `Run`); without the last, it is the time in
    which the query is claimed to recover, where nothing but its silence shows that it does not.

    Raises a UserMistake before anything has started; what goes wrong later is written to the timeline and raised.
    """
    carriers = frozenset(check_scenario(named.scenario, cluster, registry))
    description = describe(named, cluster, seed, run_id or new_run_id(named.name))
    path = folder or Path("runs") / description.run
    with RunFolder(path, description) as recorder:
        run = Run(
            description.run,
            named.scenario,
            seed,
            recorder,
            registry.faults,
            path.resolve(),
            _readable_meanwhile(recorder, show),
            references,
            passed,
            patience or _silence_allowed(named.scenario),
            carriers,
        )
        carry_out(run, cluster)
        recorder.seal()
    history = read_history(path)
    determinism = examine_operators(
        named.scenario, beginning(history, named.scenario.subject.sources), making_origin(named, registry)
    )
    judgement = judge_history(named.scenario, history, registry.oracles, cluster.virtual_time, determinism)
    judgement = write_verdicts(path, judgement)
    return Finished(path, recorder.description, history, judgement)


def _silence_allowed(scenario: Scenario) -> Duration | None:
    """How long a query may give no sign of work whose record has none before its end, by the strictest claim."""
    if not isinstance(scenario.subject, Query) or scenario.subject.read is None:
        return None
    return stated_recovery(scenario.claimed)


def _readable_meanwhile(recorder: RunFolder, show: Callable[[Live], None]) -> Callable[[Live], None]:
    """`show`, and once a second what was recorded goes to the disk, for who reads it there meanwhile."""
    flushed = time.monotonic()

    def shown(live: Live) -> None:
        nonlocal flushed
        show(live)
        if time.monotonic() - flushed >= _FLUSHED_EVERY:
            recorder.flush()
            flushed = time.monotonic()

    return shown


def making_origin(named: Named, registry: Registry) -> str:
    """The origin of a scenario with operators, where that makes this very one; else empty."""
    scenario = named.scenario
    # Of a query nothing is executed again, and to look its name up would load every scenario.
    if not isinstance(scenario.subject, SchemeSubject):
        return ""
    try:
        made = registry.scenario(named.origin).scenario
    except StreamproofError:
        return ""
    same = _of_workload(made.workload) == _of_workload(scenario.workload)
    return named.origin if same and made.subject.describe() == scenario.subject.describe() else ""


def run_in_memory(
    scenario: Scenario,
    cluster: Cluster,
    kinds: Mapping[str, FaultKind],
    oracles: Mapping[str, Oracle],
    *,
    seed: int,
) -> tuple[History, Judgement]:
    """Run a scenario without leaving anything behind: for exploration and tests, in the simulator."""
    recorder = MemoryRecorder()
    carry_out(Run("in-memory", scenario, seed, recorder, kinds, None), cluster)
    history = recorder.history()
    return history, judge_history(scenario, history, oracles, cluster.virtual_time)


def new_run_id(name: str) -> str:
    """A label that no other run on this machine carries: everything that is started for a run is found by it, and may
    be called by it."""
    number = next(_runs)
    again = f"-{number}" if number > 1 else ""
    named = re.sub(r"[^A-Za-z0-9_.-]", "-", name)
    return f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}-{named}-{os.getpid()}{again}"


class Described(Protocol):
    """What can say in a record what it is for a scenario."""

    def describe(self, scenario: Scenario) -> Mapping[str, object]: ...


def describe(named: Named, cluster: Described, seed: int, run_id: str) -> Description:
    """What `scenario.json` says."""
    began = datetime.now(UTC)
    scenario = named.scenario
    return Description(
        version=VERSION,
        run=run_id,
        scenario=named.name,
        origin=named.origin,
        subject=scenario.subject.describe(),
        workload=_of_workload(scenario.workload),
        seed=seed,
        schedule=tuple(map(SavedFault.of, scenario.faults)),
        claims=tuple(map(SavedClaim.of, scenario.claimed)),
        breaks=tuple(map(SavedClaim.of, scenario.breaks)),
        cluster=dict(cluster.describe(scenario)),
        versions={
            "streamproof": version("streamproof"),
            **chosen_python(scenario.subject.spark if isinstance(scenario.subject, Query) else ""),
        },
        machine={
            "system": platform.platform(),
            "cores": os.cpu_count() or 0,
            "byteorder": sys.byteorder,
            "hash_seed": _hash_seed(),
        },
        began=began.isoformat(timespec="milliseconds"),
        minimal=scenario.minimal,
    )


def _of_workload(workload: Workload) -> dict[str, Any]:
    return {"name": workload.name, **workload.sizes}


def _hash_seed() -> str:
    """Of this process. It decides in which order a set of texts is iterated."""
    return os.environ.get("PYTHONHASHSEED") or "random"


def write_verdicts(path: Path, judgement: Judgement) -> Judgement:
    """Leave `verdicts.json` in a run folder, and how oracles failed; the judgement names the files then. Raises
    StorageFailed."""
    judgement = kept(path, judgement)
    write_json(path / "verdicts.json", summary(judgement))
    return judgement


def summary(judgement: Judgement) -> dict[str, object]:
    """A judgement as plain data: what `--json` prints and `verdicts.json` holds."""
    return {
        "verdicts": [verdict_document(verdict) for verdict in judgement.verdicts],
        "expected_to_break": [verdict_document(verdict) for verdict in judgement.broken],
        "strongest": [str(guarantee) for guarantee in judgement.strongest],
        "exercised": None if judgement.exercised is None else {str(m): n for m, n in judgement.exercised.items()},
        "recoveries": [{**msgspec.to_builtins(r), "total": r.total} for r in judgement.recoveries],
        "digest": judgement.digest,
        "unchecked": judgement.unchecked,
        "not_looked_at": judgement.not_looked_at,
        "exit_status": int(judgement.exit_status),
    }


def verdict_document(verdict: Verdict) -> dict[str, object]:
    """With the kind of reason that leaves it UNKNOWN, for programs, and the sentence that says it."""
    plain: dict[str, object] = msgspec.to_builtins(verdict)
    plain.pop("unknown")
    if not verdict.measured:
        plain.pop("measured")
    return {**plain, "why": verdict.why, "reason": verdict.reason, "own_failure": verdict.own_failure}
