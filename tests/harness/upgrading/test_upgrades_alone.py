"""What each version does alone decides whether anything is judged; and what was not tried is said where the exit status
looks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from certified import crash_at
from streamproof.harness.certifying.attempts import Attempt, Passed
from streamproof.harness.contracts.query import SOURCE, Query, RunFolders, Store
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.addresses import DRIVER, Address, Point, Side
from streamproof.harness.core.errors import (
    DeadlinePassed,
    ExitStatus,
    InvalidOperator,
    InvalidScenario,
    MissingTool,
    StreamproofError,
    Unsupported,
    UserMistake,
)
from streamproof.harness.core.events import Event
from streamproof.harness.core.guarantees import exactly_once, exactly_once_output
from streamproof.harness.core.verdicts import Status
from streamproof.harness.crash_points.inside_python.effects import OutsideEffect
from streamproof.harness.crash_points.inside_python.following import Noted
from streamproof.harness.judging.references import REFERENCES, row_number
from streamproof.harness.recording.records import BatchDone, Delivered, Ended, Kept, Stamped, Started
from streamproof.harness.upgrading import found as finding
from streamproof.harness.upgrading import upgrade as upgrading
from streamproof.harness.upgrading.again import touched_again
from streamproof.harness.upgrading.found import TriedState, UpgradeFound, said_differently
from streamproof.harness.upgrading.outcomes import Aside, Basis, Switched, UpgradeOutcome, Way
from streamproof.harness.upgrading.record import UpgradeRecord
from streamproof.harness.upgrading.request import UpgradeRequest, UpgradeSide, not_taken, prepared
from streamproof.harness.upgrading.switch_judging import OTHER_BATCHES
from streamproof.harness.upgrading.unseen import unseen_of
from streamproof.harness.worlds.spark.queries.driver_plan import RunKind
from streamproof.scenarios.query_word_count import query_word_count
from streamproof.scenarios.workloads import words

OUTSIDE = OutsideEffect("file", "/data/x.db", "sinks.write:17")


class RecoveryWorkerAlone:
    """As much of a recovery worker as two versions need that go on from no state: no crash point is passed."""

    def __init__(
        self,
        effects: Sequence[OutsideEffect] = (),
        values: Sequence[int] = (1, 1),
        *,
        read: bool = False,
        failure: StreamproofError | None = None,
    ) -> None:
        self.store = self
        self.folders = RunFolders("one", Path("no-sink"), Path("no-checkpoint"))
        self.ran = None
        self.patience = 1.0
        self.which = ""
        self.watched: list[tuple[str, str]] = []
        self._effects = effects
        self._values = values
        self._read = read
        self._failure = failure

    def live(self, actor: str, sink: str, incarnation: int, watched: bool, kind: RunKind = RunKind.STREAM) -> Attempt:
        attempt = Attempt(actor, incarnation)
        if watched:
            self.watched.append((self.which, actor))
            # What an unwatched attempt does, nobody notes.
            attempt.noted = [Noted(tuple(self._effects))] if self.which == "new" else []
        value = self._values[REFERENCES.index(actor)] if self.which == "new" else 1
        rows = [Event("q", row_number(0, 0), "a", value, 0)]
        attempt.records = [Stamped(0, Delivered(sink, "q", 1, 0, rows)), Stamped(1, Ended(actor, 1, {}))]
        # Whoever reads the table of a run that has done nothing finds the same rows.
        attempt.records += [Stamped(2, Kept(actor, 1, {"x": 1}))] * (self._read or kind is RunKind.STORES)
        attempt.failure = self._failure if self.which == "new" else None
        return attempt

    @property
    def settings(self) -> dict[str, str]:
        return {"spark.which": self.which}

    def clear(self) -> None:
        """Of what it stores."""


def tried_alone(
    monkeypatch: pytest.MonkeyPatch, folder: Path, worker: RecoveryWorkerAlone, query: Query | None = None, **more: Any
) -> UpgradeRecord:
    query = query or query_word_count()

    def version(which: str) -> SimpleNamespace:
        return SimpleNamespace(query=query, moves_into=lambda worker: setattr(worker, "which", which))

    monkeypatch.setattr(upgrading._Upgrade, "_open", lambda self, stack, work: (version("old"), version("new"), worker))
    monkeypatch.setattr(finding, "find_java", lambda: SimpleNamespace(version="17"))
    side = UpgradeSide(query)
    request = UpgradeRequest(side, side, words(3, events=200, batch=5), Registry(), **more)
    given, found = touched_again(request.workload), UpgradeFound("one")
    upgrading._Upgrade(request, given, folder, lambda progress: None, found).run()
    return found.record(request, given)


def test_the_first_attempt_alone_of_each_version_is_watched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    worker = RecoveryWorkerAlone()
    tried_alone(monkeypatch, tmp_path, worker)

    assert worker.watched == [("old", REFERENCES[0]), ("new", REFERENCES[0])]


def test_nothing_is_judged_where_a_version_keeps_something_outside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record = tried_alone(monkeypatch, tmp_path, RecoveryWorkerAlone([OUTSIDE]))

    assert record.exit_status is ExitStatus.UNKNOWN
    assert "the new version has effects outside of its folders" in record.unjudgeable
    assert "file /data/x.db (sinks.write:17" in record.unjudgeable


def test_what_the_user_accepts_outside_does_not_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    query = replace(query_word_count(), accepts=["file /data/*"])

    assert tried_alone(monkeypatch, tmp_path, RecoveryWorkerAlone([OUTSIDE]), query).unjudgeable == ""


def test_nothing_is_judged_where_the_new_version_alone_gives_another_table_each_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record = tried_alone(monkeypatch, tmp_path, RecoveryWorkerAlone(values=(1, 2)))

    assert "another table each time" in record.unjudgeable
    assert record.exit_status is ExitStatus.UNKNOWN


def test_a_table_that_is_there_whatever_was_done_shows_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    query = replace(query_word_count(), write=write, read=read)

    with pytest.raises(InvalidOperator, match=r"the old version: .* its read gives the same 1 row for a run that has"):
        tried_alone(monkeypatch, tmp_path, RecoveryWorkerAlone(read=True), query)


def test_a_version_that_never_comes_to_its_end_alone_is_the_users(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    waits = RecoveryWorkerAlone(failure=DeadlinePassed("its end", 120, "nothing of it"))

    with pytest.raises(InvalidOperator, match=r"the new version fails alone, .* does not come to the end of its input"):
        tried_alone(monkeypatch, tmp_path, waits)


def test_the_settings_of_each_version_are_those_that_it_ran_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record = tried_alone(monkeypatch, tmp_path, RecoveryWorkerAlone())

    assert [record.old.settings, record.new.settings] == [{"spark.which": "old"}, {"spark.which": "new"}]


def test_rollbacks_that_could_not_be_tried_leave_it_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    record = tried_alone(monkeypatch, tmp_path, RecoveryWorkerAlone(), and_back=True)

    assert record.not_tried == ("rollback: all: the new version continues from no state with a committed batch",)
    assert record.exit_status is ExitStatus.UNKNOWN


def upgrade_at_work(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    asides: Mapping[bool, Aside],
    query: Query | None = None,
    basis: Basis = Basis.ALL,
) -> Any:
    """One whose version before comes to this, by whether it goes on from what the other has left."""
    side = UpgradeSide(query or query_word_count())
    request = UpgradeRequest(side, side, words(3, events=200, batch=5), Registry(), basis=basis)
    given = touched_again(request.workload)
    at_work = upgrading._Upgrade(request, given, folder, lambda progress: None, UpgradeFound("one"))
    at_work.until = monotonic() + 60 * request.minutes
    monkeypatch.setattr(at_work, "_aside", lambda worker, way, before, one, *, after: asides[after])
    return at_work


def tried(*of: Switched) -> list[Any]:
    nothing: Any = None
    return [TriedState(nothing, nothing, one) for one in of]


def beside(at_work: Any, *of: Switched) -> list[Any]:
    """The version before goes on beside these."""
    at_work.found.tried[Way.UPGRADE] = tried(*of)
    at_work._beside(None, Way.UPGRADE, BEFORE)
    found: list[Any] = at_work.found.tried[Way.UPGRADE]
    return found


BEFORE: Any = SimpleNamespace(moves_into=lambda worker: None, query=query_word_count())
FINE = Aside("runs/beside-0002", 2, UpgradeOutcome.CONTINUES)
WRONG, REFUSED = (
    Switched(Way.UPGRADE, (crash_at(),), "runs/upgrade-0001", 2, outcome, committed=1, changed=("checkpoint/x",))
    for outcome in (UpgradeOutcome.WRONG, UpgradeOutcome.REFUSED)
)


def test_the_version_before_goes_on_beside_from_some_of_those_that_look_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    at_work = upgrade_at_work(monkeypatch, tmp_path, {False: FINE})

    found = beside(at_work, WRONG, WRONG, WRONG)

    assert [one.switched.aside.like for one in found] == [False, False, True]
    assert at_work.found.not_looked_at == []


def test_where_what_a_refused_one_left_is_not_gone_on_from_the_state_before_that_is_tried_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    after = Aside("runs/beside-0003", 4, UpgradeOutcome.CRASH_LOOP, after=True)
    at_work = upgrade_at_work(monkeypatch, tmp_path, {False: FINE, True: after})

    (found,) = beside(at_work, REFUSED)

    assert found.switched.aside.without == FINE
    assert found.switched.status is Status.VIOLATED


def test_where_the_machine_fails_beside_nobody_is_blamed_and_the_rest_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    at_work = upgrade_at_work(monkeypatch, tmp_path, {})
    monkeypatch.setattr(at_work, "_aside", no_session)

    found = beside(at_work, WRONG)

    assert [one.switched.status for one in found] == [Status.UNKNOWN]
    assert "waited 90 s for a warm session" in at_work.found.not_looked_at[0]


def test_where_nothing_is_there_to_compare_one_with_beside_the_others_are_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    at_work = upgrade_at_work(monkeypatch, tmp_path, {})
    first, second = (msgspec.structs.replace(WRONG, committed=committed) for committed in (-1, 1))

    def aside(worker: Any, way: Way, before: Any, one: Any, *, after: bool) -> Aside:
        if one.switched.committed < 0:
            raise InvalidOperator("the old version fails alone on that")
        return FINE

    monkeypatch.setattr(at_work, "_aside", aside)
    found = beside(at_work, first, second)

    assert [one.switched.status for one in found] == [Status.UNKNOWN, Status.VIOLATED]
    (said,) = at_work.found.not_looked_at
    assert "from 1 state from which" in said
    assert said.endswith("the old version fails alone on that.")


def go_on(
    monkeypatch: pytest.MonkeyPatch,
    at_work: Any,
    batches: Sequence[int],
    alive: int,
    *,
    effects: Sequence[OutsideEffect] = (),
    comes_to: Switched | None = None,
    found: int | None = None,
) -> list[Any]:
    """From a state of each of these batches, as long as the machine bears it; each shows by its batch, and one with an
    input that ended early with a negative one. The version has these effects where it goes on. The one before began
    where these batches were `found`."""
    comes_to = WRONG if comes_to is None else comes_to
    file = SimpleNamespace(path="/worker-0/checkpoint/state/0/0/1.delta")
    passed = [SimpleNamespace(state=SimpleNamespace(files=(file,)), batch=batch) for batch in batches]
    went = iter([SimpleNamespace(attempt=None)] * alive)
    for name, stands_for in {
        "points_of_the_driver": lambda *_, **__: passed,
        "crash_at": lambda profile, here, victim: crash_at(here.batch),
        "by_worth": lambda groups, *_: groups,
        "take_alike": lambda *_: [],
        "mate_of": lambda crashed, *_: crashed,
        "go_on_in": lambda *_: next(went, None) or no_session(),
    }.items():
        monkeypatch.setattr(upgrading, name, stands_for)
    monkeypatch.setattr(
        at_work,
        "_enter",
        lambda worker, way, version, crashed, mates, went, early=False: TriedState(
            crashed,
            went,
            msgspec.structs.replace(comes_to, crashes=(crash_at(crashed.next_incarnation),), early=early),
        ),
    )
    before = Attempt(DRIVER, 1)
    before.records = [Stamped(0, Started(DRIVER, 1, None if found is None else (0, found), 0))]
    states = SimpleNamespace(
        groups=lambda waiting: [[one] for one in waiting], passed=lambda one: one.passed, attempt=before
    )

    def live(actor: str, sink: str, incarnation: int, watched: bool) -> Attempt:
        attempt = Attempt(actor, incarnation)
        attempt.noted = [Noted(tuple(effects))] if watched else []
        return attempt

    worker = SimpleNamespace(
        store=SimpleNamespace(restore=lambda state: None), live=live, fed=lambda query, batches: nullcontext()
    )
    monkeypatch.setattr(at_work, "_start_again", lambda *_, **__: None)
    at_work.found.tried[Way.UPGRADE] = []
    at_work._go_on(
        worker,
        Way.UPGRADE,
        BEFORE,
        states,
        None,
        lambda here, one: SimpleNamespace(next_incarnation=here.batch, state=here.state),
    )
    went_on = [one.switched for one in at_work.found.tried[Way.UPGRADE]]
    return [-one.crashes[0].batch if one.early else one.crashes[0].batch for one in went_on]


def test_states_of_which_nothing_was_committed_are_tried_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert go_on(monkeypatch, upgrade_at_work(monkeypatch, tmp_path, {}), [0, 2, 1], alive=3) == [2, 1, 0]


def test_states_since_whose_beginning_nothing_was_committed_are_tried_last(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of a version that has gone on from batch 0 itself, on the way back."""
    assert go_on(monkeypatch, upgrade_at_work(monkeypatch, tmp_path, {}), [1, 2, 1], alive=3, found=0) == [2, 1, 1]


