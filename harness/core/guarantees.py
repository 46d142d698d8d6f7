"""What a subject can claim: a guarantee by its name, with the amounts that the claim states. What each guarantee is
says its oracle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from .errors import InvalidScenario
from .promises import Promise
from .quantities import Duration, Events, is_finite

AT_LEAST_ONCE = "at-least-once"
AT_MOST_ONCE = "at-most-once"
EXACTLY_ONCE = "exactly-once"
EXACTLY_ONCE_OUTPUT = "exactly-once-output"
PRECISE = "precise-recovery"
ROLLBACK_REPEATING = "rollback-recovery-repeating"
ROLLBACK_CONVERGENT = "rollback-recovery-convergent"
ROLLBACK_DIVERGENT = "rollback-recovery-divergent"
GAP = "gap-recovery"
AMNESIA = "amnesia"
K_SAFETY = "k-safety"
BOUNDED_ERROR = "bounded-error"
REPLICAS_AGREE = "replicas-agree"
RECOVERS = "recovers"
RECOVERS_WITHIN = "recovers-within"
SURVIVES_POWER_LOSS = "survives-power-loss"

WITHIN = "within"
"""The name of the bound of a guarantee that has one."""
OPENS_WITHIN = "opens_within"
"""What a claim of gap recovery can state beside its bound."""

Amount = Duration | Events | int | float | str
"""What a claim can state: amounts, each with its unit but for plain numbers, and names."""
AmountType = TypeVar("AmountType", bound=Amount)


@dataclass(frozen=True)
class PowerLoss:
    """What is claimed of losses of power."""

    of: Guarantee
    """What holds under them."""
    promise: Promise = Promise.EXT4_ORDERED
    """Of the file system."""
    checkpoint_syncs: bool = True
    """Whether the checkpoint lies on other storage, which keeps whatever is written to it."""

    @property
    def terms(self) -> str:
        return f"{self.promise}, checkpoint synced" if self.checkpoint_syncs else str(self.promise)


@dataclass(frozen=True)
class Guarantee:
    """A claim on a history: which guarantee, and its bound where it has one."""

    name: str
    within: Duration | Events | None = None
    amounts: tuple[tuple[str, Amount], ...] = ()
    """What else the claim states, by the names of the guarantee's parameters."""
    power: PowerLoss | None = None
    """Of survives-power-loss, which has it always."""

    def __post_init__(self) -> None:
        if self.name == SURVIVES_POWER_LOSS and self.power is None:
            object.__setattr__(self, "power", PowerLoss(exactly_once()))

    @property
    def terms(self) -> str:
        """On which power is lost where it is judged; empty where it is judged by runs in which none is."""
        return "" if self.power is None else self.power.terms

    @property
    def stated(self) -> dict[str, Amount]:
        """All amounts that the claim states, by the names of the guarantee's parameters."""
        return dict(self.amounts) if self.within is None else {WITHIN: self.within, **dict(self.amounts)}

    def amount(self, name: str) -> Amount | None:
        """None where the claim does not state it."""
        return dict(self.amounts).get(name)

    def required(self, name: str, kind: type[AmountType]) -> AmountType:
        """An amount that every claim states, since its parameter is required. Raises InvalidScenario for one that does
        not."""
        amount = self.stated.get(name)
        if kind is float and isinstance(amount, int) and not isinstance(amount, bool):
            amount = float(amount)
        if not isinstance(amount, kind):
            raise InvalidScenario(f"the claim {self.name} needs {name}, of the kind {kind.__name__}; it has {amount!r}")
        return amount

    def __str__(self) -> str:
        if self.power is not None:
            return f"{self.name} ({self.power.of}, {self.power.terms})"
        bounds = [] if self.within is None else [str(self.within)]
        bounds += [f"{name.replace('_', ' ')} {amount}" for name, amount in self.amounts]
        return f"{self.name} ({', '.join(bounds)})" if bounds else self.name


def at_least_once() -> Guarantee:
    """Every input counts, in outputs and in state; some may count again."""
    return Guarantee(AT_LEAST_ONCE)


def at_most_once() -> Guarantee:
    """Of effects: nothing counts twice, and some inputs may not count at all."""
    return Guarantee(AT_MOST_ONCE)


def exactly_once() -> Guarantee:
    """Of effects: an output may be repeated, as long as nothing counts twice."""
    return Guarantee(EXACTLY_ONCE)


def exactly_once_output() -> Guarantee:
    """Of effects, and no output is repeated."""
    return Guarantee(EXACTLY_ONCE_OUTPUT)


def precise_recovery() -> Guarantee:
    """The failure is masked: outputs and state are those of one execution without it, in one legal order."""
    return Guarantee(PRECISE)


