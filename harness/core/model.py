"""What a stream processor is made of: events, operators, and the topology that connects them.

An *operator* is the user's code. A *topology* is a graph of operators between sources and sinks; cut into its
partitions it becomes *slices*, which exchange events over FIFO *channels*. Nothing here runs anything.
"""

from __future__ import annotations

import copyreg
import pickle
import re
import reprlib
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, partial
from math import inf
from random import Random
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from .error_text import described_error
from .errors import InvalidOperator, InvalidTopology, OwnFailure
from .proper import proper

Value = Any
"""A value of an event or of a row of state: what JSON can carry. Tuples become lists, and bytes become base64 text."""

Output = tuple[str, Value]
"""What an operator emits: (key, value). The runtime adds source, sequence number and time."""

State = TypeVar("State")

_NAME = re.compile(r"\w[\w.-]*")
"""Names of operators go into crash addresses, channel names and file names."""

NUMBERING_SPAN = 1_000_000_000
"""Sequence numbers that one incarnation may use before it would run into those of the next (`slices.spec`)."""


class Event(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One event. Its id (source, seq) is unique, and seq rises strictly within a source."""

    source: str
    seq: int
    key: str
    value: Value
    time: int
    """Event time in ms."""


class Operator(ABC, Generic[State]):
    """The user's code: a function of an event and a state, and how that state survives.

    `process` may change `state` in place. It must draw everything that it computes from its two arguments; an operator
    that needs chance is a `RandomOperator`. What an operator says of itself decides which schemes may run it.
    """

    deterministic: ClassVar[bool] = True
    """Whether the same events in the same order always give the same."""
    order_sensitive: bool = False
    """Whether the state in the end depends on the order in which events came."""
    window: int | None = None
    """Milliseconds of event time after which an event matters no more; None: it matters for ever, unless nothing is
    kept."""
    fan_out: int | None = None
    """An event makes at most so many outputs; None: there is no telling."""
    epoch: int | None = None
    """Milliseconds of event time after which `close` is called; None: never."""
    commutative: bool = False
    """Whether neither what `close` makes nor the state after it depends on the order of the events of an epoch."""
    every: int | None = None
    """Milliseconds of its node's clock after which `on_clock` is called; None: never."""
    alpha: float | None = None
    """An event moves the divergence between two states by at most so much; None: there is no telling."""

    @abstractmethod
    def initial_state(self) -> State:
        """A blank state, made anew at every call. None says that the operator keeps nothing."""

    @abstractmethod
    def process(self, event: Event, state: State) -> Iterable[Output]:
        """Take one event into `state` and return what it makes, in order. The event itself must not be changed."""

    def close(self, upper: int, state: State) -> Iterable[Output]:
        """What is made at the end of an epoch, in an order that follows from `state`, as that of its keys. All events
        up to the time `upper` have been taken, and none after it. `state` may be changed in place."""
        return ()

    def due(self, state: State) -> int | None:
        """The event time in ms at which `on_time` is to be called next; None: at none. It is part of the state, so that
        it survives with it: a blank state wants none, and none lies before an event that was taken."""
        return None

    def on_time(self, time: int, state: State) -> Iterable[Output]:
        """What is made once event time has come to `time`, which was due: all events up to it have been taken, and none
        after it. `state` may be changed in place; what is due next is later."""
        return ()

    def on_clock(self, now: int, state: State) -> Iterable[Output]:
        """What is made when its node's clock shows `now`, in ms; never before anything was taken. The clock is an input
        like others, and is on record; but each replica has its own, and a second life has another."""
        return ()

    @property
    def by_event_time(self) -> bool:
        """Whether it has timers of event time."""
        return type(self).due is not Operator.due

    def snapshot(self, state: State) -> bytes:
        """`state` as bytes that do not change when the state goes on. By default: MessagePack."""
        return _encode(state)

    def restore(self, snapshot: bytes) -> State:
        """The state that `snapshot` was taken of. By default: decoded as the type of `initial_state()`."""
        return msgspec.msgpack.decode(snapshot, type=type(self.initial_state()))

    def divergence(self, state: State, backup: State) -> float:
        """How far `state` is from an older one: 0 where their rows are the same and nowhere else, the same both ways
        round, and no way is shorter by a third state. What is measured by it is what bounded error bounds; by default
        nothing is, and who needs it refuses the operator. Neither of the two may be changed."""
        raise InvalidOperator(f"{type(self).__name__} does not say how far two of its states are from each other")

    def alpha_of_all(self, events: Sequence[Event]) -> float:
        """How far these events, taken one after the other, move the divergence between two states at most. By default
        each moves it by `alpha`. The less it is, the more of them are taken at once; as with `divergence_after`, a
        scheme goes by it, and who judges does not ask for it."""
        return (self.alpha or 0.0) * len(events)

    def divergence_after(self, event: Event, state: State, backup: State, before: float) -> float:
        """The divergence once `event` has been taken into `state`, where it was `before`: no less than `divergence`
        gives, and cheaper than that where an event touches little. A scheme goes by it between two backups; who judges
        does not ask for it."""
        return self.divergence(state, backup)

    def divergence_after_all(self, events: Sequence[Event], state: State, backup: State, before: float) -> float:
        """The same once all of `events` have been taken into `state`, one after the other. A scheme asks for it when
        by `alpha_of_all` it could be too much. By default it asks `divergence_after` of each of them, where there is
        that."""
        return self.divergence(state, backup)

    def delta(self, state: State, backup: State) -> Value:
        """What makes `state` of `backup`, to be backed up in place of the whole: a value that a message can carry, as
        a list of (index, value). Small changes may be left out: the backup is then what `apply_delta` gives."""
        raise InvalidOperator(f"{type(self).__name__} has no partial backups")

    def apply_delta(self, backup: State, changes: Value) -> State:
        """`backup` with these changes, which have been carried. It may be changed in place."""
        raise InvalidOperator(f"{type(self).__name__} has no partial backups")

    def compensate(self, state: State, missing: float) -> State:
        """Make up for what a recovery could not restore, which moved the state by at most `missing`. It may be changed
        in place. By default nothing is made up for."""
        return state

    def punctuation(self, event: Event) -> bool:
        """Whether an event that comes in tells the end of a window, or something else that must never be lost, though
        other events may be."""
        return False

    def rows(self, state: State) -> Mapping[str, Value]:
        """The state as canonical keyed rows, for the record. By default a mapping's items, nothing for None, else one
        row. Raises InvalidOperator for keys that would be one row, as 1 and "1"."""
        if state is None:
            return {}
        if isinstance(state, Mapping):
            rows = {str(key): value for key, value in state.items()}
            if len(rows) < len(state):
                one, other = _one_as_text(state)
                raise InvalidOperator(
                    f"{type(self).__name__} keeps two keys that are one as a text, {reprlib.repr(one)} and "
                    f"{reprlib.repr(other)}; give it rows() of its own, which tells them apart"
                )
            return rows
        return {"": state}


def _one_as_text(keys: Iterable[object]) -> tuple[object, object]:
    """The first two of these that are."""
    known: dict[str, object] = {}
    for key in keys:
        if str(key) in known:
            return known[str(key)], key
        known[str(key)] = key
    raise OwnFailure("each of these keys is another text")


def has_timers(operator: Operator[Any]) -> bool:
    """Whether it has timers, of event time or of its node's clock."""
    return operator.by_event_time or operator.every is not None


def measures_divergence(operator: Operator[Any]) -> bool:
    """Whether it says how far two of its states are from each other, and how far one event moves that."""
    return operator.alpha is not None and type(operator).divergence is not Operator.divergence


def measures_many(operator: Operator[Any]) -> bool:
    """Whether it is enough to ask it how far two states are apart when many events have been taken, and not after each
    of them."""
    # Whoever says it of each anew, and inherits what is said of many, says nothing of many.
    return issubclass(_says(operator, "divergence_after_all"), _says(operator, "divergence_after"))


def _says(operator: Operator[Any], method: str) -> type:
    return next(kind for kind in type(operator).__mro__ if method in vars(kind))


def tells_alpha_of_all(operator: Operator[Any]) -> bool:
    """Whether it says how far many events move the divergence, where that is less than each by itself."""
    who = _says(operator, "alpha_of_all")
    # Whoever measures anew, and inherits what is said of many, says nothing of many.
    return who is not Operator and issubclass(who, _says(operator, "divergence"))


def backs_up_partly(operator: Operator[Any]) -> bool:
    """Whether it says what has changed since a backup."""
    return type(operator).delta is not Operator.delta


def punctuated(operator: Operator[Any]) -> bool:
    """Whether some of its input must never be lost."""
    return type(operator).punctuation is not Operator.punctuation


def compensates(operator: Operator[Any]) -> bool:
    """Whether it makes up for what a recovery could not restore."""
    return type(operator).compensate is not Operator.compensate


class RandomOperator(Operator[State]):
    """An operator that draws random numbers. Whoever runs it gives it a generator, and records the seed, so that a run
    can be executed again with the same draws."""

    deterministic = False

    def process(self, event: Event, state: State) -> Iterable[Output]:
        raise InvalidOperator(f"{type(self).__name__} draws random numbers; run it through process_with()")

    @abstractmethod
    def process_with(self, event: Event, state: State, random: Random) -> Iterable[Output]:
        """As `process`; chance comes from `random` alone."""


Processor = Callable[[Event, Any], Iterable[Output]]


def processor_of(operator: Operator[Any], seed: int) -> Processor:
    """What takes events for one incarnation of a slice, with the seed of its random draws."""
    if isinstance(operator, RandomOperator):
        return partial(_with_chance, operator.process_with, Random(seed))
    return operator.process


def _with_chance(
    process_with: Callable[[Event, Any, Random], Iterable[Output]], random: Random, event: Event, state: Any
) -> Iterable[Output]:
    return process_with(event, state, random)


def _encode(state: object) -> bytes:
    try:
        return msgspec.msgpack.encode(state)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidOperator(
            f"a state of type {type(state).__name__} cannot be snapshotted ({error}); "
            "give the operator snapshot() and restore() of its own"
        ) from error


def copy_of(operator: Operator[Any]) -> Operator[Any]:
    """An operator that shares nothing with this one, so that what it keeps in its attributes, and not in a state, is
    its own: as where each has a process of its own. Raises InvalidOperator for what can be copied in no way, which no
    process could be sent either."""
    try:
        return _copied_quickly(operator) or deepcopy(operator)
    except Exception:  # Whatever the user's code raises: a module among its attributes can be pickled all the same.
        from .pickling import modules_only_here, with_code

    try:
        copied: Operator[Any] = pickle.loads(with_code(operator, modules_only_here()))
    except Exception as error:
        raise InvalidOperator(
            f"{type(operator).__name__} cannot be copied ({type(error).__name__}: {error}), so that what it keeps in "
            "its attributes would outlive a crash: make locks, connections and the like where they are used"
        ) from error
    return copied


_UNSHARED = frozenset({type(None), bool, int, float, complex, str, bytes})
"""The types of attributes that a copy may have as they are: they never change, and lead to nothing."""
_COPYING = ("__new__", "__reduce__", "__reduce_ex__", "__getstate__", "__getattribute__")
"""By what a class says how its objects are copied: all classes have these,"""
_COPYING_OTHERWISE = ("__deepcopy__", "__setstate__", "__getnewargs__", "__getnewargs_ex__", "__getattr__")
"""and few these."""
_HEAP = 1 << 9
"""The flag of classes that are written in Python."""


@cache
def _copied_by_attributes(cls: type) -> bool:
    """Whether to copy an object of a class is to copy its attributes, and no more."""
    return (
        all(getattr(cls, name, None) is getattr(object, name, None) for name in _COPYING)
        and not any(hasattr(cls, name) for name in _COPYING_OTHERWISE)
        and cls not in copyreg.dispatch_table
        and cls.__dictoffset__ != 0
        and all(base is object or (base.__flags__ & _HEAP and not vars(base).get("__slots__")) for base in cls.__mro__)
    )


def _copied_quickly(operator: Operator[Any]) -> Operator[Any] | None:
    """As `deepcopy` does it, of what holds no more than a few plain attributes, as nearly all operators; else None.
    One is made for every start of a slice."""
    cls = type(operator)
    if not _copied_by_attributes(cls):
        return None
    attributes = vars(operator)
    if not _UNSHARED.issuperset(map(type, attributes.values())):
        return None
    copied: Operator[Any] = object.__new__(cls)
    vars(copied).update(attributes)
    return copied


PLAIN = frozenset({str, int, bool, type(None)})
"""The types of values that are carried as they are. A float is not among them: JSON has no NaN and no infinity."""

_ANY_JSON = (1 << 63) - 1
"""Whole numbers up to there are in JSON what they are."""

_deterministic = msgspec.json.Encoder(order="deterministic").encode


def carried(value: Value) -> Value:
    """A value as it comes out of a message: a copy, which does not change when the operator goes on with the original,
    and a list where a tuple went in, a sorted one where a set did, None where a float was no number. So an operator,
    and whoever judges its run, sees the same in every world.

    Raises TypeError for what JSON cannot carry.
    """
    try:
        try:
            encoded = _deterministic(value)
        except TypeError:  # Keys that are no text become text; only then can they be sorted.
            encoded = _deterministic(msgspec.json.decode(msgspec.json.encode(value)))
        return msgspec.json.decode(encoded)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"value {value!r} cannot be carried ({error})") from error


