"""Lets operators take what is in columns, many batches in one go. What comes of it goes into columns as it is: of no
output there is an event, or a derivation, before somebody asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import InvalidOperator
from ..core.events import PLAIN, Event, carried
from ..core.slice_names import operator_of
from ..protocol.spec import Numbering, SliceSpec
from .columns import Numbers, Same, Values, array_of_values, in_one, listed
from .packed import Columns
from .reruns import Derivation, Emissions, Rerun

_CHANNELS = 62
"""As many bits has a number."""
_HIGHEST = 1 << 62
"""A number that is as high is kept in no column."""


def can_be(spec: SliceSpec) -> bool:
    """Whether a slice does nothing but take one event after the other, and numbers what it makes of each in a row."""
    return (
        spec.epoch is None
        and not spec.timed
        and not spec.cycle
        and spec.setup.numbering is not Numbering.DERIVED
        and len(spec.downstream) <= _CHANNELS
    )


@dataclass(frozen=True)
class TakenBatches:
    """Batches that were taken one after the other."""

    stretches: list[tuple[Emissions, int, int]]
    """Where their events are: with whom, from where, up to where."""
    ends: list[int]
    """After how many events each batch ended."""


class Receivers(dict[str, int]):
    """Key -> the channels that it goes to, a bit each."""

    def __init__(self, spec: SliceSpec) -> None:
        self._spec = spec

    def __missing__(self, key: str) -> int:
        found = self[key] = sum({1 << place for place in self._spec.receivers[key]})
        return found


def execute_batches(spec: SliceSpec, rerun: Rerun, batches: TakenBatches, receivers: Receivers) -> list[Event] | None:
    """Let the operator take these batches. Returns their events; None where they cannot be taken in one go, and nothing
    was. Raises InvalidOperator when the operator fails."""
    inputs = _inputs(batches)
    fan_out = spec.topology.stages[operator_of(spec.slice_id)].operator.fan_out if spec.inherits else None
    if inputs is None or not -_HIGHEST < rerun.next_seq < _HIGHEST:
        return None
    if fan_out is not None and (int(np.abs(inputs.seqs).max()) + 1) * fan_out >= _HIGHEST:
        return None
    events = [event for emissions, low, high in batches.stretches for event in emissions.events[low:high]]
    keys, values, ends = _processed(spec, rerun, events)
    upto = np.array(ends, np.int64)
    counts = np.diff(upto, prepend=0)
    count = len(keys)
    if count == len(events) and bool((counts == 1).all()):
        parents, which = np.arange(count), np.zeros(count, np.int64)
    else:
        parents = np.repeat(np.arange(len(events)), counts)
        which = np.arange(count) - np.repeat(upto - counts, counts)
    if fan_out is None:
        seqs = np.arange(rerun.next_seq, rerun.next_seq + count)
        rerun.next_seq += count
    else:
        seqs = inputs.seqs[parents] * fan_out + which
        rerun.next_seq = int(inputs.seqs[-1]) * fan_out + int(counts[-1])
    made = _Made(spec.slice_id, keys, values, seqs, inputs, parents, which + rerun.hop)
    batch_ends = upto[np.array(batches.ends) - 1]
    channels = list(rerun.emitted.values())
    lengths: list[list[int]] = []
    # Who alone is fed is fed everything, whatever the keys are.
    to = _sent_to(spec, keys, events, upto, receivers) if len(channels) > 1 else None
    for place, emissions in enumerate(channels):
        before = len(emissions.events)
        if to is None:
            lengths.append((batch_ends + before).tolist())
            made.add_to(emissions, np.arange(count))
        else:
            chosen = np.flatnonzero(to >> place & 1)
            lengths.append((np.searchsorted(chosen, batch_ends) + before).tolist())
            made.add_to(emissions, chosen)
    took = len(rerun.took)
    for emissions, low, high in batches.stretches:
        rerun.took.lend(emissions.derivations, low, high)
    rerun.seqs.extend_columns((inputs.seqs,), len(events))
    on_channels = zip(*lengths, strict=True) if lengths else [()] * len(batches.ends)
    rerun.batches += zip([took + end for end in batches.ends], on_channels, strict=True)
    rerun.last, rerun.since = inputs.last, 0
    return events


def _processed(spec: SliceSpec, rerun: Rerun, events: Sequence[Event]) -> tuple[list[str], list[Any], list[int]]:
    """Keys and values of the outputs, and how many there were after each event."""
    process, state = rerun.process, rerun.held
    assert process is not None
    keys: list[str] = []
    values: list[Any] = []
    ends: list[int] = []
    add_key, add_value, add_end = keys.append, values.append, ends.append
    event = None
    try:
        for event in events:
            for key, value in process(event, state):
                if type(value) not in PLAIN:
                    value = carried(value)
                add_key(key)
                add_value(value)
            add_end(len(keys))
    except Exception as error:
        raise _failed(spec, event, error) from error
    return keys, values, ends


def _failed(spec: SliceSpec, event: Event | None, error: Exception) -> InvalidOperator:
    return InvalidOperator(
        f"operator of {spec.slice_id}, executed again to judge the run, failed on event "
        f"{None if event is None else (event.source, event.seq)}: {type(error).__name__}: {error}"
    )


def _sent_to(
    spec: SliceSpec, keys: Sequence[str], events: Sequence[Event], upto: Numbers, receivers: Receivers
) -> Numbers:
    """The channels that each output goes to."""
    found: list[int] = []
    try:
        # Those before the first key that has none are in the list.
        found.extend(map(receivers.__getitem__, keys))
    except Exception as error:
        raise _failed(spec, events[int(np.searchsorted(upto, len(found), "right"))], error) from error
    return np.array(found, np.int64)


@dataclass(frozen=True)
class _Inputs:
    """What outputs are made of."""

    seqs: Numbers
    times: Numbers
    derivations: Columns
    last: Derivation


def _inputs(batches: TakenBatches) -> _Inputs | None:
    """None where they are not in columns, or not in as many each."""
    numbers: list[tuple[Numbers, Numbers]] = []
    derivations: list[Columns] = []
    for emissions, low, high in batches.stretches:
        for columns in emissions.events.columns(low, high):
            seqs, times = (None, None) if columns is None else map(array_of_values, (columns[1], columns[4]))
            if seqs is None or times is None:
                return None
            numbers.append((seqs, times))
        for columns in emissions.derivations.columns(low, high):
            if columns is None or (derivations and len(columns) != len(derivations[0])):
                return None
            derivations.append(columns)
    seqs, times = map(np.concatenate, zip(*numbers, strict=True))
    last = tuple([listed(values)[-1] for values in derivations[-1]])
    return _Inputs(seqs, times, tuple(map(in_one, zip(*derivations, strict=True))), last)


@dataclass(frozen=True)
class _Made:
    """All outputs of these batches."""

    by: str
    keys: list[str]
    values: list[Any]
    seqs: Numbers
    inputs: _Inputs
    parents: Numbers
    """Of each, the place of the input that triggered it."""
    which: Numbers
    """And which of the outputs of that it is, with its hop."""

    def add_to(self, emissions: Emissions, chosen: Numbers) -> None:
        count = len(chosen)
        every = count == len(self.keys)
        parents = self.parents if every else self.parents[chosen]
        emissions.events.extend_columns(
            (
                Same(self.by, count),
                self.seqs if every else self.seqs[chosen],
                self.keys if every else _at(self.keys, chosen),
                self.values if every else _at(self.values, chosen),
                self.inputs.times[parents],
            ),
            count,
        )
        roots = [_at(values, parents) for values in self.inputs.derivations]
        emissions.derivations.extend_columns((*roots, self.which if every else self.which[chosen]), count)


def _at(values: Values, places: Numbers) -> Values:
    match values:
        case Same(value):
            return Same(value, len(places))
        case list():
            return [values[place] for place in places.tolist()]
        case _:
            return values[places]