def rollback_recovery(*, divergent: bool = False, converges_within: Duration | Events | None = None) -> Guarantee:
    """Nothing is lost or counted twice. Outputs may repeat: identically, or, if `divergent`, with another content, or
    with another until so much event time, or so many events, after each recovery."""
    if converges_within is not None:
        return Guarantee(ROLLBACK_CONVERGENT, converges_within)
    return Guarantee(ROLLBACK_DIVERGENT if divergent else ROLLBACK_REPEATING)


def gap_recovery(checkpoint_every: Events | None = None, opens_within: Duration | None = None) -> Guarantee:
    """What a crash takes back is bounded by the checkpoint interval, and what passes by until the slice hears again
    ends `opens_within` after its start: 30 s where that is not said, 20 ms in the simulator. Without an interval, that
    of the subject, where it changes the one that was in force."""
    return Guarantee(GAP, checkpoint_every, () if opens_within is None else ((OPENS_WITHIN, opens_within),))


def amnesia_recovery() -> Guarantee:
    """What a crash takes back may be everything: the slice starts blank, and goes on with whatever comes next."""
    return Guarantee(AMNESIA)


def k_safety(latency: Duration | None = None) -> Guarantee:
    """Exactly-once, of effects, and nothing stalls; with a bound, no output comes later than that after its input."""
    return Guarantee(K_SAFETY, latency)


def bounded_error(
    theta: float,
    l: float,  # noqa: E741  It is the paper's.
    gamma: float,
    *,
    window: Duration | None = None,
) -> Guarantee:
    """All failures together move no state further than `theta` from what it were without them, beside what `l` lost
    items move it, and lose no more outputs than `gamma`, beside what `l` items would have made; with a `window` of
    event time, those in each of them. Nothing counts twice. Raises InvalidScenario for what is no bound."""
    for name, amount in (("theta", theta), ("l", l), ("gamma", gamma)):
        if isinstance(amount, bool) or not isinstance(amount, int | float) or not is_finite(amount) or amount < 0:
            raise InvalidScenario(f"bounded_error({name}={amount!r}) needs a number, 0 or more")
    if window is not None and (not isinstance(window, Duration) or window.micros < 1_000):
        raise InvalidScenario(f"bounded_error(window={window!r}) needs an amount of event time, as in ms(50)")
    bounds: tuple[tuple[str, Amount], ...] = (("theta", float(theta)), ("l", float(l)), ("gamma", float(gamma)))
    return Guarantee(BOUNDED_ERROR, amounts=bounds if window is None else (*bounds, ("window", window)))


def replicas_agree() -> Guarantee:
    """Replicas that took the same hold and give the same."""
    return Guarantee(REPLICAS_AGREE)


def recovers(within: Duration | None = None) -> Guarantee:
    """After every fault the subject is back without manual work: no stall, no crash loop. With a bound, in that time of
    being started again. Every certificate claims it, with a bound of its own where none is stated."""
    return Guarantee(RECOVERS, within)


def stated_recovery(claims: Iterable[Guarantee]) -> Duration | None:
    """The shortest time in which claims have a subject recover; None: none of them states one."""
    stated = [claim.within for claim in claims if claim.name == RECOVERS and isinstance(claim.within, Duration)]
    return min(stated, key=lambda within: within.micros, default=None)


def recovers_within(limit: Duration) -> Guarantee:
    """After every failure the progress that was lost is reached again, and the slice is heard again, within this time,
    on a real clock."""
    return Guarantee(RECOVERS_WITHIN, limit)


def survives_power_loss(
    of: Guarantee | None = None,
    promise: Promise | str = Promise.EXT4_ORDERED,
    *,
    checkpoint_syncs: bool = True,
) -> Guarantee:
    """What `of` says, exactly-once where nothing is said, also holds where the power fails and what was not synced is
    lost, as far as the file system does not promise to keep it. Only what the query writes elsewhere is lost: its
    checkpoint keeps all that is written to it, as on a store of objects, unless `checkpoint_syncs` is false. On a local
    disk Spark syncs none of it: a file of it that is empty then keeps any query from starting again. Raises
    InvalidScenario."""
    try:
        promised = Promise(promise)
    except ValueError:
        raise InvalidScenario(
            f"survives_power_loss(promise={promise!r}): file systems promise {', '.join(Promise)}"
        ) from None
    inner = of or exactly_once()
    if inner.name == SURVIVES_POWER_LOSS:
        raise InvalidScenario("survives_power_loss(of=...) needs what is to hold, as exactly_once()")
    return Guarantee(SURVIVES_POWER_LOSS, power=PowerLoss(inner, promised, checkpoint_syncs))
