"""The page for people: what was covered and what was not comes first, and it stays a page."""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec
import pytest

from certified import SUBJECT, crash_at, trial, unsealed
from streamproof.harness.certifying.certificate import Certificate, QueryCounterexample
from streamproof.harness.certifying.conclusion import NotReached, Planned
from streamproof.harness.certifying.page import KINDS, MEANINGS, page
from streamproof.harness.certifying.plan import How, Victim
from streamproof.harness.certifying.telling import view_of_certificate
from streamproof.harness.core.addresses import QUERY_POINTS, TASK_POINTS, Point, Side
from streamproof.harness.core.verdicts import Status
from streamproof.harness.judging.statistics import KillSample
from streamproof.harness.reporting.screen import certificate_screen

SHOWN = QueryCounterexample(
    claim="exactly-once",
    crashes=(crash_at(2),),
    how=How.KILL,
    events=4,
    batch_events=2,
    anomaly="duplicate-effect",
    wrong="batch 2 ('b', 3): without failures it is 2",
    input="event 5 of the source, 'a b'",
    batch=2,
    folder="runs/one",
    violated=3,
    repeats=3,
    command="streamproof replay runs/counterexample.json",
    crashes_before=3,
    events_before=700,
)


KINDS_TITLE = "Crash points, kinds of batch and victims"


def large() -> Certificate:
    """Some 2,000 planned crashes, all survived but those of one point."""
    plan = []
    for point, side, kind in product(sorted(QUERY_POINTS), Side, KINDS):
        victims = Victim if point in TASK_POINTS else (Victim.DRIVER, Victim.NODE)
        for victim, batch in product(victims, range(2)):
            plan.append(Planned(crash_at(batch, point=point, side=side, kinds=(kind,), victim=victim)))
    trials = [trial(line.crash, name=f"run-{n}") for n, line in enumerate(plan) if line.crash.point is not Point.USER]
    missed = [
        NotReached(line, f"batch {n} never came") for n, line in enumerate(plan) if line.crash.point is Point.USER
    ]
    return unsealed(plan=tuple(plan), trials=tuple(trials), not_reached=tuple(missed))


def section(text: str, title: str) -> str:
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_it_begins_with_the_verdicts_in_a_line_then_what_was_covered_and_what_was_not() -> None:
    text = page(unsealed())
    titles = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert titles == [
        "Covered",
        "Not covered",
        "Verdicts",
        "Crash points, kinds of batch and victims",
        "How it was run",
    ]
    assert text.startswith(
        "# Certificate of word-count\n\n**exactly-once HOLDS, exactly-once-output HOLDS**\n\n"
        "## Covered\n\n- 1 of 1 planned crashes came to a verdict"
    )
    assert "The loss of files that were not synced." in section(text, "Not covered")


def test_a_plan_that_was_not_finished_says_what_is_missing() -> None:
    plan = tuple(Planned(crash_at(batch)) for batch in range(4))
    odd = trial(crash_at(1), reason="it came too late", exactly_once=Status.UNKNOWN)
    certificate = unsealed(
        plan=plan,
        trials=(trial(crash_at(0)), odd),
        not_reached=(NotReached(plan[3], "batch 3 never came"),),
        exhausted="5 minutes were over",
    )
    text = section(page(certificate), "Not covered")
    assert "Planned and not reached: the driver dies before the driver adds batch 3 to the commit log" in text
    assert "(batch 3 never came)" in text
    assert "Planned and not tried (5 minutes were over): the driver dies before the driver adds batch 2" in text
    assert "Tried, and without a verdict on every claim: the driver dies before the driver adds batch 1" in text
    verdicts = section(page(certificate), "Verdicts")
    assert "**exactly-once: UNKNOWN**" in verdicts
    assert "1 of 4 planned crashes were not tried: 5 minutes were over" in verdicts


def test_references_that_disagree_come_first_among_what_was_not_covered() -> None:
    why = "two runs without failures disagree on 1 rows: batch 0 'a': 1 and 2"
    text = page(unsealed(unjudgeable=why))
    assert section(text, "Not covered").strip().startswith(f"- Nothing can be judged: {why}")


