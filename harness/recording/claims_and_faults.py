"""What was claimed, and what was planned to go wrong, as every file has it that tells of either: run folders,
counterexamples, certificates. One record for a claim and one for a fault; their text is made of them where it is shown.
"""

from __future__ import annotations

import msgspec

from ..core.addresses import Address, Moment
from ..core.errors import InvalidScenario
from ..core.guarantees import Amount, Guarantee, PowerLoss
from ..core.promises import Promise
from ..core.quantities import Duration, Events
from ..core.schedule import AtTime, Fault, FaultAmount, Trigger


class SavedBound(msgspec.Struct, frozen=True, omit_defaults=True):
    """An amount that a claim states, in its unit: one of these."""

    micros: int | None = None
    events: int | None = None
    number: int | float | None = None
    text: str | None = None

    @classmethod
    def of(cls, bound: Amount) -> SavedBound:
        match bound:
            case Duration(micros=micros):
                return cls(micros=micros)
            case Events(count=count):
                return cls(events=count)
            case str():
                return cls(text=bound)
            case _:
                return cls(number=bound)

    def bound(self) -> Amount:
        if self.micros is not None:
            return Duration(self.micros)
        if self.events is not None:
            return Events(self.events)
        if self.text is not None:
            return self.text
        if self.number is None:
            raise InvalidScenario("a claim states an amount of nothing")
        return self.number


class SavedClaim(msgspec.Struct, frozen=True, omit_defaults=True):
    """A guarantee that was claimed, with the amounts that the claim states."""

    guarantee: str
    within: SavedBound | None = None
    amounts: dict[str, SavedBound] = {}
    """The others, by the names of the guarantee's parameters."""
    survives: SavedClaim | None = None
    """What holds after a loss of power, where that is claimed; the other two are its terms."""
    promise: Promise | None = None
    checkpoint_syncs: bool = False

    @classmethod
    def of(cls, guarantee: Guarantee) -> SavedClaim:
        within, power = guarantee.within, guarantee.power
        return cls(
            guarantee.name,
            None if within is None else SavedBound.of(within),
            {name: SavedBound.of(amount) for name, amount in guarantee.amounts},
            None if power is None else cls.of(power.of),
            None if power is None else power.promise,
            power is not None and power.checkpoint_syncs,
        )

    def as_guarantee(self) -> Guarantee:
        """Raises InvalidScenario for an amount that is none."""
        within = None if self.within is None else self.within.bound()
        if not (within is None or isinstance(within, Duration | Events)):
            raise InvalidScenario(f"{self.guarantee} within {within!r}: that is no duration and no number of events")
        power = None
        if self.survives is not None and self.promise is not None:
            power = PowerLoss(self.survives.as_guarantee(), self.promise, self.checkpoint_syncs)
        amounts = tuple((name, amount.bound()) for name, amount in self.amounts.items())
        return Guarantee(self.guarantee, within, amounts, power)

    def __str__(self) -> str:
        return str(self.as_guarantee())


class SavedFault(msgspec.Struct, frozen=True, omit_defaults=True):
    """A fault, its parameters, and when: at an address, else so many microseconds after the start, or at a
    moment."""

    kind: str
    targets: tuple[str, ...]
    address: str | None = None
    after: int | None = None
    moment: Moment | None = None
    lasting: int | None = None
    """Microseconds until it heals."""
    one_way: bool = False
    amounts: dict[str, FaultAmount] = {}

    @classmethod
    def of(cls, fault: Fault) -> SavedFault:
        trigger = fault.trigger
        assert trigger is not None
        address = None if isinstance(trigger, AtTime) else _address(trigger)
        return cls(
            fault.kind,
            fault.targets,
            address=None if address is None else str(address),
            after=trigger.after.micros if isinstance(trigger, AtTime) else None,
            moment=trigger if isinstance(trigger, Moment) and address is None else None,
            lasting=None if fault.duration is None else fault.duration.micros,
            one_way=fault.one_way,
            amounts=dict(fault.amounts),
        )

    def fault(self) -> Fault:
        """Raises InvalidScenario for what is no address."""
        trigger: Trigger
        if self.address is not None:
            trigger = Moment.exactly(Address.parse(self.address))
        elif self.after is not None:
            trigger = AtTime(Duration(self.after))
        elif self.moment is not None:
            trigger = self.moment
        else:
            raise InvalidScenario(f"the {self.kind} of {' and '.join(self.targets)} has no trigger")
        return Fault(
            self.kind,
            self.targets,
            trigger,
            None if self.lasting is None else Duration(self.lasting),
            self.one_way,
            tuple(self.amounts.items()),
        )

    def __str__(self) -> str:
        return str(self.fault())


def _address(moment: Moment) -> Address | None:
    """The one address that a moment matches; None if there may be several."""
    if moment.actor is None or moment.incarnation is None or moment.key is None or moment.recovering or moment.taken:
        return None
    return Address(moment.actor, moment.incarnation, moment.point, moment.key, moment.side)
