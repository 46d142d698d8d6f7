"""What no record of a simulated run says can be looked at while it is carried out once more."""

from __future__ import annotations

import pytest

from simulation import KINDS
from streamproof import Scenario, active_standby, gap, passive_replication, passive_standby
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.quantities import events
from streamproof.harness.running.run import run_in_memory
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.harness.worlds.simulated.looking_on import look_on
from streamproof.harness.worlds.simulated.seen_beside import SeenBeside
from streamproof.scenarios.trace import trace
from streamproof.scenarios.workloads import numbered

AT_THE_END = 1 << 60
ONE = trace(parallelism=1)


def seen(subject: SchemeSubject, looked_at_seed: int = 1) -> SeenBeside:
    scenario = Scenario(subject, numbered(events=30, batch=2))
    history, _ = run_in_memory(scenario, SimulatedCluster(), KINDS, Registry().oracles, seed=1)
    return look_on(SimulatedCluster(), scenario, looked_at_seed, KINDS, history)


def kept_at_the_end(subject: SchemeSubject, of: str, incarnation: int = 1) -> dict[str, str]:
    return dict(seen(subject).held(of, incarnation, AT_THE_END))


def test_what_no_checkpoint_covers_is_kept() -> None:
    kept = kept_at_the_end(passive_replication(ONE, checkpoint_every=events(8)), "source-0")
    assert kept.keys() == {"log for relay-0"}
    first, _, last = kept["log for relay-0"].partition("–")
    assert last == "#30"
    assert 30 - 16 < int(first.removeprefix("#")) < 30


@pytest.mark.parametrize(("incarnation", "slices"), [(1, 1), (2, 0)])
def test_of_who_is_not_there_nothing_is(incarnation: int, slices: int) -> None:
    subject = passive_replication(ONE, checkpoint_every=events(8))
    assert len(kept_at_the_end(subject, "source-0", incarnation)) == slices


def test_who_keeps_nothing_has_no_log() -> None:
    assert kept_at_the_end(gap(ONE, checkpoint_every=events(8)), "source-0") == {}


def test_what_stands_around_a_slice_hides_nothing() -> None:
    sound = passive_standby(ONE, synchronize_every=events(8))
    broken = Registry().mutants["passive-standby-hot-letting-input-pass"].make(ONE, events(8))
    assert kept_at_the_end(broken, "relay-0") == kept_at_the_end(sound, "relay-0") != {}


def test_of_a_run_that_comes_to_another_history_nothing_is_known() -> None:
    subject = passive_standby(ONE, synchronize_every=events(8))
    found, other = seen(subject), seen(subject, looked_at_seed=2)
    assert found.sent
    assert not other.sent
    assert not dict(other.held("relay-0", 1, AT_THE_END))


def test_a_hot_standby_is_sent_all_input_and_keeps_it() -> None:
    found = seen(passive_standby(ONE, synchronize_every=events(8)))
    sent = [one for one in found.sent if one.slice_id == "trace-0"]
    assert [number for one in sent for number in one.numbers] == list(range(1, 31))
    assert {(one.incarnation, one.upstream, one.upstream_incarnation) for one in sent} == {(2, "relay-0", 1)}
    assert not any(one.passed for one in sent)
    assert [one.at for one in found.sent] == sorted(one.at for one in found.sent)


def test_what_a_standby_lets_pass_is_seen() -> None:
    broken = Registry().mutants["passive-standby-hot-letting-input-pass"].make(ONE, events(8))
    passed = [one for one in seen(broken).sent if one.passed]
    assert {one.slice_id for one in passed} == {"relay-0", "trace-0"}
    assert all(one.incarnation == 2 and one.passed == one.numbers for one in passed)


def test_a_replica_that_joins_keeps_what_it_is_sent_until_it_has_a_state() -> None:
    sent = [one for one in seen(active_standby(ONE)).sent if one.slice_id == "trace-0"]
    numbers = [number for one in sent for number in one.numbers]
    assert numbers == list(range(1, len(numbers) + 1))
    assert 0 < len(numbers) < 30
    assert not any(one.passed for one in sent)


@pytest.mark.parametrize(
    "subject",
    [
        passive_standby(ONE, hot=False, synchronize_every=events(8)),
        passive_replication(ONE, checkpoint_every=events(8)),
    ],
    ids=lambda one: one.kind,
)
def test_who_is_sent_nothing_or_takes_it_is_not_told_of(subject: SchemeSubject) -> None:
    assert not seen(subject).sent
