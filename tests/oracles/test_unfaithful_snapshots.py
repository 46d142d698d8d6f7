"""What a checkpoint does not give back is found, whoever says what: values come of an execution without any."""

from __future__ import annotations

import math
import pickle
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from simulation import EVERY
from streamproof.faults.crash import crash
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.errors import InvalidOperator
from streamproof.harness.core.events import Event, Output, Value
from streamproof.harness.core.guarantees import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    EXACTLY_ONCE_OUTPUT,
    PRECISE,
    ROLLBACK_REPEATING,
)
from streamproof.harness.core.operators import Operator
from streamproof.harness.core.quantities import events
from streamproof.harness.core.reasons import Why
from streamproof.harness.core.topology import Edge, Stage, Topology
from streamproof.harness.core.verdicts import Anomaly, Status
from streamproof.harness.judging.going_on import false_snapshots
from streamproof.harness.running.determinism import beginning, examine
from streamproof.reference_impls.amnesia import amnesia
from streamproof.reference_impls.gap import gap
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.workloads import words
from verdicts_of import Judged, run

STRONG = (PRECISE, ROLLBACK_REPEATING, EXACTLY_ONCE, EXACTLY_ONCE_OUTPUT, AT_LEAST_ONCE)


class Count(Operator[dict[str, int]]):
    """How often each word has come."""

    def initial_state(self) -> dict[str, int]:
        return {}

    def process(self, event: Event, state: dict[str, int]) -> Iterable[Output]:
        made = []
        for word in event.value.split():
            state[word] = state.get(word, 0) + 1
            made.append((word, state[word]))
        return made


class RestoresNothing(Count):
    def restore(self, snapshot: bytes) -> dict[str, int]:
        return {}


class LeavesOutEverySecond(Count):
    def snapshot(self, state: dict[str, int]) -> bytes:
        return msgspec.msgpack.encode({key: state[key] for key in sorted(state)[::2]})


class Doubles(Count):
    def restore(self, snapshot: bytes) -> dict[str, int]:
        return {key: 2 * count for key, count in super().restore(snapshot).items()}


class EmptiesTheState(Count):
    def snapshot(self, state: dict[str, int]) -> bytes:
        made = super().snapshot(state)
        state.clear()
        return made


class CannotRestore(Count):
    def restore(self, snapshot: bytes) -> dict[str, int]:
        raise ValueError("of another version")


@dataclass
class Tally:
    counts: dict[str, int] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """Whoever copies it by pickle's rules copies it without what it counts."""
        return {"counts": {}}


class PicklesAmiss(Operator[Tally]):
    def initial_state(self) -> Tally:
        return Tally()

    def process(self, event: Event, state: Tally) -> Iterable[Output]:
        return Count().process(event, state.counts)

    def snapshot(self, state: Tally) -> bytes:
        return pickle.dumps(state)

    def restore(self, snapshot: bytes) -> Tally:
        return pickle.loads(snapshot)

    def rows(self, state: Tally) -> dict[str, int]:
        return state.counts


class HidesWhatItLoses(Count):
    """The rows survive, and what else it keeps does not."""

    def process(self, event: Event, state: dict[str, int]) -> Iterable[Output]:
        state["(events)"] = state.get("(events)", 0) + 1
        return [(event.key, state["(events)"])]

    def restore(self, snapshot: bytes) -> dict[str, int]:
        return {}

    def rows(self, state: dict[str, int]) -> dict[str, int]:
        return {}


class TellsNowAndThen(Count):
    """Every twelfth event it tells how many there were. A restored state counts on, and to twelve from the beginning:
    the rows do not show that, nor do the next outputs."""

    def process(self, event: Event, state: dict[str, int]) -> Iterable[Output]:
        for name in ("all", "twelve"):
            state[name] = state.get(name, 0) + 1
        return [("so far", state["all"])] if state["twelve"] % 12 == 0 else []

    def restore(self, snapshot: bytes) -> dict[str, int]:
        return {**super().restore(snapshot), "twelve": 0}

    def rows(self, state: dict[str, int]) -> dict[str, int]:
        return {"all": state.get("all", 0)}


