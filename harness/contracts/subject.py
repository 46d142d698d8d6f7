"""What is tested, and what a cluster makes of it.

A *subject* is a declaration: names, claims, what can be observed. A cluster *deploys* it, and the deployment has the
one life cycle of all subjects: prepare, start, drained, stop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import combinations, product
from typing import Any, Protocol

from ..core.addresses import QUERY_POINTS, Point
from ..core.errors import InvalidScenario, InvalidTopology, UnknownName
from ..core.guarantees import Guarantee
from ..core.lattice import Standing, implied
from ..core.operators import keeps_for_ever
from ..core.proper import positive, proper, switch
from ..core.quantities import Duration, Events
from ..core.slice_names import operator_of, replica_name
from ..core.topology import Role, Topology
from ..judging.collated_slices import CollatedSlices
from ..judging.collation import Collation
from ..judging.exercised import Activity, Exercised, SubjectShape, exercised
from ..judging.reexecutor import Reexecutor
from ..protocol.coordinator import Coordinator, CoordinatorSpec
from ..protocol.machine import Slice
from ..protocol.manager import ActiveReplicas, Manager, NodeJoined
from ..protocol.mechanism import Mechanism
from ..protocol.merging import sequencer
from ..protocol.placement import Placement
from ..protocol.spec import Setup, SliceSpec
from ..protocol.stores import CheckpointStore
from ..recording.history import History
from .claims import Claim


class Subject(Protocol):
    """What every subject says of itself."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str:
        """The scheme, or what else the subject is an instance of."""

    @property
    def claims(self) -> tuple[Claim, ...]: ...

    @property
    def actors(self) -> tuple[str, ...]:
        """What a fault can be aimed at by name."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Who offers it the input."""

    @property
    def links(self) -> tuple[tuple[str, str], ...]:
        """(upstream, downstream) for all that data passes between, the harness's own ends included, as far as a fault
        can get at it."""

    @property
    def points(self) -> frozenset[Point]:
        """The kinds of crash point that its actors pass."""

    @property
    def observables(self) -> tuple[str, ...]:
        """What can be judged of it: outputs, state, progress."""

    @property
    def checkpoint_every(self) -> int | None:
        """Events between two checkpoints of one actor, where it declares that."""

    def describe(self) -> dict[str, Any]:
        """What a record must say of it, so that a changed subject is noticed."""

    def collate(self, history: History) -> Collation:
        """What a history of this subject comes to, in the way that its kind allows."""

    def collate_anew(self, history: History) -> Collation:
        """The same, which shares nothing with any other, for whoever may change it."""


class Deployment(Protocol):
    """A subject on a cluster, for one run. Its owner releases it on every path."""

    def prepare(self) -> None:
        """Bring up what the subject needs, up to the point where input could be offered."""

    def start(self) -> None:
        """Offer the input."""

    def drained(self, deadline: Duration) -> bool:
        """Wait until the end of the input has passed through and nothing more is due. False: it did not, by the
        deadline or because the subject has come to rest without."""

    @property
    def stalled(self) -> bool:
        """Of one that was not drained: whether it never can be, which is on record then. No real cluster can tell."""

    def waiting_for(self) -> str:
        """What is still to come before it is drained, in words."""

    def silent(self) -> int | None:
        """For how long the subject has given no sign of work, microseconds; None where that means nothing."""

    def stop(self) -> None:
        """Collect what was kept, then end."""


_INTERVAL = 100
"""Of a scheme that has none of its own."""
CHECKPOINT_POINTS = frozenset({Point.CHECKPOINT_ISSUED, Point.CHECKPOINT_DURABLE, Point.CHECKPOINT_TOLD})
SLICE_POINTS = frozenset(Point) - QUERY_POINTS


def _as_it_is(store: CheckpointStore) -> CheckpointStore:
    return store


