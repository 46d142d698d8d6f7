"""Whether operators give the same every time: they are executed again, under other circumstances, before they are
believed.

Judging executes operators again, and blames the scheme for what comes out otherwise. An operator that iterates a set,
draws from `random`, reads the clock, or keeps something outside of its state makes that worthless, whatever it says of
itself. So the topology is executed several times on the beginning of the input, without failures, each slice taking its
channels one after the other:

- in a process of its own, under one hash seed, with the operators as they are here;
- in a second one, under another, in another time zone, with operators that the scenario makes anew there, or else with
  copies; for the second time in that process, each slice with an operator of its own, and with another one after 1, 2,
  4 inputs and so on, and in the middle of its input;
- here, twice with the same operators: one may know an input again that it was given before, as where it is replayed.

Every output and every state in the end has to be the same, and every event that an operator was given has to be as it
was: whoever sent it may send it again. A scenario that is made anew has to draw the same input. What needs more of the
input than that to show is not found.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from random import Random
from typing import Any

import msgspec

from ..core.events import Event, Value, recordable
from ..core.kept_files import KeptFiles, listening, note_written
from ..core.operators import Operator, Processor, RandomOperator, rows_of
from ..core.other_processes import UNREADABLE, FreshProcess, begin
from ..core.slice_names import operator_of
from ..core.topology import Role, Topology
from ..core.unchanged import Unchanged
from ..core.workload import Workload
from ..protocol.merging import end_of, epoch_of
from ..recording.history import History
from ..recording.records import Offered

HASH_SEEDS = ("1", "2")
ELSEWHERE = "ELSEWHERE-05:45"
"""The time zone of the second process, which is nobody's."""
EVENTS = 1_000
"""Of each source, so many are executed at most."""
_TICK = 10
"""The clock is read after so many events each."""


class Executed(msgspec.Struct, frozen=True, array_like=True):
    """What one slice has made."""

    outputs: list[list[tuple[str, Value]]]
    """Of each event that it took."""
    rows: dict[str, Value]
    """Of its state in the end."""
    failure: str = ""
    """Why the user's code did not come to the end; empty when it did."""
    leftover: str = ""
    """What a blank state holds once the operator has worked, and did not hold before; empty when it holds the same."""
    closed: list[tuple[int, int, list[tuple[str, Value]]]] = []
    """Of each epoch that ended, and each timer that fired: after how many events, up to what time it went, and what was
    made then."""
    spoilt: str = ""
    """Which event that it was given is another now, and what it was; empty where all are as they were."""


ExecutedSlices = dict[str, Executed]
"""Operator slice -> what it has made, upstream before downstream."""


@dataclass(frozen=True)
class Determinism:
    """What came of executing operators again."""

    differs: str = ""
    """Which operator gives what otherwise; empty when none was seen to."""
    unchecked: str = ""
    """Why they were not executed in processes of their own; empty when they were."""


class _Task(msgspec.Struct, frozen=True, array_like=True):
    """What another process is to do."""

    topology: bytes
    """Pickled. Its code is imported there."""
    origin: str
    """Of the scenario, where it is to be made anew; else empty."""
    again: bool
    """For the second time in that process, with operators that change places."""
    offered: dict[str, list[Event]]
    sizes: dict[str, Any]
    """Of the workload that was fed, where the scenario made anew is to draw it again; else empty."""


class _Came(msgspec.Struct, frozen=True, array_like=True):
    """What came of that."""

    executed: ExecutedSlices
    drawn: str = ""
    """How the workload draws otherwise there; empty where it does not."""
    files: KeptFiles = KeptFiles()
    """What was done to files."""


def beginning(history: History, sources: Collection[str]) -> dict[str, list[Event]]:
    """What each of these sources offered, as far as it is executed again."""
    offered: dict[str, list[Event]] = {}
    wanting = set(sources)
    for record in history.each(Offered):
        known = offered.setdefault(record.source, [])
        known += record.events[: EVENTS - len(known)]
        if len(known) == EVENTS:
            wanting.discard(record.source)
            if not wanting:
                break
    return offered


