"""An oracle is one file and a line in a list, wherever it stands: a user's is no different from ours."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from asking import Ask
from streamproof.faults.crash import crash
from streamproof.harness.certifying.subjects import claims_named
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.errors import ExitStatus, InvalidHistory, InvalidScenario, NotImportable
from streamproof.harness.core.guarantees import (
    Guarantee,
    amnesia_recovery,
    at_least_once,
    exactly_once,
    gap_recovery,
    precise_recovery,
)
from streamproof.harness.core.lattice import implied, ranked
from streamproof.harness.core.quantities import Duration, Events, events, ms, seconds
from streamproof.harness.core.reasons import Reason, Why
from streamproof.harness.core.schedule import Fault
from streamproof.harness.core.verdicts import Anomaly, Evidence, Status, Tally, Verdict, none_of, tally, unknown
from streamproof.harness.judging.oracle import Case, Oracle, decide
from streamproof.harness.recording.records import Delivered
from streamproof.harness.running.run import run_in_memory
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.reference_impls.gap import gap
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.trace import trace
from streamproof.scenarios.workloads import numbered
from verdicts_of import JUDGES, RegistryWith

ORACLE_FILE = '''
"""No key is delivered more than n times."""

from collections import Counter

from streamproof.harness.judging.oracle import Case, Oracle, decide
from streamproof.harness.core.parameters import Parameter
from streamproof.harness.core.verdicts import Evidence, tally
from streamproof.harness.recording.records import Delivered


def judge(case, guarantee):
    """The recorder takes no key of a sink more than `times` times. (Ours.)"""
    most = guarantee.required("times", int)
    counts = Counter()
    for delivered in case.history.each(Delivered):
        counts.update((delivered.sink, row.key) for row in delivered.rows)
    often = [Evidence(f"{key!r} came {n} times", sink) for (sink, key), n in sorted(counts.items()) if n > most]
    found = (tally("too-often", len(often), often),) if often else ()
    return decide(case, guarantee, found, f"{len(counts)} keys, none more than {most} times")


ORACLE = Oracle(
    "no-key-more-than",
    judge,
    implied_by=("precise-recovery",),
    anomalies=("too-often",),
    parameters=(Parameter("times", (int,), "how often a key may come", required=True),),
)
'''
SCENARIO_FILE = '''
from bounded_keys import ORACLE
from streamproof import *


def _scenario(times):
    subject = passive_replication(trace(), checkpoint_every=events(8), sink_filter=True)
    faults = [crash("trace-0").after(events(20))]
    return Scenario(subject, numbered(events=200, batch=4), faults, claims=[ORACLE.claim(times=times)])


def often_enough():
    """No key comes more often than there are events."""
    return _scenario(200)


def never():
    """No key comes at all."""
    return _scenario(0)


def not_a_number():
    """Its claim is none."""
    return _scenario("four")
'''


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of a user's: the oracle's file, and the line in its metadata that registers it."""
    (tmp_path / "bounded_keys.py").write_text(ORACLE_FILE)
    (tmp_path / "my_scenarios.py").write_text(SCENARIO_FILE)
    metadata = tmp_path / "bounded_keys-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: bounded-keys\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[streamproof]\noracles = bounded_keys:ORACLE_LIST\n")
    (tmp_path / "bounded_keys.py").write_text(ORACLE_FILE + "\nORACLE_LIST = (ORACLE,)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert any(point.value == "bounded_keys:ORACLE_LIST" for point in entry_points(group="streamproof"))
    yield tmp_path
    for name in ("bounded_keys", "my_scenarios"):
        sys.modules.pop(name, None)


def test_one_that_is_called_like_another_packages_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else which of them judges would go by the order of a path."""
    metadata = tmp_path / "two_of_a_name-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: two-of-a-name\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[streamproof]\noracles = two_of_a_name:ORACLES\n")
    (tmp_path / "two_of_a_name.py").write_text(
        "from dataclasses import replace\nfrom streamproof.oracles import gap\n"
        "def held(case, guarantee): raise NotImplementedError\n"
        "ORACLES = [replace(gap.ORACLES[0], judge=held)]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        NotImportable, match=r"two-of-a-name offer oracles that are called 'gap-recovery'|and streamproof"
    ):
        Registry().oracles  # noqa: B018 - it is loaded when it is asked for
    monkeypatch.delitem(sys.modules, "two_of_a_name")


def test_it_is_listed_run_and_judged_again_like_ours(installed: Path, ask: Ask) -> None:
    assert "no-key-more-than" in ask("list", "oracles").out
    (listed,) = [one for one in ask("list", "oracles", "--json").document["oracles"] if "no-key" in one["name"]]
    assert listed["parameters"] == [
        {
            "name": "times",
            "is": "a whole number",
            "meaning": "how often a key may come",
            "required": True,
            "as": "3",
        }
    ]
    held = ask("run", "my_scenarios:often_enough", "--cluster", "simulated", "--folder", "held")
    assert held.status == 0, held.err
    assert "no-key-more-than (times 200)   HOLDS" in held.out
    broken = ask("run", "my_scenarios:never", "--cluster", "simulated", "--folder", "broken")
    assert broken.status == 1
    assert "no-key-more-than (times 0)   VIOLATED\n      too-often × " in broken.out
    for folder, status in (("held", 0), ("broken", 1)):
        assert ask("judge", folder).status == status
        assert ask("replay", folder, "--folder", f"{folder}-again").status == status
        (claim,) = json.loads(Path(folder, "scenario.json").read_text())["claims"]
        assert claim["guarantee"] == "no-key-more-than"
    assert "has times='four'; that is to be a whole number" in ask("run", "my_scenarios:not_a_number").err


def test_it_is_claimed_on_the_command_line_with_its_amounts(installed: Path) -> None:
    oracles = Registry().oracles
    wanted = Guarantee("no-key-more-than", amounts=(("times", 3),))
    assert claims_named(["no-key-more-than:3", "no-key-more-than:times=3"], oracles) == (wanted,)
    with pytest.raises(InvalidScenario, match=r"needs a whole number as its times.*write it as in no-key-more-than:3"):
        claims_named(["no-key-more-than"], oracles)
    with pytest.raises(InvalidScenario, match=r"states 'often=3'.*it takes: times"):
        claims_named(["no-key-more-than:often=3"], oracles)


def test_it_stands_below_ours_where_it_says_so(installed: Path) -> None:
    oracles = Registry().oracles
    assert "no-key-more-than" in implied("precise-recovery", oracles)
    assert "no-key-more-than" not in implied("exactly-once-output", oracles)
    assert "no-key-more-than" not in ranked(oracles)


def test_an_amount_that_is_required_is_there_in_its_kind() -> None:
    claim = gap_recovery(events(500), ms(20))
    assert claim.required("within", Events) == events(500)
    assert claim.required("opens_within", Duration) == ms(20)
    with pytest.raises(InvalidScenario, match="the claim gap-recovery needs times, of the kind int; it has None"):
        claim.required("times", int)


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("recovers-within:1.5s", Guarantee("recovers-within", seconds(1.5))),
        ("recovers:2min", Guarantee("recovers", seconds(120))),
        ("gap-recovery:500events,opens_within=20ms", gap_recovery(events(500), ms(20))),
        ("gap-recovery:500", gap_recovery(events(500))),
        ("rollback-recovery-convergent:30events", Guarantee("rollback-recovery-convergent", events(30))),
        ("rollback-recovery-convergent:within=30s", Guarantee("rollback-recovery-convergent", seconds(30))),
        ("exactly-once", exactly_once()),
    ],
)
def test_our_own_claims_are_written_in_the_same_way(text: str, claim: Guarantee) -> None:
    assert claims_named([text], JUDGES) == (claim,)


def test_the_strongest_are_looked_for_before_all_that_they_imply() -> None:
    order = ranked(JUDGES)
    for place, name in enumerate(order):
        assert not (implied(name, JUDGES) - {name}) & set(order[:place]), name
    for name in JUDGES:
        assert all(name not in implied(other, JUDGES) for other in implied(name, JUDGES) - {name}), "a circle"


COUNTED: list[int] = []
"""For each time that the analysis was computed, how many events it had seen."""


def delivered(case: Case) -> int:
    """An analysis of a user's."""
    COUNTED.append(sum(len(one.rows) for one in case.history.each(Delivered)))
    return COUNTED[-1]


def _at_least(case: Case, guarantee: Guarantee) -> Verdict:
    """At least one event came."""
    few = (tally("nothing", 1, ()),) if case.analysis(delivered) < 1 else ()
    return decide(case, guarantee, few, f"{case.analysis(delivered)} came")


def test_an_analysis_of_ones_own_is_computed_once_a_history_and_only_if_asked_for() -> None:
    oracles = [Oracle(name, _at_least) for name in ("one-comes", "one-comes-too")]
    registry = RegistryWith(*oracles)
    COUNTED.clear()

    def judged(*claims: Guarantee) -> list[Status]:
        planned = replace(scenario(), claims=claims)
        _, judgement = run_in_memory(planned, SimulatedCluster(), registry.faults, registry.oracles, seed=1)
        return [verdict.status for verdict in judgement.verdicts]

    assert judged(at_least_once()) == [Status.HOLDS]
    assert COUNTED == []
    both = [oracle.claim() for oracle in oracles]
    assert judged(*both) == [Status.HOLDS] * 2
    assert COUNTED == [24]
    assert judged(*both) == [Status.HOLDS] * 2
    assert COUNTED == [24, 24]


def raising(error: Exception) -> Oracle:
    def judge(case: Case, guarantee: Guarantee) -> Verdict:
        """Fails."""
        raise error

    return Oracle(at_least_once().name, judge, ranked=True)


def scenario() -> Scenario:
    subject = passive_replication(trace(), checkpoint_every=events(8))
    return Scenario(subject, numbered(events=24, batch=4), claims=[at_least_once(), amnesia_recovery(), exactly_once()])


def test_an_oracle_that_raises_leaves_its_own_verdict_unknown_and_no_other() -> None:
    registry = RegistryWith(raising(ZeroDivisionError("by hand")))
    _, judgement = run_in_memory(scenario(), SimulatedCluster(), registry.faults, registry.oracles, seed=1)
    failed, *others = judgement.verdicts
    assert (failed.status, failed.why, failed.own_failure) == (Status.UNKNOWN, Why.ORACLE_FAILED, False)
    assert failed.reason.startswith("its oracle failed: ZeroDivisionError: by hand (")
    assert [verdict.status for verdict in others] == [Status.HOLDS, Status.HOLDS]
    assert at_least_once() not in judgement.strongest


OBSERVED = ("outputs",)
NO_VERDICTS: dict[str, tuple[Callable[[Guarantee], object], str]] = {
    "nothing": (lambda asked: None, "and not None"),
    "on another guarantee": (
        lambda asked: Verdict(exactly_once(), Status.HOLDS, OBSERVED, "fine"),
        "and not one on exactly-once",
    ),
    "unknown, and not why": (lambda asked: Verdict(asked, Status.UNKNOWN, OBSERVED, ""), "UNKNOWN was returned with 0"),
    "violated by nothing": (
        lambda asked: Verdict(asked, Status.VIOLATED, OBSERVED, ""),
        "VIOLATED was returned with 0",
    ),
    "holds, in letters": (lambda asked: Verdict(asked, "HOLDS", OBSERVED, ""), "a Status, and not 'HOLDS'"),  # type: ignore[arg-type]
    "holds, with an anomaly": (
        lambda asked: Verdict(asked, Status.HOLDS, OBSERVED, "", (tally("wrong", 1, ()),)),
        "HOLDS was returned with 1 anomalies",
    ),
    "evidence in letters": (
        lambda asked: Verdict(asked, Status.VIOLATED, OBSERVED, "", (Tally("wrong", 1, ("here",)),)),  # type: ignore[arg-type]
        "with 'here' as a piece of evidence; that is to be an Evidence (",
    ),
    "an anomaly in letters": (
        lambda asked: Verdict(asked, Status.VIOLATED, OBSERVED, "", ("wrong",)),  # type: ignore[arg-type]
        "with 'wrong' as an anomaly; that is to be a Tally",
    ),
    "an anomaly never seen": (
        lambda asked: Verdict(asked, Status.VIOLATED, OBSERVED, "", (Tally("wrong", 0, ()),)),
        "with an anomaly, wrong, that was seen 0 times",
    ),
    "a reason in letters": (
        lambda asked: Verdict(asked, Status.UNKNOWN, OBSERVED, "", unknown="because"),  # type: ignore[arg-type]
        "with 'because' as why it is not known; that is to be a Reason",
    ),
    "measured in letters": (
        lambda asked: Verdict(asked, Status.HOLDS, OBSERVED, "fine", measured=("much",)),  # type: ignore[arg-type]
        "with 'much' as an amount that was measured; that is to be a Measured",
    ),
    "a summary that is none": (
        lambda asked: Verdict(asked, Status.HOLDS, OBSERVED, 3),  # type: ignore[arg-type]
        "with 3 as its summary; that is to be a text",
    ),
    "a failure of streamproof's": (
        lambda asked: unknown(asked, OBSERVED, Reason(Why.CONTRADICTION, "by hand")),
        "it says itself that it has failed",
    ),
}


@pytest.mark.parametrize("name", NO_VERDICTS)
def test_what_is_no_verdict_on_what_was_asked_leaves_it_unknown_and_no_other(name: str) -> None:
    returned, said = NO_VERDICTS[name]
    oracle = Oracle(at_least_once().name, lambda case, asked: returned(asked), ranked=True)  # type: ignore[arg-type,return-value]
    registry = RegistryWith(oracle)
    _, judgement = run_in_memory(scenario(), SimulatedCluster(), registry.faults, registry.oracles, seed=1)
    failed, *others = judgement.verdicts
    assert (failed.guarantee, failed.status, failed.why) == (at_least_once(), Status.UNKNOWN, Why.ORACLE_FAILED)
    assert said in failed.reason
    assert failed.failed is ExitStatus.USER_MISTAKE
    assert [verdict.status for verdict in others] == [Status.HOLDS, Status.HOLDS]


def _always(case: Case, guarantee: Guarantee) -> Verdict:
    return decide(case, guarantee, (), "fine")


def _never(case: Case, guarantee: Guarantee) -> Verdict:
    return decide(case, guarantee, [tally("wrong", 1, [Evidence("here", "there")])], "")


def test_what_one_says_that_it_implies_and_does_not_is_its_own_failure_and_ours_stand() -> None:
    always = Oracle("always", _always, implies=("precise-recovery",))
    never = Oracle("never", _never, implied_by=("precise-recovery",), ranked=True)
    registry = RegistryWith(always, never)
    planned = replace(scenario(), claims=[always.claim(), precise_recovery(), never.claim()])
    _, judgement = run_in_memory(planned, SimulatedCluster(), registry.faults, registry.oracles, seed=1)
    contradicts, ours, violated = judgement.verdicts
    assert (contradicts.why, contradicts.failed) == (Why.ORACLE_FAILED, ExitStatus.USER_MISTAKE)
    assert contradicts.reason == "its oracle failed: always holds, and never, which it implies, does not (wrong x 1)"
    assert (ours.status, violated.status) == (Status.HOLDS, Status.VIOLATED)


def test_one_that_fails_ends_a_search_as_it_ends_a_run(installed: Path, ask: Ask) -> None:
    assert ask("explore", "my_scenarios:never", "--schedules", 4, "--jobs", 1).status == ExitStatus.VIOLATED
    file = installed / "bounded_keys.py"
    file.write_text(file.read_text().replace("    counts = Counter()\n", "    counts = 1 / 0\n"))
    for name in ("bounded_keys", "my_scenarios"):
        del sys.modules[name]
    assert ask("replay", "counterexample.json").status == ExitStatus.USER_MISTAKE
    searched = ask("explore", "my_scenarios:never", "--schedules", 4, "--jobs", 1)
    assert searched.status == ExitStatus.USER_MISTAKE, searched.err
    assert f"its oracle failed: ZeroDivisionError: division by zero ({file}, line " in searched.out
    several = ask("run", "my_scenarios:never", "word-count.passive-replication", "--cluster", "simulated")
    assert several.status == ExitStatus.USER_MISTAKE, several.err
    assert several.out.count("HOLDS") == 1


def _never_looks(case: Case, guarantee: Guarantee) -> Verdict:
    """Whatever it is shown, it is fine."""
    return Verdict(guarantee, Status.HOLDS, OBSERVED, "fine")


def test_what_holds_by_an_oracle_of_ones_own_needs_a_fault_that_bit_as_ours_do() -> None:
    registry = RegistryWith(Oracle("fine", _never_looks))
    planned = replace(scenario(), claims=[Guarantee("fine")])

    def judged(*faults: Fault) -> Verdict:
        of = replace(planned, faults=faults)
        _, judgement = run_in_memory(of, SimulatedCluster(), registry.faults, registry.oracles, seed=1)
        return judgement.verdicts[0]

    assert (judged().status, judged().summary) == (Status.HOLDS, "fine")
    assert judged(crash("trace-0").after(events(4))).status is Status.HOLDS
    never = judged(crash("trace-0").after(events(1_000)))
    assert (never.status, never.why) == (Status.UNKNOWN, Why.UNPROVEN)


def test_an_oracle_that_says_something_else_when_it_is_asked_again_says_nothing() -> None:
    asked = []

    def judge(case: Case, guarantee: Guarantee) -> Verdict:
        """Every second time it holds."""
        asked.append(guarantee)
        found = (tally("second", 1, [Evidence("again", "here")]),) if len(asked) % 2 == 0 else ()
        return decide(case, guarantee, found, "fine")

    registry = RegistryWith(Oracle("now-and-then", judge))
    planned = replace(scenario(), claims=[Guarantee("now-and-then")])
    _, judgement = run_in_memory(planned, SimulatedCluster(), registry.faults, registry.oracles, seed=1)
    (verdict,) = judgement.verdicts
    assert (verdict.status, verdict.why) == (Status.UNKNOWN, Why.ORACLE_FAILED)
    assert "asked again of the same history, it says VIOLATED (second x 1)" in verdict.reason


def test_what_is_wrong_with_the_record_is_wrong_for_all_of_them() -> None:
    registry = RegistryWith(raising(InvalidHistory("no such record")))
    with pytest.raises(InvalidHistory, match="no such record"):
        run_in_memory(scenario(), SimulatedCluster(), registry.faults, registry.oracles, seed=1)


def _forgets_an_output(case: Case, guarantee: Guarantee) -> Verdict:
    """Takes the last delivery for itself."""
    records: Any = case.history.records
    place = max(place for place, stamped in enumerate(records) if isinstance(stamped.record, Delivered))
    del records[place]
    return decide(case, guarantee, (), "fine")


def _sorts_rows(case: Case, guarantee: Guarantee) -> Verdict:
    """Sorts each delivery in place."""
    for one in case.history.each(Delivered):
        one.rows.sort(key=lambda row: (row.key, -row.seq))
    return decide(case, guarantee, (), "fine")


@pytest.mark.parametrize("judge", [_forgets_an_output, _sorts_rows])
def test_one_that_changes_the_history_is_refused_and_nobody_judges_what_it_leaves(
    judge: Callable[[Case, Guarantee], Verdict],
) -> None:
    registry = RegistryWith(Oracle("takes-away", judge))
    planned = replace(scenario(), claims=[Guarantee("takes-away"), exactly_once()])
    with pytest.raises(InvalidScenario, match="the oracle of takes-away changes the history that it is given"):
        run_in_memory(planned, SimulatedCluster(), registry.faults, registry.oracles, seed=1)


def _uses_up_what_was_executed(case: Case, guarantee: Guarantee) -> Verdict:
    """Takes each list apart as it goes through it."""
    verdict = decide(case, guarantee, (), "fine")
    reexecution: Any = case.collation.reexecution
    for found in (reexecution.reruns, *reexecution.reruns.values(), reexecution.deliveries, reexecution.kept):
        found.clear()
    return verdict


def _says_that_nothing_is_lost(case: Case, guarantee: Guarantee) -> Verdict:
    vars(case.collation).update(lost_state=none_of(Anomaly.LOST_INPUT), lost_output=none_of(Anomaly.LOST_INPUT))
    return decide(case, guarantee, (), "fine")


@pytest.mark.parametrize("judge", [_uses_up_what_was_executed, _says_that_nothing_is_lost])
def test_what_one_does_to_what_was_executed_again_changes_no_verdict_of_ours(
    judge: Callable[[Case, Guarantee], Verdict],
) -> None:
    """Neither of this run nor of the next one, for which what no crash touched is not executed again."""
    registry = RegistryWith(Oracle("breaks", judge))
    faults = [crash("trace-0").after(events(4))]
    loses = replace(scenario(), subject=gap(trace(), checkpoint_every=events(8)), faults=faults)
    planned = replace(loses, claims=[Guarantee("breaks"), exactly_once()])
    for seed in (1, 2):
        _, judgement = run_in_memory(planned, SimulatedCluster(), registry.faults, registry.oracles, seed=seed)
        of_users, ours = judgement.verdicts
        assert of_users.status is Status.HOLDS
        assert ours.status is Status.VIOLATED


def test_its_traceback_is_in_the_runs_folder_and_the_reason_names_it(installed: Path, ask: Ask) -> None:
    file = installed / "bounded_keys.py"
    file.write_text(file.read_text().replace("    counts = Counter()\n", "    counts = 1 / 0\n"))
    answer = ask("run", "my_scenarios:never", "--cluster", "simulated", "--folder", "failed", "--json")
    assert answer.status == 3, answer.err
    (verdict,) = answer.document["verdicts"]
    assert (verdict["status"], verdict["why"]) == ("UNKNOWN", "oracle-failed")
    assert verdict["reason"].endswith("the traceback is in logs/oracle-1-no-key-more-than.txt")
    story = Path("failed/logs/oracle-1-no-key-more-than.txt").read_text()
    assert "counts = 1 / 0" in story
    assert "ZeroDivisionError" in story
    assert ask("judge", "failed").status == 3