def test_a_violation_is_a_short_story() -> None:
    violated = trial(crash_at(2), exactly_once=Status.VIOLATED)
    text = section(page(unsealed(trials=(violated,), counterexample=SHOWN)), "How exactly-once is violated")
    assert [line for line in text.splitlines() if line[:1].isdigit()] == [
        "1. The crash strikes at batch 2, which takes event 5 of the source, 'a b'",
        "2. The driver dies before the driver adds batch 2 to the commit log",
        "3. A new driver goes on from the checkpoint",
        "4. What is wrong then, an input that counts twice (duplicate-effect): "
        "batch 2 ('b', 3): without failures it is 2",
        "3 of 3 repeats showed it, with 1 crash and 4 events, shrunk from 3 crashes and 700 events. This replays it:",
    ]
    assert "```sh\nstreamproof replay runs/counterexample.json\n```" in text


def test_what_was_made_smaller_was_run_once_and_repeated_before() -> None:
    shown = msgspec.structs.replace(SHOWN, violated=1, repeats=1, violated_before=2, repeats_before=3)
    text = page(unsealed(trials=(trial(crash_at(2), exactly_once=Status.VIOLATED),), counterexample=shown))
    assert (
        "2 of 3 repeats showed it, with 3 crashes and 700 events; shrunk to 1 crash and 4 events, which was run once. "
        "This replays it:" in text
    )


def test_the_table_counts_by_point_kind_of_batch_and_victim() -> None:
    crashes = [crash_at(0), crash_at(1), crash_at(2), crash_at(1, point=Point.TASK_END, key="1/1/0", actor="task")]
    crashes[3] = crash_at(1, point=Point.TASK_END, key="1/1/0", actor="task", victim=Victim.EXECUTOR)
    trials = [trial(crash, name=str(n)) for n, crash in enumerate(crashes[:2])]
    trials.append(trial(crashes[3], exactly_once=Status.VIOLATED))
    split = Planned(crash_at(1), split_brain=True)
    certificate = unsealed(plan=(*map(Planned, crashes), split), trials=tuple(trials))
    rows = [line for line in page(certificate).splitlines() if line.startswith(("| crash point", "| before"))]
    assert rows == [
        "| crash point | dies | first | steady | last | all |",
        "| before `commit-log` | driver | 1/1 | 1/2 | 0/1 | 2/3 |",
        "| before `commit-log` | driver, split brain |  | 0/1 |  | 0/1 |",
        "| before `task-end` | executor |  | 0/1 ✗ |  | 0/1 ✗ |",
    ]


def test_a_cross_says_which_claim_a_trial_violates() -> None:
    crashes = [crash_at(0), crash_at(1), crash_at(2)]
    trials = [
        trial(crashes[0], name="0", exactly_once=Status.VIOLATED),
        trial(crashes[1], name="1", exactly_once_output=Status.VIOLATED),
        trial(crashes[2], name="2"),
    ]
    text = section(page(unsealed(plan=tuple(map(Planned, crashes)), trials=tuple(trials))), KINDS_TITLE)
    assert "✗1: a trial violates exactly-once.\n✗2: a trial violates exactly-once-output.\n" in text
    assert "| before `commit-log` | driver | 0/1 ✗1 | 1/2 ✗2 | 1/1 | 1/3 ✗1 ✗2 |" in text


def test_the_points_that_occur_are_explained_and_no_others() -> None:
    crashes = [crash_at(1, point=Point.ADD_BATCH), crash_at(1, point=Point.TASK_END, key="1/1/0", actor="task")]
    text = section(page(unsealed(plan=tuple(map(Planned, crashes)), trials=())), KINDS_TITLE)
    assert [line.partition(":")[0] for line in text.splitlines() if line.startswith("- ")] == [
        "- `add-batch`",
        "- `task-end`",
    ]
    assert "a foreachBatch function runs between before and after" in text


def test_every_point_of_a_query_has_a_meaning() -> None:
    assert set(MEANINGS) >= QUERY_POINTS


def test_a_large_plan_is_summarized() -> None:
    certificate = large()
    assert len(certificate.plan) > 1_000
    text = page(certificate)
    assert len(text.splitlines()) < 175
    assert len(text) < 14_000
    assert f"of {len(certificate.plan):,} planned crashes came to a verdict" in text
    assert "more were not reached, for" in text
    # No side is told from the other any more, and every point still has its row.
    assert all(f"| `{point}` |" in text for point in QUERY_POINTS)


