"""The digest of a run is that of all that happened, and of nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

import long_histories
from simulation import history_of, scenario_of
from streamproof.faults.crash import crash
from streamproof.harness.core.other_processes import begin
from streamproof.harness.core.schedule import checkpoint
from streamproof.harness.recording import digesting
from streamproof.harness.recording.digesting import digested_meanwhile
from streamproof.harness.recording.folder import read_records
from streamproof.harness.recording.history import (
    Aborted,
    Bite,
    Drained,
    FaultHealed,
    FaultMissed,
    FaultStruck,
    History,
    NodeGone,
    NodeUp,
    Placed,
    Proof,
    Stamp,
    TimelineEntry,
)
from streamproof.harness.recording.records import Offered, Stamped
from streamproof.harness.recording.sealed import SealedRecords

BITE = Bite("c-0", "node-0", ("c-0",), outstanding=True, gone=True, pids=(17,))
TIMELINE: tuple[TimelineEntry, ...] = (
    Placed(Stamp(1), "c-0", 1, "node-0"),
    FaultStruck(Stamp(2), 0, "crash c-0", "c-0/0#1 before sent 7", BITE),
    NodeGone(Stamp(3), "node-0"),
    NodeUp(Stamp(4), "node-0"),
    FaultHealed(Stamp(5), 0, "crash c-0", "c-0", Proof(2, "kills")),
    FaultMissed(Stamp(6), 1, "pause c-0"),
    Drained(Stamp(7)),
)
HISTORY = History([Stamped(0, Offered("s-0", []))], TIMELINE)


@pytest.mark.parametrize("place", range(len(TIMELINE)))
def test_each_entry_of_the_timeline_is_part_of_it(place: int) -> None:
    less = replace(HISTORY, timeline=TIMELINE[:place] + TIMELINE[place + 1 :])
    assert less.digest() != HISTORY.digest()


def struck(change: Callable[[FaultStruck], FaultStruck]) -> History:
    return replace(HISTORY, timeline=[change(e) if isinstance(e, FaultStruck) else e for e in TIMELINE])


@pytest.mark.parametrize(
    "other",
    [
        replace(HISTORY, timeline=(TIMELINE[1], TIMELINE[0], *TIMELINE[2:])),
        replace(HISTORY, timeline=(*TIMELINE[:-1], Aborted(Stamp(7), "stall"))),
        replace(HISTORY, timeline=(Placed(Stamp(1), "c-0", 2, "node-0"), *TIMELINE[1:])),
        replace(HISTORY, timeline=(Placed(Stamp(1, step=3), "c-0", 1, "node-0"), *TIMELINE[1:])),
        struck(lambda one: msgspec.structs.replace(one, address=None)),
        struck(lambda one: msgspec.structs.replace(one, bite=msgspec.structs.replace(one.bite, gone=False))),
        replace(HISTORY, records=[]),
        replace(HISTORY, records=[*HISTORY.records, *HISTORY.records]),
    ],
    ids=["order", "another end", "another incarnation", "a step", "no address", "no bite", "no record", "twice"],
)
def test_what_happened_otherwise_has_another(other: History) -> None:
    assert other.digest() != HISTORY.digest()


def test_clock_and_machine_are_not() -> None:
    later = [msgspec.structs.replace(e, stamp=Stamp(e.stamp.at + 1_000, e.stamp.step)) for e in TIMELINE]
    assert replace(HISTORY, timeline=later).digest() == HISTORY.digest()
    assert replace(HISTORY, records=[Stamped(9, s.record) for s in HISTORY.records]).digest() == HISTORY.digest()
    others = struck(lambda one: msgspec.structs.replace(one, bite=msgspec.structs.replace(one.bite, pids=(18, 19))))
    assert others.digest() == HISTORY.digest()


def test_two_crashes_that_change_no_record_are_two_runs() -> None:
    """The records alone do not say what was done to the machines."""
    case = scenario_of("passive-replication-masked/trace-numbered")
    found = history_of(case, [crash("trace-0").at(checkpoint(1).durable)])
    assert replace(found, timeline=[e for e in found.timeline if isinstance(e, Drained)]).digest() != found.digest()


@pytest.fixture(scope="module")
def long_history(tmp_path_factory: pytest.TempPathFactory) -> History:
    folder = tmp_path_factory.mktemp("long")
    long_histories.write(folder, 30_000, crash=True, masked=False)
    history = read_records(folder)
    assert isinstance(history.records, SealedRecords)
    return history


def test_another_process_says_the_digest_of_a_long_history(
    long_history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digesting, "LONG", 1)
    monkeypatch.setattr(digesting, "_cores", lambda: 2)
    own = long_history.digest()
    monkeypatch.setattr(History, "digest", lambda _: "computed here")
    with digested_meanwhile(long_history) as digest:
        assert digest() == own
    with digested_meanwhile(History(list(long_history.records), long_history.timeline)) as digest:
        assert digest() == "computed here"


def test_a_digest_that_no_other_process_says_is_computed_here(
    long_history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digesting, "LONG", 1)
    monkeypatch.setattr(digesting, "_cores", lambda: 2)
    monkeypatch.setattr(digesting, "begin", lambda work, seed: begin(_fails, seed))
    with digested_meanwhile(long_history) as digest:
        assert digest() == long_history.digest()


def _fails(_: bytes) -> bytes:
    raise RuntimeError("it has no memory")
