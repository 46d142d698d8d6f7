"""Plans losses of power, for the claims that are made of them: where in a run without failures, and what is lost.

They are tried in the first batch and in one like most, wherever something is made to count: a file gets or loses its
name, something was delivered or sent, a batch is done. What the power can take in between is less than at the next of
these, or makes no difference to who has not been told of anything.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from ..core.addresses import Point, Side
from ..core.errors import InvalidOperator, ScenarioChanged
from ..core.guarantees import Guarantee, PowerLoss
from ..core.promises import Extent
from ..judging.references import REFERENCES
from ..recording.history import Lost
from .attempts import Attempt, Passed
from .conclusion import NotReached, Planned
from .file_points import deed_of
from .plan import Crash, Victim
from .planning import crash_at, steady_batch
from .profile import Profile, batch_of, profile_of
from .recovering import crashed_in_profile, offered, recover, write_run
from .recovery_worker import RecoveryWorker
from .request import CampaignRequest
from .waiting import Group, Waiting

NO_JOURNAL: Final = "what was synced is not known, since no file operation is journalled here: {why}"
NOT_COPYABLE: Final = "the query has stores that cannot be put back as they were"
CHOSEN: Final = (
    "Losses of power in other batches than the first and one like most, and other parts of what was not synced than a "
    "telling few: all of it, the content of each file, whole or from a page on, and the newest names."
)
CHECKPOINT_SYNCS: Final = (
    "Losses of power where the checkpoint lies on storage that does not keep all that is written to it: on a local "
    "disk Spark syncs none of its files, and an empty one (metadata, offsets/N, commits/N) keeps the query from "
    "starting again. survives_power_loss(checkpoint_syncs=False) claims that too."
)
_COUNTING = frozenset({"rename", "exchange", "link", "unlink", "symlink"})
"""File operations by which most that writes something makes it count."""
_CHECKSUM = re.compile(r"\.crc#\d+$")
"""Hadoop's, which come after what they are of, and are looked for only where they are."""
_DONE = frozenset({Point.ADD_BATCH, Point.COMMIT_LOG, Point.SINK_WRITE, Point.MESSAGE, Point.USER})


@dataclass(frozen=True)
class Losses:
    """What was planned."""

    waiting: Sequence[Waiting]
    attempts: Sequence[Attempt]
    """Of each recovery worker, with what a loss of power leaves in the place of what was durable."""
    not_reached: Sequence[NotReached]


def terms_of(claims: Iterable[Guarantee]) -> list[PowerLoss]:
    """On which terms power is to be lost, each once."""
    return list({claim.power.terms: claim.power for claim in claims if claim.power is not None}.values())


def not_lost(claims: Iterable[Guarantee]) -> list[str]:
    """What losses of power do not cover."""
    terms = terms_of(claims)
    return [CHOSEN, CHECKPOINT_SYNCS] if terms and all(power.checkpoint_syncs for power in terms) else [CHOSEN]


def plan_losses(
    profile: Profile,
    workers: Sequence[RecoveryWorker],
    attempts: Sequence[Attempt],
    claims: Iterable[Guarantee],
    copyable: bool,
) -> Losses:
    """`attempts` are the watched ones of the recovery workers, one each; `profile` is of the first."""
    wanted = terms_of(claims)
    why_not = "" if copyable else NOT_COPYABLE
    why_not = why_not or (NO_JOURNAL.format(why=workers[0].no_journal) if workers[0].no_journal else "")
    if why_not:
        return Losses((), (), [NotReached(Planned(_anywhere(power)), why_not) for power in wanted])
    chosen = {(one.address, one.again) for one in _chosen(profile)}
    found = [_with_losses(worker, attempt, wanted, chosen) for worker, attempt in zip(workers, attempts, strict=True)]
    waiting = [
        Waiting(msgspec.structs.replace(crash_at(profile, one, Victim.DRIVER), lost=one.state.lost), one)
        for one in found[0].passed
        if one.state is not None
    ]
    return Losses(waiting, found, ())


