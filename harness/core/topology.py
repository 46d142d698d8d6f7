"""The graph of operators between sources and sinks.

Cut into its partitions it becomes *slices*, which exchange events over FIFO *channels*. Nothing here runs anything.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from typing import Any, TypeVar

from .errors import InvalidTopology
from .operator_copies import copy_of
from .operators import Operator, check_operator
from .proper import proper
from .slice_names import index_of, operator_of, slice_name

_NAME = re.compile(r"\w[\w.-]*")
"""Names of operators go into crash addresses, channel names and file names."""


class Partitioning(StrEnum):
    """How the outputs of an operator's slices are spread over those of the next (PPA, section II)."""

    ONE_TO_ONE = "one-to-one"
    """Slice i feeds slice i."""
    SPLIT = "split"
    """Every upstream slice feeds a group of slices of its own, by key."""
    MERGE = "merge"
    """A group of upstream slices feeds one slice."""
    FULL = "full"
    """Every upstream slice feeds every slice, by key."""


@dataclass(frozen=True)
class Stage:
    """An operator in a topology, cut into `parallelism` slices."""

    operator: Operator[Any]
    parallelism: int = 1


@dataclass(frozen=True)
class Edge:
    upstream: str
    downstream: str
    partitioning: Partitioning = Partitioning.FULL
    feedback: bool = False
    """Whether it leads back, from an operator to one that comes before it: the only way to make a cycle."""
    leads_to: int | None = None
    """Of feedback: one event that comes back leads to so many outputs at the sinks at most, over all turns that it and
    what is made of it still take; None: there is no telling."""


