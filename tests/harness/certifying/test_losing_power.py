"""Losses of power in a campaign: what is planned, what is put back, and what is said where nothing is journalled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from streamproof.harness.certifying import campaign
from streamproof.harness.certifying.attempts import Attempt, Passed
from streamproof.harness.certifying.campaign import UNSYNCED, Budget
from streamproof.harness.certifying.journaled_folders import JournaledFolders
from streamproof.harness.certifying.losing_power import ByLoss, plan_losses, terms_of
from streamproof.harness.certifying.planning import every_crash_point
from streamproof.harness.certifying.profile import Profile
from streamproof.harness.certifying.waiting import AttemptStates
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.addresses import DRIVER, Address, Point, Side
from streamproof.harness.core.guarantees import at_least_once, exactly_once, survives_power_loss
from streamproof.harness.core.verdicts import Status
from streamproof.harness.core.wire import Endpoint
from streamproof.harness.crash_points.files.operations import Operation, OperationKind, framed
from streamproof.scenarios.workloads import words
from toy_spark import Does, ToyCluster, install, toy

EXT4 = survives_power_loss(checkpoint_syncs=False)
SYNCED = survives_power_loss()


class Mounted:
    """A mounted folder, in which nobody is at work any more."""

    def __init__(self, home: Path) -> None:
        self.mount, self.below, self.journal = home / "mounted", home / "below", home / "journal"
        for folder in (self.mount, self.below):
            folder.mkdir(parents=True)
        self.journal.touch()

    @property
    def position(self) -> int:
        return self.journal.stat().st_size

    def announce(self, place: Endpoint, token: str, node: str, incarnation: int, asks_before: bool = False) -> None: ...

    def be_quiet(self) -> None: ...

    @contextmanager
    def changing_below(self, touched: object = None) -> Iterator[None]:
        yield


OPERATIONS = (
    Operation(OperationKind.MKDIR, "sink"),
    Operation(OperationKind.MKDIR, "checkpoint"),
    Operation(OperationKind.SYNC_FOLDER, ""),
    Operation(OperationKind.CREATE, "sink/.draft", file=1),
    Operation(OperationKind.WRITE, "sink/.draft", data=b"rows", file=1),
    Operation(OperationKind.RENAME, "sink/.draft", other="sink/0"),
    Operation(OperationKind.CREATE, "checkpoint/.0.{random}.tmp", file=2),
    Operation(OperationKind.WRITE, "checkpoint/.0.{random}.tmp", data=b"v1", file=2),
    Operation(OperationKind.RENAME, "checkpoint/.0.{random}.tmp", other="checkpoint/0"),
)


@dataclass
class RecoveryWorkerOf:
    """A recovery worker whose attempt is over."""

    store: JournaledFolders
    below: Path
    no_journal: str = ""


def lived(home: Path, random: str) -> tuple[RecoveryWorkerOf, Attempt]:
    mounted = Mounted(home)
    store = JournaledFolders(mounted, "token", "worker-1")  # type: ignore[arg-type]
    store.begin(("127.0.0.1", 1), 1)
    attempt = Attempt(DRIVER, 1)
    marks: list[int] = []
    for one in OPERATIONS:
        named = Operation(
            one.kind, one.path.format(random=random), other=one.other, data=one.data, file=one.file, thread=1
        )
        with mounted.journal.open("ab") as journal:
            journal.write(framed(named))
        marks.append(store.mark())
        key = f"0/{one.kind} {one.path.format(random='*')}#1"
        attempt.passed.append(Passed(Address(DRIVER, 1, Point.FILE, key, Side.AFTER), 0, 0, None))
    states = store.states(marks)
    attempt.passed[:] = [
        Passed(one.address, one.at, one.records, state) for one, state in zip(attempt.passed, states, strict=True)
    ]
    return RecoveryWorkerOf(store, mounted.below), attempt


def held(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


UUIDS = ("0b7d3d1e-5a3c-4a57-9c1b-1c2d3e4f5a6b", "9f8e7d6c-1a2b-4c3d-8e9f-a0b1c2d3e4f5")


def test_what_a_loss_leaves_is_put_back_as_any_crash_state_is(tmp_path: Path) -> None:
    worker, attempt = lived(tmp_path, UUIDS[0])
    whole = attempt.passed[-1].state
    assert whole is not None
    assert EXT4.power is not None
    found = {state.lost.what: state for state in worker.store.losses(whole, EXT4.power) if state.lost is not None}
    worker.store.restore(found["nothing"])
    assert held(worker.below) == {"sink/0": b"rows", "checkpoint/0": b"v1"}
    worker.store.restore(found["what sink/0 was written since its last fsync"])
    assert held(worker.below) == {"sink/0": b"", "checkpoint/0": b"v1"}
    worker.store.restore(whole)
    assert held(worker.below) == {"sink/0": b"rows", "checkpoint/0": b"v1"}
    assert len({state.digest for state in found.values()}) == len(found)
    assert found["nothing"].digest == whole.digest


def test_a_checkpoint_that_is_synced_loses_nothing(tmp_path: Path) -> None:
    worker, attempt = lived(tmp_path, UUIDS[0])
    whole = attempt.passed[-1].state
    assert whole is not None
    assert SYNCED.power is not None
    for state in worker.store.losses(whole, SYNCED.power):
        worker.store.restore(state)
        assert held(worker.below)["checkpoint/0"] == b"v1"


def test_two_recovery_workers_find_each_others_losses_though_their_files_are_called_differently(tmp_path: Path) -> None:
    workers, attempts = zip(*(lived(tmp_path / uuid, uuid) for uuid in UUIDS), strict=True)
    profile = Profile(tuple(attempts[0].passed), {0: ("first",)}, False, False, False)
    losses = plan_losses(profile, workers, attempts, [EXT4, SYNCED, exactly_once()], True)
    other = AttemptStates(losses.attempts[1])
    assert losses.waiting
    assert all(other.passed(one) is not None for one in losses.waiting)
    assert len({one.crash for one in losses.waiting}) == len(losses.waiting)
    assert {one.crash.terms for one in losses.waiting} == {power.terms for power in terms_of([EXT4, SYNCED])}


def test_they_are_planned_where_something_is_made_to_count_and_a_sinks_contents_come_first(tmp_path: Path) -> None:
    worker, attempt = lived(tmp_path, UUIDS[0])
    profile = Profile(tuple(attempt.passed), {0: ("first",)}, False, False, False)
    losses = plan_losses(profile, [worker], [attempt], [EXT4], True)  # type: ignore[list-item]
    assert {one.crash.key.partition(" ")[0] for one in losses.waiting} == {"0/rename"}
    groups = sorted(AttemptStates(losses.attempts[0]).groups(losses.waiting), key=ByLoss(losses))
    first, last = groups[0][0].crash, groups[-1][0].crash
    assert first.lost is not None
    assert last.lost is not None
    assert first.lost.what.startswith("what ")
    assert "sink/0" in first.lost.what
    assert first.key == "0/rename checkpoint/.0.*.tmp#1"
    assert last.lost.what == "nothing"


def test_who_asks_for_the_same_of_several_guarantees_loses_power_once() -> None:
    assert len(terms_of([EXT4, survives_power_loss(at_least_once(), checkpoint_syncs=False), exactly_once()])) == 1
    assert terms_of([exactly_once()]) == []


def test_where_nothing_is_journalled_the_claim_is_unknown_with_the_reason_and_others_hold(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, tmp_path)
    found = campaign.certify(
        toy(Does.BY_ID),
        [exactly_once(), EXT4],
        every_crash_point("driver", recovering=False, split_brain=False),
        workload=words(events=20),
        cluster=ToyCluster(),
        registry=Registry(),
        budget=Budget(kills=0),
        folder=tmp_path / "certificate",
    )
    once, survives, recovers = found.certificate.verdicts
    assert (once.status, survives.status, recovers.status) == (Status.HOLDS, Status.UNKNOWN, Status.HOLDS)
    assert "no file operation is journalled here: nothing is mounted here" in survives.reasons[0]
    assert UNSYNCED in found.certificate.not_covered
