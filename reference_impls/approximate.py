"""Approximate fault tolerance: state and items are backed up only when a failure would cost more than a threshold, and
what all failures together cost stays within a bound (AF-Stream, section 3).

- A slice acknowledges an item as soon as it has received it. Items that wait to be processed are backed up, by the
  receiver, when more than l of them would not be; the state when its divergence from the last backup would exceed
  theta; outputs never: at gamma unacknowledged ones the slice stops. Punctuations are always backed up.
- A crashed slice restores its backup, and replays the newest consecutive run of its items; its thresholds are halved.
  At the end of a window they are what they were.
- Outputs are numbered by what they were made of, and receivers know numbers, so that nothing counts twice.
- A sink that can crash delivers in transactions, of which the numbers are part, and acknowledges what is durable: its
  crash loses nothing. The paper's does not fail.

The user's thresholds are of the whole computation. A slice gets its share of them: by `spread="sound"` they are divided
among all m operators, which lose beside one another or one after the other, theta among those that keep a state; among
its n copies; and by what an output of it becomes at the sinks. `spread="paper"` leaves out m, and what m operators lose
adds up at the sink (section 3.5.3).

What an output becomes is, in a pipeline, the product of the fan-outs further down: the paper's beta^(m-i), "since each
lost item can lead to at most beta^m lost output items after m pipeline stages". An operator that feeds several sends
each output to all of them, so what becomes of it there is added up. Of a cycle the paper proves nothing. It is a
pipeline as long as the way that an event goes round, so that one that is lost takes all its further turns with it: how
many outputs these are, fan-outs do not say, and the edge that leads back has to (`leads_to`). Where an output that is
lost on a channel becomes g at the sinks, a slice loses gamma / (m n g) outputs in all its failures, of which
gamma / (m n) are missing there; and l / (m n g) inputs, each of which made beta outputs, l beta / (m n). Added up over
all slices that is the bound, whichever fail, and whether at once or not.

What is lost upstream is an input lost downstream, and moves its state as well: see the oracle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from math import inf

from ..harness.contracts.claims import Claim
from ..harness.contracts.subject import SchemeSubject
from ..harness.core.errors import InvalidScenario, InvalidTopology
from ..harness.core.guarantees import Guarantee, bounded_error
from ..harness.core.operators import measures_divergence
from ..harness.core.proper import proper, switch
from ..harness.core.quantities import Duration, Events
from ..harness.core.topology import Edge, Role, Topology
from ..harness.judging.exercised import Activity
from ..harness.protocol.spec import Numbering, Setup
from .mechanisms.approximate_backup import ApproximateBackup
from .mechanisms.receipt import ONE_BY_ONE, AcknowledgeReceipt, KeepUntilReceived
from .mechanisms.sink_receipt import ReceiveInTransactions
from .mechanisms.thresholds import Thresholds, ThresholdWindow, WindowKind
from .requirements import bounded_fan_out, deterministic, settings


class Spread(StrEnum):
    """How a user's thresholds are divided along a pipeline."""

    SOUND = "sound"
    PAPER = "paper"


def approximate(
    topology: Topology,
    *,
    theta: float = 100,
    l: float = 20,  # noqa: E741  It is the paper's.
    gamma: float = 20,
    window: ThresholdWindow | None = None,
    spread: str = "sound",
    weights: Mapping[str, float] | None = None,
    ahead: int = 0,
    partial: bool = True,
    sink_on_node: bool = False,
    acknowledge_every: Events = ONE_BY_ONE,
) -> SchemeSubject:
    """Claims bounded error, for any number of failures, all slices at once too, as long as backups survive.

    `theta` bounds the divergence of a state, `l` the items and `gamma` the outputs that are lost, each by all failures
    of a window together. Costs nothing but a copy of the state in memory as long as they are not approached.

    With a `window`, what all failures in one of them cost is bounded. Of a decaying one nothing is claimed: each
    failure may cost as much as all, and the operator forgets it.

    `weights` says which part of all three an operator gets, where these are not to be even: `{"sketch": 3, "add": 1}`.
    One that is not named, or weighs 0, loses nothing: its items are backed up before they are processed. That costs
    little where it is fed little, or punctuations alone.

    With `acknowledge_every`, a receiver acknowledges so many events together, or fewer, so that nobody who stops at
    gamma waits for it. Saves most messages that go upstream. What is not acknowledged is kept by its sender, and sent
    again if the receiver crashes: so nothing more is lost by it.

    With `sink_on_node`, sinks run on nodes, and can crash like everything else. Costs a write for what comes together,
    and that an output is seen only when that is durable.

    Raises InvalidTopology for operators that keep a state and do not say how far two of its states are from each other
    (`divergence`, `alpha`), that do not say how many outputs an event makes (`fan_out`), that are not deterministic, or
    that depend on the order of events where channels meet; and for feedback that does not say what it leads to
    (`leads_to`).
    """
    scheme = "approximate fault tolerance"
    deterministic(topology, scheme)
    measured(topology, scheme)
    bounded_fan_out(topology, scheme)
    ordered(topology, scheme)
    bounded_feedback(topology, scheme)
    if spread not in list(Spread):
        raise InvalidScenario(f"spread={spread!r} of {scheme}: it is one of {', '.join(Spread)}")
    weighed(topology, spread, weights)
    whole = Thresholds(theta, l, gamma, window)
    settings(scheme, acknowledge_every=acknowledge_every)
    parts = shares(topology, whole, Spread(spread), weights)
    backup = ApproximateBackup(parts, ahead, partial, acknowledge_every=acknowledge_every)
    rests_on = (Activity.RESTART,)
    switch(sink_on_node, "sink_on_node")
    # As soon as anything waits: a sender stops at so few outputs that more might never come together.
    sink = ReceiveInTransactions(Events(1)) if sink_on_node else AcknowledgeReceipt(acknowledge_every, parts)
    needs = f"backups survive{', a store outside that writes outputs and numbers in one step' if sink_on_node else ''}"
    guarantee = _claimed(whole)
    return SchemeSubject(
        kind="approximate",
        topology=topology,
        setups={
            Role.SOURCE: Setup((KeepUntilReceived(),)),
            Role.OPERATOR: Setup((KeepUntilReceived(), backup), Numbering.DERIVED),
            Role.SINK: Setup((sink,), Numbering.DERIVED),
        },
        claims=() if guarantee is None else (Claim(guarantee, needs=needs, rests_on=rests_on),),
    )


