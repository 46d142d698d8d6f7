"""Upgrades a query from every state that a crash of it can leave.

1. The old version runs alone, watched: at every crash point what is durable is known. Then again, unwatched; and the
   new version in the same way. These are the references. Where they show that a version keeps something outside of its
   folders, or that the new one gives another table each time, nothing is judged, and nothing more is tried.
2. The new version goes on from each of these states, and what it comes to is judged by its references. What cannot be
   told apart by anything that it has looked at is tried once. What it does outside of its folders only where it finds
   such a state is looked for first, from one of them: where there is anything, nothing more is tried. Where the end
   of a table alone is compared, a few of those that continue are tried once more with an input that ends before any of
   it comes again. From a few, it ends in order after a part of the input, and is started again on what it has left.
3. Where it was refused and has left something behind, the old version goes on from that; where it was silently wrong,
   or fell into a crash loop, the old version goes on from the same state: who is wrong without any change is not made
   wrong by it.
4. Where that is asked for, the new version goes on from one state, watched, and the old one from each of its states;
   and where that does not continue, the new one from the same.
"""

from __future__ import annotations

import re
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import Final

import msgspec

from ..certifying.attempts import Attempt, Passed
from ..certifying.budget import CampaignProgress
from ..certifying.covering import take_alike
from ..certifying.folders import check_unused
from ..certifying.plan import Victim
from ..certifying.planning import crash_at, points_of_the_driver
from ..certifying.profile import STEADY, Profile, batch_of, profile_of
from ..certifying.recovering import Crashed, crashed_again, crashed_in_profile, mate_of, offered, write_run
from ..certifying.recovery_worker import RecoveryWorker
from ..certifying.request import CampaignRequest
from ..certifying.waiting import AttemptStates, Group, Waiting, by_worth
from ..contracts.query import Query
from ..core.addresses import DRIVER, Point, Side
from ..core.errors import InvalidOperator, MissingTool, OwnFailure, StreamproofError
from ..crash_points.inside_spark.agent import fetch_agent
from ..crash_points.inside_spark.checking import check_rules
from ..crash_points.inside_spark.versions import supported
from ..install.spark_choice import chosen_spark, chosen_version
from ..judging.references import SINK
from ..recording.folder import make_folder
from ..recording.history import History
from ..recording.records import Stamped
from ..running.run import new_run_id
from ..worlds.embedded.options import EmbeddedOptions
from ..worlds.embedded.processes import SparkProcesses
from .again import TouchedAgain, touched_again
from .alone import why_outside, why_read_again, why_unjudgeable
from .beside import next_beside, planned_beside, wants_aside, with_borrowed
from .ends import KEPT, NOTHING_KEPT, UpgradeInterrupted, leave, why_cut_short
from .found import NO_WAY_BACK, TriedState, UpgradeFound
from .lone_runs import LoneRuns
from .outcomes import Aside, Basis, Switched, UpgradeOutcome, Way
from .record import UpgradeRecord, is_upgrade, judge_switched, with_judgement
from .request import UpgradeRequest, UpgradeSide, check_request, not_taken, prepared
from .started_again import cut_otherwise, ends_after, go_on_twice_in, next_started_again
from .switch_judging import (
    OTHER_BATCHES,
    STATE_LEFT,
    Sides,
    SwitchJudgement,
    committed_before,
    compares_on_the_way,
    sides_beside,
)
from .switching import UpgradeVersion, WentOn, go_on_in, put_back
from .unseen import unseen_of

ATTEMPT_SECONDS: Final = 120.0
"""How long an attempt alone may give no sign of work. One that goes on from a state has the time that a certificate
would state."""
_FOR_BESIDE: Final = 0.25
"""How much of the time is kept for the version before, once the one after it has not continued."""
EARLY: Final = 2
"""From how many states with the same last batch committed a version goes on with an input that ends early, too."""
ROOT: Final = Path("upgrades")
NO_TIME: Final = "no time was left"
_STATE: Final = re.compile("/checkpoint/(?:.*/)?state/")