class ByLoss:
    """The order in which losses of power are worth trying: contents of a sink first, then its names; of the batch
    like most first, and the later in it the more was acknowledged by then."""

    def __init__(self, losses: Losses) -> None:
        self._places: Mapping[object, int] = {one.place[:2]: place for place, one in enumerate(losses.waiting)}

    def __call__(self, group: Group) -> tuple[int, int, int]:
        return min(self._worth(one) for one in group)

    def _worth(self, one: Waiting) -> tuple[int, int, int]:
        return _rank(one.crash.lost), int(one.crash.batch == 0), -self._places[one.place[:2]]


def _rank(lost: Lost | None) -> int:
    if lost is None or lost.extent is Extent.NOTHING:
        return 3
    if lost.extent is Extent.EVERYTHING or not lost.of_sink:
        return 2
    return 0 if lost.extent is Extent.CONTENTS else 1


def lose_again(folder: Path, request: CampaignRequest, crash: Crash, worker: RecoveryWorker) -> None:
    """Lose this once more, after runs without failures of its own, and write down what the query comes to.

    Raises ScenarioChanged where it does not come to the point, or has synced what was lost there; InvalidOperator for a
    query that fails without any fault, and what went wrong with the recovery worker.
    """
    attempts: list[Attempt] = []
    worker.call_by(worker.names.with_those_in([deed_of(crash.key), "" if crash.lost is None else crash.lost.what]))
    for actor in REFERENCES:
        worker.store.clear()
        attempt = worker.live(actor, actor, 1, watched=not attempts)
        if attempt.failure is not None:
            raise InvalidOperator(f"without any fault: {attempt.failure}")
        attempts.append(attempt)
    losses = plan_losses(profile_of(attempts[0]), [worker], attempts[:1], request.claims, request.query.copyable)
    found = next((one for one in losses.waiting if _is_same(one.crash, crash)), None)
    if found is None:
        raise ScenarioChanged(f"{crash}: nothing of that can be lost there now; check out what was certified")
    crashed = crashed_in_profile(attempts[0], found.passed, crash)
    made = (stamped for attempt in attempts for stamped in attempt.records)
    before = [*offered(request.query.batches(request.workload)), *made]
    write_run(folder, request.named, worker, crashed, [crashed], recover(worker, crashed), before, request.seed)


def _is_same(one: Crash, other: Crash) -> bool:
    return (one.point, one.side, one.key, one.actor, one.lost) == (
        other.point,
        other.side,
        other.key,
        other.actor,
        other.lost,
    )


def _chosen(profile: Profile) -> list[Passed]:
    batches = {min(profile.kinds, default=0), steady_batch(profile)}
    return [one for one in profile.passed if batch_of(one.address) in batches and _counts(one)]


def _counts(passed: Passed) -> bool:
    address = passed.address
    if passed.state is None or address.side is not Side.AFTER:
        return False
    if address.point is Point.FILE:
        what, _, name = address.key.partition("/")[2].partition(" ")
        return what in _COUNTING and not _CHECKSUM.search(name)
    return address.point in _DONE


def _with_losses(
    worker: RecoveryWorker, attempt: Attempt, wanted: Sequence[PowerLoss], chosen: Container[object]
) -> Attempt:
    passed = [
        replace(one, state=state)
        for one in attempt.passed
        if one.state is not None and (one.address, one.again) in chosen
        for power in wanted
        for state in worker.store.losses(one.state, power)
    ]
    return replace(attempt, passed=passed)


def _anywhere(power: PowerLoss) -> Crash:
    lost = Lost(power.terms, "what was not synced", Extent.EVERYTHING)
    return Crash(Point.FILE, Side.AFTER, "0/any", "driver", Victim.DRIVER, 0, (), lost=lost)
