"""What schemes ask of a topology, and refuse before anything runs where it is not there."""

from __future__ import annotations

from ..harness.errors import InvalidScenario, InvalidTopology
from ..harness.judging.exercised import Activity
from ..harness.model import Topology
from ..harness.proper import Kind, proper
from ..harness.quantities import Duration, Events
from ..harness.slices.merging import Merge
from .mechanisms.silence import TellSilence

_INTERVALS = ("checkpoint_every", "synchronize_every", "acknowledge_every")
_UNORDERED = "without a merge, what is taken again comes in another order"
_SETTINGS: dict[str, tuple[Kind, str]] = {
    **dict.fromkeys(_INTERVALS, (Events, "a number of events, as in events(100)")),
    **dict.fromkeys(("silence", "timeout"), (Duration, "an amount of time, as in seconds(0.5)")),
    **dict.fromkeys(("sink_filter", "hot"), (bool, "True or False")),
    "merge": (Merge, f"ByTime() or RoundRobin(): {_UNORDERED}"),
}
"""Setting of a scheme -> its kind, and how to write one."""


def settings(scheme: str, **given: object) -> None:
    """Refuse settings of a wrong kind, an interval that is left out, and a wait for nothing. Raises InvalidScenario."""
    for name, value in given.items():
        kind, wanted = _SETTINGS[name]
        proper(value, kind, f"{name} of {scheme}", wanted)
        if isinstance(value, Duration) and not value.micros:
            raise InvalidScenario(f"{name} of {scheme} cannot be nothing; it is an amount of time, as in ms(2)")


def made(topology: Topology, scheme: str) -> None:
    """A function that makes a topology is none. Raises InvalidTopology."""
    proper(topology, Topology, f"what {scheme} protects", "a Topology, as word_count() makes one", InvalidTopology)


def deterministic(topology: Topology, scheme: str) -> None:
    """Replay and replicas give the same only where the operators do. Raises InvalidTopology."""
    made(topology, scheme)
    _refuse(
        topology,
        scheme,
        [name for name, stage in topology.stages.items() if not stage.operator.deterministic],
        "is not deterministic: what it makes of an event the second time is not what it made the first time",
    )


def bounded_fan_out(topology: Topology, scheme: str, most: int | None = None) -> None:
    """An output's number can follow from its input's only where it is known how many one input gives. Raises
    InvalidTopology."""
    wrong = [
        name
        for name, stage in topology.stages.items()
        if stage.operator.fan_out is None or (most is not None and stage.operator.fan_out > most)
    ]
    _refuse(topology, scheme, wrong, f"declares no fan_out{f' of at most {most}' if most else ''}")


def forgetful(topology: Topology, scheme: str) -> None:
    """A state that is lost comes back by replay only if it soon depends on nothing older. Raises InvalidTopology."""
    made(topology, scheme)
    wrong = [
        name
        for name, stage in topology.stages.items()
        if stage.operator.window is None and stage.operator.initial_state() is not None
    ]
    _refuse(topology, scheme, wrong, "keeps state for ever; it needs a window, or no state")


def at_least(least: int, name: str, amount: int) -> None:
    """Raises InvalidScenario for too few fellows beside whom a slice would survive."""
    if not isinstance(amount, int) or isinstance(amount, bool) or amount < least:
        raise InvalidScenario(f"{name}={amount!r}: a slice survives beside another; it needs {least} or more")


def single_channels(topology: Topology, scheme: str, why: str) -> None:
    """Raises InvalidTopology for an operator slice with more than one input channel."""
    merging = [s for s in topology.operator_slices if len(topology.upstream(s)) > 1]
    _refuse(topology, scheme, merging, f"has more than one input channel: {why}")


def promised(topology: Topology, merge: Merge, silence: Duration) -> tuple[TellSilence, ...]:
    """An idle channel has to say how far time has come where a merge goes by time, and nowhere else."""
    meets = any(len(topology.upstream(slice_id)) > 1 for slice_id in topology.operator_slices)
    return (TellSilence(silence),) if meets and merge.by_time else ()


def merging(topology: Topology, merge: Merge | None) -> tuple[Activity, ...]:
    """What rests on a merge, where channels meet."""
    meets = any(len(topology.upstream(slice_id)) > 1 for slice_id in topology.operator_slices)
    return (Activity.MERGE,) if meets and merge is not None else ()


def filtering(topology: Topology, sink_filter: bool) -> tuple[Activity, ...]:
    """What rests on duplicate filters, where something that fails feeds somebody who filters: sources do not fail."""
    inner = any(edge.upstream in topology.stages and edge.downstream in topology.stages for edge in topology.edges)
    return (Activity.FILTER,) if inner or sink_filter else ()


def _refuse(topology: Topology, scheme: str, wrong: list[str], why: str) -> None:
    if wrong:
        raise InvalidTopology(f"{', '.join(wrong)} of {topology.name!r} {why}. {scheme} cannot protect it")
