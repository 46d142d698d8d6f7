"""What a slice is, before it runs: its place in a topology, and what its scheme makes it of."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from ..core.errors import InvalidOperator, InvalidScenario, InvalidTopology
from ..core.operators import has_timers
from ..core.proper import proper
from ..core.slice_names import channel_name, operator_of
from ..core.topology import Role, Topology, all_before, chosen
from .coordinator import Coordinator
from .mechanism import Mechanism
from .merging import Merge, Order
from .messages import OF_CHANNELS, Flow, Message

if TYPE_CHECKING:
    from .machine import Slice


class Numbering(StrEnum):
    """Where a new incarnation begins to number its outputs."""

    CONTINUED = "continued"
    """After the last number in its checkpoint (1 without one): what it makes again carries its old number."""
    FRESH = "fresh"
    """Above every number of the incarnations before it, so that no receiver takes new output for old."""
    INHERITED = "inherited"
    """That of the input: its number times the operator's fan-out, plus the place among its outputs. So the number says
    what an output was made of, and needs no counter that survives."""
    DERIVED = "derived"
    """The same, of the input's number and its channel: no two outputs have one number, also where channels meet. In a
    cycle, and after one, where such numbers would grow with every lap, they are 60 bits that look random, made of the
    two."""


@dataclass(frozen=True)
class Setup:
    """What a scheme makes a slice of. Nothing at all is amnesia."""

    mechanisms: tuple[Mechanism, ...] = ()
    """In this order they hear of what happens."""
    numbering: Numbering = Numbering.FRESH
    merge: Merge | None = None
    """The order in which several channels are taken; None: as they arrive."""
    coordinators: tuple[Coordinator, ...] = ()
    """Those that its slices are led by."""

    def __post_init__(self) -> None:
        """Raises InvalidScenario for parts of another kind than declared."""
        proper(self.mechanisms, tuple, "mechanisms", "a tuple of Mechanism")
        for one in self.mechanisms:
            proper(one, Mechanism, "a mechanism", "a Mechanism, as in OutputLog()")
        taking = [type(one).__name__ for one in self.mechanisms if one.takes_checkpoints]
        if len(taking) > 1:
            raise InvalidScenario(
                f"{' and '.join(taking)} each take checkpoints of one slice, and there is one store for both: name one "
                "of them"
            )
        proper(self.coordinators, tuple, "coordinators", "a tuple of Coordinator")
        for leader in self.coordinators:
            proper(leader, Coordinator, "a coordinator", "a Coordinator, with its settings")
        proper(self.numbering, Numbering, "numbering", "a Numbering")
        proper(self.merge, Merge | None, "a merge", "ByTime() or RoundRobin()")

    @property
    def all_active(self) -> bool:
        """Whether all replicas of a slice send what they make."""
        return all(one.all_active for one in self.mechanisms)

    @property
    def replicas_take_all(self) -> bool:
        """Whether all replicas of a slice take all of its input, in one order."""
        return all(one.replicas_take_all for one in self.mechanisms)

    @property
    def promoted_from_store(self) -> bool:
        """Whether a replica that is promoted begins with the newest checkpoint in the store."""
        return any(one.promoted_from_store for one in self.mechanisms)

    @property
    def peers_keep_checkpoints(self) -> bool:
        """Whether checkpoints are in the memory of other replicas, and nowhere else."""
        return any(one.peers_keep_checkpoints for one in self.mechanisms)

    @property
    def in_fault_domain(self) -> bool:
        """Whether a sink that is made of it runs on a node."""
        return any(one.in_fault_domain for one in self.mechanisms)

    def find(self, kind: type[Mechanism]) -> Mechanism | None:
        """The mechanism of a kind; None where there is none."""
        return next((one for one in self.mechanisms if isinstance(one, kind)), None)


@dataclass(frozen=True)
class SliceSpec:
    """Everything about a slice that does not change while it runs, and is the same for its replicas."""

    slice_id: str
    topology: Topology
    setup: Setup
    wrap: Callable[[Slice], Slice] | None = field(default=None, repr=False, compare=False)
    """Put around the machine of each replica: a probe, or what breaks a rule of its protocol."""
    upstream: tuple[str, ...] = field(init=False)
    downstream: tuple[str, ...] = field(init=False)
    addressees: tuple[str, ...] = field(init=False)
    """Slices beside its neighbours that its mechanisms send to."""
    coordinators: tuple[str, ...] = field(init=False)
    """The names of those that it is led by."""
    members: ClassVar[tuple[str, ...]] = ()
    """It leads nobody."""
    receivers: _Receivers = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        named = (other for one in self.setup.mechanisms for other in one.addressees(self.topology, self.slice_id))
        object.__setattr__(self, "upstream", self.topology.upstream(self.slice_id))
        object.__setattr__(self, "downstream", self.topology.downstream(self.slice_id))
        object.__setattr__(self, "addressees", tuple(dict.fromkeys(named)))
        object.__setattr__(self, "coordinators", tuple(one.name for one in self.setup.coordinators))
        object.__setattr__(self, "receivers", _Receivers(self.topology, self.slice_id, self.downstream))
        self._check_epochs()
        self._check_timers()
        self._check_cycle()

    def _check_cycle(self) -> None:
        merge = self.setup.merge
        if self.cycle and merge is not None and (len(self.upstream) > 1 or self.epoch is not None):
            raise InvalidTopology(
                f"{self.slice_id} of {self.topology.name!r} is in a cycle ({', '.join(self.cycle)}), and {merge} waits "
                "for all its channels before it takes anything: what goes round would wait for itself. Choose a scheme "
                "without a merge, as gap()"
            )

    def _check_epochs(self) -> None:
        stage = self.topology.stages.get(operator_of(self.slice_id))
        wanted = None if stage is None else stage.operator.epoch
        if wanted is not None and wanted != self.epoch:
            taken = "no epochs" if self.epoch is None else f"epochs of {self.epoch} ms"
            raise InvalidTopology(
                f"the operator of {self.slice_id} is closed after every {wanted} ms, but its slice knows {taken}; "
                "choose a scheme with epochs, of that size, as epoch_merge()"
            )
        if self.epoch is not None and self.inherits:
            raise InvalidTopology(
                f"{self.slice_id} takes epochs of {self.epoch} ms, and numbers its outputs by its inputs; what is made "
                "at the end of an epoch has no single input: number outputs in another way"
            )

    def _check_timers(self) -> None:
        if not self.timed:
            return
        operator = self.topology.stages[operator_of(self.slice_id)].operator
        if self.inherits:
            raise InvalidTopology(
                f"the operator of {self.slice_id} has timers, and its slice numbers outputs by its inputs; what a "
                "timer makes has no single input: number outputs in another way"
            )
        if self.epoch is not None:
            raise InvalidTopology(
                f"the operator of {self.slice_id} has timers, and its slice takes its input in epochs; choose a scheme "
                "without epochs, or close() in place of timers"
            )
        merge = self.setup.merge
        in_time = merge is not None and merge.by_time and merge.order is Order.TOTAL
        if operator.by_event_time and len(self.upstream) > 1 and not in_time:
            raise InvalidTopology(
                f"the operator of {self.slice_id} has timers of event time, and its {len(self.upstream)} input "
                "channels are not merged by time, so that events come before a timer or after it by chance; use "
                "merge=ByTime()"
            )
        try:
            due = operator.due(operator.initial_state())
        except Exception as error:
            raise InvalidOperator(f"operator of {self.slice_id}, due(): {type(error).__name__}: {error}") from error
        if due is not None:
            raise InvalidOperator(
                f"operator of {self.slice_id}: due() wants to be called at {due!r} ms before anything was taken; of a "
                "blank state it returns None"
            )

    @cached_property
    def timed(self) -> bool:
        """Whether its operator has timers."""
        stage = self.topology.stages.get(operator_of(self.slice_id))
        return stage is not None and has_timers(stage.operator)

    @cached_property
    def role(self) -> Role:
        return self.topology.role(self.slice_id)

    @cached_property
    def delivers_on(self) -> tuple[str, ...]:
        """The channels on which it delivers, where it is a sink."""
        ups = self.upstream if self.role is Role.SINK else ()
        return tuple([channel_name(up, self.slice_id) for up in ups])

    @cached_property
    def on_nodes(self) -> bool:
        """Whether the manager places it on nodes, in their fault domains; else it is an end that the harness hosts."""
        return self.role is Role.OPERATOR or (self.role is Role.SINK and self.setup.in_fault_domain)

    def seed_of(self, incarnation: int, seed: int) -> int:
        """The seed of an incarnation's random draws in a run with this seed; 0 where it has none."""
        stage = self.topology.stages.get(operator_of(self.slice_id))
        if stage is None or stage.operator.deterministic:
            return 0
        return zlib.crc32(f"{seed} {self.slice_id}#{incarnation}".encode())

    @cached_property
    def epoch(self) -> int | None:
        """How many milliseconds of event time it takes as an epoch; None: it knows none."""
        merge = self.setup.merge
        return None if merge is None or self.role is not Role.OPERATOR else merge.epoch(self.slice_id)

    @property
    def messages(self) -> tuple[type[Message], ...]:
        """What it says beside what channels say."""
        return tuple(kind for one in self.setup.mechanisms for kind in one.messages)

    @cached_property
    def says(self) -> frozenset[type[Message]]:
        """All kinds of message that it may send."""
        return frozenset((*OF_CHANNELS, *self.messages))

    @property
    def promoted_from_store(self) -> bool:
        """Whether a replica that is promoted begins with the newest checkpoint in the store."""
        return self.setup.promoted_from_store

    @cached_property
    def cycle(self) -> tuple[str, ...]:
        """The slices of the cycle that it is in, itself included; none where it is in none."""
        return self.topology.cycle(self.slice_id)

    @cached_property
    def inherits(self) -> bool:
        """Whether outputs have numbers that follow from those of inputs."""
        return self.setup.numbering in (Numbering.INHERITED, Numbering.DERIVED)

    def derived(self, place: int, seq: int, fan_out: int) -> int:
        """The number of the first output of an input that has this number, on the channel at this place."""
        if self.setup.numbering is Numbering.DERIVED:
            seq = seq * len(self.upstream) + place
            if self._after_cycle:
                return _scattered(seq)
        return seq * fan_out

    @cached_property
    def _after_cycle(self) -> bool:
        """Whether it is in a cycle, or fed by one."""
        return any(
            self.topology.cycle(one) for one in (self.slice_id, *all_before(self.slice_id, self.topology.upstream))
        )

    @cached_property
    def numbers_rise(self) -> dict[str, bool]:
        """Upstream slice -> whether the numbers on its channel rise, so that a first and a last say which were
        taken."""
        if self.setup.numbering is not Numbering.DERIVED:
            return {up: not (self.inherits and len(self.topology.upstream(up)) > 1) for up in self.upstream}
        return {up: not meets(self.topology, up) for up in self.upstream}

    def may_send(self, to: str, message: Message) -> bool:
        """Whether a message of this kind is for this slice to send to another."""
        match message.flow:
            case Flow.DOWNSTREAM:
                return to in self.downstream
            case Flow.UPSTREAM:
                return to in self.upstream
            case Flow.FELLOWS:
                return to == self.slice_id
            case Flow.ASIDE:
                return to in self.addressees
            case Flow.REPORTS:
                return to in self.coordinators
            case Flow.ORDERS:
                return False


