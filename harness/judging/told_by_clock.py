"""Which inputs the outputs of timers tell of: those of their windows, which is what was taken since one fired last.

By event time a window is the same in every incarnation and every replica, and so are its outputs. By the clock it is
another in each: what one replica told in one window another may tell in the next, so that a sink which takes some
outputs of the one and some of the other counts an input twice, or not at all, though each output by itself is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..core.slice_names import operator_of
from ..core.verdicts import Evidence
from .reexecution import Reexecution
from .reruns import Derivation, Rerun, Window


@dataclass(frozen=True)
class ToldByClock:
    """What is wrong about a channel into a sink."""

    twice: tuple[Evidence, ...] = ()
    """Inputs that outputs of different windows tell of."""
    never: tuple[Evidence, ...] = ()
    """Inputs in a window of which something was told, by somebody, and that no output which was delivered tells of."""


def find_told(rerun: Reexecution) -> ToldByClock:
    """Of the slices that emit by the clock straight into a sink."""
    stages = rerun.topology.stages
    found = [
        _of_channel(rerun, channel)
        for channel in rerun.deliveries
        for slice_id in (channel.partition(">")[0],)
        if operator_of(slice_id) in stages
        and stages[operator_of(slice_id)].operator.every is not None
        and slice_id not in rerun.doubtful
    ]
    return ToldByClock(
        tuple(piece for one in found for piece in one.twice), tuple(piece for one in found for piece in one.never)
    )


def why_not_followed(rerun: Reexecution) -> str:
    """Why it is not known in how many windows an input was told of; empty where it is. What somebody makes of the
    outputs of a clock is not traced to their windows, and those of another incarnation or replica are others."""
    for slice_id, reruns in rerun.reruns.items():
        if rerun.topology.stages[operator_of(slice_id)].operator.every is None or len(reruns) < 2:
            continue
        for to in rerun.topology.downstream(slice_id):
            if to in rerun.reruns:
                return (
                    f"{slice_id} emits by its clock, in {len(reruns)} incarnations whose windows differ, and what {to} "
                    "took of these is not followed: an input may have been told of twice or never. Let it emit into a "
                    "sink"
                )
    return ""


def _of_channel(rerun: Reexecution, channel: str) -> ToldByClock:
    slice_id = channel.partition(">")[0]
    reruns = rerun.reruns[slice_id]
    told: dict[Derivation, dict[Window, int]] = {}
    """Input -> the windows whose outputs told of it, and when they did first."""
    for output in (output for delivery in rerun.deliveries[channel] for output in delivery.outputs()):
        derivation = output.derivation
        if derivation is None or output.incarnation not in reruns:
            continue
        known = _window(reruns[output.incarnation], derivation)
        if known is not None:
            window, inputs = known
            for one in inputs:
                told.setdefault(one, {}).setdefault(window, output.at)
    due = {d: None for one in reruns.values() for _, inputs in one.told.values() for d in inputs}
    return ToldByClock(
        tuple(
            Evidence(f"{rerun.said(d)}: told of in {len(windows)} windows", channel, tuple(windows.values()))
            for d, windows in told.items()
            if len(windows) > 1
        ),
        tuple(Evidence(f"{rerun.said(d)}: no window that was told of has it", channel) for d in due if d not in told),
    )


def _window(one: Rerun, derivation: Derivation) -> tuple[Window, tuple[Derivation, ...]] | None:
    return next((each.told[derivation] for each in _descent(one) if derivation in each.told), None)


def _descent(one: Rerun) -> Iterator[Rerun]:
    """An incarnation, and those that it descends from."""
    yield one
    cut = one.stretch.cut
    while cut is not None:
        yield cut.rerun
        cut = cut.stretch.cut
