"""Schedules that exercised something new are kept, varied, and shared between searches."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from streamproof.faults.crash import crash
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.errors import InvalidCounterexample, UnknownCounterexampleVersion
from streamproof.harness.core.quantities import events, ms
from streamproof.harness.core.schedule import Fault
from streamproof.harness.exploration.bench import Bench, Trial
from streamproof.harness.exploration.corpus import (
    CorpusGrowth,
    add_to_corpus,
    check_schedules,
    grow_corpus,
    read_corpus,
    tried_again,
)
from streamproof.harness.exploration.exploring import explore
from streamproof.harness.exploration.guided import CorpusEntry, GuidedSchedules
from streamproof.harness.exploration.novelty import features
from streamproof.harness.exploration.plans import EverySingle, RandomSchedules, fault_at
from streamproof.harness.exploration.search import SearchBudget, search
from streamproof.harness.exploration.telling import view_of_search
from streamproof.harness.judging.exercised import Activity
from streamproof.reference_impls.active_standby import active_standby
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.trace import trace
from streamproof.scenarios.workloads import numbered

REGISTRY = Registry()


def bench_of(scheme: str = "passive") -> Bench:
    subject = (
        passive_replication(trace(), checkpoint_every=events(4))
        if scheme == "passive"
        else active_standby(trace(), acknowledge_every=events(4))
    )
    return Bench(Scenario(subject, numbered(events=16, batch=2)), REGISTRY, seed=5)


@pytest.mark.parametrize("scheme", ["passive", "active"])
def test_a_guided_schedule_comes_to_what_it_comes_to_by_itself(scheme: str) -> None:
    bench = bench_of(scheme)
    longest = 0
    for trial, outcome in islice(GuidedSchedules(5).attempts(bench, 0), 60):
        by_itself = bench.attempt(trial)
        assert (outcome.status, outcome.struck, outcome.at_work) == (
            by_itself.status,
            by_itself.struck,
            by_itself.at_work,
        )
        longest = max(longest, len(trial.schedule))
    assert longest > 2


@pytest.mark.long
def test_what_is_varied_counts_for_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    afresh: list[int] = []
    once = RandomSchedules.drawn

    def counted(plan: RandomSchedules, bench: Bench, piece: int) -> Any:
        afresh.append(piece)
        return once(plan, bench, piece)

    monkeypatch.setattr(RandomSchedules, "drawn", counted)
    drawn = [trial.random for piece in range(3) for trial, _ in GuidedSchedules(3).attempts(bench_of(), piece)]
    assert sum(drawn) == len(afresh)
    assert len(afresh) < len(drawn) / 2


def test_a_piece_gives_the_same_wherever_it_is_worked_through() -> None:
    one, other = (list(islice(GuidedSchedules(3).attempts(bench_of(), 1), 25)) for _ in range(2))
    assert one == other


def test_a_crash_in_a_recovery_exercises_what_a_single_one_does_not() -> None:
    bench = bench_of()
    first, *_, last = bench.calm_classes
    (where, *_) = bench.calm_classes[len(bench.calm_classes) // 2]

    def exercised(*schedule: object) -> frozenset[int]:
        history = bench.run(tuple(schedule), 5)  # type: ignore[arg-type]
        return features(history, [Activity.RESTART])

    single = exercised(fault_at(where))
    recovering = next(one for one in bench.reached((fault_at(where),), 5) if one.after and one.address.incarnation > 1)
    assert exercised(fault_at(where)) == single
    assert not exercised(fault_at(where), fault_at(recovering)) <= single
    assert exercised(fault_at(first[0])) != exercised(fault_at(last[0]))


def test_a_corpus_grows_and_the_next_search_begins_with_it(tmp_path: Path) -> None:
    bench, folder = bench_of(), tmp_path / "corpus"
    first = search(bench, [EverySingle(), GuidedSchedules(3)], SearchBudget(200), in_order=True)
    added = add_to_corpus(folder, "mine", bench.scenario, first.corpus)
    assert added == len(list(folder.iterdir())) > 10
    known = read_corpus(folder, "mine", bench.scenario)
    assert len(known) == added
    assert read_corpus(folder, "another's", bench.scenario) == ()
    assert add_to_corpus(folder, "mine", bench.scenario, first.corpus) == 0
    again = search(bench, [GuidedSchedules(3, corpus=known)], SearchBudget(150))
    seen = frozenset(feature for entry in known for feature in entry.features)
    assert all(not entry.features <= seen for entry in again.corpus)
    assert len(again.corpus) < len(search(bench, [GuidedSchedules(3)], SearchBudget(150)).corpus)


def test_a_damaged_corpus_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text('{"version": 1, "scenario": 3}')
    with pytest.raises(InvalidCounterexample, match=r"one\.json is damaged: .*; remove it, or name another folder"):
        read_corpus(tmp_path, "mine", bench_of().scenario)
    (tmp_path / "one.json").write_text('{"version": 99}')
    with pytest.raises(UnknownCounterexampleVersion, match="version 99"):
        read_corpus(tmp_path, "mine", bench_of().scenario)


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe",
        b"[" * 20_000,
        b'{"version":1,"scenario":"mine","events":30,"batch":5,"seed":1,"faults":[],"exercised":[1]}',
        b"[1]",
        b'{"scenario":"mine"}',
    ],
)
def test_what_is_no_schedule_is_refused_by_its_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "one.json").write_bytes(content)
    with pytest.raises(InvalidCounterexample, match=r"one\.json is (damaged|not a schedule of a corpus)"):
        read_corpus(tmp_path, "mine", bench_of().scenario)


@pytest.mark.parametrize("fault", [Fault("of-another-package", ("count-0",)), crash("nobody-0")])
def test_a_schedule_that_cannot_be_carried_out_is_refused_by_its_file(tmp_path: Path, fault: Fault) -> None:
    bench = bench_of()
    entry = CorpusEntry(Trial((fault.after(ms(1)),), 1), frozenset({1}))
    add_to_corpus(tmp_path, "mine", bench.scenario, [entry])
    (file,) = tmp_path.iterdir()
    with pytest.raises(InvalidCounterexample, match=rf"{file.name} .*cannot be carried out: .*; remove it"):
        check_schedules(read_corpus(tmp_path, "mine", bench.scenario), bench, bench.registry)


def test_what_was_found_is_kept_though_the_corpus_takes_no_more(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text("half of")
    grown = grow_corpus(tmp_path, "mine", bench_of().scenario, 0, 0, [])
    assert (grown.had, grown.added) == (0, 0)
    assert "one.json is damaged" in grown.trouble


def test_what_a_corpus_has_is_tried_again_as_it_is_before_anything_else(tmp_path: Path) -> None:
    """What exercised something new may violate a claim by now, as the scheme is another."""
    bench, folder = bench_of(), tmp_path / "corpus"
    named = Named("mine", "mine", "", bench.scenario)
    places = bench.calm[7::20][:2]
    entries = [CorpusEntry(Trial((fault_at(one),), 5), frozenset({place})) for place, one in enumerate(places)]
    add_to_corpus(folder, named.origin, bench.scenario, entries)
    found = explore(named, REGISTRY, SearchBudget(4), seed=5, jobs=1, corpus=folder)
    assert found.findings.struck >= {str(one.address) for one in places}
    assert found.corpus is not None
    parts = (CorpusGrowth(0, 0, 7), CorpusGrowth(2, 2, 7), CorpusGrowth(9, 2, 7), CorpusGrowth(9, 5, 7))
    searches = [replace(found, corpus=one) for one in parts]
    said = [fact.text for one in searches for fact in view_of_search(one).facts if fact.label == "corpus"]
    assert [text.partition(", and 7")[0] for text in said] == [
        "no schedule yet",
        "2 schedules tried again and varied",
        "2 of 9 schedules tried again, all varied",
        "4 of 9 schedules tried again",
    ]


def test_a_large_corpus_leaves_half_of_a_search_for_what_is_new() -> None:
    known = [CorpusEntry(Trial((), number), frozenset({number})) for number in range(10)]
    assert tried_again(known, None, 1) == known
    few = [tried_again(known, 4, seed) for seed in range(3)]
    assert [len(one) for one in few] == [2, 2, 2]
    assert few[0] == tried_again(known, 4, 0)
    assert any(one != few[0] for one in few)