class SharesWhatGoesOn(Count):
    """What a snapshot holds is the state itself, as long as nobody writes it anywhere."""

    def snapshot(self, state: dict[str, int]) -> bytes:
        return Shared(state)

    def restore(self, snapshot: bytes) -> dict[str, int]:
        return dict(snapshot.state)  # type: ignore[attr-defined]


class Shared(bytes):
    def __new__(cls, state: dict[str, int]) -> Shared:
        made = super().__new__(cls, b"")
        made.state = state  # type: ignore[attr-defined]
        return made


def topology_of(operator: Operator[Any]) -> Topology:
    return Topology("counts", {"count": Stage(operator)}, (Edge("source", "count"), Edge("count", "sink")))


def judged(operator: Operator[Any], *, crashes: bool = True) -> Judged:
    subject = passive_replication(topology_of(operator), checkpoint_every=EVERY, sink_filter=True)
    scenario = Scenario(subject, words(vocabulary=12, events=40, batch=4))
    return run(scenario, [crash("count-0").after(events(21))] if crashes else [])


@pytest.mark.parametrize(
    "operator", [RestoresNothing, LeavesOutEverySecond, Doubles, EmptiesTheState, PicklesAmiss, CannotRestore]
)
@pytest.mark.parametrize("crashes", [True, False])
def test_a_checkpoint_that_does_not_give_back_its_state(operator: Callable[[], Operator[Any]], crashes: bool) -> None:
    if crashes and operator is CannotRestore:
        with pytest.raises(InvalidOperator, match="of another version"):
            judged(operator())
        return
    found = judged(operator(), crashes=crashes)
    for guarantee in STRONG:
        verdict = found.verdict(guarantee)
        assert verdict.status is Status.VIOLATED, guarantee
        assert Anomaly.UNFAITHFUL_SNAPSHOT in {tally.anomaly for tally in verdict.anomalies}
    one = next(t for t in found.verdict(PRECISE).anomalies if t.anomaly is Anomaly.UNFAITHFUL_SNAPSHOT).sample[0]
    assert one.where.startswith("count-0#")
    assert one.what.startswith("checkpoint 1: ")


def test_gap_recovery_needs_faithful_checkpoints_too() -> None:
    subject = gap(topology_of(RestoresNothing()), checkpoint_every=EVERY)
    found = run(Scenario(subject, words(vocabulary=12, events=40, batch=4)), [crash("count-0").after(events(21))])
    assert found.claim.status is Status.VIOLATED
    calm = run(Scenario(subject, words(vocabulary=12, events=40, batch=4)), [])
    assert [tally.anomaly for tally in calm.claim.anomalies] == [Anomaly.UNFAITHFUL_SNAPSHOT], "nobody has used it yet"


class HoldsTheOneBefore(Count):
    """Makes of each input what the one before said. What it makes first once restored its predecessor had made before,
    as a rule, so that nobody is given the output that is wrong."""

    def process(self, event: Event, state: dict[str, Any]) -> Iterable[Output]:
        before, state["(before)"] = state.get("(before)", ""), event.value
        return [(event.key, before)]

    def restore(self, snapshot: bytes) -> dict[str, Any]:
        return {}

    def rows(self, state: dict[str, Any]) -> dict[str, Any]:
        return {}


@dataclass
class Before:
    said: str = ""


class HoldsItInAnObject(Operator[Before]):
    def initial_state(self) -> Before:
        return Before()

    def process(self, event: Event, state: Before) -> Iterable[Output]:
        before, state.said = state.said, event.value
        return [(event.key, before)]

    def snapshot(self, state: Before) -> bytes:
        return b""

    def restore(self, snapshot: bytes) -> Before:
        return Before()

    def rows(self, state: Before) -> dict[str, Any]:
        return {}


class FailsOnceRestored(HoldsTheOneBefore):
    def process(self, event: Event, state: dict[str, Any]) -> Iterable[Output]:
        if "(restored)" in state:
            raise LookupError("nothing came before")
        return super().process(event, state)

    def restore(self, snapshot: bytes) -> dict[str, Any]:
        return {"(restored)": True}