def _scattered(number: int) -> int:
    """60 bits that look random, and follow from a number (splitmix64)."""
    mask = (1 << 64) - 1
    number = (number + 0x9E3779B97F4A7C15) & mask
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & mask
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & mask
    return (number ^ (number >> 31)) >> 4


def meets(topology: Topology, slice_id: str) -> bool:
    """Whether channels meet on the way to a slice."""
    upstream = topology.upstream(slice_id)
    return bool(topology.cycle(slice_id)) or len(upstream) > 1 or any(meets(topology, up) for up in upstream)


_KEYS = 50_000
"""As many are remembered: there can be a key for every event."""


class _Receivers(dict[str, tuple[int, ...]]):
    """Key -> the places in `downstream` that an output with this key goes to. Computed once a key, as a rule."""

    def __init__(self, topology: Topology, slice_id: str, downstream: tuple[str, ...]) -> None:
        super().__init__()
        self._choices = [tuple(map(downstream.index, choice)) for choice in topology.choices(slice_id)]

    def __missing__(self, key: str) -> tuple[int, ...]:
        if type(key) is not str:
            raise TypeError(f"key {key!r} of an output is not a str, but a {type(key).__name__}")
        places = tuple([chosen(choice, key) for choice in self._choices])
        if len(self) < _KEYS:
            self[key] = places
        return places