def upgrade(
    request: UpgradeRequest,
    folder: Path | None = None,
    show: Callable[[CampaignProgress], None] = lambda progress: None,
) -> tuple[Path, UpgradeRecord]:
    """Try it, and leave the record in a folder. Raises a UserMistake for what cannot be tried (InvalidOperator for a
    version that fails alone), and OwnFailure for what is neither version's fault; then nothing is left. Once something
    was found, an OwnFailure is the reason why the rest was not tried; and whatever else ends it leaves the record of
    that, and goes on with a note of where it is, or as UpgradeInterrupted, where it is Ctrl-C."""
    not_looked_at = list(not_taken(request))
    request = prepared(request)
    found = UpgradeFound(new_run_id(request.new.query.name), not_looked_at)
    path = ROOT / found.name if folder is None else folder
    given = touched_again(request.workload)
    check_request(request, given.last_before(request.old.query))
    check_unused(path)
    there = path.exists()
    ended_by: BaseException | None = None
    try:
        try:
            _Upgrade(request, given, path, show, found).run()
        except BaseException as error:
            if not any(found.tried.values()):
                raise
            found.cut_short = why_cut_short(error)
            if request.and_back:
                found.say_no_way_back(found.cut_short)
            ended_by = error
        record = found.record(request, given)
        leave(path, record)
    except BaseException as error:
        kept = is_upgrade(path)
        shutil.rmtree(path / "work" if kept else path, ignore_errors=True)
        if there and not kept:
            path.mkdir(parents=True, exist_ok=True)
        if isinstance(error, KeyboardInterrupt | SystemExit):
            error.add_note(KEPT.format(folder=shlex.quote(str(path))) if kept else NOTHING_KEPT)
        raise
    if isinstance(ended_by, KeyboardInterrupt):
        raise UpgradeInterrupted(path, record) from ended_by
    if ended_by is not None:
        ended_by.add_note(KEPT.format(folder=shlex.quote(str(path))))
        raise ended_by
    return path, record


@dataclass(frozen=True)
class _Told:
    """How a version went on, as its run tells it."""

    kind: str
    """Of the run."""
    which: str
    """The version: `old` or `new`."""
    version: UpgradeVersion
    crashed: Crashed
    mates: Sequence[Crashed]
    went: WentOn
    early: bool
    again: bool
    story: tuple[Attempt, ...] = ()
    """Attempts of the other version since the crash."""