@pytest.mark.parametrize("operator", [HidesWhatItLoses, HoldsTheOneBefore, HoldsItInAnObject])
def test_a_checkpoint_of_which_inputs_make_something_else_though_its_rows_are_the_same(
    operator: Callable[[], Operator[Any]],
) -> None:
    found = judged(operator())
    for guarantee in STRONG:
        verdict = found.verdict(guarantee)
        assert verdict.status is Status.VIOLATED, guarantee
        assert Anomaly.UNFAITHFUL_SNAPSHOT in {tally.anomaly for tally in verdict.anomalies}
    one = next(t for t in found.verdict(PRECISE).anomalies if t.anomaly is Anomaly.UNFAITHFUL_SNAPSHOT).sample[0]
    assert "of event (source-0, " in one.what


class TakesNothingTwice(Count):
    """As one that knows that its input comes in order."""

    def process(self, event: Event, state: dict[str, int]) -> Iterable[Output]:
        if event.seq <= state.get("(last)", 0):
            raise ValueError("out of order")
        state["(last)"] = event.seq
        return super().process(event, state)


def test_a_checkpoint_with_which_no_input_can_be_taken_is_found_before_anybody_goes_on_from_it() -> None:
    (one,) = judged(FailsOnceRestored(), crashes=False).verdict(PRECISE).anomalies
    assert one.anomaly is Anomaly.UNFAITHFUL_SNAPSHOT
    assert one.sample[0].what.endswith("fails once restored: LookupError: nothing came before")


def test_who_takes_nothing_twice_is_not_suspected() -> None:
    assert judged(TakesNothingTwice()).verdict(PRECISE).status is Status.HOLDS


def test_what_no_row_shows_shows_in_the_outputs() -> None:
    calm, crashed = judged(HidesWhatItLoses(), crashes=False), judged(HidesWhatItLoses())
    assert [tally.anomaly for tally in calm.verdict(PRECISE).anomalies] == [Anomaly.UNFAITHFUL_SNAPSHOT]
    assert crashed.verdict(PRECISE).status is Status.VIOLATED
    assert Anomaly.PHANTOM_OUTPUT in {tally.anomaly for tally in crashed.verdict(PRECISE).anomalies}
    assert crashed.verdict(EXACTLY_ONCE).status is Status.VIOLATED
    assert crashed.verdict(AT_LEAST_ONCE).status is not Status.HOLDS


class RemembersWhatItMade(HidesWhatItLoses):
    """What it makes again after a crash is right, since the object that makes it has not been through one."""

    def __init__(self) -> None:
        self._made: dict[int, Iterable[Output]] = {}

    def process(self, event: Event, state: dict[str, int]) -> Iterable[Output]:
        if event.seq not in self._made:
            self._made[event.seq] = super().process(event, state)
        return self._made[event.seq]


def test_what_an_operator_keeps_in_itself_is_gone_with_its_node() -> None:
    operator = RemembersWhatItMade()
    found = judged(operator)
    assert found.verdict(PRECISE).status is Status.VIOLATED
    assert found.verdict(EXACTLY_ONCE).status is Status.VIOLATED
    assert judged(operator, crashes=False).verdict(PRECISE).status is Status.HOLDS
    # So it does not pass for one that gives the same in another process.
    assert examine(topology_of(RemembersWhatItMade()), beginning(found.history, ["source-0"])).differs == ""


def test_nor_does_it_know_what_an_earlier_run_or_its_judging_left_in_it() -> None:
    operator = RemembersWhatItMade()
    assert judged(operator, crashes=False).verdict(PRECISE).status is Status.HOLDS
    assert examine(topology_of(operator), {}).differs == ""
    assert judged(operator).verdict(PRECISE).status is Status.VIOLATED
    assert vars(operator) == {"_made": {}}


class HoldsAModule(RemembersWhatItMade):
    """Which can be pickled, and not copied."""

    def __init__(self) -> None:
        super().__init__()
        self._module = math


def test_what_cannot_be_copied_is_made_anew_as_another_process_would() -> None:
    assert judged(HoldsAModule()).verdict(PRECISE).status is Status.VIOLATED


