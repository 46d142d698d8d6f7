"""The mutants of epoch-based processing. A new one is an entry here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from ...harness.contracts.subject import SchemeSubject
from ...harness.core.events import Event, Output
from ...harness.core.operators import Operator
from ...harness.core.quantities import Events
from ...harness.core.topology import Role, Topology
from ...harness.core.verdicts import Anomaly
from ...harness.protocol.effects import Durable, Effect, Input, Persist, Send
from ...harness.protocol.machine import Slice
from ...harness.protocol.mechanism import Mechanism
from ...harness.protocol.messages import Batch
from ...harness.protocol.operator import VECTOR, Vector
from ...harness.protocol.spec import Setup
from ..epoch_based_processing import epoch_based_processing
from ..mechanisms.checkpointing import Checkpointing
from ..mechanisms.epochs import CheckpointEpochs
from ..mechanisms.output_log import PART as LOG
from ..mechanisms.output_log import Logged
from .broken_epochs import LowerInclusive, OnePasses, TakenEarly, sequencing
from .mutant import BrokenScheme, Build, changing, twisting
from .twists import Twisted

_ON = "tumbling-count.epoch-based-processing"


def _repeating(topology: Topology, every: Events) -> SchemeSubject:
    return epoch_based_processing(topology)


def _masked(topology: Topology, every: Events) -> SchemeSubject:
    return epoch_based_processing(topology, sink_filter=True)


class _Eager(Operator[Any]):
    """Makes something of each event as well, before the end of an epoch."""

    def __init__(self, operator: Operator[Any]) -> None:
        self.operator = operator
        self.epoch = operator.epoch
        self.commutative = operator.commutative

    def initial_state(self) -> Any:
        return self.operator.initial_state()

    def process(self, event: Event, state: Any) -> list[Output]:
        return [*self.operator.process(event, state), (event.key, event.value)]

    def close(self, upper: int, state: Any) -> Iterable[Output]:
        return self.operator.close(upper, state)


def _eager(topology: Topology, every: Events) -> SchemeSubject:
    """With operators that do not wait for the end of an epoch."""
    stages = {
        name: replace(stage, operator=_Eager(stage.operator)) if stage.operator.commutative else stage
        for name, stage in topology.stages.items()
    }
    return _masked(replace(topology, stages=stages), every)


def _within_epochs(setup: Setup) -> Setup:
    """With checkpoints every few events, wherever these are."""

    def other(one: Mechanism) -> Mechanism:
        return Checkpointing(Events(3)) if isinstance(one, CheckpointEpochs) else one

    return replace(setup, mechanisms=tuple(map(other, setup.mechanisms)))


def _persisted(machine: Slice, given: Input, change: Callable[[Persist], Persist]) -> list[Effect]:
    return [change(effect) if isinstance(effect, Persist) else effect for effect in machine.on(given)]


def _persists_the_highest_number(machine: Slice, given: Input) -> list[Effect]:
    """A checkpoint holds the highest number that was taken, and not that of each channel."""

    def change(effect: Persist) -> Persist:
        vector = effect.checkpoint.part(VECTOR, Vector) or Vector()
        marks = dict.fromkeys(vector.marks, max(vector.marks.values(), default=0))
        parts = effect.checkpoint.parts | {VECTOR: Vector(marks, vector.turn)}
        return Persist(msgspec.structs.replace(effect.checkpoint, parts=parts))

    return _persisted(machine, given, change)


def _sending_when_durable(build: Build) -> Build:
    """What is made at the end of an epoch is sent when the checkpoint of the boundary is durable, which does not hold
    it."""
    return lambda topology, every: replace(build(topology, every), wraps={Role.OPERATOR: _holding_back})


def _holding_back(machine: Slice) -> Slice:
    held: list[Effect] = []

    def twist(machine: Slice, given: Input) -> list[Effect]:
        effects = machine.on(given)
        if isinstance(given, Durable):
            effects, held[:] = [*held, *effects], []
        persists = [place for place, effect in enumerate(effects) if isinstance(effect, Persist)]
        last = persists[-1] if persists else (len(effects) if held else 0)
        kept = [
            effect
            for place, effect in enumerate(effects)
            if isinstance(effect, Send) and effect.to in machine.spec.downstream and (place < last or held)
        ]
        held.extend(kept)
        return [_without(effect, kept) for effect in effects if effect not in kept]

    return Twisted(twist, machine)


def _without(effect: Effect, held: Sequence[Effect]) -> Effect:
    """A checkpoint whose log lacks what is held."""
    if not isinstance(effect, Persist):
        return effect
    seqs = {
        e.seq for one in held if isinstance(one, Send) and isinstance(one.message, Batch) for e in one.message.events
    }
    kept = effect.checkpoint.part(LOG, Logged) or Logged({})
    log = Logged({to: [event for event in events if event.seq not in seqs] for to, events in kept.events.items()})
    return Persist(msgspec.structs.replace(effect.checkpoint, parts=effect.checkpoint.parts | {LOG: log}))


MUTANTS = (
    BrokenScheme(
        "epochs-taken-early",
        "what belongs to a later epoch waits until the current one has closed",
        Anomaly.PHANTOM_OUTPUT,
        sequencing(_repeating, TakenEarly),
        on=_ON,
        without_faults=True,
    ),
    BrokenScheme(
        "epochs-closed-by-one-channel",
        "an epoch closes when all channels have passed it",
        Anomaly.PHANTOM_OUTPUT,
        sequencing(_repeating, OnePasses),
        on=_ON,
    ),
    BrokenScheme(
        "epochs-checkpointed-by-the-highest-number",
        "a checkpoint is taken at a boundary, where the number taken last of each channel says what was taken",
        Anomaly.LOST_INPUT,
        twisting(changing(_repeating, _within_epochs), _persists_the_highest_number),
        on=_ON,
    ),
    BrokenScheme(
        "epochs-checkpointed-before-sending",
        "a checkpoint is taken after what was made at the end of the epoch has been sent, and holds it",
        Anomaly.LOST_INPUT,
        _sending_when_durable(_repeating),
        on=_ON,
    ),
    BrokenScheme(
        "epochs-told-before-their-end",
        "where channels meet, nothing is made before an epoch ends",
        Anomaly.LOST_INPUT,
        _eager,
        on=_ON,
    ),
    BrokenScheme(
        "epochs-with-their-lower-bound",
        "an epoch ends with its upper bound, and begins after its lower one",
        Anomaly.PHANTOM_OUTPUT,
        sequencing(_repeating, LowerInclusive),
        on=_ON,
        without_faults=True,
    ),
)