@dataclass
class _Upgrade:
    request: UpgradeRequest
    given: TouchedAgain
    folder: Path
    show: Callable[[CampaignProgress], None]
    found: UpgradeFound
    until: float | None = None
    """By when states are tried, on the monotonic clock; None: it has not begun."""
    watches: bool = True
    """Whether there are crash points inside Spark."""
    started_again: dict[Way, list[int]] = field(default_factory=lambda: {way: [] for way in Way})
    """The places of the states from which the version that went on was started once more, as far as it came to that."""

    def run(self) -> None:
        """What comes of it is `found`, also when this is cut short."""
        make_folder(self.folder / "runs")
        work = (self.folder / "work").resolve()
        found = self.found
        with ExitStack() as stack:
            old, new, worker = self._open(stack, work)
            with found.timed("references"):
                attempts = self.lone.live(worker, old, new, found, partial(self._show, "each version alone"))
            attempt = attempts["old"][0]
            profile = _until(profile_of(attempt), self.last_changed)
            found.same_table = self.lone.same_table()
            versions = {"old": old.query, "new": new.query}
            found.not_looked_at += unseen_of(versions, attempts, watched=self.watches)
            found.unjudgeable = why_unjudgeable(versions, attempts)
            if found.unjudgeable:
                return
            self.until = time.monotonic() + 60 * self.request.minutes
            with found.timed("upgrades"):
                self._go_on(worker, Way.UPGRADE, new, AttemptStates(attempt), profile, self._in_profile(attempt))
            if found.unjudgeable:
                return
            with found.timed("the old version beside"):
                self._beside(worker, Way.UPGRADE, old)
            if self.request.and_back:
                self.until = time.monotonic() + 60 * self.request.minutes
                with found.timed("rollbacks"):
                    self._back_if_it_can(worker, old, new)
                with found.timed("the new version beside"):
                    self._beside(worker, Way.ROLLBACK, new)

    # What it is made of

    @cached_property
    def lone(self) -> LoneRuns:
        return LoneRuns(self.request, self.given)

    @property
    def contents(self) -> Path:
        """Where what a version has left is kept."""
        return (self.folder / "work" / "left").resolve()

    def _open(self, stack: ExitStack, work: Path) -> tuple[UpgradeVersion, UpgradeVersion, RecoveryWorker]:
        old, new = self.request.old, self.request.new
        sparks = {side.query.spark: None for side in (old, new)}
        processes: dict[str, SparkProcesses] = {}
        for number, wanted in enumerate(sparks):
            spark = chosen_spark(wanted)
            name = f"{self.found.name}-{number}"
            options = EmbeddedOptions(workers=0)
            there = stack.enter_context(
                SparkProcesses(name, work / f"spark-{number}", options, spark if wanted else None)
            )
            processes[wanted] = there
            try:
                check_rules(supported(spark.version), fetch_agent(), spark=spark if wanted else None)
            except MissingTool as error:
                self.watches = False
                self.found.not_looked_at.append(f"Crash points inside Spark, since the agent is missing: {error}.")

        def version(side: UpgradeSide) -> UpgradeVersion:
            query = side.query
            return UpgradeVersion(query, processes[query.spark], supported(chosen_version(query.spark)), side.origin)

        first, second = version(old), version(new)
        worker = RecoveryWorker(
            0, first.processes, first.query, self.lone.batches, work, first.spark, ATTEMPT_SECONDS, self.watches
        )
        stack.enter_context(worker)
        if worker.no_journal:
            self.found.not_looked_at.append(
                f"What lies between two crash points, operation by operation: {worker.no_journal}."
            )
        worker.await_ready()
        return first, second, worker

    @property
    def last_changed(self) -> int:
        """The last batch in which a change is made: all of the input as it was asked for is before it, and each of its
        keys comes again after it."""
        return self.given.last_before(self.request.old.query)

    def _in_profile(self, attempt: Attempt) -> Callable[[Passed, Waiting], Crashed]:
        return lambda here, one: crashed_in_profile(attempt, here, one.crash)

    # From each state

    def _go_on(
        self,
        worker: RecoveryWorker,
        way: Way,
        version: UpgradeVersion,
        states: AttemptStates,
        profile: Profile,
        made: Callable[[Passed, Waiting], Crashed],
    ) -> None:
        """The version goes on from each of the states."""
        waiting = []
        points = points_of_the_driver(profile, every_batch=True)
        self.found.points[way] = len(points)
        for passed in points:
            crash = crash_at(profile, passed, Victim.DRIVER)
            if passed.state is None:
                self.found.not_tried.append(f"{way}: {crash}: {passed.why_not or 'what was durable then is not known'}")
            elif passed.state.files:
                waiting.append(Waiting(crash, passed))
        groups = by_worth(states.groups(waiting), self.request.seed)
        groups = sorted(groups, key=partial(_shows_least, found=_found_by(states.attempt)))[::-1]
        tried = self.found.tried[way]
        try:
            self._from_each(worker, way, version, states, made, groups)
        except OwnFailure as error:
            self.found.say_not_tried(way, groups, str(error))
            self._say_not_started_again(way, str(error))
            if not tried:
                raise
            # It says nothing of either version, and what was found before is known all the same.
        except BaseException as error:
            why = why_cut_short(error)
            self.found.say_not_tried(way, groups, why)
            self._say_not_started_again(way, why)
            self.found.say_unblamed(way, [one.switched for one in tried], why)
            raise

    def _from_each(
        self,
        worker: RecoveryWorker,
        way: Way,
        version: UpgradeVersion,
        states: AttemptStates,
        made: Callable[[Passed, Waiting], Crashed],
        groups: list[Group],
    ) -> None:
        """What is left of the groups, by whatever this ends, was not tried."""
        version.moves_into(worker)
        tried, everything = self.found.tried[way], len(groups)
        while groups:
            self._show(f"{way}s", everything - len(groups), everything)
            most, kept = self.request.states, self._kept_for_beside(tried)
            enough = most is not None and sum(not one.switched.once_more for one in tried) >= most
            if self._left() <= kept or enough:
                self.found.say_not_tried(way, groups, f"{most:,} were asked for" if enough else NO_TIME)
                break
            first = len(groups) == everything
            group = groups.pop()
            try:
                here = states.passed(group[0])
                assert here is not None
                crashed = made(here, group[0])
                if first:
                    self._say_state_is_left(crashed)
                    self.found.unjudgeable = self._why_outside_there(worker, way, version, crashed)
                    if self.found.unjudgeable:
                        break
                worker.store.restore(crashed.state)
                alone = self.lone.in_force.get(way.goes_on, {})
                went = go_on_in(worker, crashed.next_incarnation, self.contents, alone)
                group += take_alike(states, here, went.attempt, groups)
                mates = [
                    mate_of(crashed, one.crash, there) for one in group if (there := states.passed(one)) is not None
                ]
                tried.append(self._enter(worker, way, version, crashed, mates, went))
            except InvalidOperator as error:
                # There is nothing to compare it with, or no record that can hold it; of others there may be.
                self.found.say_not_tried(way, [group], str(error))
                continue
            except BaseException:
                groups.append(group)
                raise
            if self._goes_on_early(tried):
                self._try_early(worker, way, version, tried[-1])
            # However little time there is, one is; and all others once no state is left that was not tried at all.
            self._start_again(worker, way, version, most=1)
        if not self.found.unjudgeable:
            self._start_again(worker, way, version)
            self._say_not_started_again(way, NO_TIME)

    def _kept_for_beside(self, tried: Sequence[TriedState]) -> float:
        """Seconds."""
        return _FOR_BESIDE * 60 * self.request.minutes if any(wants_aside(one.switched) for one in tried) else 0

    def _why_outside_there(self, worker: RecoveryWorker, way: Way, version: UpgradeVersion, crashed: Crashed) -> str:
        """Why nothing can be judged of what the version does outside of its folders where it finds such a state, be it
        that it is refused there: a copy that it makes elsewhere, say. Or of what another query makes in its place. It
        is watched for that once."""
        try:
            worker.store.restore(crashed.state)
            attempt = worker.live(DRIVER, SINK, crashed.next_incarnation, watched=True)
        except OwnFailure as error:
            self.found.not_looked_at.append(f"What the {way.goes_on} version does outside where it goes on: {error}.")
            return ""
        who = f"where it goes on from what the other has left, the {way.goes_on} version"
        return why_outside(who, version.query, attempt) or why_read_again(who, attempt, len(self.lone.batches))

    def _say_state_is_left(self, crashed: Crashed) -> None:
        if self.request.basis is Basis.SINCE and _has_state(crashed):
            self.found.not_looked_at.append(STATE_LEFT)

    def _goes_on_early(self, tried: Sequence[TriedState]) -> bool:
        """Whether the state that was tried last is to be tried with an input that ends early, too: what is wrong with
        it on the way does not show otherwise, and there was time for few like it."""
        last = tried[-1].switched
        if last.outcome is not UpgradeOutcome.CONTINUES or not 0 <= last.committed < self.last_changed:
            return False
        compared = compares_on_the_way(self._sides(last.way, last.since)) and OTHER_BATCHES not in last.notes
        if self.request.basis is Basis.SINCE or compared:
            return False
        before = sum(one.switched.early and one.switched.committed == last.committed for one in tried)
        return before < EARLY and self._left() > 0

    def _try_early(self, worker: RecoveryWorker, way: Way, version: UpgradeVersion, one: TriedState) -> None:
        crashed = one.crashed
        with self._once_more(way, one, "an early end"):
            with self._fed(worker, version.query, early=True):
                worker.store.restore(crashed.state)
                went = go_on_in(worker, crashed.next_incarnation, self.contents)
            entered = self._enter(worker, way, version, crashed, one.mates, went, early=True)
            self.found.tried[way].append(entered)

    @contextmanager
    def _once_more(self, way: Way, one: TriedState, how: str) -> Iterator[None]:
        """What goes wrong with it takes nothing away of what is known of the state."""
        try:
            yield
        except BaseException as error:
            crash = one.switched.crashes[0]
            self.found.not_tried.append(f"{way}: {crash}, and {how}: {why_cut_short(error)}")
            if not isinstance(error, StreamproofError):
                raise

    def _start_again(self, worker: RecoveryWorker, way: Way, version: UpgradeVersion, most: int | None = None) -> None:
        """From states from which it continues, until so many were tried so, as long as there is time."""
        tried, places = self.found.tried[way], self.started_again[way]
        while most is None or len(places) < most:
            place = self._next_started_again(way)
            if place is None or self._left() <= self._kept_for_beside(tried):
                return
            places.append(place)
            one = tried[place]
            with self._once_more(way, one, "started again"):
                went = self._go_on_twice(worker, version.query, one.crashed, one.switched.committed)
                tried.append(self._enter(worker, way, version, one.crashed, one.mates, went, again=True))

    def _next_started_again(self, way: Way) -> int | None:
        switched = [one.switched for one in self.found.tried[way]]
        return next_started_again(switched, self.started_again[way], self._last_counting(early=False))

    def _say_not_started_again(self, way: Way, why: str) -> None:
        """Of those that are left."""
        left = 0
        while (place := self._next_started_again(way)) is not None:
            self.started_again[way].append(place)
            left += 1
        self.found.say_not_started_again(way, left, why)

    def _go_on_twice(self, worker: RecoveryWorker, query: Query, crashed: Crashed, committed: int) -> WentOn:
        part = self.lone.batches[: self._ends_after(committed)]
        worker.store.restore(crashed.state)
        return go_on_twice_in(worker, query, crashed.next_incarnation, part, self.contents)

    def _ends_after(self, committed: int) -> int | None:
        return ends_after(committed, self._last_counting(early=False))

    @contextmanager
    def _fed(self, worker: RecoveryWorker, query: Query, *, early: bool) -> Iterator[None]:
        if not early:
            yield
            return
        with worker.fed(query, self.lone.batches_early):
            yield

    def _enter(
        self,
        worker: RecoveryWorker,
        way: Way,
        version: UpgradeVersion,
        crashed: Crashed,
        mates: Sequence[Crashed],
        went: WentOn,
        *,
        early: bool = False,
        again: bool = False,
    ) -> TriedState:
        since = crashed.next_incarnation
        sides = self._sides(way, since, early=early, state_left=_has_state(crashed))
        told = _Told(str(way), way.goes_on, version, crashed, mates, went, early=early, again=again)
        run, judged = self._judge(worker, told, sides)
        crashes = tuple(dict.fromkeys(one.crashes[-1] for one in mates))
        switched = Switched(
            way,
            crashes,
            run,
            since,
            UpgradeOutcome.UNKNOWN,
            changed=went.changed,
            kept=went.kept,
            early=early,
            again=again,
            state_left=sides.state_left,
        )
        return TriedState(crashed, went, with_judgement(switched, judged, None), tuple(mates))

    def _judge(self, worker: RecoveryWorker, told: _Told, sides: Sides) -> tuple[str, SwitchJudgement]:
        """The name of its run, which is written down, and what that comes to."""
        run, judged = self._judged_by(worker, told, sides)
        if told.again and judged.outcome is UpgradeOutcome.WRONG:
            end = self._ends_after(judged.committed)
            if end is not None and cut_otherwise(told.went.attempt, end):
                return self._judged_by(worker, told, sides, end)
        return run, judged

    def _judged_by(
        self, worker: RecoveryWorker, told: _Told, sides: Sides, stopped: int | None = None
    ) -> tuple[str, SwitchJudgement]:
        """By what it makes alone, where it is to be stopped before a batch and started again, or at once."""
        attempt = told.went.attempt
        references = self.lone.reference(
            worker, told.which, told.version, attempt, sides.basis, early=told.early, stopped=stopped
        )
        run = self.found.next_run(told.kind)
        self._write(run, worker, told, references)
        request = self.request
        oracles = request.registry.oracles
        return run, judge_switched(self.folder / run, sides, request.claims, oracles, told.went.changed)

    def _sides(self, way: Way, since: int, *, early: bool = False, state_left: bool = False) -> Sides:
        old, new = self.request.old.query.shape, self.request.new.query.shape
        before, after = (old, new) if way is Way.UPGRADE else (new, old)
        counting = self._last_counting(early=early)
        return Sides(before, after, since, self.request.basis, counting, state_left=state_left)

    def _last_counting(self, *, early: bool) -> int:
        return self.last_changed if early else self.given.last_batch(self.request.old.query)

    def _write(self, run: str, worker: RecoveryWorker, told: _Told, references: Sequence[Stamped]) -> None:
        request, version, last = self.request, told.version, told.went.attempt
        asked = CampaignRequest(
            version.query, self.given.workload, request.claims, request.registry, request.seed, version.origin
        )
        before = [*offered(self.lone.batches_early if told.early else self.lone.batches), *references]
        attempt = replace(last, before=(*told.story, *last.before))
        write_run(self.folder / run, asked.named, worker, told.crashed, told.mates, attempt, before, request.seed)

    # The version before, beside

    def _beside(self, worker: RecoveryWorker, way: Way, before: UpgradeVersion) -> None:
        """Where a version has not continued: what the one before it comes to."""
        found = self.found.tried[way]
        switched = [one.switched for one in found]
        try:
            self._try_beside(worker, way, before, found, switched)
        except BaseException as error:
            self.found.say_unblamed(way, switched, why_cut_short(error))
            if not isinstance(error, OwnFailure):
                raise
        finally:
            told = zip(found, with_borrowed(switched), strict=True)
            self.found.tried[way] = [replace(one, switched=now) for one, now in told]

    def _try_beside(
        self,
        worker: RecoveryWorker,
        way: Way,
        before: UpgradeVersion,
        found: Sequence[TriedState],
        switched: list[Switched],
    ) -> None:
        """What is known of each is put into `switched` at once."""
        planned = planned_beside(switched)
        incomparable: dict[int, str] = {}
        for done in count():
            place = next_beside(switched, incomparable)
            if place is None:
                break
            if self._left() <= 0:
                self.found.say_unblamed(way, switched, NO_TIME)
                return
            self._show(f"the {way.before} version beside", done, max(planned, done + 1))
            if not done:
                before.moves_into(worker)
            try:
                switched[place] = self._with_aside(worker, way, before, found[place])
            except InvalidOperator as error:
                # There is nothing to compare this one with, or no record that can hold it; of others there may be.
                incomparable[place] = str(error)
        for why in list(incomparable.values())[:1]:
            self.found.say_unblamed(way, switched, why)

    def _with_aside(self, worker: RecoveryWorker, way: Way, before: UpgradeVersion, one: TriedState) -> Switched:
        if one.switched.outcome is not UpgradeOutcome.REFUSED:
            return msgspec.structs.replace(one.switched, aside=self._aside(worker, way, before, one, after=False))
        aside = self._aside(worker, way, before, one, after=True)
        if aside.fails:
            aside = msgspec.structs.replace(aside, without=self._aside(worker, way, before, one, after=False))
        return msgspec.structs.replace(one.switched, aside=aside)

    def _aside(
        self, worker: RecoveryWorker, way: Way, before: UpgradeVersion, one: TriedState, *, after: bool
    ) -> Aside:
        crashed, went, early, again = one.crashed, one.went, one.switched.early, one.switched.again
        number = crashed.next_incarnation
        # The whole story: those of the one that failed, and then the one before it.
        story = (*went.attempt.before, went.attempt) if after else ()
        if again:
            beside = self._go_on_twice(worker, before.query, crashed, one.switched.committed)
        else:
            if after:
                assert went.left is not None
                put_back(worker, went.left, self.contents)
                number += len(story)
            else:
                worker.store.restore(crashed.state)
            with self._fed(worker, before.query, early=early):
                beside = go_on_in(worker, number, self.contents)
        counting = self._last_counting(early=early)
        state_left = one.switched.state_left
        sides = sides_beside(way, before.query.shape, number, self.request.basis, counting, state_left=state_left)
        told = _Told("beside", way.before, before, crashed, [crashed], beside, early=early, again=again, story=story)
        run, judged = self._judge(worker, told, sides)
        return Aside(run, number, judged.outcome, judged.why, after, beside.changed)

    # And back

    def _back_if_it_can(self, worker: RecoveryWorker, old: UpgradeVersion, new: UpgradeVersion) -> None:
        try:
            self._back(worker, old, new)
        except OwnFailure as error:
            self.found.say_no_way_back(str(error))

    def _back(self, worker: RecoveryWorker, old: UpgradeVersion, new: UpgradeVersion) -> None:
        start = _where_to_turn_back(self.found.tried[Way.UPGRADE])
        if start is None:
            self.found.say_no_way_back("the new version continues from no state with a committed batch")
            return
        new.moves_into(worker)
        worker.store.restore(start.state)
        attempt = worker.live(DRIVER, SINK, start.next_incarnation, watched=True)
        self.found.unjudgeable = why_outside("where it goes on, the new version", new.query, attempt)
        if self.found.unjudgeable:
            return
        if attempt.failure is not None:
            self.found.say_no_way_back(f"watched, the new version did not come to its end: {attempt.failure}")
            return
        profile = _until(profile_of(attempt), self.last_changed)

        def made(here: Passed, one: Waiting) -> Crashed:
            return crashed_again(start, attempt, here, one.crash)

        self._go_on(worker, Way.ROLLBACK, old, AttemptStates(attempt), profile, made)
        if not self.found.tried[Way.ROLLBACK]:
            self.found.not_tried.append(f"{NO_WAY_BACK}the new version left no state that could be tried")

    # Small things

    def _show(self, phase: str, done: int, planned: int) -> None:
        self.show(CampaignProgress(phase, done, planned, max(0.0, self._left())))

    def _left(self) -> float:
        """Seconds that are left for trying states this way."""
        return 60 * self.request.minutes if self.until is None else self.until - time.monotonic()