class HoldsALock(Count):
    def __init__(self) -> None:
        self._lock = threading.Lock()


def test_what_no_process_could_be_sent_is_refused() -> None:
    with pytest.raises(InvalidOperator, match=r"HoldsALock cannot be copied .*: make locks, connections"):
        judged(HoldsALock())


class LosesInfinity(Count):
    """A record has None for it, before and after."""

    lost: float | None = None

    def process(self, event: Event, state: dict[str, Any]) -> Iterable[Output]:
        state.setdefault("least", [{"of all": math.inf}])
        return [(event.key, 1)]

    def restore(self, snapshot: bytes) -> dict[str, Any]:
        restored = msgspec.msgpack.decode(snapshot)
        return {key: [{"of all": self.lost}] for key in restored}


class InfinityBecomesItsOpposite(LosesInfinity):
    lost = -math.inf


class InfinityBecomesNan(LosesInfinity):
    lost = math.nan


@pytest.mark.parametrize("operator", [LosesInfinity, InfinityBecomesItsOpposite, InfinityBecomesNan])
def test_what_is_no_number_is_given_back_as_it_was(operator: Callable[[], Operator[Any]]) -> None:
    found = judged(operator(), crashes=False)
    assert found.verdict(EXACTLY_ONCE).status is Status.VIOLATED
    one = found.verdict(EXACTLY_ONCE).anomalies[0]
    assert one.anomaly is Anomaly.UNFAITHFUL_SNAPSHOT
    assert "was [{'of all': inf}], and is" in one.sample[0].what


class KeepsInfinity(LosesInfinity):
    lost = math.inf


class KeepsNan(LosesInfinity):
    lost = math.nan

    def process(self, event: Event, state: dict[str, Any]) -> Iterable[Output]:
        state.setdefault("least", [{"of all": math.nan}])
        return [(event.key, None)]


@pytest.mark.parametrize("operator", [KeepsInfinity, KeepsNan])
def test_what_is_no_number_does_no_harm(operator: Callable[[], Operator[Any]]) -> None:
    assert judged(operator()).verdict(PRECISE).status is Status.HOLDS


class KeysThatAreOneText(Count):
    def process(self, event: Event, state: dict[Any, int]) -> Iterable[Output]:
        state[1] = state.get(1, 0) + 1
        state["1"] = state.pop("1", 7)
        return [(event.key, 7)]

    def restore(self, snapshot: bytes) -> dict[Any, int]:
        return {key: count for key, count in msgspec.msgpack.decode(snapshot).items() if key != 1}


def test_keys_that_a_record_cannot_tell_apart_are_refused() -> None:
    with pytest.raises(InvalidOperator, match="keeps two keys that are one as a text, 1 and '1'; give it rows"):
        judged(KeysThatAreOneText())


class PicklesRightly(PicklesAmiss):
    def snapshot(self, state: Tally) -> bytes:
        return msgspec.msgpack.encode(state.counts)

    def restore(self, snapshot: bytes) -> Tally:
        return Tally(msgspec.msgpack.decode(snapshot))


@pytest.mark.parametrize("operator", [Count, PicklesRightly])
def test_a_faithful_one_is_precise(operator: Callable[[], Operator[Any]]) -> None:
    assert judged(operator()).verdict(PRECISE).status is Status.HOLDS


class Shares(Count):
    def __init__(self) -> None:
        self._state: dict[str, int] = {}

    def initial_state(self) -> dict[str, int]:
        return self._state


class SnapshotsTheStateItself(Count):
    def snapshot(self, state: dict[str, int]) -> bytes:
        return state  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("operator", "why"), [(Shares, "make a new one at every call"), (SnapshotsTheStateItself, "return bytes")]
)
def test_a_state_that_is_not_one_s_own_is_refused(operator: Callable[[], Operator[Any]], why: str) -> None:
    with pytest.raises(InvalidOperator, match=why):
        judged(operator())