@dataclass(frozen=True)
class Topology:
    """A graph of operators from one or more sources to one or more sinks, acyclic but for the edges that are declared
    as feedback.

    Sources and sinks are names without an operator: they are the harness's own ends and always have one slice each.
    Raises InvalidTopology when it is made of parts that do not fit, InvalidOperator when an operator says of itself
    what cannot be.
    """

    name: str
    stages: Mapping[str, Stage]
    edges: tuple[Edge, ...]
    sources: tuple[str, ...] = ("source",)
    sinks: tuple[str, ...] = ("sink",)
    _slices: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _operator_slices: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _roles: Mapping[str, Role] = field(init=False, repr=False, compare=False)
    _upstream: Mapping[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)
    _downstream: Mapping[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)
    _choices: Mapping[str, tuple[tuple[str, ...], ...]] = field(init=False, repr=False, compare=False)
    _groups: tuple[tuple[str, ...], ...] = field(init=False, repr=False, compare=False)
    _cycles: Mapping[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check(self)
        names = _in_order(self)
        slices = tuple(slice_name(name, i) for name in names for i in range(self.parallelism(name)))
        object.__setattr__(self, "_slices", slices)
        object.__setattr__(self, "_operator_slices", tuple(s for s in slices if operator_of(s) in self.stages))
        object.__setattr__(self, "_roles", {one: self._role(operator_of(one)) for one in slices})
        object.__setattr__(self, "_upstream", {slice_id: self._fed_by(slice_id) for slice_id in slices})
        choices = {slice_id: self._chosen_among(slice_id) for slice_id in slices}
        object.__setattr__(self, "_choices", choices)
        downstream = {slice_id: tuple(chain.from_iterable(among)) for slice_id, among in choices.items()}
        object.__setattr__(self, "_downstream", downstream)
        groups = _grouped(slices, self._upstream) if self.has_feedback else tuple((one,) for one in slices)
        object.__setattr__(self, "_groups", groups)
        object.__setattr__(self, "_cycles", {one: group for group in groups if len(group) > 1 for one in group})

    def apart(self) -> Topology:
        """The same with operators of its own (`copy_of`): whoever executes these leaves nothing behind in the others.
        Raises InvalidOperator."""
        return replace(
            self,
            stages={name: replace(stage, operator=copy_of(stage.operator)) for name, stage in self.stages.items()},
        )

    def parallelism(self, name: str) -> int:
        return self.stages[name].parallelism if name in self.stages else 1

    @property
    def slices(self) -> tuple[str, ...]:
        """Every slice, upstream before downstream but for feedback, sources and sinks included."""
        return self._slices

    @property
    def operator_slices(self) -> tuple[str, ...]:
        """The slices that run an operator, upstream before downstream: what a fault can hit."""
        return self._operator_slices

    @property
    def has_feedback(self) -> bool:
        return any(edge.feedback for edge in self.edges)

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Every slice, upstream before downstream, those of a cycle together: each on its own where there is none."""
        return self._groups

    def cycle(self, slice_id: str) -> tuple[str, ...]:
        """The slices that `slice_id` feeds and is fed by, over whatever others, itself included; none where nothing
        comes back to it."""
        return self._cycles.get(slice_id, ())

    def leads_back(self, upstream: str, downstream: str) -> bool:
        """Whether the channel between two slices is one of feedback."""
        ends = (operator_of(upstream), operator_of(downstream))
        return any(edge.feedback and (edge.upstream, edge.downstream) == ends for edge in self.edges)

    def unordered(self, slice_id: str) -> bool:
        """Whether the order of its events matters to an operator's slice, and its channels leave it open. What comes
        back to it has no order beside what it makes of that."""
        forward = [up for up in self.upstream(slice_id) if not self.leads_back(up, slice_id)]
        return self.stages[operator_of(slice_id)].operator.order_sensitive and len(forward) > 1

    def role(self, slice_id: str) -> Role:
        role = self._roles.get(slice_id)
        return self._role(operator_of(slice_id)) if role is None else role

    def _role(self, name: str) -> Role:
        return Role.SOURCE if name in self.sources else Role.SINK if name in self.sinks else Role.OPERATOR

    def upstream(self, slice_id: str) -> tuple[str, ...]:
        """The slices that feed `slice_id`, in the order of their ids within each edge."""
        return self._upstream[slice_id]

    def downstream(self, slice_id: str) -> tuple[str, ...]:
        """The slices that `slice_id` feeds."""
        return self._downstream[slice_id]

    def _fed_by(self, slice_id: str) -> tuple[str, ...]:
        name, index = operator_of(slice_id), index_of(slice_id)
        found: list[str] = []
        for edge in self.edges:
            if edge.downstream != name:
                continue
            ups, downs = self.parallelism(edge.upstream), self.parallelism(edge.downstream)
            for i in range(ups):
                if index in _targets(edge.partitioning, i, ups, downs):
                    found.append(slice_name(edge.upstream, i))
        return tuple(found)

    def choices(self, slice_id: str) -> tuple[tuple[str, ...], ...]:
        """For each edge, the slices that an output of `slice_id` can go to: to one of them, by its key."""
        return self._choices[slice_id]

    def _chosen_among(self, slice_id: str) -> tuple[tuple[str, ...], ...]:
        name, index = operator_of(slice_id), index_of(slice_id)
        ups = self.parallelism(name)
        return tuple(
            tuple(
                slice_name(edge.downstream, target)
                for target in _targets(edge.partitioning, index, ups, self.parallelism(edge.downstream))
            )
            for edge in self.edges
            if edge.upstream == name
        )

    def receivers(self, slice_id: str, key: str) -> tuple[str, ...]:
        """The slices that an output of `slice_id` with this key goes to: one for each edge."""
        return tuple(chosen(choice, key) for choice in self._choices[slice_id])


T = TypeVar("T")


def chosen(among: Sequence[T], key: str) -> T:
    """Where an output with this key goes to."""
    return among[zlib.crc32(key.encode()) % len(among)]


class Role(StrEnum):
    SOURCE = "source"
    OPERATOR = "operator"
    SINK = "sink"


def _targets(partitioning: Partitioning, index: int, ups: int, downs: int) -> range:
    """Which of `downs` slices the upstream slice `index` of `ups` can reach."""
    match partitioning:
        case Partitioning.ONE_TO_ONE:
            return range(index, index + 1)
        case Partitioning.SPLIT:
            group = downs // ups
            return range(index * group, (index + 1) * group)
        case Partitioning.MERGE:
            target = index // (ups // downs)
            return range(target, target + 1)
        case Partitioning.FULL:
            return range(downs)


def _check(topology: Topology) -> None:
    _check_kinds(topology)
    names = set(topology.stages) | set(topology.sources) | set(topology.sinks)
    if len(names) != len(topology.stages) + len(topology.sources) + len(topology.sinks):
        raise InvalidTopology(f"topology {topology.name!r} uses a name twice among its operators, sources and sinks")
    for name in sorted(names):
        if _NAME.fullmatch(name) is None:
            raise InvalidTopology(f"{name!r} cannot be a name; use letters, digits, '_', '.' and '-'")
    for name, stage in topology.stages.items():
        parallelism = stage.parallelism
        if not isinstance(parallelism, int) or isinstance(parallelism, bool) or parallelism < 1:
            raise InvalidTopology(f"operator {name!r} has parallelism {stage.parallelism}; it needs 1, 2, ...")
        if not isinstance(stage.operator, Operator):
            raise InvalidTopology(f"{name!r} is a {type(stage.operator).__name__}; derive it from streamproof.Operator")
        check_operator(name, stage.operator)
    pairs = [(edge.upstream, edge.downstream) for edge in topology.edges]
    if len(set(pairs)) != len(pairs):
        raise InvalidTopology(f"topology {topology.name!r} connects two operators twice: {sorted(pairs)}")
    for edge in topology.edges:
        for end in (edge.upstream, edge.downstream):
            if end not in names:
                raise InvalidTopology(
                    f"an edge names {end!r}, which is not there; there are: {', '.join(sorted(names))}"
                )
        ups, downs = topology.parallelism(edge.upstream), topology.parallelism(edge.downstream)
        fits = {
            Partitioning.ONE_TO_ONE: ups == downs,
            Partitioning.SPLIT: downs % ups == 0,
            Partitioning.MERGE: ups % downs == 0,
            Partitioning.FULL: True,
        }[edge.partitioning]
        if not fits:
            raise InvalidTopology(
                f"{edge.upstream} ({ups} slices) to {edge.downstream} ({downs} slices) cannot be {edge.partitioning}"
            )
    forward = [(edge.upstream, edge.downstream) for edge in topology.edges if not edge.feedback]
    fed, feeding = {down for _, down in forward}, {up for up, _ in pairs}
    for edge in topology.edges:
        if edge.feedback:
            _check_feedback(topology, edge, forward)
    for name in names:
        if name in topology.sources and name in fed:
            raise InvalidTopology(f"source {name!r} has an input")
        if name in topology.sinks and name in feeding:
            raise InvalidTopology(f"sink {name!r} has an output")
        if (name not in topology.sources and name not in fed) or (name not in topology.sinks and name not in feeding):
            raise InvalidTopology(f"{name!r} is not connected on both sides; every path leads from a source to a sink")


def _check_feedback(topology: Topology, edge: Edge, forward: Sequence[tuple[str, str]]) -> None:
    """Raises InvalidTopology for an edge that is declared as feedback, and is none."""
    what = (
        f"the edge from {edge.upstream!r} to {edge.downstream!r} of topology {topology.name!r} is declared as feedback"
    )
    if edge.upstream not in topology.stages or edge.downstream not in topology.stages:
        raise InvalidTopology(f"{what}, but only operators can feed one another back")
    if edge.upstream == edge.downstream:
        raise InvalidTopology(f"{what} from an operator to itself; let it keep in its state what it would tell itself")
    if edge.downstream not in all_before(edge.upstream, lambda name: [up for up, down in forward if down == name]):
        raise InvalidTopology(
            f"{what}, but no other edges lead from {edge.downstream!r} to {edge.upstream!r}; "
            "leave feedback=True out where an edge leads forward"
        )


def _check_kinds(topology: Topology) -> None:
    """Raises InvalidTopology for parts of another kind than declared."""
    who = f"topology {topology.name!r}"
    proper(topology.name, str, "the name of a topology", "a text", InvalidTopology)
    if not topology.name:
        raise InvalidTopology("a topology needs a name")
    proper(topology.stages, Mapping, f"{who}: stages", "a mapping from names of operators to Stage", InvalidTopology)
    for name, stage in topology.stages.items():
        proper(name, str, f"{who}: a name of an operator", "a text", InvalidTopology)
        proper(stage, Stage, f"{who}: operator {name!r}", "Stage(operator), or Stage(operator, 2)", InvalidTopology)
    for what, given in (("edges", topology.edges), ("sources", topology.sources), ("sinks", topology.sinks)):
        proper(given, tuple, f"{who}: {what}", "a tuple", InvalidTopology)
    for edge in topology.edges:
        proper(edge, Edge, f"{who}: an edge", "an Edge, as in Edge('source', 'split')", InvalidTopology)
        proper(edge.partitioning, Partitioning, f"{who}: the partitioning of {edge}", "a Partitioning", InvalidTopology)
        proper(edge.feedback, bool, f"{who}: feedback of {edge}", "True or False", InvalidTopology)
        _check_leads_to(edge, who)
    for name in (*topology.sources, *topology.sinks):
        proper(name, str, f"{who}: a name of a source or sink", "a text", InvalidTopology)


def _check_leads_to(edge: Edge, who: str) -> None:
    """Raises InvalidTopology for no amount, and for one of an edge that leads forward."""
    amount = edge.leads_to
    if amount is None:
        return
    if isinstance(amount, bool) or not isinstance(amount, int) or amount < 0:
        raise InvalidTopology(f"{who}: leads_to={amount!r} of {edge} is to be a whole number, 0 or more, or None")
    if not edge.feedback:
        raise InvalidTopology(
            f"{who}: {edge} leads forward, where what an event leads to follows from fan_out of the operators; "
            "leave leads_to out"
        )


def _in_order(topology: Topology) -> list[str]:
    """The operators, upstream before downstream but for feedback. Raises InvalidTopology on any other cycle."""
    forward = [edge for edge in topology.edges if not edge.feedback]
    waiting = [*topology.sources, *topology.stages, *topology.sinks]
    done: list[str] = []
    while waiting:
        ready = [name for name in waiting if all(edge.upstream in done for edge in forward if edge.downstream == name)]
        if not ready:
            while leading := [n for n in waiting if any(e.upstream == n and e.downstream in waiting for e in forward)]:
                if leading == waiting:
                    break
                waiting = leading
            raise InvalidTopology(
                f"topology {topology.name!r} has a cycle through {', '.join(sorted(waiting))}; "
                "declare the edge that leads back: Edge(..., feedback=True)"
            )
        done += ready
        waiting = [name for name in waiting if name not in ready]
    return done


def _grouped(slices: Sequence[str], upstream: Mapping[str, Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """Those of a cycle together, and each group before those that it feeds; else in the order that they have."""
    before = {one: all_before(one, upstream.__getitem__) for one in slices}
    groups: list[tuple[str, ...]] = []
    for one in slices:
        if not any(one in group for group in groups):
            groups.append(tuple(s for s in slices if s == one or (one in before[s] and s in before[one])))
    ordered: list[tuple[str, ...]] = []
    done: set[str] = set()
    while len(ordered) < len(groups):
        group = next(g for g in groups if g[0] not in done and before[g[0]] <= done | {*g})
        ordered.append(group)
        done.update(group)
    return tuple(ordered)


def all_before(name: str, upstream: Callable[[str], Iterable[str]]) -> set[str]:
    """All that feed an operator or a slice, over whatever others; itself too, where it does."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        fresh = set(upstream(waiting.pop())) - found
        found |= fresh
        waiting += fresh
    return found
