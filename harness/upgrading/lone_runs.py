"""The references of an upgrade: what each version makes alone, in two attempts, of all of an input or a part of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ..certifying.attempts import Attempt
from ..certifying.coming_back import stated_in, with_stated_time
from ..certifying.recovery_worker import RecoveryWorker
from ..certifying.reference_runs import require_apart, without_faults
from ..contracts.query import Query
from ..core.errors import InvalidOperator
from ..core.events import Event
from ..core.guarantees import recovers
from ..judging.references import REFERENCES
from ..recording.history import History
from ..recording.records import Stamped
from .again import TouchedAgain
from .found import UpgradeFound
from .outcomes import Basis
from .request import UpgradeRequest
from .switch_judging import committed_before, table_alone
from .switching import UpgradeVersion, settings_in_force


@dataclass
class LoneRuns:
    """Of both versions, which are called `old` and `new`."""

    request: UpgradeRequest
    given: TouchedAgain
    of_all: dict[str, list[Stamped]] = field(default_factory=dict)
    """What each makes of all input: the records of its two attempts."""
    in_force: dict[str, dict[str, str]] = field(default_factory=dict)
    """The settings that Spark has written into the checkpoint of each."""
    _early: dict[str, list[Stamped] | InvalidOperator] = field(default_factory=dict)
    """What each makes of the input that ends early; or how it failed there."""
    _parts: dict[tuple[str, int, int | None], list[Stamped] | InvalidOperator] = field(default_factory=dict)
    """What each makes of the input from a batch on, where it was stopped before another; or how it failed there."""

    @cached_property
    def batches(self) -> list[list[Event]]:
        return self.request.old.query.batches(self.given.workload)

    @cached_property
    def batches_early(self) -> list[list[Event]]:
        """Of the input that ends before any of it comes again."""
        return self.given.ended_early(self.request.old.query, self.batches)

    def live(
        self,
        worker: RecoveryWorker,
        old: UpgradeVersion,
        new: UpgradeVersion,
        found: UpgradeFound,
        show: Callable[[int, int], None],
    ) -> dict[str, list[Attempt]]:
        """Let each version run alone on all input, twice, of which the first is watched; `show` is told how many of how
        many attempts are over. What the versions ran on is `found`. Raises InvalidOperator for what a version does
        wrong, and what went wrong else."""
        show(0, 4)
        attempts: dict[str, list[Attempt]] = {}
        for number, (which, version) in enumerate((("old", old), ("new", new))):
            version.moves_into(worker)
            found.settings[which] = worker.settings
            attempts[which] = []
            for place, actor in enumerate(REFERENCES):
                worker.store.clear()
                attempt = worker.live(actor, actor, 1, watched=place == 0)
                _require_its_end(version.query, which, attempt)
                attempts[which].append(attempt)
                found.columns[which] = attempt.columns
                if worker.ran is not None:
                    found.ran[which] = {**worker.ran.python, "spark": worker.ran.version}
                show(2 * number + place + 1, 4)
            self.in_force[which] = settings_in_force(worker.folders.checkpoint)
            if version.query.read is not None:
                try:
                    require_apart(version.query, worker, attempts[which][-1])
                except InvalidOperator as error:
                    raise InvalidOperator(f"the {which} version: {error}") from error
        self.of_all = {which: [one for attempt in some for one in attempt.records] for which, some in attempts.items()}
        spans = [(one.records[-1].at - one.records[0].at) / 1e6 for some in attempts.values() for one in some]
        worker.patience = stated_in(with_stated_time((recovers(),), spans)).seconds
        return attempts

    def same_table(self) -> bool | None:
        """Whether both versions make the same of all input, where that can be said."""
        old, new = self.request.old.query.shape, self.request.new.query.shape
        if (old.reads, old.keyed_outputs) != (new.reads, new.keyed_outputs):
            return None
        return table_alone(self.of_all["old"], old) == table_alone(self.of_all["new"], new)

    def reference(
        self,
        worker: RecoveryWorker,
        which: str,
        version: UpgradeVersion,
        attempt: Attempt,
        basis: Basis,
        *,
        early: bool = False,
        stopped: int | None = None,
    ) -> list[Stamped]:
        """What the version makes alone: of all input, of what was left of it when it was started, or of all of one that
        ends early; where it is to be stopped before a batch, it is started again on what it has left. Raises
        InvalidOperator where it fails alone on that, and what went wrong else."""
        if early:
            if which not in self._early:
                fed = "on an input that ends before any of it comes again"
                self._early[which] = _live_alone(worker, which, version, [self.batches_early], fed)
            return _made(self._early[which])
        if attempt.failure is not None or (basis is Basis.ALL and stopped is None):
            return self.of_all[which]
        first = attempt.before[0] if attempt.before else attempt
        since = basis is Basis.SINCE
        begun = committed_before(History(first.records, ()), first.incarnation) + 1 if since else 0
        part = which, begun, stopped
        if part not in self._parts:
            fed = f"begun anew on the input from batch {begun} on"
            lives = [self.batches[begun:]]
            if stopped is not None:
                fed += f", stopped before batch {stopped}, and started again"
                lives = [self.batches[begun:stopped], *lives]
            self._parts[part] = _live_alone(worker, which, version, lives, fed)
        return _made(self._parts[part])


def _live_alone(
    worker: RecoveryWorker, which: str, version: UpgradeVersion, lives: Sequence[Sequence[Sequence[Event]]], fed: str
) -> list[Stamped] | InvalidOperator:
    """What the version makes alone, two times over, of this input, and then of each next one on what it has left;
    nobody watches. Or how it fails on what it is `fed`, in words, so that there is nothing to compare with."""
    found: list[Stamped] = []
    for actor in REFERENCES:
        worker.store.clear()
        for number, batches in enumerate(lives, start=1):
            with worker.fed(version.query, batches):
                one = worker.live(actor, actor, number, watched=False)
            if one.failure is not None:
                error = without_faults(version.query, one.failure)
                if not isinstance(error, InvalidOperator):
                    raise error
                return InvalidOperator(
                    f"{fed}, the {which} version fails alone, so that there is nothing to compare with: {error}"
                )
            found += one.records
    return found


def _made(alone: list[Stamped] | InvalidOperator) -> list[Stamped]:
    """What a version has made alone. Raises what it failed by."""
    if isinstance(alone, InvalidOperator):
        raise alone
    return alone


def _require_its_end(query: Query, which: str, attempt: Attempt) -> None:
    """Of an attempt of a version alone. Raises InvalidOperator for what the version does wrong, and what went wrong
    else."""
    if attempt.failure is None:
        return
    error = without_faults(query, attempt.failure)
    if isinstance(error, InvalidOperator):
        raise InvalidOperator(f"the {which} version fails alone, without any change: {error}") from error
    raise error
