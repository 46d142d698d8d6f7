"""The table of subjects is complete, and says what can be checked."""

from __future__ import annotations

import pickle

import pytest
from pyspark import cloudpickle

from streamproof.harness.contracts.query import SOURCE, Query
from streamproof.harness.contracts.registry import load_object
from streamproof.harness.core.errors import UnknownName
from streamproof.harness.core.verdicts import Anomaly, Status
from streamproof.scenarios.subjects import SUBJECTS, SubjectLine, names, subject
from streamproof.scenarios.subjects.inputs import BATCH

each_subject = pytest.mark.parametrize("one", SUBJECTS, ids=names())


def test_names_are_unique_and_lead_to_their_subjects() -> None:
    assert len(set(names())) == len(SUBJECTS)
    assert [subject(name) for name in names()] == list(SUBJECTS)
    with pytest.raises(UnknownName, match=r"there is no subject 'kafka'; the nearest are: .*streamproof list subjects"):
        subject("kafka")


@each_subject
def test_a_subject_can_be_handed_to_the_command_line(one: SubjectLine) -> None:
    query = load_object(f"streamproof.scenarios.subjects:{one.name.replace('-', '_')}")
    assert isinstance(query, Query)
    assert query is one.query


@each_subject
def test_a_subject_that_is_wrong_says_how_and_what_shows_it(one: SubjectLine) -> None:
    violated = Status.VIOLATED in (one.expected, one.recovers)
    assert (one.anomaly is not None) == bool(one.needs) == violated
    assert one.claims
    assert set(one.verdicts) == {*one.claims, *one.holds}
    assert one.expected is not Status.HOLDS or not one.holds


def test_every_way_to_be_wrong_with_effects_or_to_stay_away_is_in_the_table() -> None:
    wrong = {
        Anomaly.LOST_INPUT,
        Anomaly.DUPLICATE_EFFECT,
        Anomaly.WRONG_VALUE,
        Anomaly.STALL,
        Anomaly.CRASH_LOOP,
        Anomaly.BOUND_EXCEEDED,
    }
    assert {one.anomaly for one in SUBJECTS} == {None, *wrong}


@each_subject
def test_a_subject_can_be_sent_to_a_driver_and_is_small(one: SubjectLine) -> None:
    again = pickle.loads(cloudpickle.dumps(one.query))  # type: ignore[no-untyped-call]
    assert again.describe() == one.query.describe()
    one.workload.check([SOURCE])
    batches = one.query.batches(one.workload)
    assert [len(batch) for batch in batches[:5]] == [BATCH] * 5
    # Closing events.
    assert {len(batch) for batch in batches[5:]} == {1}