@dataclass(frozen=True)
class SchemeSubject:
    """A fault-tolerance scheme on a topology."""

    kind: str
    topology: Topology
    setups: Mapping[Role, Setup]
    """What the slices of a role are made of."""
    claims: tuple[Claim, ...]
    replicas: int = 1
    """Of each operator slice."""
    keeps_state: bool = True
    """Whether the states in the end are among what it promises. Else what counts is what was delivered."""
    operators: Mapping[str, Setup] = field(default_factory=dict)
    """What the slices of some operators are made of instead, by the operator's name."""
    wraps: Mapping[Role, Callable[[Slice], Slice]] = field(default_factory=dict)
    """What is put around the machines of a role: a probe, or what breaks a rule of their protocol."""
    wrap_store: Callable[[CheckpointStore], CheckpointStore] = _as_it_is
    """And around the store that their checkpoints go to."""
    placed: Placement = Placement.LEAST_LOADED
    """How its replicas are spread over nodes at first."""
    restarts_by: str = ""
    """The name of the coordinator that decides from which cut all slices start together, whenever one was lost; "":
    each starts by itself."""

    def __post_init__(self) -> None:
        """Raises InvalidTopology for a merge that does not fit where channels meet, for replicas of what leads back,
        and for operators whose states nobody would look at, InvalidScenario for parts of another kind than declared,
        UnknownName for settings of what the topology has not."""
        proper(self.topology, Topology, "the topology of a subject", "a Topology, as word_count() makes one")
        proper(self.kind, str, "the kind of a subject", "the name of a scheme")
        for what, given in (("setups", self.setups), ("wraps", self.wraps)):
            proper(given, Mapping, what, "a mapping from Role")
            for role in given:
                proper(role, Role, f"a key of {what}", "a Role")
        for role in Role:
            proper(self.setups.get(role), Setup, f"setups[{role}]", "Setup(...)")
        proper(self.operators, Mapping, "operators", "a mapping from names of operators")
        for name, setup in self.operators.items():
            proper(setup, Setup, f"operators[{name!r}]", "Setup(...)")
            if name not in self.topology.stages:
                raise UnknownName("operator with settings", name, list(self.topology.stages))
        proper(self.claims, tuple, "claims", "a tuple of Claim")
        for claim in self.claims:
            proper(claim, Claim, "a claim of a subject", "a Claim, as in Claim(exactly_once())")
        positive(self.replicas, "replicas")
        if self.replicas > 1 and self.topology.has_feedback:
            raise InvalidTopology(
                f"{self.topology.name!r} leads back, and {self.kind} has {self.replicas} replicas of each slice, which "
                "would take what comes back in different orders; choose a scheme with one, as gap()"
            )
        switch(self.keeps_state, "keeps_state")
        if not self.keeps_state:
            self._check_states()
        proper(self.placed, Placement, "placed", "a Placement")
        leaders = [one.slice_id for one in self.coordinators]
        if self.restarts_by and self.restarts_by not in leaders:
            raise UnknownName("coordinator", self.restarts_by, leaders)
        known = [*self.topology.stages, *self.topology.operator_slices]
        for setup in (self.setups[Role.OPERATOR], *self.operators.values()):
            for name in () if setup.merge is None else setup.merge.named:
                if name not in known:
                    raise UnknownName("operator or slice with weights", name, known)
        self._check_sinks()
        for slice_id in self.topology.operator_slices:
            sequencer(self.setup_of(slice_id).merge, slice_id, len(self.topology.upstream(slice_id)))
        # Made now, so that what does not fit is refused before anything runs.
        assert self.specs

    def _check_states(self) -> None:
        """Raises InvalidTopology where states that are not looked at would be those of operators that never forget:
        what is lost of such a state shows in no output that has to come."""
        for name, stage in self.topology.stages.items():
            if keeps_for_ever(stage.operator):
                raise InvalidTopology(
                    f"{self.kind} does not keep states (keeps_state=False), and {name!r} keeps one for ever: nobody "
                    "would look whether it is lost; give the operator a window or no state, or leave keeps_state out"
                )

    def _check_sinks(self) -> None:
        """Raises InvalidScenario where other slices than sinks have what is a sink's, and where sinks cannot start."""
        others = {"sources": self.setups[Role.SOURCE], "operators": self.setups[Role.OPERATOR], **self.operators}
        for name, setup in others.items():
            wrong = [type(one).__name__ for one in setup.mechanisms if one.in_fault_domain]
            if wrong:
                raise InvalidScenario(
                    f"{self.kind} gives {name} {', '.join(wrong)}, which puts a sink into a fault domain; name it in "
                    "setups[Role.SINK]"
                )
        sinks = self.setups[Role.SINK]
        taking = [type(one).__name__ for one in sinks.mechanisms if one.takes_checkpoints and not one.in_fault_domain]
        if taking:
            raise InvalidScenario(
                f"{self.kind} gives sinks {', '.join(taking)}, which takes checkpoints of operators; a sink has them "
                "by what puts it into a fault domain, as DeliverInTransactions(events(100))"
            )
        if sinks.in_fault_domain and self.restarts_by:
            raise InvalidScenario(
                f"all slices of {self.kind} start together, as {self.restarts_by} says, and its sinks are in a fault "
                "domain, where each starts from what it has committed: leave one of the two out"
            )

    @cached_property
    def coordinators(self) -> tuple[CoordinatorSpec, ...]:
        """Those that its slices are led by. Raises InvalidScenario for one name with two meanings."""
        found: dict[str, Coordinator] = {}
        members: dict[str, list[str]] = {}
        taken = (*self.topology.slices, *self.topology.stages)
        for slice_id in self.topology.slices:
            for one in self.setup_of(slice_id).coordinators:
                if one.name in taken or found.setdefault(one.name, one) != one:
                    raise InvalidScenario(
                        f"{one.name!r} is the name of a coordinator of {slice_id}, and of something else: give every "
                        "coordinator one name and the same settings wherever it is named"
                    )
                members.setdefault(one.name, []).append(slice_id)
        return tuple(CoordinatorSpec(one, tuple(members[name])) for name, one in found.items())

    def setup_of(self, slice_id: str) -> Setup:
        """What a slice is made of."""
        return self.operators.get(operator_of(slice_id)) or self.setups[self.topology.role(slice_id)]

    @property
    def name(self) -> str:
        return self.topology.name

    @cached_property
    def actors(self) -> tuple[str, ...]:
        """Its replicas: all first ones, sinks in a fault domain among them, then all second ones; then its
        coordinators."""
        slices = self.topology.operator_slices
        others = [replica_name(slice_id, replica) for replica in range(1, self.replicas) for slice_id in slices]
        return (*self.on_nodes, *others, *(one.slice_id for one in self.coordinators))

    @cached_property
    def on_nodes(self) -> tuple[str, ...]:
        """The slices that the manager places on nodes: of operators, and sinks in a fault domain."""
        return tuple(spec.slice_id for spec in self.specs if spec.on_nodes)

    @property
    def sinks_on_nodes(self) -> tuple[str, ...]:
        """Sinks in a fault domain. There is one of each, however many replicas operators have."""
        return tuple(s for s in self.on_nodes if self.topology.role(s) is Role.SINK)

    @property
    def active_replicas(self) -> ActiveReplicas:
        """Which replicas of a slice are active."""
        return ActiveReplicas.ALL if self.all_active else ActiveReplicas.ONE

    @cached_property
    def all_active(self) -> bool:
        """Whether all replicas of a slice send what they make."""
        return all(setup.all_active for setup in self._of_operators)

    @property
    def replicas_take_all(self) -> bool:
        """Whether all replicas of a slice take all of its input, whichever slice that is."""
        return all(setup.replicas_take_all for setup in self._of_operators)

    @cached_property
    def peers_keep_checkpoints(self) -> frozenset[str]:
        """The slices that have their checkpoints in the memory of their other replicas, and nowhere else."""
        slices = self.topology.operator_slices
        return frozenset(slice_id for slice_id in slices if self.setup_of(slice_id).peers_keep_checkpoints)

    @cached_property
    def _of_operators(self) -> tuple[Setup, ...]:
        """What operator slices of this topology are made of."""
        return tuple(self.setup_of(slice_id) for slice_id in self.topology.operator_slices)

    def placement(self, nodes: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Node -> the replicas that the manager places there first, once all of these have joined; the order in which
        they join makes no difference. They die with it."""
        manager = Manager(
            self.on_nodes,
            len(nodes),
            self.replicas,
            self.active_replicas,
            coordinators=[one.slice_id for one in self.coordinators],
            placement=self.placed,
            alone=self.sinks_on_nodes,
        )
        for node in nodes:
            manager.on(NodeJoined(node))
        return {node: tuple(actor for actor, at in manager.node_of.items() if at == node) for node in nodes}

    @cached_property
    def sources(self) -> tuple[str, ...]:
        return tuple(s for s in self.topology.slices if self.topology.role(s) is Role.SOURCE)

    @cached_property
    def links(self) -> tuple[tuple[str, str], ...]:
        """Peer replicas of one slice talk as well, and coordinators with their members."""
        topology = self.topology
        names = {s: (s,) for s in topology.slices} | {
            s: tuple(replica_name(s, replica) for replica in range(self.replicas)) for s in topology.operator_slices
        }
        between = (
            pair for s in topology.slices for to in topology.downstream(s) for pair in product(names[s], names[to])
        )
        peers = (pair for s in topology.operator_slices for pair in combinations(names[s], 2))
        led = ((one.slice_id, name) for one in self.coordinators for member in one.members for name in names[member])
        return (*between, *peers, *led)

    @cached_property
    def points(self) -> frozenset[Point]:
        mechanisms = self.mechanisms_of(*Role)
        leaders = self.coordinators
        points = SLICE_POINTS if self.restarts_by else SLICE_POINTS - {Point.STOPPED}
        if not leaders and not any(one.takes_checkpoints for one in mechanisms):
            points -= CHECKPOINT_POINTS
        own = any(one.points for one in mechanisms) or any(one.coordinator.points for one in leaders)
        return points if own else points - {Point.MECHANISM}

    def mechanisms_of(self, *roles: Role) -> tuple[Mechanism, ...]:
        """All that slices of these roles are made of."""
        setups = [self.setups[role] for role in roles]
        if Role.OPERATOR in roles:
            setups += self.operators.values()
        return tuple(one for setup in setups for one in setup.mechanisms)

    @cached_property
    def checkpoint_every(self) -> int | None:
        """Events between two checkpoints of a slice; None where none are taken."""
        intervals = (one.checkpoint_every for one in self.mechanisms_of(Role.OPERATOR))
        return min((every.count for every in intervals if every is not None), default=None)

    @property
    def interval(self) -> Events:
        """After how many events something becomes safe: a checkpoint, or else an acknowledgement."""
        if self.checkpoint_every is not None:
            return Events(self.checkpoint_every)
        mechanisms = self.mechanisms_of(Role.OPERATOR, Role.SINK)
        return next((one.safe_every for one in mechanisms if one.safe_every is not None), Events(_INTERVAL))

    @property
    def observables(self) -> tuple[str, ...]:
        return ("outputs", "state") if self.keeps_state else ("outputs",)

    def describe(self) -> dict[str, Any]:
        topology = self.topology
        return {
            "name": self.name,
            "kind": self.kind,
            "slices": list(topology.slices),
            "edges": [
                [edge.upstream, edge.downstream, str(edge.partitioning), *(["feedback"] if edge.feedback else [])]
                for edge in topology.edges
            ],
            "operators": {name: type(stage.operator).__qualname__ for name, stage in topology.stages.items()},
            "replicas": self.replicas,
            "setups": {str(role): _described(setup) for role, setup in self.setups.items()}
            | {name: _described(setup) for name, setup in self.operators.items()},
        } | self._described_beyond()

    def _described_beyond(self) -> dict[str, Any]:
        """What few schemes have."""
        beyond: dict[str, Any] = {}
        if self.placed is not Placement.LEAST_LOADED:
            beyond["placed"] = str(self.placed)
        if self.coordinators:
            beyond["coordinators"] = {
                one.slice_id: _plain(_settings(one.coordinator)) | {"members": list(one.members)}
                for one in self.coordinators
            }
            beyond["restarts_by"] = self.restarts_by
        return beyond

    def collate(self, history: History) -> Collation:
        return self._collated(history, self._reexecutor)

    def collate_anew(self, history: History) -> Collation:
        """The same, by a re-execution that no other collation knows of."""
        return self._collated(history, self._new_reexecutor())

    def _collated(self, history: History, reexecutor: Reexecutor) -> Collation:
        return CollatedSlices(history, reexecutor.reexecute(history.records), reexecutor.expect, self.observables)

    def exercised(self, history: History) -> Exercised:
        """How often what it is made of was at work in a run."""
        return exercised(history, self._shape)

    def at_work(self, history: History) -> tuple[Activity, ...]:
        """What of that was at work at all."""
        counts = exercised(history, self._shape, replays=1)
        return tuple([activity for activity, count in counts.items() if count])

    def rests_on(self, guarantee: Guarantee, standings: Mapping[str, Standing]) -> frozenset[Activity]:
        """What has to have been at work for a guarantee to be tried; outputs alone for one that it does not claim."""
        claims = [claim for claim in self.claims if guarantee.name in implied(claim.guarantee.name, standings)]
        named = [self.switched_on if claim.rests_on is None else frozenset(claim.rests_on) for claim in claims]
        # The least that a claim which implies it rests on.
        least = frozenset.intersection(*named) if named else frozenset()
        return least | {Activity.DELIVERY}

    def mechanisms(self, standings: Mapping[str, Standing]) -> frozenset[Activity]:
        """Whatever its claims rest on."""
        return frozenset().union(*(self.rests_on(claim.guarantee, standings) for claim in self.claims))

    @cached_property
    def switched_on(self) -> frozenset[Activity]:
        """What its mechanisms and replicas are there for, whatever its claims say that they rest on."""
        found = {Activity.RESTART}
        if any(one.takes_checkpoints for one in self.mechanisms_of(Role.OPERATOR)):
            found |= {Activity.CHECKPOINT, Activity.RESTORE}
        if any(one.replays for one in self.mechanisms_of(Role.SOURCE)):
            found.add(Activity.REPLAY)
        if self.replicas > 1:
            found.add(Activity.TAKE_OVER)
        return frozenset(found)

    @cached_property
    def _shape(self) -> SubjectShape:
        ends = frozenset(spec.slice_id for spec in self.specs if not spec.on_nodes)
        tracked = any(one.sends_again_after is not None for one in self.mechanisms_of(Role.SOURCE))
        tracking = frozenset(self.sources) if tracked else frozenset()
        alone = ends.union(self.sinks_on_nodes)
        return SubjectShape(self.replicas, self.active_replicas is ActiveReplicas.ALL, tracking, ends, alone)

    @cached_property
    def specs(self) -> tuple[SliceSpec, ...]:
        """Its slices, upstream before downstream."""
        return tuple(
            SliceSpec(slice_id, self.topology, self.setup_of(slice_id), self.wraps.get(self.topology.role(slice_id)))
            for slice_id in self.topology.slices
        )

    @cached_property
    def _reexecutor(self) -> Reexecutor:
        return self._new_reexecutor()

    def _new_reexecutor(self) -> Reexecutor:
        # What is executed again leaves nothing behind in what is run next.
        topology = self.topology.apart()
        return Reexecutor([replace(spec, topology=topology) for spec in self.specs])


def _described(setup: Setup) -> dict[str, Any]:
    parts = {"numbering": setup.numbering, "merge": None if setup.merge is None else _settings(setup.merge)}
    described: dict[str, Any] = _plain(parts | {"mechanisms": [_settings(one) for one in setup.mechanisms]})
    return described


def _settings(one: Any) -> dict[str, Any]:
    """A mechanism or a merge, which are dataclasses, by its name and its settings."""
    return {"name": type(one).__qualname__} | _fields(one)


def _fields(one: Any) -> dict[str, Any]:
    if not is_dataclass(one) or isinstance(one, type):
        return {}
    return {each.name: getattr(one, each.name) for each in fields(one)}


def _plain(given: Any) -> Any:
    """What JSON gives back the same; what it cannot carry, as a function, is there by its name."""
    if given is None or isinstance(given, bool | int | float | str):
        return str(given) if isinstance(given, StrEnum) else given
    if isinstance(given, Mapping):
        return {str(key): _plain(value) for key, value in given.items()}
    if isinstance(given, list | tuple):
        return [_plain(value) for value in given]
    if isinstance(given, set | frozenset):
        return sorted(str(_plain(value)) for value in given)
    if held := _fields(given):
        return _plain(held)
    # Nothing of where it is in memory: another process says the same.
    return str(getattr(given, "__qualname__", type(given).__qualname__))


def claimed(subject: Subject, guarantee: Guarantee, standings: Mapping[str, Standing]) -> bool:
    """Whether the subject claims `guarantee`, or something that implies it."""
    return any(guarantee.name in implied(claim.guarantee.name, standings) for claim in subject.claims)
