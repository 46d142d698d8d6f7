"""A life that is a piece of a known one is not executed again, and nothing of a history is seen otherwise for that."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from judged_twice import told_in_full
from simulation import CASES, drawn, history_of, scenario_of, subject_of
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.model import Event, Role
from streamproof.harness.judging import processing
from streamproof.harness.judging.known_lives import Along, KnownLife
from streamproof.harness.judging.reexecution import Reexecution
from streamproof.harness.judging.reruns import Derivation, Rerun
from streamproof.harness.judging.tolerance import until
from streamproof.harness.protocol.spec import SliceSpec
from streamproof.harness.recording.history import History


def histories(case: str, seeds: int) -> list[History]:
    """Of drawn schedules, each also cut short after its last fault."""
    scenario = scenario_of(case)
    found = []
    for seed in range(seeds):
        history = history_of(scenario, drawn(scenario, seed, "usual"), seed=seed)
        struck = [entry.stamp.at for entry in history.struck()]
        found += [history, *(until(history, at + 3_000) for at in struck[-1:])]
    return found


@pytest.mark.parametrize("case", CASES[::9])
def test_who_has_judged_before_comes_to_the_same(case: str) -> None:
    experienced = subject_of(case)
    for history in histories(case, 3):
        assert told_in_full(experienced, history) == told_in_full(subject_of(case), history)


def test_in_a_search_operators_are_hardly_executed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    case = "passive-replication/trace-numbered"
    subject, found = subject_of(case), histories(case, 8)
    executed: list[int] = []
    once = processing._execute

    def noted(
        spec: SliceSpec, rerun: Rerun, events: Sequence[Event], derivations: Sequence[Derivation], channel: int
    ) -> None:
        executed.append(len(events))
        once(spec, rerun, events, derivations, channel)

    for history in found[:8]:
        subject.collate(history)
    monkeypatch.setattr(processing, "_execute", noted)
    reruns = [collated_again(subject, history).reruns for history in found[8:]]
    taken = sum(len(one.took) for slices in reruns for lives in slices.values() for one in lives.values())
    assert taken > 300
    assert sum(executed) < taken / 10


def collated_again(subject: SchemeSubject, history: History) -> Reexecution:
    reexecution = subject.collate(history).reexecution
    assert reexecution is not None
    return reexecution


def known(event: Event) -> Along:
    """At the beginning of a life that took this."""
    spec = next(one for one in subject_of("amnesia/trace-numbered").specs if one.role is Role.OPERATOR)
    rerun = Rerun(spec.slice_id, 1, 0, [], 1, None, 0)
    rerun.took.append((event.source, event.seq))
    return Along(KnownLife(spec, rerun, [event]), 0, 0)


def test_equal_events_are_not_taken_for_known_where_they_say_something_else() -> None:
    event, other = (Event("source-0", 1, "k", 1, 0) for _ in range(2))
    derived = [("source-0", 1)]
    assert known(event).goes_on([event], derived)
    assert known(event).goes_on([other], derived)
    assert not known(event).goes_on([Event("source-0", 1, "k", True, 0)], derived), "equal, and another type"
    assert not known(event).goes_on([other], [("source-0", 2)]), "made of something else"
    assert not known(event).goes_on([event, other], [*derived, ("source-0", 2)]), "more than is known"
