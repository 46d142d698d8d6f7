"""A scenario: what is fed to which subject, what goes wrong meanwhile, and what must hold all the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf

from ..core.addresses import Moment
from ..core.carriers import OF_LINKS, OF_PACKETS, OF_QUERIES, PACKET_QUEUE, PACKET_SHAPER
from ..core.costs import Costs
from ..core.errors import InvalidScenario, UnknownName, Unsupported
from ..core.guarantees import Guarantee
from ..core.library import listed_by
from ..core.operators import punctuated
from ..core.places import Places
from ..core.proper import proper, switch
from ..core.quantities import Duration, seconds
from ..core.schedule import AtTime, Fault
from ..core.slice_names import operator_of, replica_of, slice_of
from ..core.topology import Role
from ..core.workload import Workload
from ..judging.oracle import Oracle
from .injection import FaultKind, Hits, Reach
from .query import Query
from .subject import SchemeSubject, Subject


@dataclass(frozen=True)
class Scenario:
    """`claims` must hold; left out, what the subject claims, within what it tolerates. `breaks` must be seen to be
    violated.

    `deadline` is how long the subject may take to drain, on a real cluster.
    """

    subject: Subject
    workload: Workload
    faults: Sequence[Fault] = ()
    claims: Sequence[Guarantee] | None = None
    breaks: Sequence[Guarantee] = ()
    deadline: Duration = seconds(120)
    minimal: bool = False
    """Whether it was shrunk to as little as shows something, so that what its claims rest on need not be at work."""
    costs: Costs | None = None
    """What work costs where time is virtual; None: nothing, and a duration means nothing there."""

    def __post_init__(self) -> None:
        for name, kind in (("faults", Fault), ("claims", Guarantee), ("breaks", Guarantee)):
            given = getattr(self, name)
            listed = isinstance(given, list | tuple) and all(isinstance(one, kind) for one in given)
            if not listed and not (name == "claims" and given is None):
                raise InvalidScenario(f"{name}={given!r} must be a list of {name}")
        if not isinstance(self.deadline, Duration) or not self.deadline.micros:
            raise InvalidScenario(f"deadline={self.deadline!r} needs its unit, as in seconds(60)")
        if not callable(getattr(self.subject, "collate", None)):
            wanted = "a scheme on a topology, as in gap(word_count()), or a Query"
            raise InvalidScenario(f"the subject of a scenario cannot be {self.subject!r}; it is {wanted}")
        proper(self.workload, Workload, "the workload of a scenario", "a Workload, as text() makes one")
        switch(self.minimal, "minimal")
        proper(self.costs, Costs | None, "costs of a scenario", "Costs({'count': ms(1)})")

    @property
    def claimed(self) -> tuple[Guarantee, ...]:
        if self.claims is not None:
            return tuple(self.claims)
        return tuple(claim.guarantee for claim in self.subject.claims)


def check(
    scenario: Scenario,
    places: Places,
    kinds: Mapping[str, FaultKind],
    oracles: Mapping[str, Oracle],
) -> None:
    """Refuse what cannot be run or judged, before anything starts.

    `places` are the names of the cluster's machines. Raises UnknownName for a slice, node, kind of fault or guarantee
    that does not exist, InvalidScenario for a trigger that cannot come and for a claim that lacks its bound.
    """
    subject = scenario.subject
    scenario.workload.check(subject.sources)
    if scenario.costs is not None:
        _check_costs(subject, scenario.costs)
    for fault in scenario.faults:
        if fault.kind not in kinds:
            raise UnknownName("kind of fault", fault.kind, sorted(kinds), listed_by("faults"))
        kind = kinds[fault.kind]
        if not fault.targets:
            raise InvalidScenario(f"{fault}: the {fault.kind} has no target, and would hit nobody: name whom it hits")
        if reach_of(kind, fault, places) is Reach.SLICES:
            _check_link(subject, fault)
        else:
            _check_nodes(subject, kind, fault, places)
        _check_parameters(kind, fault)
        if reason := kind.cannot(fault, places):
            raise InvalidScenario(f"{fault.what}: {reason}")
        if fault.trigger is None:
            raise InvalidScenario(f"{fault.kind} {fault.whom}: say when, with .at(...) or .after(...)")
        if isinstance(fault.trigger, Moment):
            _check_moment(scenario, fault, fault.trigger, places)
    of_losses = [one.power.of for one in (*scenario.claimed, *scenario.breaks) if one.power is not None]
    for guarantee in (*scenario.claimed, *scenario.breaks, *of_losses):
        oracle = oracles.get(guarantee.name)
        if oracle is None:
            raise UnknownName("guarantee", guarantee.name, sorted(oracles), listed_by("oracles"))
        oracle.check(guarantee)
    for guarantee in (*scenario.claimed, *of_losses):
        _check_applies(subject, guarantee, oracles)
    both = set(scenario.claimed) & set(scenario.breaks)
    if both:
        raise InvalidScenario(f"{', '.join(map(str, both))} is claimed, and expected to break")
    if not scenario.claimed and not scenario.breaks:
        raise InvalidScenario("the scenario claims nothing, so there is nothing to judge")


def _check_costs(subject: Subject, costs: Costs) -> None:
    """Raises InvalidScenario for costs of what never runs on virtual time, UnknownName for those of nobody."""
    if not isinstance(subject, SchemeSubject):
        raise InvalidScenario(f"{subject.name} is a {subject.kind}, which runs on real time only: leave out its costs")
    for name in costs.per_event:
        if name not in subject.topology.stages:
            raise UnknownName("operator with a cost", name, list(subject.topology.stages))


def check_punctuations(scenario: Scenario) -> None:
    """Raises InvalidScenario where an operator that is fed by sources alone waits for a punctuation that never comes: a
    run would tell nothing of its windows. What others make for it is known later; and an input that was made smaller,
    as long as it fails, may be without. So it is asked of what a user gives."""
    if not isinstance(scenario.subject, SchemeSubject):
        return
    topology, workload = scenario.subject.topology, scenario.workload
    for name, stage in topology.stages.items():
        fed_by = {edge.upstream for edge in topology.edges if edge.downstream == name}
        if not punctuated(stage.operator) or fed_by & topology.stages.keys():
            continue
        sources = [one for one in topology.slices if topology.role(one) is Role.SOURCE and operator_of(one) in fed_by]
        events = (event for one in sources for batch in workload.batches(one) for event in batch)
        if not any(stage.operator.punctuation(event) for event in events):
            raise InvalidScenario(
                f"{name!r} of {topology.name!r} waits for punctuations, and of the {workload.events:,} events of "
                f"workload {workload.name!r} none is one: none of its windows would end"
            )


def _check_applies(subject: Subject, guarantee: Guarantee, oracles: Mapping[str, Oracle]) -> None:
    """Raises InvalidScenario for a claim that could never hold."""
    executable = isinstance(subject, SchemeSubject)
    progress = not isinstance(subject, Query) or subject.shows_progress
    why = {name: oracle.cannot_hold(executable, subject.observables, progress) for name, oracle in oracles.items()}
    if why[guarantee.name]:
        apply = ", ".join(sorted(name for name, reason in why.items() if not reason))
        raise InvalidScenario(
            f"{guarantee} cannot be claimed of {subject.name}: {why[guarantee.name]}; what can be: {apply}"
        )


def check_carriers(scenario: Scenario, cluster: str, places: Places, kinds: Mapping[str, FaultKind]) -> tuple[str, ...]:
    """What carries each fault of a scenario that has been checked. Raises Unsupported where nothing on this cluster
    can, and for faults that would miss what they are aimed at because of one another."""
    found = []
    for fault in scenario.faults:
        kind = kinds[fault.kind]
        carrier = kind.require(cluster, reach_of(kind, fault, places))
        if carrier in OF_QUERIES and isinstance(scenario.subject, SchemeSubject):
            raise Unsupported(
                f"no {kind.name} of {scenario.subject.name} on {cluster}: there, {carrier} carries it out"
            )
        found.append(carrier)
        given = dict(fault.amounts)
        for parameter in kind.takes:
            if parameter.name in given and parameter.clusters is not None and cluster not in parameter.clusters:
                where = ", ".join(sorted(parameter.clusters))
                raise Unsupported(f"no {parameter.name} of a {kind.name} on {cluster}; it can be had on: {where}")
    _refuse_past_one_another(scenario.faults, found)
    _refuse_twice(scenario.faults, found)
    return tuple(found)


def _refuse_past_one_another(faults: Sequence[Fault], carriers: Sequence[str]) -> None:
    """Where one fault takes the links of slices through the harness, another that cuts nodes off would miss them."""
    through, between = (
        next((fault for fault, carrier in zip(faults, carriers, strict=True) if carrier in those), None)
        for those in (OF_LINKS, OF_PACKETS)
    )
    if through is not None and between is not None:
        raise Unsupported(
            f"{through.kind} {through.whom} lets the links of all slices pass through the harness, where "
            f"{between.kind} {between.whom} would not get at them; disturb either links of slices in a scenario or "
            "packets of nodes"
        )


def _refuse_twice(faults: Sequence[Fault], carriers: Sequence[str]) -> None:
    """A packet waits in one queue. Where the two may come one after the other, it is seen when they strike."""
    queued = [
        fault for fault, carrier in zip(faults, carriers, strict=True) if carrier in (PACKET_QUEUE, PACKET_SHAPER)
    ]
    for one, other in combinations(queued, 2):
        if one.kind == other.kind and set(one.targets) == set(other.targets) and _overlap(one, other):
            raise Unsupported(
                f"a second {one.kind} of what passes between {one.whom} while the first is in force: let one heal "
                "before the other strikes"
            )


def _overlap(one: Fault, other: Fault) -> bool:
    """Whether they are sure to be in force at once."""
    if one.duration is None and other.duration is None:
        return True
    first, second = one.trigger, other.trigger
    if not isinstance(first, AtTime) or not isinstance(second, AtTime):
        return False
    begins, ends = zip(_in_force(first, one.duration), _in_force(second, other.duration), strict=True)
    return max(begins) < min(ends)


def _in_force(trigger: AtTime, duration: Duration | None) -> tuple[float, float]:
    began = trigger.after.micros
    return began, inf if duration is None else began + duration.micros


def reach_of(kind: FaultKind, fault: Fault, places: Places) -> Reach:
    """Raises InvalidScenario for a link from a slice to a node: what would be cut is not clear."""
    if kind.hits is Hits.NODES:
        return Reach.NODES
    nodes = places.among(fault.targets)
    if nodes and len(nodes) < len(fault.targets):
        raise InvalidScenario(
            f"{fault.kind} {fault.whom}: {', '.join(nodes)} is a node and the other end is not; name two slices, for "
            "the link that the harness routes between them, or two nodes, for all that passes between those"
        )
    return Reach.NODES if nodes else Reach.SLICES


def _check_nodes(subject: Subject, kind: FaultKind, fault: Fault, places: Places) -> None:
    names = list(dict.fromkeys([*subject.actors, *(() if kind.of_actors else places.names)]))
    for target in fault.targets:
        if target not in names:
            raise UnknownName("slice, driver or node", target, names)
    if kind.hits is Hits.LINK:
        _check_two_ends(fault)
    elif kind.ends is not None and len(set(fault.targets)) != kind.ends:
        raise InvalidScenario(f"{fault.kind} {fault.whom}: it needs {kind.ends} different targets")


def _check_two_ends(fault: Fault) -> None:
    if len(fault.targets) != 2 or fault.targets[0] == fault.targets[1]:
        raise InvalidScenario(f"{fault.kind} {fault.whom}: a link has two different ends")


def _check_link(subject: Subject, fault: Fault) -> None:
    ends = list(dict.fromkeys(end for link in subject.links for end in link))
    known = [*ends, *dict.fromkeys(operator_of(slice_of(end)) for end in ends)]
    for target in fault.targets:
        if target not in known:
            raise UnknownName("end of a link", target, known)
    _check_two_ends(fault)
    first, second = ({end for end in ends if target in (end, operator_of(slice_of(end)))} for target in fault.targets)
    if not any((up in first and down in second) or (up in second and down in first) for up, down in subject.links):
        near = [b if a in first else a for a, b in subject.links if a in first or b in first]
        raise InvalidScenario(
            f"{fault.kind} {fault.whom}: nothing passes between these two; {fault.targets[0]} has links to: "
            f"{', '.join(dict.fromkeys(near))}"
        )


def _check_parameters(kind: FaultKind, fault: Fault) -> None:
    who = f"{fault.kind} {fault.whom}"
    if fault.duration is not None:
        if not kind.lasts:
            raise InvalidScenario(f"{who}, for {fault.duration}: a {kind.name} has no duration; {kind.heals}")
        if not isinstance(fault.duration, Duration) or fault.duration.micros <= 0:
            raise InvalidScenario(f"{who}: how long it lasts, {fault.duration!r}, needs its unit, as in ms(50)")
    given = dict(fault.amounts)
    kind.check_amounts(who, given)
    for parameter in kind.takes:
        if given.pop(parameter.name, None) is None and parameter.required:
            raise InvalidScenario(f"{who}: say {parameter.meaning}, with {parameter.name}=...")
    if given:
        takes = ", ".join(parameter.name for parameter in kind.takes) or "nothing"
        raise InvalidScenario(f"{who} does not take {', '.join(given)}; it takes: {takes}")


def _check_moment(scenario: Scenario, fault: Fault, moment: Moment, places: Places) -> None:
    subject = scenario.subject
    if moment.point not in subject.points:
        points = ", ".join(sorted(subject.points))
        raise InvalidScenario(
            f"{fault}: {subject.name} under {subject.kind} never passes {moment.point}; its points are: {points}"
        )
    if moment.actor is not None and moment.actor not in subject.actors:
        if moment.actor in places.names:
            some = next(iter(subject.actors))
            raise InvalidScenario(
                f"{fault}: {moment.actor} is a machine, which takes no events and passes no points; say whose they "
                f"are, as in .at(moment.of({some!r})), or a time, as in .after(seconds(2))"
            )
        raise UnknownName("slice or driver", moment.actor, list(subject.actors))
    first = replica_of(moment.actor or "") + 1
    needs_recovery = moment.recovering or (moment.incarnation or first) > first
    if needs_recovery and not any(other is not fault for other in scenario.faults):
        raise InvalidScenario(
            f"{fault}: {moment.actor} recovers only if an earlier fault hits it, and there is no other"
        )
