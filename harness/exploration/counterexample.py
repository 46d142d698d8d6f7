"""A schedule that breaks a claim, as a file: in crash addresses, so that every cluster can run it.

The file names the scenario and does not hold its code. It says what the code must still be for the addresses to mean
the same: the subject's name, slices and edges, and the workload.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from ..contracts.cluster import Cluster, Live
from ..contracts.injection import FaultKind
from ..contracts.registry import Named, Registry
from ..contracts.scenario import Scenario
from ..contracts.subject import SchemeSubject
from ..core.errors import (
    InvalidCounterexample,
    InvalidScenario,
    ScenarioChanged,
    Unsupported,
)
from ..core.guarantees import Guarantee
from ..core.verdicts import Evidence, Status, Verdict
from ..core.workload import Workload
from ..recording.claims_and_faults import SavedClaim, SavedFault
from ..recording.folder import write_json
from ..recording.history import History
from ..recording.schedule_files import ScheduleFormat
from ..running.judgement import Judgement, require_repeatable_here
from ..running.run import check_scenario, run_in_memory, run_named
from ..worlds.simulated.cluster import SimulatedCluster
from ..worlds.simulated.options import SimulationOptions
from .bench import ViolationKind, resized
from .search import Violation
from .shrinking import Shrunk

VERSION: Final = 4


_Count = Annotated[int, msgspec.Meta(ge=0)]
_Amount = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]


class FedInput(msgspec.Struct, frozen=True):
    """Which workload is fed, and how much of it."""

    name: str
    seed: int
    events: _Amount
    batch: _Amount
    """Events."""


class FoundIn(msgspec.Struct, frozen=True):
    """Where a search came upon it, before it was shrunk."""

    schedule: _Count
    """The number of the schedule."""
    faults: _Count
    events: _Amount


class Counterexample(msgspec.Struct, frozen=True):
    """What the file holds."""

    version: int
    scenario: str
    origin: str | None
    """What `streamproof explore` was given; None where the scenario existed in one process only."""
    subject: dict[str, Any]
    """Its name, slices and edges."""
    workload: FedInput
    seed: int
    """Of the simulated world."""
    world: dict[str, Any]
    """How its machines behave."""
    placement: dict[str, list[str]]
    """Node -> the replicas that it runs before the first fault; they die with it."""
    faults: tuple[SavedFault, ...]
    claim: SavedClaim
    """The one that is violated."""
    anomaly: str
    """The first in which the violation shows."""
    evidence: str
    digest: str
    """Of the history in the simulator."""
    found: FoundIn

    @property
    def kind(self) -> ViolationKind:
        return ViolationKind(str(self.claim), self.anomaly)


@dataclass(frozen=True)
class ReplayedCounterexample:
    """What came of running a counterexample again."""

    counterexample: Counterexample
    scenario: Scenario
    """As it was run: with the input and the faults of the file."""
    cluster: str
    judgement: Judgement
    history: History
    folder: Path | None
    """Of the run, on a real cluster."""
    kinds: Mapping[str, FaultKind]
    """Of the faults that it was run under, by name."""

    @property
    def verdict(self) -> Verdict:
        """On the guarantee that was violated."""
        claim = self.counterexample.claim.as_guarantee()
        return next(v for v in self.judgement.verdicts if v.guarantee == claim)

    @property
    def reproduced(self) -> bool:
        """Whether the guarantee is violated again, in the same way."""
        anomalies = {str(tally.anomaly) for tally in self.verdict.anomalies}
        return self.verdict.status is Status.VIOLATED and self.counterexample.anomaly in anomalies

    @property
    def exact(self) -> bool:
        """Whether the history is the very one that was found: in the simulator, as long as the code is what it was."""
        return self.judgement.digest == self.counterexample.digest


def counterexample(named: Named, violation: Violation, shrunk: Shrunk, found_with: Scenario) -> Counterexample:
    """What is to be kept of a violation, found with one amount of input and shrunk to another."""
    bench = shrunk.bench
    scenario = replace(bench.scenario, faults=shrunk.trial.schedule, minimal=True)
    kinds, oracles = bench.registry.faults, bench.registry.oracles
    history, judgement = run_in_memory(scenario, bench.cluster, kinds, oracles, seed=shrunk.trial.seed)
    verdict = next(v for v in judgement.verdicts if str(v.guarantee) == shrunk.kind.guarantee)
    workload = scenario.workload
    return Counterexample(
        version=VERSION,
        scenario=named.name,
        origin=named.origin or None,
        subject=_shape(scenario),
        workload=FedInput(workload.name, workload.seed, workload.events, workload.batch),
        seed=shrunk.trial.seed,
        world=asdict(bench.cluster.options) | _costs(scenario),
        placement=_placement(scenario, bench.cluster.places.workers),
        faults=tuple(SavedFault.of(fault) for fault in shrunk.trial.schedule),
        claim=SavedClaim.of(verdict.guarantee),
        anomaly=shrunk.kind.anomaly,
        evidence=_said(verdict.anomalies[0].sample[0]) if verdict.anomalies[0].sample else "",
        digest=history.digest(),
        found=FoundIn(violation.number, len(violation.trial.schedule), found_with.workload.events),
    )


def _said(piece: Evidence) -> str:
    return f"{piece.where}: {piece.what}"


def _shape(scenario: Scenario) -> dict[str, Any]:
    """What addresses speak of. What the slices do is left out: that is what a repair changes."""
    described = scenario.subject.describe()
    return {name: described.get(name) for name in ("name", "slices", "edges")}


def _costs(scenario: Scenario) -> dict[str, Any]:
    return {} if scenario.costs is None else {"costs": scenario.costs.describe()}


def _placement(scenario: Scenario, nodes: tuple[str, ...]) -> dict[str, list[str]]:
    assert isinstance(scenario.subject, SchemeSubject)
    return {node: list(actors) for node, actors in scenario.subject.placement(nodes).items()}


def save(path: Path, found: Counterexample) -> None:
    """Raises StorageFailed."""
    write_json(path, found)


_FORMAT: Final = ScheduleFormat(
    Counterexample,
    VERSION,
    "a counterexample, as `streamproof explore` writes them",
    "explore again to have it anew",
    marks=("version", "faults"),
)


def load_counterexample(path: Path) -> Counterexample:
    """Raises InvalidCounterexample for what is none, UnknownCounterexampleVersion for one of another version."""
    return _FORMAT.read(path, _check)


def counterexample_in(path: Path, found: object) -> Counterexample:
    """The same, of what was read there already."""
    return _FORMAT.take(path, found, _check)


def _check(found: Counterexample) -> None:
    """Raises InvalidScenario."""
    for fault in found.faults:
        fault.fault()
    found.claim.as_guarantee()


def scenario_of(path: Path, found: Counterexample, registry: Registry, scenario: Scenario | None = None) -> Scenario:
    """The scenario with the input and the faults of the file; `scenario` where the registry does not know it.

    Raises ScenarioChanged where the addresses would mean something else by now.
    """
    if scenario is None:
        if found.origin is None:
            raise InvalidCounterexample(
                f"{path} is of a scenario that was made in a program and has no name; hand over the scenario itself"
            )
        scenario = registry.scenario(found.origin).scenario
    workload = scenario.workload
    now = resized(scenario, found.workload.events, found.workload.batch)
    then = (found.workload.name, found.workload.seed)
    for what, is_now, was in (
        ("subject", _shape(scenario), found.subject),
        ("workload", (workload.name, workload.seed), then),
        ("costs", _costs(scenario).get("costs"), found.world.get("costs")),
    ):
        if is_now != was:
            raise ScenarioChanged(
                f"{path} is of another scenario: its {what} was {was}, and that of "
                f"{found.origin or 'the one given'} is {is_now}"
            )
    faults = tuple(fault.fault() for fault in found.faults)
    return replace(now, faults=faults, breaks=(), claims=_claims(path, found, scenario), minimal=True)


def _claims(path: Path, found: Counterexample, scenario: Scenario) -> list[Guarantee]:
    """The claim that broke, by itself."""
    broken = found.claim.as_guarantee()
    if broken not in scenario.claimed:
        stated = ", ".join(map(str, scenario.claimed)) or "nothing"
        raise ScenarioChanged(f"{path} breaks {broken}, which is not claimed any more; claimed: {stated}")
    return [broken]


def simulated(found: Counterexample) -> SimulatedCluster:
    """The world that it was found in. Raises InvalidCounterexample."""
    try:
        # One that was saved before worlds could obey a rate was found in one that did not.
        return SimulatedCluster(msgspec.convert({"obeys_rate": False, **found.world}, SimulationOptions), thorough=True)
    except (msgspec.ValidationError, InvalidScenario) as error:
        raise InvalidCounterexample(f"the simulated world of the counterexample cannot be made: {error}") from error


def replay_counterexample(
    path: Path,
    cluster: Cluster | None = None,
    *,
    registry: Registry | None = None,
    scenario: Scenario | None = None,
    folder: Path | None = None,
    show: Callable[[Live], None] = lambda live: None,
) -> ReplayedCounterexample:
    """Run a counterexample again: without a cluster in the simulator, exactly; else on that cluster, through the same
    addresses and with the input at the pace of the world that it was found in, into a folder of its own. It shows
    there for sure only if it was found in a world whose times are like that cluster's (`LIKE_EMBEDDED`), and shrunk to
    what does not rest on who was faster (`STEADY`).

    Raises InvalidCounterexample, ScenarioChanged, and Unsupported for a cluster that places the slices otherwise.
    """
    registry = registry or Registry()
    found = load_counterexample(path)
    if cluster is None or cluster.name == "simulated":
        return replay_in_simulator(path, found, registry, scenario)
    planned = scenario_of(path, found, registry, scenario)
    if _placement(planned, cluster.places.workers) != found.placement:
        raise Unsupported(
            f"{path} was found with the slices on nodes so: {_placed(found.placement)}; {cluster.name} with "
            f"{len(cluster.places.workers)} nodes places them otherwise"
        )
    planned = replace(planned, workload=_paced(planned.workload, simulated(found).options))
    named = Named(found.scenario, found.origin or "", "", planned)
    finished = run_named(named, cluster, registry, seed=found.seed, folder=folder, show=show)
    return ReplayedCounterexample(
        found, planned, cluster.name, finished.judgement, finished.history, finished.folder, registry.faults
    )


def replay_in_simulator(
    path: Path, found: Counterexample, registry: Registry, scenario: Scenario | None = None
) -> ReplayedCounterexample:
    """The same in the world that it was found in. `path`: where it was read, be it on its own or in what a search has
    printed."""
    planned = scenario_of(path, found, registry, scenario)
    world = simulated(found)
    check_scenario(planned, world, registry)
    require_repeatable_here(planned)
    history, judgement = run_in_memory(planned, world, registry.faults, registry.oracles, seed=found.seed)
    return ReplayedCounterexample(found, planned, world.name, judgement, history, None, registry.faults)


def _paced(workload: Workload, world: SimulationOptions) -> Workload:
    """At the pace of the world: at another, other input is outstanding when a fault strikes."""
    return replace(workload, rate=max(1, round(workload.batch / world.interval(workload) * 1e6)))


def _placed(placement: Mapping[str, list[str]]) -> str:
    return ", ".join(f"{node} {' and '.join(slices) or 'nothing'}" for node, slices in placement.items())


def assert_survives(path: str | Path, *, cluster: Cluster | None = None, scenario: Scenario | None = None) -> None:
    """A regression test in one line: what once broke the claim does so no more.

    Raises AssertionError when the claim is violated, and also when it cannot be said to hold, as when the addresses of
    the file are not passed any more.
    """
    replayed = replay_counterexample(Path(path), cluster, scenario=scenario)
    verdict = replayed.verdict
    if verdict.status is Status.HOLDS:
        return
    schedule = "; ".join(map(str, replayed.scenario.faults))
    story = [f"{verdict.guarantee} is {verdict.status} under: {schedule}"]
    if verdict.reason:
        story.append(f"{verdict.reason}. The counterexample may be out of date; explore again")
    story += [f"{tally}: {_said(piece)}" for tally in verdict.anomalies for piece in tally.sample[:3]]
    raise AssertionError("\n".join(story))
