"""The user's code: operators, and what can be asked of them."""

from __future__ import annotations

import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from random import Random
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from .error_text import described_error
from .errors import InvalidOperator, OwnFailure
from .events import Event, Output, Value, carried

State = TypeVar("State")

_ANY_JSON = (1 << 63) - 1
"""Whole numbers up to there are in JSON what they are."""


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
    """Whether neither what `close` makes nor the state after it depends on the order of the events of an epoch. It says
    nothing of what `process` makes: who tells outputs before an epoch ends tells others in another order."""
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
        like others, and is on record; but each replica has its own, and a successor has another."""
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


def keeps_for_ever(operator: Operator[Any]) -> bool:
    """Whether its state can depend on any input that it ever had."""
    return operator.window is None and operator.initial_state() is not None


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


def check_operator(name: str, operator: Operator[Any]) -> None:
    """Raises InvalidOperator where an operator says of itself what cannot be. Schemes rely on it."""
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
