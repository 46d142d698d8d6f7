"""What is printed after a run, and while it goes on."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from streamproof.faults.crash import crash
from streamproof.harness.command_line.library import first_sentence
from streamproof.harness.command_line.planning import plan, plan_screen
from streamproof.harness.command_line.progress_line import ProgressLine
from streamproof.harness.contracts.cluster import Live
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.guarantees import Guarantee, exactly_once, precise_recovery, rollback_recovery
from streamproof.harness.core.quantities import seconds
from streamproof.harness.core.reasons import Reason, Why
from streamproof.harness.core.schedule import Fault, checkpoint
from streamproof.harness.core.verdicts import Anomaly, Evidence, Status, Verdict, tally
from streamproof.harness.judging.collation import CollatedQuery
from streamproof.harness.judging.recovery import Recovery
from streamproof.harness.recording.claims_and_faults import SavedFault
from streamproof.harness.recording.folder import Description
from streamproof.harness.recording.history import (
    Bite,
    FaultHealed,
    FaultMissed,
    FaultStruck,
    History,
    Proof,
    Stamp,
    TimelineEntry,
)
from streamproof.harness.recording.records import CheckpointTaken, Record, Stamped, Started, Taken
from streamproof.harness.reporting.runs import evidence, forgotten, view_of_run
from streamproof.harness.reporting.screen import fact_lines, run_screen
from streamproof.harness.reporting.view import Fact
from streamproof.harness.running.judgement import Judgement
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from verdicts_of import JUDGES

PLANNED = crash("count-0").at(checkpoint(3).durable)
FAULT = str(PLANNED)


def timed(target: str) -> Fault:
    return crash(target).after(seconds(1))


def described(*schedule: Fault, cluster: str = "embedded") -> Description:
    return Description(
        version=1,
        run="r",
        scenario="s",
        origin="s",
        subject={"name": "word-count", "kind": "passive-replication"},
        workload={"name": "python-docs", "events": 24_117},
        seed=7,
        schedule=tuple(map(SavedFault.of, schedule)),
        claims=(),
        breaks=(),
        cluster={"cluster": cluster, "workers": 3},
        versions={},
        machine={},
        began="",
    )


def verdict(guarantee: Guarantee, status: Status, summary: str = "", reason: str = "", evidence: int = 0) -> Verdict:
    pieces = [Evidence(f"piece {n}", "count-0>sink-0", (3_910_000, 5_330_000), 0) for n in range(evidence)]
    anomalies = (tally(Anomaly.DUPLICATE_OUTPUT, 1_904, pieces),) if evidence else ()
    why = Reason(Why.INCOMPLETE, reason) if reason else None
    return Verdict(guarantee, status, ("outputs",), summary, anomalies, why)


def judged(
    verdicts: Sequence[Verdict] = (), broken: Sequence[Verdict] = (), recoveries: Sequence[Recovery] = ()
) -> Judgement:
    collation = CollatedQuery(observables=("outputs",), inputs=0)
    return Judgement(tuple(verdicts), tuple(broken), (rollback_recovery(),), tuple(recoveries), collation, "d")


def shown(
    description: Description, timeline: Sequence[TimelineEntry], judgement: Judgement, records: Sequence[Stamped] = ()
) -> list[str]:
    view = view_of_run(description, History(records, timeline), judgement, Path("runs/a run"))
    return [line.plain for line in run_screen(view)]


def test_a_query_is_under_no_scheme() -> None:
    named = Registry().scenario("query.word-count")
    lines = [line.plain for line in plan_screen(plan(named, SimulatedCluster(), Registry().faults, JUDGES, 7))]
    assert lines[0].startswith("query-word-count, a Structured Streaming query     simulator, 3 nodes")
    assert "  hits       driver" in lines


def struck(number: int = 0, **changes: object) -> FaultStruck:
    bite: dict[str, object] = {"outstanding": True, "gone": True, "pids": (41233, 41234)} | changes
    return FaultStruck(Stamp(1), number, FAULT, None, Bite("count-0", "node-1", ("count-0",), **bite))  # type: ignore[arg-type]


def test_the_whole_screen() -> None:
    recovery = Recovery(0, "count-0", 2, 310_000, 840_000, 50_000, 220_000)
    judgement = judged(
        [verdict(rollback_recovery(), Status.HOLDS, "0 inputs lost")],
        [verdict(exactly_once(), Status.VIOLATED, evidence=5)],
        [recovery],
    )
    assert shown(described(PLANNED), [struck()], judgement) == [
        "word-count under passive-replication     embedded Spark, 3 nodes · 24,117 events of python-docs · seed 7",
        "",
        f"  fault      {FAULT}",
        "  bit        count-0 on node-1: pid 41233 and 1 more gone",
        "  recovery   count-0 after 1.42 s = detected 0.31 + redeployed 0.84 + restored 0.05 + caught up 0.22",
        "",
        "  rollback-recovery-repeating   HOLDS      0 inputs lost",
        "  exactly-once                  VIOLATED   as expected",
        "      duplicate-output × 1,904",
        "          count-0>sink-0: piece 0, at 3.910 and 5.330 s, after the fault",
        "          count-0>sink-0: piece 1, at 3.910 and 5.330 s, after the fault",
        "          count-0>sink-0: piece 2, at 3.910 and 5.330 s, after the fault",
        "",
        "  strongest guarantee seen   rollback-recovery-repeating",
        "",
        "  run runs/a run     judge it again: streamproof judge 'runs/a run'",
    ]


def test_every_planned_fault_is_accounted_for() -> None:
    lines = shown(
        described(*map(timed, ("one", "two", "three", "four"))),
        [struck(), struck(1, outstanding=False), FaultMissed(Stamp(2), 2, "three")],
        judged(),
    )
    assert lines[2:10] == [
        "  fault 1    crash one, 1 s after the start",
        "  bit        count-0 on node-1: pid 41233 and 1 more gone",
        "  fault 2    crash two, 1 s after the start",
        "  no bite    all input had been processed by then",
        "  fault 3    crash three, 1 s after the start",
        "  no bite    its trigger never came",
        "  fault 4    crash four, 1 s after the start",
        "  no bite    the run ended before its trigger came",
    ]


def test_what_lasts_shows_the_proof_of_its_healing() -> None:
    bite = Bite("a-0 and b-0", "a-0 and b-0", ("a-0", "b-0"), True, lasting=True)
    paused = Bite("count-0", "node-1", ("count-0",), True, lasting=True)
    lines = shown(
        described(*map(timed, ("one", "two", "three"))),
        [
            FaultStruck(Stamp(1), 0, "one", None, bite),
            FaultStruck(Stamp(1), 1, "two", None, paused),
            FaultStruck(Stamp(1), 2, "three", None, bite),
            FaultHealed(Stamp(3), 0, "one", "a-0 and b-0", Proof(1_200, "messages held back")),
            FaultHealed(Stamp(3), 1, "two", "count-0", Proof(0, "actions put off")),
        ],
        judged(),
    )
    assert lines[2:8] == [
        "  fault 1    crash one, 1 s after the start",
        "  bit        a-0 and b-0: messages held back: 1,200",
        "  fault 2    crash two, 1 s after the start",
        "  no bite    it got in the way of nothing (actions put off: 0)",
        "  fault 3    crash three, 1 s after the start",
        "  no bite    it was not seen to heal",
    ]


@pytest.mark.parametrize(
    ("status", "broken", "summary", "style"),
    [
        (Status.HOLDS, False, "said", "bold green"),
        (Status.VIOLATED, False, "", "bold red"),
        (Status.UNKNOWN, False, "why", "bold yellow"),
        (Status.VIOLATED, True, "as expected", "bold green"),
        (Status.HOLDS, True, "although the scenario expects it to break: said", "bold red"),
        (Status.UNKNOWN, True, "why", "bold yellow"),
    ],
)
def test_the_line_of_a_guarantee(status: Status, broken: bool, summary: str, style: str) -> None:
    reason = "why" if status is Status.UNKNOWN else ""
    one = verdict(precise_recovery(), status, "said", reason, evidence=int(status is Status.VIOLATED))
    judgement = judged(broken=[one]) if broken else judged([one])
    (line,) = (
        line
        for line in run_screen(view_of_run(described(), History([], []), judgement, Path("r")))
        if "precise-recovery" in line.plain
    )
    assert line.plain == f"  precise-recovery   {status.value:<8}   {summary}".rstrip()
    assert [str(span.style) for span in line.spans] == [style]


@pytest.mark.parametrize(
    ("recovery", "said"),
    [
        (Recovery(0, "count-0", 0, None, None, None, None), "did not come back (not even detected)"),
        (
            Recovery(0, "count-0", 2, 12_000, 3_000, None, None),
            "did not come back (detected 12.0 ms, then redeployed 3.0 ms)",
        ),
        (
            Recovery(0, "count-0", 2, 12_000, 3_000, 0, None),
            "has not come to where it was (detected 12.0 ms, then redeployed 3.0 ms, then restored 0.0 ms)",
        ),
        (
            Recovery(0, "count-0", 2, 12_000, 3_000, 0, 1_000, heard=None),
            "has come to where it was, and nothing new was heard of it "
            "(detected 12.0 ms, then redeployed 3.0 ms, then restored 0.0 ms, then caught up 1.0 ms)",
        ),
        (
            Recovery(0, "count-0", 2, 12_000, 3_000, 0, 1_000, heard=None, why="it began anew meanwhile"),
            "has come to where it was, and when it was heard again nobody can tell "
            "(detected 12.0 ms, then redeployed 3.0 ms, then restored 0.0 ms, then caught up 1.0 ms)",
        ),
    ],
)
def test_a_recovery_that_did_not_end_says_how_far_it_came(recovery: Recovery, said: str) -> None:
    assert f"  recovery   count-0 {said}" in shown(described(PLANNED), [struck()], judged(recoveries=[recovery]))


def test_a_recovery_ends_when_the_slice_is_heard_again() -> None:
    judgement = judged(recoveries=[Recovery(0, "count-0", 2, 310_000, 840_000, 50_000, 220_000, heard=600_000)])
    assert (
        "  recovery   count-0 after 2.02 s = detected 0.31 + redeployed 0.84 + restored 0.05 + caught up 0.22 "
        "+ heard again 0.60" in shown(described(PLANNED), [struck()], judgement)
    )


def test_virtual_time_is_called_so() -> None:
    judgement = judged(recoveries=[Recovery(0, "count-0", 2, 100_000, 20_000, 3_000, 0)])
    assert (
        "  recovery   count-0 after 123 ms of virtual time = detected 100 + redeployed 20 + restored 3 + caught up 0"
        in shown(described(PLANNED, cluster="simulated"), [struck()], judgement)
    )


def records(*made: Record) -> list[Stamped]:
    return [Stamped(place, record) for place, record in enumerate(made)]


def taken(incarnation: int, count: int) -> Taken:
    return Taken("count-0", incarnation, "split-0", 1, 1, count, count)


@pytest.mark.parametrize(
    ("made", "incarnation", "lost"),
    [
        ([Started("count-0", 1, None, 1), taken(1, 30), Started("count-0", 2, None, 1), taken(2, 5)], 2, 30),
        (
            [
                Started("count-0", 1, None, 1),
                taken(1, 30),
                CheckpointTaken("count-0", 1, 1),
                taken(1, 7),
                CheckpointTaken("count-0", 1, 2),
                taken(1, 4),
                Started("count-0", 2, (1, 1), 1),
            ],
            2,
            11,
        ),
        (
            [
                Started("count-0", 1, None, 1),
                taken(1, 30),
                CheckpointTaken("count-0", 1, 1),
                Started("count-0", 2, (1, 1), 1),
                taken(2, 9),
                Started("count-0", 3, (1, 1), 1),
            ],
            3,
            9,
        ),
        ([Started("count-0", 1, None, 1), taken(1, 30)], 2, 30),
    ],
)
def test_what_a_crash_made_a_slice_forget(made: list[Record], incarnation: int, lost: int) -> None:
    assert forgotten(History(records(*made), []), Recovery(0, "count-0", incarnation, 1, 1, 1, 1)) == lost


def test_evidence_without_time_or_fault() -> None:
    assert evidence(Evidence("gone", "count-0")) == "count-0: gone"
    assert evidence(Evidence("gone", "count-0", (1_000,), 2)) == "count-0: gone, at 0.001 s, after fault 3"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("One. Two.", "One."),
        ("No full stop\n\nanother paragraph", "No full stop"),
        ("Broken over\n    lines. More.", "Broken over lines."),
        ("With (PPA, section 2.2) inside. More.", "With (PPA, section 2.2) inside."),
        ("", ""),
    ],
)
def test_the_first_sentence(text: str, first: str) -> None:
    assert first_sentence(text) == first


# The live line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[], float]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    times = iter(range(100))
    return lambda: float(next(times))


def test_the_live_line(clock: Callable[[], float]) -> None:
    terminal = Terminal()
    with ProgressLine(terminal, "starting", seconds(120), clock) as line:
        line.show(Live(0, 0, ""))
        line.show(Live(1_000, 40, ""))
        line.show(Live(2_000, 90, "crash count-0"))
    assert terminal.getvalue().split("\r\x1b[K")[1:] == [
        "starting",
        "starting",
        "1,000 events offered · 40 outputs delivered · at most 120 s left",
        "2,000 events offered · 90 outputs delivered · at most 119 s left · crash count-0",
        "",
    ]


def test_the_live_line_stays_one_line(clock: Callable[[], float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    terminal = Terminal()
    with ProgressLine(terminal, "starting", seconds(120), clock) as line:
        line.show(Live(1_000_000, 40, "crash count-0"))
    assert max(map(len, terminal.getvalue().split("\r\x1b[K"))) == 29


def test_it_is_drawn_ten_times_a_second() -> None:
    terminal = Terminal()
    times = iter(n / 1_000 for n in range(10_000))
    with ProgressLine(terminal, "starting", seconds(120), lambda: next(times)) as line:
        for _ in range(1_000):
            line.show(Live(1, 1, ""))
    assert terminal.getvalue().count("offered") == pytest.approx(10, abs=1)


@pytest.mark.parametrize("dumb", [True, False])
def test_there_is_none_elsewhere(dumb: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb" if dumb else "xterm")
    stream = Terminal() if dumb else io.StringIO()
    with ProgressLine(stream, "starting", seconds(120)) as line:
        line.show(Live(1, 1, ""))
    assert stream.getvalue() == ""


def test_a_terminal_that_goes_away_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")

    class Gone(Terminal):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    with ProgressLine(Gone(), "starting", seconds(120)) as line:
        line.show(Live(1, 1, ""))


def test_what_is_said_stands_in_one_column_however_long_a_label_is() -> None:
    facts = [Fact("struck", "501\naddresses"), Fact("not looked at", "files"), Fact("", "and more")]
    assert "\n".join(line.plain for line in fact_lines(facts)).splitlines() == [
        "  struck        501",
        "                addresses",
        "  not looked at files",
        "                and more",
    ]