def _until(profile: Profile, last: int) -> Profile:
    """What is passed after this batch is committed leaves nothing that counts to whoever goes on."""
    return replace(profile, passed=tuple(one for one in profile.passed if batch_of(one.address) <= last))


def _has_state(crashed: Crashed) -> bool:
    """Whether there is state of operators in what was durable."""
    return any(_STATE.search(one.path) for one in crashed.state.files)


def _shows_least(group: Group, found: int) -> bool:
    """Whether the version that left this had committed nothing by then, or not for sure: all there is, others have
    left, up to the batch that it had `found` committed."""
    return all(one.crash.batch <= found + 1 for one in group)


def _found_by(attempt: Attempt) -> int:
    """The last batch that was committed when it began; -1: none."""
    return committed_before(History(attempt.records, ()), attempt.incarnation)


def _where_to_turn_back(tried: Sequence[TriedState]) -> Crashed | None:
    """A state from which the new version has continued: of a batch like most, where it was committed."""

    def worth(one: TriedState) -> tuple[bool, bool, int]:
        crash = one.switched.crashes[0]
        after = (crash.point, crash.side) == (Point.COMMIT_LOG, Side.AFTER)
        return after, STEADY in crash.kinds, -crash.batch

    def is_fit(one: Switched) -> bool:
        return one.outcome is UpgradeOutcome.CONTINUES and one.committed >= 0 and not one.once_more

    fit = [one for one in tried if is_fit(one.switched)]
    return max(fit, key=worth).crashed if fit else None
