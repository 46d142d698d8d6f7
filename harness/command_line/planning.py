"""What a scenario would do on a cluster, found out without starting anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich.text import Text

from ..contracts.cluster import Cluster
from ..contracts.injection import FaultKind
from ..contracts.registry import Named
from ..contracts.scenario import check_carriers
from ..contracts.subject import SchemeSubject, Subject
from ..core.guarantees import Guarantee
from ..core.lattice import Standing, implied
from ..core.schedule import Fault
from ..core.wording import counted
from ..reporting.runs import CLUSTER_WORDS, tested
from ..reporting.screen import fact_lines, head_line
from ..reporting.view import Fact, Head


@dataclass(frozen=True)
class Hit:
    """Whom a planned fault is aimed at."""

    target: str
    node: str | None
    """Where it runs before the first fault; None where only Spark decides."""
    actors: tuple[str, ...]
    """What else goes with that node."""


@dataclass(frozen=True)
class PlannedFault:
    fault: str
    kind: str
    when: str
    carrier: str
    """What carries it out on this cluster."""
    hits: tuple[Hit, ...]


@dataclass(frozen=True)
class PlannedClaim:
    """What will be judged, and under which conditions the subject promises it; empty where it does not."""

    guarantee: str
    tolerates: str
    needs: str


@dataclass(frozen=True)
class Plan:
    """A scenario, its placement before the first fault, and its schedule in that placement."""

    scenario: str
    subject: str
    kind: str
    """The scheme, or what else the subject is an instance of."""
    cluster: str
    nodes: tuple[str, ...]
    seed: int
    events: int
    workload: str
    placement: dict[str, tuple[str, ...]]
    """Node -> the slices that the manager places there first; empty where Spark decides alone."""
    faults: tuple[PlannedFault, ...]
    claims: tuple[PlannedClaim, ...]
    breaks: tuple[str, ...]


def plan(
    named: Named, cluster: Cluster, kinds: Mapping[str, FaultKind], standings: Mapping[str, Standing], seed: int
) -> Plan:
    """The plan of a scenario that has been checked."""
    scenario = named.scenario
    subject, workers = scenario.subject, cluster.places.workers
    placement = subject.placement(workers) if isinstance(subject, SchemeSubject) else {}
    return Plan(
        scenario=named.name,
        subject=scenario.subject.name,
        kind=scenario.subject.kind,
        cluster=cluster.name,
        nodes=cluster.places.workers,
        seed=seed,
        events=scenario.workload.events,
        workload=scenario.workload.name,
        placement=placement,
        faults=tuple(
            _planned(fault, carrier, placement)
            for fault, carrier in zip(
                scenario.faults, check_carriers(scenario, cluster.name, cluster.places, kinds), strict=True
            )
        ),
        claims=tuple(_claim(scenario.subject, guarantee, standings) for guarantee in scenario.claimed),
        breaks=tuple(map(str, scenario.breaks)),
    )


def _claim(subject: Subject, guarantee: Guarantee, standings: Mapping[str, Standing]) -> PlannedClaim:
    for claim in subject.claims:
        if guarantee.name in implied(claim.guarantee.name, standings):
            return PlannedClaim(str(guarantee), str(claim.tolerates), claim.needs)
    return PlannedClaim(str(guarantee), "", "")


def _planned(fault: Fault, carrier: str, placement: dict[str, tuple[str, ...]]) -> PlannedFault:
    hits = []
    for target in fault.targets:
        node = target if target in placement else next((n for n, s in placement.items() if target in s), None)
        others = tuple(s for s in placement.get(node or "", ()) if s != target)
        hits.append(Hit(target, node, others))
    return PlannedFault(str(fault), fault.kind, fault.when, carrier, tuple(hits))


def plan_screen(plan: Plan) -> Iterator[Text]:
    """What `run --dry-run` says."""
    where = CLUSTER_WORDS.get(plan.cluster, plan.cluster)
    yield head_line(
        Head(
            tested(plan.subject, plan.kind),
            f"{where}, {counted(len(plan.nodes), 'node')} · {counted(plan.events, 'event')} of {plan.workload} · "
            f"seed {plan.seed}",
        )
    )
    yield Text()
    yield from fact_lines([Fact(node, ", ".join(slices) or "spare") for node, slices in plan.placement.items()])
    if plan.placement:
        yield Text()
    yield from fact_lines([*_of_faults(plan)] or [Fact("fault", "none")])
    yield Text()
    yield from fact_lines([*_of_claims(plan)] or [Fact("claims", "nothing")])
    if plan.breaks:
        yield from fact_lines([Fact("breaks", ", ".join(plan.breaks))])
    yield Text()
    yield Text("  nothing was started")


def _of_faults(plan: Plan) -> Iterator[Fact]:
    several = len(plan.faults) > 1
    for number, fault in enumerate(plan.faults, start=1):
        yield Fact(f"fault {number}" if several else "fault", fault.fault)
        for hit in fault.hits:
            others = f", and {', '.join(hit.actors)} with it" if hit.actors else ""
            where = f" on {hit.node}" if hit.node not in (None, hit.target) else ""
            moved = " (where it runs by then, if it was moved)" if several and number > 1 else ""
            yield Fact("hits", f"{hit.target}{where}{others}{moved}")
        yield Fact("by", fault.carrier)


def _of_claims(plan: Plan) -> Iterator[Fact]:
    for claim in plan.claims:
        yield Fact("claims", f"{claim.guarantee}, {claim.tolerates}" if claim.tolerates else claim.guarantee)
        if claim.needs:
            yield Fact("needs", claim.needs)