def rows_of(operator: Operator[Any], state: Any) -> dict[str, Value]:
    """What an operator's state is in a record: its rows, each value carried. Raises InvalidOperator."""
    try:
        return {
            key: value if type(value) is int and -_ANY_JSON <= value <= _ANY_JSON else carried(value)
            for key, value in operator.rows(state).items()
        }
    except InvalidOperator:
        raise
    except Exception as error:  # Whatever the user's code raises.
        raise InvalidOperator(f"rows() of {type(operator).__name__}: {described_error(error)}") from error


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
        object.__setattr__(self, "_downstream", {slice_id: self._fed_to(slice_id) for slice_id in slices})
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

    def _fed_to(self, slice_id: str) -> tuple[str, ...]:
        name, index = operator_of(slice_id), index_of(slice_id)
        return tuple(
            slice_name(edge.downstream, target)
            for edge in self.edges
            if edge.upstream == name
            for target in _targets(
                edge.partitioning, index, self.parallelism(edge.upstream), self.parallelism(edge.downstream)
            )
        )

    def choices(self, slice_id: str) -> tuple[tuple[str, ...], ...]:
        """For each edge, the slices that an output of `slice_id` can go to: to one of them, by its key."""
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
        return tuple(chosen(choice, key) for choice in self.choices(slice_id))