def examine(
    topology: Topology, offered: Mapping[str, Sequence[Event]], origin: str = "", fed: Workload | None = None
) -> Determinism:
    """Execute the operators on the beginning of an input, and compare. `origin` is the scenario's, where another
    process can make it anew by that; then the workload that was fed has to draw the same there, too."""
    beginnings = {source: list(events[:EVENTS]) for source, events in offered.items()}
    try:
        body = _pickled(topology)
    except Exception as error:
        why = f"their topology cannot be pickled ({type(error).__name__}: {error})"
        return Determinism(_differing(topology, beginnings, _executed_here(topology, beginnings)), why)
    sizes = {} if fed is None else fed.sizes
    tasks = (_Task(body, "", False, beginnings, {}), _Task(body, origin, True, beginnings, sizes))
    others = [begin(execute_again, HASH_SEEDS[0]), begin(execute_again, HASH_SEEDS[1], {"TZ": ELSEWHERE})]
    try:
        for process, task in zip(others, tasks, strict=True):
            process.tell(msgspec.msgpack.encode(task))
        here = _executed_here(topology.apart(), beginnings)
        found, failures, drawn = [], [], ""
        for process in others:
            came = _result(process)
            if isinstance(came, str):
                failures.append(came)
            else:
                found.append(came.executed)
                note_written(came.files)
                drawn = drawn or came.drawn
    finally:
        for process in others:
            process.end()
    differs = drawn or _differing(topology, beginnings, [*found, *here])
    return Determinism(differs, failures[0] if failures else "")


def examine_here(topology: Topology, offered: Mapping[str, Sequence[Event]]) -> str:
    """Which operator gives what otherwise, as far as that shows in this process, and in a moment; empty when none was
    seen to."""
    beginnings = {source: list(events[:EVENTS]) for source, events in offered.items()}
    return _differing(topology, beginnings, _executed_here(topology.apart(), beginnings))


def _executed_here(topology: Topology, offered: Mapping[str, Sequence[Event]]) -> list[ExecutedSlices]:
    """Twice, with the same operators: what they remember of the first time, they remember of what is replayed."""
    with listening():
        return [execute_slices(topology, offered) for _ in range(2)]


def execute_slices(
    topology: Topology, offered: Mapping[str, Sequence[Event]], anew: Callable[[], Topology] | None = None
) -> ExecutedSlices:
    """Execute the topology once. With `anew`, each slice has an operator of its own, and another one after 1, 2, 4
    inputs and so on, and from the middle on, which goes on with the state and the random draws of the one before."""
    channels: dict[tuple[str, str], list[Event]] = {}
    found: ExecutedSlices = {}

    def send(event: Event, slice_id: str) -> None:
        for to in topology.receivers(slice_id, event.key):
            channels[slice_id, to].append(event)

    for slice_id in _twice_round(topology):
        channels.update({(slice_id, to): [] for to in topology.downstream(slice_id)})
        match topology.role(slice_id):
            case Role.SOURCE:
                for event in offered.get(slice_id, ()):
                    send(event, slice_id)
            case Role.OPERATOR:
                taken = list(
                    chain.from_iterable(channels.get((up, slice_id), ()) for up in topology.upstream(slice_id))
                )
                epoch = topology.stages[operator_of(slice_id)].operator.epoch
                if epoch is not None:
                    taken.sort(key=partial(_epoch_of, epoch))
                found[slice_id] = executed = _execute(topology, slice_id, taken, anew)
                for seq, (time, key, value) in enumerate(_made(taken, executed), start=1):
                    send(Event(slice_id, seq, key, value, time), slice_id)
    return found


def _twice_round(topology: Topology) -> Iterator[str]:
    """The slices, upstream before downstream. Those of a cycle come twice: what they make the first time, of what comes
    from outside, is what leads back when they are executed from the beginning again."""
    for group in topology.groups:
        yield from group if len(group) == 1 else (*group, *group)


def _epoch_of(size: int, event: Event) -> int:
    return epoch_of(event.time, size)