def _claimed(whole: Thresholds) -> Guarantee | None:
    """None of a decaying window: what is left of an error there depends on how fast the operator forgets."""
    window = whole.window
    if window is None:
        return bounded_error(whole.theta, whole.l, whole.gamma)
    if window.kind is WindowKind.DECAYING:
        return None
    return bounded_error(whole.theta, whole.l, whole.gamma, window=Duration(window.length * 1_000))


def measured(topology: Topology, scheme: str) -> None:
    """An operator with a state has to measure it. Raises InvalidTopology."""
    for name, stage in topology.stages.items():
        operator = stage.operator
        if operator.initial_state() is not None and not measures_divergence(operator):
            lacking = "divergence()" if operator.alpha is not None else "divergence() and alpha"
            raise InvalidTopology(
                f"{name!r} of {topology.name!r} keeps a state, and has no {lacking}: how far two of its states are "
                f"from each other, and how far one event moves that. {scheme} cannot protect it"
            )


def ordered(topology: Topology, scheme: str) -> None:
    """Where an order matters, there has to be one. Raises InvalidTopology."""
    for slice_id in topology.operator_slices:
        if topology.unordered(slice_id):
            raise InvalidTopology(
                f"{slice_id} of {topology.name!r} depends on the order of its events, and has more than one input "
                f"channel: it has no ideal state to be compared with. {scheme} cannot protect it"
            )


def bounded_feedback(topology: Topology, scheme: str) -> None:
    """It has to be known what is lost with an event that goes round. Raises InvalidTopology."""
    for edge in topology.edges:
        if edge.feedback and edge.leads_to is None:
            raise InvalidTopology(
                f"{edge.upstream} feeds {edge.downstream} back in {topology.name!r}, and the edge does not say how "
                "many outputs at the sinks are lost at most with one event on it, in all its further turns; say so, "
                "as in Edge(..., feedback=True, leads_to=2), 0 where nothing answers it. "
                f"{scheme} cannot protect it"
            )


def weighed(topology: Topology, spread: str, weights: Mapping[str, float] | None) -> None:
    """Weights that make shares. Raises InvalidScenario."""
    if weights is None:
        return
    proper(weights, Mapping, "weights", "a mapping from operators to numbers")
    if spread != Spread.SOUND:
        raise InvalidScenario(f"weights={weights!r} with spread={spread!r}: the paper's shares have no weights")
    for name, weight in weights.items():
        if name not in topology.stages:
            raise InvalidScenario(f"weights: {topology.name!r} has no operator {name!r}; it has {_named(topology)}")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < inf:
            raise InvalidScenario(f"weights: {name!r} weighs {weight!r}; a weight is a number, 0 or more")
    if not sum(weights.values()):
        raise InvalidScenario(f"weights={weights!r}: somebody has to weigh something of {_named(topology)}")


def _named(topology: Topology) -> str:
    return ", ".join(topology.stages)


def shares(
    topology: Topology, whole: Thresholds, spread: Spread, weights: Mapping[str, float] | None = None
) -> dict[str, Thresholds]:
    """Operator -> what one of its slices may lose in all (section 3.5.3)."""
    found: dict[str, Thresholds] = {}
    stateful = {name for name, stage in topology.stages.items() if stage.operator.initial_state() is not None}
    of_states, of_items = _parts(weights, stateful), _parts(weights, set(topology.stages))
    for name, stage in topology.stages.items():
        divided = whole.divided(stage.parallelism * _grows(topology, name))
        if spread is Spread.SOUND:
            theta, items = of_states.get(name, 0.0), of_items.get(name, 0.0)
            divided = replace(divided, theta=divided.theta * theta, l=divided.l * items, gamma=divided.gamma * items)
        found[name] = divided
    return found


def _parts(weights: Mapping[str, float] | None, among: set[str]) -> dict[str, float]:
    """Operator -> its part of what all of these share."""
    weighing = {name: 1.0 if weights is None else weights.get(name, 0.0) for name in among}
    together = sum(weighing[name] for name in sorted(weighing))
    return {name: weight / together for name, weight in weighing.items() if together}


def _grows(topology: Topology, name: str) -> float:
    """How many outputs at the sinks are missing at most where one output of an operator is lost on one channel."""
    return max([1.0, *(_becomes(topology, edge) for edge in topology.edges if edge.upstream == name)])


def _becomes(topology: Topology, edge: Edge) -> float:
    """What one output on an edge is at the sinks in the end: itself where one is reached; what comes back, as much as
    its edge says; else all that the operator below makes of it, each of which goes out on all its edges."""
    stage = topology.stages.get(edge.downstream)
    if stage is None:
        return 1.0
    if edge.feedback:
        return inf if edge.leads_to is None else float(edge.leads_to)
    made = sum(_becomes(topology, below) for below in topology.edges if below.upstream == edge.downstream)
    return (stage.operator.fan_out or inf) * made
