"""The user's code may be wrong: the message then names the slice and the event."""

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as replace_field

from simulation import EVERY, history_of
from streamproof.faults.crash import crash
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.errors import ExitStatus, InvalidOperator
from streamproof.harness.core.events import Event
from streamproof.harness.core.operators import Operator
from streamproof.harness.core.schedule import Fault, checkpoint
from streamproof.harness.core.topology import Edge, Partitioning, Stage, Topology
from streamproof.harness.core.verdicts import Status
from streamproof.harness.recording.frames import FrameWriter, read_frames
from streamproof.harness.recording.records import Delivered, Kept
from streamproof.harness.recording.sealing import read_sealed, seal
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.workloads import numbered
from verdicts_of import rejudged, run


def scenario(operator: Operator[Any]) -> Scenario:
    topology = Topology(
        "one",
        {"bad": Stage(operator)},
        (Edge("source", "bad", Partitioning.ONE_TO_ONE), Edge("bad", "sink", Partitioning.ONE_TO_ONE)),
    )
    return Scenario(passive_replication(topology, checkpoint_every=EVERY), numbered(events=20, batch=4))


class Bad(Operator[Any]):
    """Good until its tenth event."""

    def __init__(self, outputs: Callable[[Event], Any]) -> None:
        self.outputs = outputs

    def initial_state(self) -> Any:
        return {}

    def process(self, event: Event, state: Any) -> Iterable[Any]:
        state[event.key] = event.seq
        return self.outputs(event) if event.seq == 10 else ((event.key, 1),)  # type: ignore[no-any-return]


def fails(event: Event) -> Any:
    raise KeyError("no such thing")


def fails_late(event: Event) -> Any:
    yield (event.key, 1)
    raise KeyError("no such thing")