def _made(taken: Sequence[Event], executed: Executed) -> Iterator[tuple[int, str, Value]]:
    """(Time, key, value) of everything, in order."""
    closed = iter([*executed.closed, (sys.maxsize, 0, [])])
    after, upper, ends = next(closed)
    for place, (event, outputs) in enumerate(zip(taken, executed.outputs, strict=False)):
        while after <= place:
            yield from ((upper, key, value) for key, value in ends)
            after, upper, ends = next(closed)
        yield from ((event.time, key, value) for key, value in outputs)
    while after < sys.maxsize:
        yield from ((upper, key, value) for key, value in ends)
        after, upper, ends = next(closed)


def _execute(
    topology: Topology, slice_id: str, taken: Sequence[Event], anew: Callable[[], Topology] | None
) -> Executed:
    def operator() -> Operator[Any]:
        return (topology if anew is None else anew()).stages[operator_of(slice_id)].operator

    outputs: list[list[tuple[str, Value]]] = []
    closed: list[tuple[int, int, list[tuple[str, Value]]]] = []
    random = Random(0)
    size = topology.stages[operator_of(slice_id)].operator.epoch
    given = Unchanged(taken)
    # What comes round in turns has not come round after one input, and what takes many has not begun again for many.
    changing = {len(taken) // 2, *(1 << power for power in range(len(taken).bit_length()))} if anew is not None else ()
    try:
        current = operator()
        blank = _encode(rows_of(current, current.initial_state()))
        state = current.initial_state()
        process = _processor(current, random)
        for place, event in enumerate(taken):
            if place in changing:
                current = operator()
                process = _processor(current, random)
            while size is not None and len(closed) < epoch_of(event.time, size):
                closed.append(_close(current, place, end_of(len(closed), size), state))
            if current.by_event_time:
                closed += _due(current, place, event.time - 1, state)
            outputs.append(_carried(process(event, state)))
            if current.every is not None and place % _TICK == _TICK - 1:
                # What the clock shows is an input as others are: here it shows event time.
                closed.append((place + 1, event.time, _carried(current.on_clock(event.time, state))))
        if size is not None and taken:
            closed.append(_close(current, len(taken), end_of(len(closed), size), state))
        if taken:
            closed += _due(current, len(taken), taken[-1].time, state)
        final, left = rows_of(current, state), rows_of(current, current.initial_state())
        _encode(final)
        leftover = "" if _encode(left) == blank else repr(left)
    except Exception as error:
        return Executed(outputs, {}, f"{type(error).__name__}: {error}", closed=closed, spoilt=given.spoilt())
    return Executed(outputs, final, leftover=leftover, closed=closed, spoilt=given.spoilt())


def _carried(outputs: Iterable[tuple[str, Value]]) -> list[tuple[str, Value]]:
    """What was made, as others are given it. Raises where no record can hold it."""
    return [recordable(key, value, "an output") for key, value in outputs]


def _close(operator: Operator[Any], place: int, upper: int, state: Any) -> tuple[int, int, list[tuple[str, Value]]]:
    return place, upper, _carried(operator.close(upper, state))


def _due(
    operator: Operator[Any], place: int, upto: int, state: Any
) -> Iterator[tuple[int, int, list[tuple[str, Value]]]]:
    """What timers make up to a time, once anything was taken."""
    before = -1
    while place and (due := operator.due(state)) is not None and before < due <= upto:
        before = due
        yield place, due, _carried(operator.on_time(due, state))


def _processor(operator: Operator[Any], random: Random) -> Processor:
    if isinstance(operator, RandomOperator):
        return lambda event, state: operator.process_with(event, state, random)
    return operator.process


# Comparing


def _differing(topology: Topology, offered: Mapping[str, Sequence[Event]], executions: Sequence[ExecutedSlices]) -> str:
    """The first difference between any two executions; empty when there is none."""
    first, *others = executions
    for slice_id, executed in first.items():
        if executed.spoilt:
            name = operator_of(slice_id)
            kind = type(topology.stages[name].operator).__name__
            return (
                f"operator {name!r} ({kind}) changes an event that it was given: {executed.spoilt}. Whoever sent it "
                "may send it again, and others may have it: take a copy"
            )
        if executed.leftover:
            name = operator_of(slice_id)
            kind = type(topology.stages[name].operator).__name__
            return f"operator {name!r} ({kind}) does not begin blank: once it has worked, that is {executed.leftover}"
        for other in others:
            if slice_id not in other:
                continue
            what = _difference(first[slice_id], other[slice_id])
            if what:
                name = operator_of(slice_id)
                kind = type(topology.stages[name].operator).__name__
                return f"operator {name!r} ({kind}) does not give the same every time it is executed: {what}"
    return ""


def _difference(one: Executed, other: Executed) -> str:
    for number, (made, again) in enumerate(zip(one.outputs, other.outputs, strict=False), start=1):
        if _encode(made) != _encode(again):
            return f"of event {number:,} that it took it made {_shown(made)}, and {_shown(again)} another time"
    for (_, upper, made), (*_, again) in zip(one.closed, other.closed, strict=False):
        if _encode(made) != _encode(again):
            return f"of what it had taken up to {upper} it made {_shown(made)}, and {_shown(again)} another time"
    if one.failure or other.failure:
        # Whoever executes it to judge says so.
        return ""
    for key in sorted(one.rows.keys() | other.rows.keys()):
        mine, theirs = ([r[key]] if key in r else [] for r in (one.rows, other.rows))
        if _encode(mine) != _encode(theirs):
            said = (repr(rows[0]) if rows else "no row" for rows in (mine, theirs))
            return f"in the end its state of key {key!r} was {' and '.join(said)} another time"
    return ""


_encode = msgspec.msgpack.Encoder(order="sorted").encode


def _shown(outputs: Sequence[tuple[str, Value]], most: int = 200) -> str:
    text = ", ".join(f"({key!r}, {value!r})" for key, value in outputs) or "nothing"
    return text if len(text) <= most else f"{text[:most]}..."


# Other processes


def _pickled(topology: Topology) -> bytes:
    # Not above: who executes operators again in a search has no need of it.
    from ..core.pickling import modules_only_here, with_code

    return with_code(topology, modules_only_here())


def _result(process: FreshProcess) -> _Came | str:
    """What another process has found, or why it has found nothing."""
    said, failure = process.said()
    if failure:
        return failure
    try:
        return msgspec.msgpack.decode(said, type=_Came | str)
    except msgspec.MsgspecError:
        return UNREADABLE


def _execute_task(task: _Task) -> _Came:
    body, drawn = task.topology, ""
    # A scenario that no other process can make is copied.
    with suppress(Exception):
        if task.origin:
            topology, workload = _made_by(task.origin)
            body = _pickled(topology)
            drawn = _drawn_otherwise(replace(workload, **task.sizes), task.offered) if task.sizes else ""

    def anew() -> Topology:
        topology: Topology = pickle.loads(body)
        return topology

    once = execute_slices(anew(), task.offered)
    return _Came(execute_slices(anew(), task.offered, anew) if task.again else once, drawn)


def _drawn_otherwise(workload: Workload, offered: Mapping[str, Sequence[Event]]) -> str:
    for source, events in offered.items():
        drawn = islice(chain.from_iterable(workload.batches(source)), len(events))
        for event, other in zip(events, drawn, strict=True):
            first, second = (event.key, event.value), (other.key, other.value)
            if _encode(first) != _encode(second):
                return (
                    f"workload {workload.name!r} does not draw the same in another process: event {event.seq:,} of "
                    f"{source} was {first!r}, and {second!r} there"
                )
    return ""


def _made_by(origin: str) -> tuple[Topology, Workload]:
    # Not above: the registry imports this room.
    from ..contracts.registry import Registry
    from ..contracts.subject import SchemeSubject

    scenario = Registry().scenario(origin).scenario
    assert isinstance(scenario.subject, SchemeSubject)
    return scenario.subject.topology, scenario.workload


def execute_again(told: bytes) -> bytes:
    """In another process: execute what it was told."""
    try:
        with listening() as listener:
            came = _execute_task(msgspec.msgpack.decode(told, type=_Task))
        found: _Came | str = msgspec.structs.replace(came, files=listener.heard)
    except Exception as error:
        found = f"they cannot be executed in another process ({type(error).__name__}: {error})"
    return msgspec.msgpack.encode(found)
