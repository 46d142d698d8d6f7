"""What is claimed of losses of power is judged by these, and nothing else is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from certified import AGAIN, BATCHES, CLAIMS, JUDGES, ONCE, crash_at, write_run
from streamproof.harness.certifying.coming_back import with_stated_time
from streamproof.harness.certifying.conclusion import NOT_REALLY, ClaimVerdict, NotReached, Planned, conclude
from streamproof.harness.certifying.plan import Crash, CrashTrial, How
from streamproof.harness.certifying.rejudging import judge_read, read_run
from streamproof.harness.certifying.subjects import claims_named
from streamproof.harness.core.errors import InvalidScenario
from streamproof.harness.core.guarantees import (
    SURVIVES_POWER_LOSS,
    Guarantee,
    at_least_once,
    exactly_once,
    recovers,
    survives_power_loss,
)
from streamproof.harness.core.promises import Extent, Promise
from streamproof.harness.core.quantities import seconds
from streamproof.harness.core.verdicts import Status
from streamproof.harness.judging.statistics import KillSample
from streamproof.harness.recording.claims_and_faults import SavedClaim
from streamproof.harness.recording.history import Lost
from streamproof.oracles import ORACLES

EXT4 = survives_power_loss(checkpoint_syncs=False)
SURVIVES = str(EXT4)
LOST = Lost("ext4-ordered", "what sink/a was written since its last fsync", Extent.CONTENTS, True)
HOLDS, VIOLATED, UNKNOWN = Status.HOLDS, Status.VIOLATED, Status.UNKNOWN


def loss(batch: int = 2, what: str = LOST.what, terms: str = LOST.terms) -> Crash:
    return crash_at(batch, lost=Lost(terms, what, Extent.CONTENTS, True))


def tried(crash: Crash, name: str, status: Status = HOLDS, claim: str = SURVIVES) -> CrashTrial:
    return CrashTrial((crash,), How.POWER_LOSS, f"runs/{name}", {claim: status})


def killed(crash: Crash, status: Status = HOLDS) -> CrashTrial:
    return CrashTrial((crash,), How.KILL, "runs/kill", {ONCE: status})


def concluded(plan: Sequence[Crash], *trials: CrashTrial, **more: Any) -> dict[str, ClaimVerdict]:
    found = conclude((exactly_once(), EXT4), list(map(Planned, plan)), trials, more.pop("not_reached", ()), **more)
    return {verdict.claim: verdict for verdict in found.verdicts}


# How it is written


@pytest.mark.parametrize("of", [exactly_once(), at_least_once(), recovers(seconds(90)), recovers()])
@pytest.mark.parametrize("promise", Promise)
@pytest.mark.parametrize("synced", [False, True])
def test_a_claim_says_what_holds_and_what_is_promised_and_is_read_again(
    of: Guarantee, promise: Promise, synced: bool
) -> None:
    claim = survives_power_loss(of, promise, checkpoint_syncs=synced)
    assert str(of) in str(claim)
    assert str(promise) in str(claim)
    assert msgspec.json.decode(msgspec.json.encode(SavedClaim.of(claim)), type=SavedClaim).as_guarantee() == claim
    assert claim.power is not None
    assert claim.terms == claim.power.terms != ""


def test_by_its_name_alone_it_is_exactly_once_of_what_is_written_beside_the_checkpoint() -> None:
    (claim,) = claims_named([SURVIVES_POWER_LOSS], JUDGES)
    assert claim == survives_power_loss()
    assert str(claim) == "survives-power-loss (exactly-once, ext4-ordered, checkpoint synced)"


def test_terms_are_not_taken_for_other_ones() -> None:
    plain, synced = EXT4, survives_power_loss()
    assert (plain.terms, synced.terms) == ("ext4-ordered", "ext4-ordered, checkpoint synced")
    assert exactly_once().terms == ""


def test_what_no_file_system_promises_is_refused_with_what_they_do() -> None:
    with pytest.raises(InvalidScenario, match="strict, ext4-ordered, none"):
        survives_power_loss(promise="zfs")
    with pytest.raises(InvalidScenario, match="what is to hold"):
        survives_power_loss(EXT4)


def test_the_time_to_come_back_is_written_down_in_it_too() -> None:
    (claim,) = with_stated_time([survives_power_loss(recovers())], [20.0])
    assert str(claim) == "survives-power-loss (recovers (200 s), ext4-ordered, checkpoint synced)"


# What it is judged by


def test_losses_of_power_are_judged_for_their_claim_and_kills_for_the_others() -> None:
    found = concluded([crash_at(), loss()], killed(crash_at()), tried(loss(), "a"))
    assert (found[ONCE].status, found[ONCE].planned) == (HOLDS, 1)
    assert (found[SURVIVES].status, found[SURVIVES].planned) == (HOLDS, 1)
    assert NOT_REALLY in found[SURVIVES].summary
    assert NOT_REALLY not in found[ONCE].summary
    assert "1 recovery from a loss of power" in found[SURVIVES].summary


def test_kills_that_were_drawn_bound_no_claim_of_losses_of_power() -> None:
    plan = [Planned(crash_at(batch)) for batch in range(3)]
    draw = KillSample.of("all 3 planned crashes", range(3), 3, seed=7)
    drawn = [msgspec.structs.replace(killed(plan[place].crash), sampled=True) for place in draw.drawn]
    found = conclude((exactly_once(), EXT4), [*plan, Planned(loss())], [*drawn, tried(loss(), "a")], (), draw=draw)
    assert [bound.claim for bound in found.bounds] == [ONCE]


def test_a_loss_that_shows_twice_violates_its_claim_alone_and_says_that_no_power_was_lost() -> None:
    twice = tried(loss(), "a", VIOLATED), tried(loss(), "b", VIOLATED)
    found = concluded([crash_at(), loss()], killed(crash_at()), *twice)
    assert found[ONCE].status is HOLDS
    assert found[SURVIVES].status is VIOLATED
    assert (found[SURVIVES].violated, found[SURVIVES].repeats) == (2, 2)
    assert LOST.what in found[SURVIVES].summary
    assert NOT_REALLY in found[SURVIVES].summary


@pytest.mark.parametrize("again", [(), (HOLDS,), (UNKNOWN,), (VIOLATED, HOLDS)])
def test_a_loss_that_does_not_show_each_time_is_unknown(again: tuple[Status, ...]) -> None:
    repeats = [tried(loss(), f"again-{number}", status) for number, status in enumerate(again)]
    found = concluded([loss()], tried(loss(), "a", VIOLATED), *repeats)
    assert found[SURVIVES].status is UNKNOWN
    assert "not each time" in found[SURVIVES].reasons[0]


def test_a_violation_by_a_kill_says_nothing_of_losses_of_power() -> None:
    found = concluded([crash_at(), loss()], killed(crash_at(), VIOLATED), tried(loss(), "a"))
    assert found[ONCE].status is VIOLATED
    assert found[SURVIVES].status is HOLDS


def test_losses_on_other_terms_say_nothing_of_a_claim() -> None:
    other = loss(terms="none")
    found = concluded([other], tried(other, "a", VIOLATED), tried(other, "b", VIOLATED))
    assert found[SURVIVES].status is UNKNOWN


def test_a_loss_that_was_not_tried_leaves_it_open_and_no_other_claim() -> None:
    found = concluded(
        [crash_at(), loss(), loss(what="x")], killed(crash_at()), tried(loss(), "a"), exhausted="minutes: 6"
    )
    assert found[ONCE].status is HOLDS
    assert found[SURVIVES].status is UNKNOWN
    assert "1 of 2 planned crashes were not tried: minutes: 6" in found[SURVIVES].reasons


def test_where_nothing_is_journalled_it_is_unknown_with_the_reason() -> None:
    missed = NotReached(Planned(loss()), "nobody knows what was synced")
    found = concluded([crash_at()], killed(crash_at()), not_reached=[missed])
    assert found[ONCE].status is HOLDS
    assert found[SURVIVES].status is UNKNOWN
    assert "nobody knows what was synced" in found[SURVIVES].reasons[0]


# What its oracle says of a run


def judged(folder: Path, crash: Crash, **facts: Any) -> dict[str, Status]:
    write_run(folder, crash, **facts)
    return judge_read(read_run(folder), [crash], [*CLAIMS, EXT4], JUDGES).statuses


def test_a_run_in_which_the_power_was_lost_is_judged_for_what_survives_that_alone(tmp_path: Path) -> None:
    assert judged(tmp_path / "holds", loss()) == {SURVIVES: HOLDS}
    assert judged(tmp_path / "loses", loss(), judged=BATCHES[:2]) == {SURVIVES: VIOLATED}
    assert judged(tmp_path / "kill", crash_at()) == {str(claim): HOLDS for claim in CLAIMS}


def test_what_was_lost_has_to_be_in_the_record(tmp_path: Path) -> None:
    write_run(tmp_path / "run", loss())
    read = read_run(tmp_path / "run")
    for other in (loss(what="the name of sink/a"), loss(terms="strict")):
        claim = survives_power_loss(promise=other.terms, checkpoint_syncs=False)
        assert judge_read(read, [other], [claim], JUDGES).statuses == {str(claim): UNKNOWN}


def test_a_run_in_which_no_power_was_lost_says_nothing_of_it(tmp_path: Path) -> None:
    write_run(tmp_path / "run", crash_at(), judged=AGAIN)
    crash = loss()
    found = judge_read(read_run(tmp_path / "run"), [crash], [EXT4], JUDGES)
    assert found.statuses == {SURVIVES: UNKNOWN}
    assert "no power was lost" in found.reason


def test_its_oracle_is_one_of_all() -> None:
    assert [oracle.guarantee for oracle in ORACLES].count(SURVIVES_POWER_LOSS) == 1
    assert "the terms that the claim states" in JUDGES[SURVIVES_POWER_LOSS].definition