def test_where_the_machine_fails_what_was_found_before_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    at_work = upgrade_at_work(monkeypatch, tmp_path, {})

    assert go_on(monkeypatch, at_work, [1, 2, 1], alive=1) == [1]
    assert ["waited 90 s for a warm session" in said for said in at_work.found.not_tried] == [True, True]
    with pytest.raises(DeadlinePassed):
        go_on(monkeypatch, at_work, [1, 2], alive=0)


def test_what_a_version_does_outside_only_where_it_goes_on_leaves_nothing_to_be_judged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As one that makes a copy elsewhere of a checkpoint that it finds, and is refused then."""
    at_work = upgrade_at_work(monkeypatch, tmp_path, {})

    assert go_on(monkeypatch, at_work, [1, 2], alive=2, effects=[OUTSIDE]) == []
    assert "from what the other has left, the new version has effects outside" in at_work.found.unjudgeable


def test_those_of_which_the_end_alone_is_compared_go_on_with_an_input_that_ends_early_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fine = msgspec.structs.replace(WRONG, outcome=UpgradeOutcome.CONTINUES)
    read_by_others = replace(query_word_count(), batch_events=50, write=write, read=read)
    given = replace(query_word_count(), batch_events=50)

    tried_early = [
        go_on(monkeypatch, upgrade_at_work(monkeypatch, tmp_path, {}, one), [1, 1, 1], alive=6, comes_to=comes_to)
        for one, comes_to in (
            (read_by_others, fine),
            (read_by_others, WRONG),
            (given, fine),
            (given, msgspec.structs.replace(fine, notes=(OTHER_BATCHES,))),
        )
    ]

    # The batches of update mode are compared one by one, where they can be; and of states with the same batch two are
    # enough.
    assert tried_early == [[1, -1, 1, -1, 1], [1, 1, 1], [1, 1, 1], [1, -1, 1, -1, 1]]


def test_what_spark_says_of_batches_is_kept_however_many_follow() -> None:
    """By that is known who has processed a batch again, of which Spark keeps a hundred unless it is told otherwise."""
    asked = replace(query_word_count(), settings={"spark.sql.streaming.numRecentProgressUpdates": "1"})
    for query in (query_word_count(), asked):
        side = UpgradeSide(query)
        settings = prepared(UpgradeRequest(side, side, FED, Registry())).new.query.settings

        assert int(settings["spark.sql.streaming.numRecentProgressUpdates"]) >= 100_000


def test_what_the_new_version_alone_says_of_itself_differs_too() -> None:
    """As the Spark that it names, and the old one leaves to the interpreter."""
    one, other = (query.describe() for query in (query_word_count(), replace(query_word_count(), spark="4.1.3")))

    assert [said_differently(*two) for two in ((one, other), (other, one), (one, one))] == [("spark",)] * 2 + [()]


def test_that_both_take_their_input_in_the_batches_of_the_old_version_is_said() -> None:
    old, new = (UpgradeSide(replace(query_word_count(), batch_events=count)) for count in (50, 60))

    said, _ = not_taken(UpgradeRequest(old, new, FED, Registry()))
    assert "NEW's batch_events=60: both versions take their input in batches of 50" in said
    assert not any("batch_events" in said for said in not_taken(UpgradeRequest(old, old, FED, Registry())))


def test_that_spark_lets_a_version_begin_on_what_it_would_refuse_is_said() -> None:
    plain = UpgradeSide(query_word_count())
    (said,) = not_taken(UpgradeRequest(plain, plain, FED, Registry()))
    assert "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart=false" in said

    # Whoever says it of both has it so where they are deployed.
    setting = {"spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "true"}
    own = UpgradeSide(replace(query_word_count(), settings=setting))
    assert list(not_taken(UpgradeRequest(own, own, FED, Registry()))) == []


def test_that_state_is_left_with_which_nothing_since_the_change_has_begun_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    since = upgrade_at_work(monkeypatch, tmp_path, {}, basis=Basis.SINCE)
    of_all = upgrade_at_work(monkeypatch, tmp_path, {})
    for one in (since, of_all):
        go_on(monkeypatch, one, [1], alive=1)

    assert (since.found.not_looked_at, of_all.found.not_looked_at) == ([upgrading.STATE_LEFT], [])


def test_what_is_accepted_is_said_not_to_be_looked_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    query = replace(query_word_count(), accepts=["file /data/*"])
    record = tried_alone(monkeypatch, tmp_path, RecoveryWorkerAlone([OUTSIDE]), query)

    assert [said for said in record.not_looked_at if "the new version leaves in file /data/x.db" in said]


@pytest.mark.parametrize("which", ["old", "new"])
def test_that_all_state_is_young_is_said_of_what_has_any(which: str) -> None:
    query = query_word_count()
    kept = Passed(Address(DRIVER, 1, Point.STATE_COMMIT, "1", Side.AFTER), 0, 0, None)
    without, with_state = Attempt(DRIVER, 1), Attempt(DRIVER, 1, passed=[kept])
    alone = {name: [without] for name in ("old", "new")}

    def says(attempts: Mapping[str, Sequence[Attempt]]) -> bool:
        said = unseen_of({"old": query, "new": query}, attempts, watched=True)
        return any("snapshots of its state" in one for one in said)

    assert says({**alone, which: [with_state]})
    assert not says(alone)


@pytest.mark.parametrize(("taken", "rows", "said"), [([], 3, True), ([0], 3, False), ([], 0, False)])
def test_that_a_version_takes_none_of_the_input_that_comes_again_is_said(
    taken: Sequence[int], rows: int, said: bool
) -> None:
    query = query_word_count()
    passed = [Passed(Address(DRIVER, 1, Point.SOURCE_PARTITIONS, str(one), Side.BEFORE), 0, 0, None) for one in taken]
    own = Attempt(DRIVER, 1, passed, [Stamped(0, BatchDone(DRIVER, 1, 0, rows, 0, 0, 10))])
    attempts = {"old": [Attempt(DRIVER, 1)], "new": [own]}

    found = unseen_of({"old": query, "new": query}, attempts, watched=True)

    assert any("the new version takes none of the input" in one for one in found) is said


def no_session(*_: Any, **__: Any) -> Any:
    raise DeadlinePassed("a warm session", 90, "nothing of it")


def test_the_minutes_bound_what_is_tried_beside_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    at_work = upgrade_at_work(monkeypatch, tmp_path, {False: FINE})
    at_work.until = monotonic()

    found = beside(at_work, WRONG, WRONG)

    assert [one.switched.status for one in found] == [Status.UNKNOWN] * 2
    assert ["2 states" in said and "nobody is blamed" in said for said in at_work.found.not_looked_at] == [True]


FED = words(3, events=200, batch=5)
GOOD = query_word_count()


def write(rows: Any, folders: RunFolders) -> Any:
    return rows


def read(spark: Any, folders: RunFolders) -> Any:
    return spark


@pytest.mark.parametrize(
    ("new", "more", "said"),
    [
        (GOOD, {"workload": words(3, events=3, batch=3)}, "an input of 3 events is no whole batch of"),
        (GOOD, {"workload": replace(FED, spacing={SOURCE: 300})}, "an input of 200 events is no whole batch of"),
        (GOOD, {"workload": replace(FED, draw=lambda count, seed: iter(()))}, "draws 0 events instead of 200"),
        (GOOD, {"claims": (exactly_once_output(),)}, "which says nothing of exactly-once-output"),
        (replace(GOOD, stores=(Store("db", print),)), {}, "keeps something outside of its folders"),
        (replace(GOOD, write=write, read=read), {"basis": Basis.SINCE}, "compare with --reference all"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_the_machine_is_looked_at(
    new: Query, more: Mapping[str, Any], said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    monkeypatch.chdir(tmp_path)
    facts: dict[str, Any] = {"workload": FED, "registry": Registry(), **more}

    with pytest.raises(InvalidScenario, match=said):
        upgrading.upgrade(UpgradeRequest(UpgradeSide(GOOD), UpgradeSide(new), **facts))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"basis": "before"}, "the basis of an upgrade cannot be 'before'; it is one of: all, since"),
        ({"claims": exactly_once()}, "it is a list of guarantees"),
        ({"claims": ["exactly-once"]}, "a claim of an upgrade cannot be 'exactly-once'"),
        ({"minutes": float("nan")}, "minutes of an upgrade cannot be nan"),
        ({"minutes": 0}, "minutes of an upgrade cannot be 0"),
        ({"states": 0}, "states of an upgrade cannot be 0"),
        ({"and_back": "yes"}, "and_back of an upgrade cannot be 'yes'"),
        ({"workload": None}, "the workload of an upgrade cannot be None"),
        ({"new": GOOD}, "new of an upgrade cannot be"),
    ],
)
def test_what_no_type_checker_has_seen_is_refused(more: Mapping[str, Any], said: str) -> None:
    facts: dict[str, Any] = {"new": UpgradeSide(GOOD), "workload": FED, "registry": Registry(), **more}
    with pytest.raises(InvalidScenario, match=said):
        UpgradeRequest(UpgradeSide(GOOD), **facts)


def test_what_it_is_compared_with_can_be_said_as_text() -> None:
    said: Any = "since"
    request = UpgradeRequest(UpgradeSide(GOOD), UpgradeSide(GOOD), FED, Registry(), basis=said)

    assert request.basis is Basis.SINCE


@pytest.mark.parametrize(
    ("new", "more", "error"),
    [
        (GOOD, {}, MissingTool),
        (replace(GOOD, packages=("kafka",)), {}, MissingTool),
        (GOOD, {"workload": replace(FED, rate=100)}, Unsupported),
        (replace(GOOD, packages=("kafka",)), {}, InvalidScenario),
    ],
)
def test_what_the_cluster_cannot_run_is_refused_and_leaves_nothing(
    new: Query,
    more: Mapping[str, Any],
    error: type[UserMistake],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    if error is MissingTool:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    monkeypatch.chdir(tmp_path)
    facts: dict[str, Any] = {"workload": FED, "registry": Registry(), **more}

    with pytest.raises(error):
        upgrading.upgrade(UpgradeRequest(UpgradeSide(GOOD), UpgradeSide(new), **facts))
    assert list(tmp_path.iterdir()) == []


def test_the_input_is_drawn_once_and_once_more_to_see_that_it_is_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    drawn: list[int] = []

    def draw(count: int, seed: int) -> Iterator[tuple[str, object]]:
        drawn.append(count)
        yield from (("k", str(number)) for number in range(count))

    side = UpgradeSide(GOOD)
    request = UpgradeRequest(side, side, replace(FED, draw=draw), Registry())
    with pytest.raises(MissingTool):
        upgrading.upgrade(request, folder=tmp_path / "upgrade")

    assert drawn == [200, 200]


@pytest.mark.parametrize(
    ("planned", "told", "said"),
    [
        ((2, 3), {3: 6, 4: 6, 5: 0}, ""),
        (
            (0, 1, 2, 2, 3),
            {3: 6, 4: 6, 5: 0},
            "reads batch 0 of the input again, and the query that it hands over begins",
        ),
        # Of the query itself each state says so.
        ((0, 1, 2, 3), {0: 6, 1: 6, 2: 6, 3: 6}, ""),
        # So it does where Spark does not tell of all batches.
        ((2, 3), {4: 6}, ""),
        ((0, 1, 2, 3), {}, ""),
        # Of a batch that its sink does not read, Spark counts no row.
        ((2, 3), {3: 0, 4: 6}, ""),
    ],
    ids=["goes on", "another query begins anew", "begins anew itself", "tells of some", "fails", "passes over one"],
)
def test_what_a_second_query_reads_again_is_not_what_goes_on(
    planned: Sequence[int], told: Mapping[int, int], said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    attempt = Attempt(DRIVER, 2)
    # The batch of number 2 had no input.
    attempt.records = [Stamped(0, Started(DRIVER, 2, (1, 2), row_number(3, 0)))]
    attempt.records += [Stamped(1, BatchDone(DRIVER, 2, batch, rows, 0, 0, 10)) for batch, rows in told.items()]
    addresses = [Address(DRIVER, 2, Point.SOURCE_PARTITIONS, str(batch), Side.BEFORE) for batch in planned]
    attempt.passed = [Passed(address, 0, 0, None) for address in addresses]
    worker: Any = SimpleNamespace(
        store=SimpleNamespace(restore=lambda state: None), live=lambda *arguments, watched: attempt
    )
    crashed: Any = SimpleNamespace(state=None, next_incarnation=2)

    at_work = upgrade_at_work(monkeypatch, tmp_path, {})
    at_work.lone.batches = [[]] * 4
    why = at_work._why_outside_there(worker, Way.UPGRADE, BEFORE, crashed)
    assert why.startswith("where it goes on from what the other has left, the new version") if said else not why
    assert said in why
