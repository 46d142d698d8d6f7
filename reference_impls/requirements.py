"""What schemes ask of a topology, and refuse before anything runs where it is not there."""

from __future__ import annotations

from math import gcd
from typing import Any

from ..harness.core.errors import InvalidScenario, InvalidTopology
from ..harness.core.operators import Operator, has_timers, keeps_for_ever
from ..harness.core.proper import ProperType, positive, proper
from ..harness.core.quantities import Duration, Events
from ..harness.core.slice_names import operator_of
from ..harness.core.topology import Topology
from ..harness.judging.exercised import Activity
from ..harness.protocol.merging import Merge, Order
from .mechanisms.silence import TellSilence

_INTERVALS = ("checkpoint_every", "synchronize_every", "acknowledge_every", "commit_every")
_UNORDERED = "without a merge, what is taken again comes in another order"
_SETTINGS: dict[str, tuple[ProperType, str]] = {
    **dict.fromkeys(_INTERVALS, (Events, "a number of events, as in events(100)")),
    **dict.fromkeys(("consider_every", "while_quiet", "busy_from"), (Events, "a number of events, as in events(50)")),
    **dict.fromkeys(("silence", "timeout", "each"), (Duration, "an amount of time, as in seconds(0.5)")),
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
        if isinstance(value, Merge) and value.order is not Order.TOTAL:
            raise InvalidScenario(
                f"{name} of {scheme}, {value}, leaves the order within an epoch to chance; "
                "epoch_based_processing() is for that"
            )


def require_topology(topology: Topology, scheme: str) -> None:
    """A function that makes a topology is none. Raises InvalidTopology."""
    proper(topology, Topology, f"what {scheme} protects", "a Topology, as word_count() makes one", InvalidTopology)


def deterministic(topology: Topology, scheme: str) -> None:
    """Replay and replicas give the same only where the operators do. Raises InvalidTopology."""
    require_topology(topology, scheme)
    _refuse(
        topology,
        scheme,
        [name for name, stage in topology.stages.items() if not stage.operator.deterministic],
        "is not deterministic: what it makes of an event the second time is not what it made the first time",
    )
    _refuse(
        topology,
        scheme,
        [name for name, stage in topology.stages.items() if stage.operator.every is not None],
        "emits by its node's clock: another replica, or a successor, emits otherwise, which the times of events, with "
        "due() and on_time(), would not",
    )


def without_timers(topology: Topology, scheme: str) -> None:
    """What a timer made since the checkpoint would be made again, though no input is. Raises InvalidTopology."""
    require_topology(topology, scheme)
    wrong = [name for name, stage in topology.stages.items() if has_timers(stage.operator)]
    _refuse(topology, scheme, wrong, "has timers: what one made after the last checkpoint, it makes twice")


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
    require_topology(topology, scheme)
    wrong = [name for name, stage in topology.stages.items() if keeps_for_ever(stage.operator)]
    _refuse(topology, scheme, wrong, "keeps state for ever; it needs a window, or no state")


def at_least(least: int, name: str, amount: int) -> None:
    """Raises InvalidScenario for too few peers beside whom a slice would survive."""
    if not isinstance(amount, int) or isinstance(amount, bool) or amount < least:
        raise InvalidScenario(f"{name}={amount!r}: a slice survives beside another; it needs {least} or more")


def single_channels(topology: Topology, scheme: str, why: str) -> None:
    """Raises InvalidTopology for an operator slice with more than one input channel."""
    merging = [s for s in topology.operator_slices if len(topology.upstream(s)) > 1]
    _refuse(topology, scheme, merging, f"has more than one input channel: {why}")


def epochs(topology: Topology, scheme: str, otherwise: int) -> dict[str, int]:
    """How long the epochs of each operator are: as it says, or else so that they fit into those of all that say it, or
    so long where none does. Raises InvalidTopology where those of one do not fit into those of the next: what it makes
    in one of its epochs would belong to several of the next."""
    require_topology(topology, scheme)
    positive(otherwise, f"epoch of {scheme}, in milliseconds,")
    usual = gcd(*(stage.operator.epoch or 0 for stage in topology.stages.values())) or otherwise
    sizes = {name: stage.operator.epoch or usual for name, stage in topology.stages.items()}
    for edge in topology.edges:
        up, down = sizes.get(edge.upstream), sizes.get(edge.downstream)
        if up is not None and down is not None and down % up:
            raise InvalidTopology(
                f"an epoch of {edge.downstream!r} of {topology.name!r} ({down} ms) does not consist of those of "
                f"{edge.upstream!r} ({up} ms), which feeds it; make the one a multiple of the other"
            )
    return sizes


def commutative(topology: Topology, scheme: str) -> None:
    """Where several channels are taken as they come, nothing may depend on their order. Raises InvalidTopology."""
    wrong = [
        slice_id
        for slice_id in topology.operator_slices
        if len(topology.upstream(slice_id)) > 1 and not _closes_alike(topology.stages[operator_of(slice_id)].operator)
    ]
    _refuse(topology, scheme, wrong, "has more than one input channel, and is not commutative within epochs of its own")


def _closes_alike(operator: Operator[Any]) -> bool:
    return operator.commutative and operator.epoch is not None


def promised(topology: Topology, merge: Merge, silence: Duration) -> tuple[TellSilence, ...]:
    """An idle channel has to say how far time has come where a merge goes by time, or a timer, and nowhere else."""
    meets = any(len(topology.upstream(slice_id)) > 1 for slice_id in topology.operator_slices)
    timed = any(stage.operator.by_event_time for stage in topology.stages.values())
    return (TellSilence(silence),) if timed or (meets and merge.by_time) else ()


def activities_of_merge(topology: Topology, merge: Merge | None) -> tuple[Activity, ...]:
    """What rests on a merge, where channels meet."""
    meets = any(len(topology.upstream(slice_id)) > 1 for slice_id in topology.operator_slices)
    return (Activity.MERGE,) if meets and merge is not None else ()


def filtering(topology: Topology, sink_filter: bool) -> tuple[Activity, ...]:
    """What rests on duplicate filters, where something that fails feeds somebody who filters: sources do not fail."""
    inner = any(edge.upstream in topology.stages and edge.downstream in topology.stages for edge in topology.edges)
    return (Activity.FILTER,) if inner or sink_filter else ()


def acyclic(topology: Topology, scheme: str, why: str) -> None:
    """Raises InvalidTopology for a topology that leads back."""
    require_topology(topology, scheme)
    back = [f"{edge.upstream} feeds {edge.downstream} back" for edge in topology.edges if edge.feedback]
    if back:
        raise InvalidTopology(f"{', '.join(back)} in {topology.name!r}: {why}. {scheme} cannot protect it")


MERGE_WAITS = "a merge waits for all channels before it takes anything, so what comes back would wait for itself"
"""Why what comes back cannot be taken in a declared order."""


def _refuse(topology: Topology, scheme: str, wrong: list[str], why: str) -> None:
    if wrong:
        raise InvalidTopology(f"{', '.join(wrong)} of {topology.name!r} {why}. {scheme} cannot protect it")