@pytest.mark.parametrize("at", [14, 25])
def test_what_is_lost_and_not_seen_where_the_crash_was_lucky(at: int) -> None:
    """A checkpoint every twelve events is one of which nothing is missing, however often it crashes."""
    subject = passive_replication(topology_of(TellsNowAndThen()), checkpoint_every=events(12), sink_filter=True)
    scenario = Scenario(subject, words(vocabulary=12, events=40, batch=4))
    found = run(scenario, [crash("count-0").after(events(at))])
    for guarantee in STRONG:
        verdict = found.verdict(guarantee)
        assert (verdict.status, verdict.why) == (Status.UNKNOWN, Why.UNJUDGEABLE), guarantee
        assert verdict.reason.startswith("operator 'count' says that restore() gives back what snapshot() was taken of")
        assert "its state makes [['so far', 12]] of event (source-0, 12), and what is restored after" in verdict.reason


def test_who_takes_no_checkpoint_need_not_give_one_back() -> None:
    scenario = Scenario(amnesia(topology_of(TellsNowAndThen())), words(vocabulary=12, events=40, batch=4))
    assert run(scenario, [crash("count-0").after(events(14))]).claim.status is Status.HOLDS


def going_on(operator: Operator[Any], count: int = 60, every: int = 1) -> str:
    taken = [Event("source-0", n, f"k{n % 5}", f"w{n % 7} w{n % 3}", n * every) for n in range(1, count + 1)]
    return false_snapshots(topology_of(operator), {"count-0": taken}).get("count", "")


@pytest.mark.parametrize("count", [2, 30, 400, 3_000])
def test_who_goes_on_from_a_checkpoint_as_without_it_gives_it_back(count: int) -> None:
    assert going_on(Count(), count) == ""
    assert (going_on(TellsNowAndThen(), count) == "") == (count < 12)


def test_a_snapshot_that_goes_on_with_the_state_is_none() -> None:
    assert "of event (source-0," in going_on(SharesWhatGoesOn())


class TellsThirds(Operator[dict[str, Any]]):
    """Tells now and then how many came, and every third time also how many there were in all."""

    forgets = False

    def initial_state(self) -> dict[str, Any]:
        return {"count": 0, "all": 0, "third": 0, "due": None}

    def process(self, event: Event, state: dict[str, Any]) -> Iterable[Output]:
        state["count"] += 1
        state["all"] += 1
        state["due"] = state["due"] or event.time + 9
        return []

    def tell(self, state: dict[str, Any]) -> Iterable[Output]:
        count, state["count"], state["third"] = state["count"], 0, state["third"] + 1
        return [("now", count), *([("all", state["all"])] if state["third"] % 3 == 0 else [])]

    def restore(self, snapshot: bytes) -> dict[str, Any]:
        return {**super().restore(snapshot), **({"third": 0} if self.forgets else {})}

    def rows(self, state: dict[str, Any]) -> dict[str, Value]:
        return {name: state[name] for name in ("count", "all")}


class Windows(TellsThirds):
    epoch = 10

    def close(self, upper: int, state: dict[str, Any]) -> Iterable[Output]:
        return self.tell(state)


class Timers(TellsThirds):
    def due(self, state: dict[str, Any]) -> int | None:
        return state["due"]

    def on_time(self, time: int, state: dict[str, Any]) -> Iterable[Output]:
        state["due"] = None
        return self.tell(state)


class LosesItsTimer(Timers):
    def restore(self, snapshot: bytes) -> dict[str, Any]:
        return {**super().restore(snapshot), "due": None}


@pytest.mark.parametrize("kind", [Windows, Timers])
def test_what_ends_of_epochs_and_timers_make_is_compared_too(kind: type[TellsThirds]) -> None:
    assert going_on(kind(), every=2) == ""
    forgetful = kind()
    forgetful.forgets = True
    where = "at the end of the epoch up to" if kind is Windows else "when its timer fires at"
    assert re.search(rf"makes .*'all'.* {where} ", going_on(forgetful, every=2))


def test_a_timer_that_is_lost_with_a_restore_is_found() -> None:
    assert "when its timer fires at" in going_on(LosesItsTimer(), every=2)


def test_a_state_that_cannot_be_restored_is_none() -> None:
    assert going_on(CannotRestore()).endswith("fails: ValueError: of another version")