T = TypeVar("T")


def chosen(among: Sequence[T], key: str) -> T:
    """Where an output with this key goes to."""
    return among[zlib.crc32(key.encode()) % len(among)]


class Role(StrEnum):
    SOURCE = "source"
    OPERATOR = "operator"
    SINK = "sink"


def slice_name(operator: str, index: int) -> str:
    return f"{operator}-{index}"


def operator_of(slice_id: str) -> str:
    return slice_id.rpartition("-")[0]


def index_of(slice_id: str) -> int:
    return int(slice_id.rpartition("-")[2])


def replica_name(slice_id: str, replica: int) -> str:
    """What a replica is called by those who aim at it: the first goes by the name of its slice."""
    return slice_id if replica == 0 else f"{slice_id}/{replica}"


def slice_of(name: str) -> str:
    """The slice that a replica of this name belongs to."""
    return name.partition("/")[0]


def replica_of(name: str) -> int:
    return int(name.partition("/")[2] or 0)


def channel_name(upstream: str, downstream: str) -> str:
    return f"{upstream}>{downstream}"


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
        _check_operator(name, stage.operator)
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
    for name in (*topology.sources, *topology.sinks):
        proper(name, str, f"{who}: a name of a source or sink", "a text", InvalidTopology)


def _check_operator(name: str, operator: Operator[Any]) -> None:
    """Whether what an operator says of itself can be so. Schemes rely on it."""
    for attribute in ("window", "fan_out", "epoch", "every"):
        amount = getattr(operator, attribute)
        if amount is not None and (not isinstance(amount, int) or isinstance(amount, bool) or amount < 1):
            raise InvalidOperator(f"operator {name!r}: {attribute}={amount!r} must be a positive whole number, or None")
    for attribute in ("deterministic", "order_sensitive", "commutative"):
        answer = getattr(operator, attribute)
        if not isinstance(answer, bool):
            raise InvalidOperator(f"operator {name!r}: {attribute}={answer!r} must be True or False")
    alpha = operator.alpha
    if alpha is not None and (not isinstance(alpha, int | float) or isinstance(alpha, bool) or not 0 <= alpha < inf):
        raise InvalidOperator(f"operator {name!r}: alpha={alpha!r} must be a number, 0 or more, or None")
    if alpha is not None and type(operator).divergence is Operator.divergence:
        raise InvalidOperator(f"operator {name!r}: alpha={alpha!r} bounds a divergence that it does not have")
    if (type(operator).delta is Operator.delta) != (type(operator).apply_delta is Operator.apply_delta):
        raise InvalidOperator(f"operator {name!r}: delta() and apply_delta() go together; it has one of them")
    if operator.epoch is None and type(operator).close is not Operator.close:
        raise InvalidOperator(
            f"operator {name!r}: close() is never called; say after how many milliseconds (epoch=...)"
        )
    if operator.every is None and type(operator).on_clock is not Operator.on_clock:
        raise InvalidOperator(
            f"operator {name!r}: on_clock() is never called; say after how many milliseconds (every=...)"
        )
    if not operator.by_event_time and type(operator).on_time is not Operator.on_time:
        raise InvalidOperator(f"operator {name!r}: on_time() is never called; say when, with due()")
    if operator.epoch is not None and has_timers(operator):
        raise InvalidOperator(
            f"operator {name!r} has epochs and timers; what is due at the end of an epoch does close()"
        )
    if operator.deterministic and isinstance(operator, RandomOperator):
        raise InvalidOperator(
            f"operator {name!r}: deterministic=True, but a RandomOperator draws numbers; if it needs none, "
            "derive it from streamproof.Operator"
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