MALFORMED: dict[str, tuple[Callable[[Event], Any], str]] = {
    "raises": (fails, "KeyError: 'no such thing'"),
    "raises half-way": (fails_late, "KeyError: 'no such thing'"),
    "gives None": (lambda event: None, "'NoneType' object is not iterable"),
    "gives a number": (lambda event: [1], "cannot unpack non-iterable int"),
    "gives a triple": (lambda event: [("k", 1, 2)], "too many values to unpack"),
    "gives a bare pair": (lambda event: ("key", 1), "too many values to unpack"),
    "has a key that is no text": (lambda event: [(7, 1)], "key 7 of an output is not a str"),
    "has a key in bytes": (lambda event: [(b"k", 1)], "key b'k' of an output is not a str"),
    "has a key of a kind of text": (lambda event: [(type("Name", (str,), {})("k"), 1)], "is not a str, but a Name"),
    "has a value that no record can hold": (
        lambda event: [("k", object())],
        "value <object object at .*> cannot be carried",
    ),
    "has such a value inside": (lambda event: [("k", [1, {"a": object()}])], "cannot be carried"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_an_operator_that_fails_is_named_with_its_slice_and_the_event(name: str) -> None:
    outputs, reason = MALFORMED[name]
    with pytest.raises(InvalidOperator, match=reason) as caught:
        history_of(scenario(Bad(outputs)), ())
    assert "bad-0" in str(caught.value)
    assert "(source-0, 10)" in str(caught.value)
    assert caught.value.exit_status is ExitStatus.USER_MISTAKE


class Unsnapshottable(Operator[Any]):
    def initial_state(self) -> Any:
        return {"lock": object()}

    def process(self, event: Event, state: Any) -> Iterable[Any]:
        return ()


class Blank(Operator[Any]):
    def initial_state(self) -> Any:
        raise OSError("no disk")

    def process(self, event: Event, state: Any) -> Iterable[Any]:
        return ()


def test_a_state_that_cannot_be_snapshotted_is_named_with_its_slice_and_the_event() -> None:
    expected = (
        r"bad-0, snapshot\(\) after event \(source-0, 8\).*state of type dict cannot be snapshotted.*give the operator"
    )
    with pytest.raises(InvalidOperator, match=expected):
        history_of(scenario(Unsnapshottable()), ())


def test_a_state_that_cannot_be_made_is_named_with_its_slice() -> None:
    with pytest.raises(InvalidOperator, match=r"bad-0, initial_state\(\): OSError: no disk"):
        history_of(scenario(Blank()), ())


class ShowsNoMiddle(Operator[dict[str, int]]):
    """Has no rows of a state half-way, which only who judges asks for."""

    def initial_state(self) -> dict[str, int]:
        return {"taken": 0}

    def process(self, event: Event, state: dict[str, int]) -> Iterable[Any]:
        state["taken"] += 1
        return ()

    def rows(self, state: dict[str, int]) -> dict[str, int]:
        if 0 < state["taken"] < 20:
            raise LookupError("not yet")
        return state


def test_rows_that_only_who_judges_asks_for_are_the_operators_mistake() -> None:
    with pytest.raises(InvalidOperator, match=r"rows\(\) of ShowsNoMiddle: LookupError: not yet \("):
        run(scenario(ShowsNoMiddle()), ())


class IsDueSoon(Operator[dict[str, Any]]):
    def initial_state(self) -> dict[str, Any]:
        return {}

    def process(self, event: Event, state: dict[str, Any]) -> Iterable[Any]:
        state["due"] = "soon"
        return ()

    def due(self, state: dict[str, Any]) -> int | None:
        return state.get("due")


def test_a_timer_is_due_at_a_whole_number_of_milliseconds() -> None:
    with pytest.raises(InvalidOperator, match=r"bad-0, due\(\): it is 'soon'; return a whole number"):
        history_of(scenario(IsDueSoon()), ())


def test_half_a_character_cannot_be_recorded(tmp_path: Path) -> None:
    history = history_of(scenario(Bad(lambda event: [("k", "\ud800")])), ())
    with pytest.raises(InvalidOperator, match="a value in delivered cannot be recorded"):
        history.digest()
    half = next(s for s in history.records if isinstance(s.record, Delivered) and s.record.rows[-1].seq >= 10)
    writer = FrameWriter(tmp_path / "records")
    with closing(writer), pytest.raises(InvalidOperator, match="a value in delivered cannot be recorded"):
        writer.append(half)


class Aliasing(Operator[dict[str, list[int]]]):
    """Emits its own state, which it goes on changing, in a tuple."""

    def initial_state(self) -> dict[str, list[int]]:
        return {}

    def process(self, event: Event, state: dict[str, list[int]]) -> Iterable[Any]:
        state.setdefault(event.key, []).append(event.seq)
        return ((event.key, (len(state[event.key]), state[event.key])),)


@pytest.mark.parametrize("schedule", [(), (crash("bad-0").at(checkpoint(1).durable),)], ids=["calm", "crash"])
def test_an_output_is_what_it_was_when_it_was_made(schedule: tuple[Fault, ...]) -> None:
    judged = run(scenario(Aliasing()), schedule)
    assert judged.claim.status is Status.HOLDS
    values = [row.value for s in judged.history.records if isinstance(s.record, Delivered) for row in s.record.rows]
    assert len(values) >= 20
    assert all(isinstance(value, list) and value[0] == len(value[1]) for value in values)


class Awkward(Operator[dict[str, Any]]):
    """Keeps and gives what JSON changes or cannot tell apart."""

    def initial_state(self) -> dict[str, Any]:
        return {}

    def process(self, event: Event, state: dict[str, Any]) -> Iterable[tuple[str, Any]]:
        state["tuple"] = (event.seq, ("a",))
        state["number by number"] = {1: 2}
        state["no number"] = float("nan")
        state["none"] = None
        yield event.key, (event.seq, 1)
        yield event.key, float("nan")
        yield event.key, float("inf")
        yield event.key, {"c", "a", "b", f"k{event.seq}"}


def test_what_json_changes_is_judged_the_same_from_memory_and_from_a_folder(tmp_path: Path) -> None:
    planned = scenario(Awkward())
    history = history_of(planned, ())
    with closing(FrameWriter(tmp_path / "frames")) as frames:
        for stamped in history.records:
            frames.append(stamped)
    seal(read_frames(tmp_path / "frames"), tmp_path)
    read = replace(history, records=read_sealed(tmp_path))
    assert read.digest() == history.digest()
    for seen in (history, read):
        assert {verdict.status for verdict in rejudged(planned, seen).verdicts} == {Status.HOLDS}


def test_a_row_that_should_not_be_there_is_seen_even_when_it_says_none() -> None:
    planned = scenario(Awkward())
    history = history_of(planned, ())
    kept = history.records[-1].record
    assert isinstance(kept, Kept)
    rows = {**kept.rows, "more": None}
    altered = [*history.records[:-1], replace_field(history.records[-1], record=replace_field(kept, rows=rows))]
    judged = rejudged(planned, replace(history, records=altered))
    assert judged.claim.status is Status.VIOLATED
    assert "'more' is None, but what was taken gives not there" in judged.claim.anomalies[0].sample[0].what