def test_the_sample_says_what_it_was_drawn_from_and_what_it_bounds() -> None:
    plan = (Planned(crash_at(0)), Planned(crash_at(2)))
    draw = KillSample.of("all 2 planned crashes", (0, 1), 300, 7)
    kills = tuple(trial(plan[place].crash, name=f"k{n}", sampled=True) for n, place in enumerate(draw.drawn))
    text = page(unsealed(plan=plan, trials=kills, draw=draw))
    drawn, said = "300 real kills drawn at random from all 2 planned crashes", "at most 1.0 % of such kills violate"
    assert f"{drawn}: no violation, so {said}, with 95 % confidence" in section(text, "Covered")
    assert "| exactly-once | 300 of 300 | 0 | 0 | 0.0 % | 1.0 % |" in section(text, "The random sample")
    unfinished = page(unsealed(plan=plan, trials=kills[:200], draw=draw))
    assert "no bound on how many of such kills violate, since only 200 of 300 drawn kills were finished" in section(
        unfinished, "Covered"
    )
    violated = [
        trial(plan[draw.drawn[n]].crash, name=f"v{n}", sampled=True, exactly_once=Status.VIOLATED) for n in range(6)
    ]
    some = page(unsealed(plan=plan, trials=(*violated, *kills[6:]), draw=draw))
    assert "6 violations, so at least 0.8 % of such kills violate, with 95 % confidence" in section(some, "Covered")


@pytest.mark.parametrize(
    "nasty", ["a | b", "<script>alert(1)</script>", "`x`", "# title\n## another", "[a](b)", "x" * 5_000]
)
def test_what_others_wrote_is_no_markdown_and_not_endless(nasty: str) -> None:
    subject = {**SUBJECT, "name": "q", "schema": nasty}
    shown = {field: getattr(SHOWN, field) for field in SHOWN.__struct_fields__}
    counterexample = QueryCounterexample(**{**shown, "wrong": nasty, "input": nasty})
    violated = trial(crash_at(2), exactly_once=Status.VIOLATED)
    certificate = unsealed(
        subject=subject,
        trials=(violated,),
        counterexample=counterexample,
        settings={"spark.x": nasty},
        unjudgeable=nasty,
    )
    text = page(certificate)
    assert max(map(len, text.splitlines())) < 1_500
    assert "<script>" not in text
    assert "\n## another" not in text
    for line in text.splitlines():
        if line.startswith("| spark.x"):
            assert line.replace("\\|", "").count("|") == 3


def test_the_screen_says_the_same(tmp_path: Any) -> None:
    violated = trial(crash_at(2), exactly_once=Status.VIOLATED)
    certificate = unsealed(trials=(violated,), counterexample=SHOWN)
    text = "\n".join(line.plain for line in certificate_screen(view_of_certificate(certificate, tmp_path)))
    assert "exactly-once          VIOLATED" in text
    assert "4  What is wrong then, an input that counts twice (duplicate-effect)" in text
    assert text.splitlines()[1] == "  exactly-once VIOLATED, exactly-once-output HOLDS"
    assert "replay it: streamproof replay runs/counterexample.json" in text
    assert f"streamproof judge {tmp_path}" in text


def test_of_a_source_of_the_query_s_own_nobody_says_how_many_events_it_gave(tmp_path: Any) -> None:
    subject = {**SUBJECT, "code": {"source": {"name": "mine:numbers", "source": "00"}}}
    shown = msgspec.structs.replace(SHOWN, events=0, events_before=0)
    certificate = unsealed(subject=subject, counterexample=shown)
    text = "\n".join(line.plain for line in certificate_screen(view_of_certificate(certificate, tmp_path)))
    assert "input from a source of its own" in text.splitlines()[0]
    assert "3 of 3 repeats showed it, with 1 crash, shrunk from 3 crashes" in text
    assert "| input | from a source of its own |" in section(page(certificate), "How it was run")


def test_the_screen_stays_a_screen_for_a_large_plan(tmp_path: Any) -> None:
    assert len(list(certificate_screen(view_of_certificate(large(), tmp_path)))) < 40
