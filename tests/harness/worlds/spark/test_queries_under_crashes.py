"""Queries and sinks as Spark runs them, in miniature, with crashes: the verdict is the truth, or says that it is not
known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from query_histories import Given, Row, query_history, statuses, struck
from streamproof.harness.core.events import Event
from streamproof.harness.core.guarantees import (
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    EXACTLY_ONCE_OUTPUT,
    PRECISE,
    ROLLBACK_CONVERGENT,
    ROLLBACK_DIVERGENT,
    ROLLBACK_REPEATING,
)
from streamproof.harness.judging.shapes import OutputMode, OutputShape, text_of
from streamproof.harness.recording.history import History

Words = Sequence[Sequence[str]]
"""The input, batch by batch."""
State = Counter[str]
Operator = Callable[[Sequence[str], State], list[Row]]
"""Takes a batch into its state, and gives its rows."""
ALL = (
    PRECISE,
    ROLLBACK_REPEATING,
    ROLLBACK_CONVERGENT,
    ROLLBACK_DIVERGENT,
    EXACTLY_ONCE_OUTPUT,
    EXACTLY_ONCE,
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
)


class At(Enum):
    """Where in a batch the driver dies."""

    BEFORE_SINK = "before the sink is given it"
    IN_SINK = "while the sink stores it"
    AFTER_SINK = "before the commit log has it"
    COMMITTED = "once the commit log has it"


# Operators


def passing(words: Sequence[str], state: State) -> list[Row]:
    return [{"word": word} for word in words]


def running(words: Sequence[str], state: State) -> list[Row]:
    rows: list[Row] = []
    for word in words:
        state[word] += 1
        rows.append({"word": word, "n": state[word]})
    return rows


def unique(words: Sequence[str], state: State) -> list[Row]:
    return [row for row in running(words, state) if row["n"] == 1]


def updates(words: Sequence[str], state: State) -> list[Row]:
    running(words, state)
    return [{"word": word, "n": state[word]} for word in sorted(set(words))]


def whole(words: Sequence[str], state: State) -> list[Row]:
    running(words, state)
    return [{"word": word, "n": count} for word, count in sorted(state.items())]


APPEND = OutputShape(OutputMode.APPEND)
UPDATE = OutputShape(OutputMode.UPDATE, ("word",))
COMPLETE = OutputShape(OutputMode.COMPLETE, ("word",))
UNKEYED = OutputShape(OutputMode.COMPLETE)
QUERIES: tuple[tuple[Operator, OutputShape], ...] = (
    (passing, APPEND),
    (running, APPEND),
    (unique, APPEND),
    (updates, UPDATE),
    (whole, COMPLETE),
    (whole, UNKEYED),
)


class Keeping(Enum):
    """What becomes of an operator's state when the driver dies."""

    DURABLE = "it is that of the last commit"
    FORGOTTEN = "it is gone: it was a global of the process"
    DIRTY = "what was not committed stays in it, and is counted again"


# Sinks


@dataclass
class Sink:
    """A sink of the user's. A crash while it stores a batch comes once half of its steps are done."""

    rows: list[Row] = field(default_factory=list)
    durable: set[int] = field(default_factory=set)
    memory: set[int] = field(default_factory=set)

    def store(self, batch: int, rows: list[Row], *, dies: bool) -> None:
        raise NotImplementedError


class Idempotent(Sink):
    """Batch id and rows in one transaction."""

    def store(self, batch: int, rows: list[Row], *, dies: bool) -> None:
        if not dies and batch not in self.durable:
            self.durable.add(batch)
            self.rows += rows


class Blind(Sink):
    """Appends row by row whatever it is given."""

    def store(self, batch: int, rows: list[Row], *, dies: bool) -> None:
        self.rows += rows[: len(rows) // 2] if dies else rows


class Forgetful(Sink):
    """Knows by heart which batches it has, as long as its process lives."""

    def store(self, batch: int, rows: list[Row], *, dies: bool) -> None:
        if batch not in self.memory:
            self.memory.add(batch)
            self.rows += [] if dies else rows


class Losing(Sink):
    """Notes the batch id first, then the rows."""

    def store(self, batch: int, rows: list[Row], *, dies: bool) -> None:
        if batch not in self.durable:
            self.durable.add(batch)
            self.rows += [] if dies else rows


@dataclass
class Ran:
    """What a run gave."""

    given: list[Given] = field(default_factory=list)
    """To the harness's sink."""
    crashes: list[tuple[int, int]] = field(default_factory=list)
    """The batch of each, and how many deliveries there were before."""


def run(
    words: Words,
    operator: Operator,
    crashes: Sequence[tuple[int, At]] = (),
    keeping: Keeping = Keeping.DURABLE,
    sink: Sink | None = None,
) -> Ran:
    """Spark's batches: the offsets are fixed, the sink is given the rows, the commit log has the batch. The driver
    comes back and does the batch again that was not committed."""
    ran = Ran()
    committed: State = Counter()
    waiting = list(crashes)
    incarnation, batch = 1, 0
    live = Counter(committed)

    def dies(at: At) -> bool:
        nonlocal incarnation, live
        if (batch, at) not in waiting:
            return False
        waiting.remove((batch, at))
        ran.crashes.append((batch, len(ran.given)))
        incarnation += 1
        if keeping is Keeping.FORGOTTEN:
            live = Counter()
        elif keeping is Keeping.DURABLE:
            live = Counter(committed)
        if sink is not None:
            sink.memory.clear()
        return True

    while batch < len(words):
        if dies(At.BEFORE_SINK):
            continue
        rows = operator(words[batch], live)
        if (batch, At.IN_SINK) in waiting:
            if sink is not None:
                sink.store(batch, rows, dies=True)
            dies(At.IN_SINK)
            continue
        if sink is not None:
            sink.store(batch, rows, dies=False)
        ran.given.append(Given(batch, rows, incarnation))
        if dies(At.AFTER_SINK):
            continue
        committed = Counter(live)
        dies(At.COMMITTED)
        batch += 1
    return ran


def offered(words: Words) -> list[list[Event]]:
    return [
        [Event("source", 100 * n + i, "k", word, n) for i, word in enumerate(batch)] for n, batch in enumerate(words)
    ]


def history_of(words: Words, operator: Operator, shape: OutputShape, ran: Ran) -> History:
    faults = [
        struck(10 * deliveries + 5, n, f"driver/0#{n + 1} before commit-log {batch}")
        for n, (batch, deliveries) in enumerate(ran.crashes)
    ]
    wanted = run(words, operator).given
    # A batch without rows is not recorded.
    recorded = ([one for one in given if one.rows] for given in (wanted, ran.given))
    return query_history(shape, *recorded, offered=offered(words), faults=faults)


def verdicts(words: Words, operator: Operator, shape: OutputShape, ran: Ran) -> dict[str, str]:
    return statuses(history_of(words, operator, shape, ran), shape, *ALL)


WORDS = st.lists(st.lists(st.sampled_from("abc"), max_size=4), min_size=1, max_size=5).filter(any)


@st.composite
def crashed(draw: st.DrawFn, *places: At) -> tuple[Words, list[tuple[int, At]]]:
    words = draw(WORDS)
    crash = st.tuples(st.integers(0, len(words) - 1), st.sampled_from(places or tuple(At)))
    return words, draw(st.lists(crash, max_size=4))


@pytest.mark.parametrize(("operator", "shape"), QUERIES)
@given(case=crashed())
def test_a_correct_query_is_never_blamed(
    operator: Operator, shape: OutputShape, case: tuple[Words, list[tuple[int, At]]]
) -> None:
    words, crashes = case
    ran = run(words, operator, crashes)
    # A batch that gives nothing is not seen to come again.
    repeated = len(ran.given) > len({one.batch for one in ran.given if one.rows}) + sum(
        not one.rows for one in ran.given
    )
    found = verdicts(words, operator, shape, ran)
    assert found == {
        **dict.fromkeys(ALL, "HOLDS"),
        PRECISE: "VIOLATED" if repeated else "UNKNOWN",
        EXACTLY_ONCE_OUTPUT: "VIOLATED" if repeated else "HOLDS",
    }


def _differs(words: Words, operator: Operator, ran: Ran) -> bool:
    """Whether a batch came with other rows than it should, or always without the rows that it should have. That it came
    again without any does not show."""
    seen: dict[int, list[Counter[str]]] = {}
    for one in ran.given:
        seen.setdefault(one.batch, []).append(Counter(map(text_of, one.rows)))
    wanted = {one.batch: Counter(map(text_of, one.rows)) for one in run(words, operator).given}
    return any(
        any(table and table != wanted[batch] for table in tables) or (not any(tables) and bool(wanted[batch]))
        for batch, tables in seen.items()
    )


@pytest.mark.parametrize(("operator", "shape"), QUERIES[1:])
@given(case=crashed())
def test_an_operator_that_forgets_is_caught_and_never_said_to_double(
    operator: Operator, shape: OutputShape, case: tuple[Words, list[tuple[int, At]]]
) -> None:
    words, crashes = case
    ran = run(words, operator, crashes, Keeping.FORGOTTEN)
    found = verdicts(words, operator, shape, ran)
    assert (found[EXACTLY_ONCE] == "VIOLATED") == _differs(words, operator, ran)
    if operator is not unique:
        assert found[AT_MOST_ONCE] != "VIOLATED"


@pytest.mark.parametrize(("operator", "shape"), [query for query in QUERIES[1:] if query[0] is not unique])
@given(case=crashed())
@example(case=([["a"]], [(0, At.AFTER_SINK)]))
def test_an_operator_that_counts_twice_is_caught_and_never_said_to_lose(
    operator: Operator, shape: OutputShape, case: tuple[Words, list[tuple[int, At]]]
) -> None:
    words, crashes = case
    ran = run(words, operator, crashes, Keeping.DIRTY)
    found = verdicts(words, operator, shape, ran)
    assert (found[EXACTLY_ONCE] == "VIOLATED") == _differs(words, operator, ran)
    assert found[AT_LEAST_ONCE] != "VIOLATED"


@given(case=crashed())
def test_a_deduplication_that_forgets_gives_rows_twice(case: tuple[Words, list[tuple[int, At]]]) -> None:
    words, crashes = case
    ran = run(words, unique, crashes, Keeping.FORGOTTEN)
    found = verdicts(words, unique, APPEND, ran)
    twice = _differs(words, unique, ran)
    assert found[AT_LEAST_ONCE] == "HOLDS"
    assert found[AT_MOST_ONCE] == ("VIOLATED" if twice else "HOLDS")


@pytest.mark.parametrize("kind", [Idempotent, Blind, Forgetful, Losing])
@pytest.mark.parametrize("key", [(), ("at",)])
@given(case=crashed())
def test_a_sink_of_the_users_gets_what_it_deserves(
    kind: type[Sink], key: tuple[str, ...], case: tuple[Words, list[tuple[int, At]]]
) -> None:
    """The table is compared with what is known to be right, row by row. A row says which event it is of."""
    words, crashes = case

    def numbered(batch: Sequence[str], state: State) -> list[Row]:
        # Durable, and so the same when the batch comes again.
        first = state.total()
        running(batch, state)
        return [{"word": word, "at": first + place} for place, word in enumerate(batch)]

    shape = OutputShape(OutputMode.APPEND, key, reads=True)
    wanted, sink = Idempotent(), kind()
    run(words, numbered, sink=wanted)
    run(words, numbered, crashes, sink=sink)
    found = statuses(query_history(shape, wanted.rows, sink.rows, offered=offered(words)), shape, *ALL)
    right, stored = (Counter(map(text_of, table.rows)) for table in (wanted, sink))
    loses, doubles = bool(right - stored), bool(stored - right)
    assert not (loses and doubles)
    assert found[AT_LEAST_ONCE] == ("VIOLATED" if loses else "HOLDS")
    assert found[AT_MOST_ONCE] == ("VIOLATED" if doubles else "HOLDS")
    assert found[EXACTLY_ONCE] == ("VIOLATED" if loses or doubles else "HOLDS")
    assert not (kind is Idempotent and (loses or doubles))


@given(case=crashed(), forgets=st.booleans())
def test_rows_without_number_or_key_are_only_blamed_for_what_is_sure(
    case: tuple[Words, list[tuple[int, At]]], forgets: bool
) -> None:
    """A running count into a table: what was lost looks like what was doubled."""
    words, crashes = case
    shape = OutputShape(OutputMode.APPEND, (), reads=True)
    wanted, sink = Idempotent(), Idempotent()
    run(words, running, sink=wanted)
    run(words, running, crashes, Keeping.FORGOTTEN if forgets else Keeping.DIRTY, sink=sink)
    found = statuses(query_history(shape, wanted.rows, sink.rows), shape, *ALL)
    same = Counter(map(text_of, wanted.rows)) == Counter(map(text_of, sink.rows))
    assert found[EXACTLY_ONCE] == ("HOLDS" if same else "VIOLATED")
    assert found[AT_MOST_ONCE if forgets else AT_LEAST_ONCE] != "VIOLATED"


@given(words=WORDS, cuts=st.lists(st.integers(0, 20), max_size=4))
def test_a_source_that_cuts_its_batches_otherwise_is_not_blamed(words: Words, cuts: list[int]) -> None:
    everything = [word for batch in words for word in batch]
    places = [0, *sorted(min(cut, len(everything)) for cut in cuts), len(everything)]
    other = [everything[a:b] for a, b in pairwise(places)]
    for operator, mode, key in (
        (running, OutputMode.APPEND, ()),
        (updates, OutputMode.UPDATE, ("word",)),
        (whole, OutputMode.COMPLETE, ("word",)),
        (whole, OutputMode.COMPLETE, ()),
    ):
        shape = OutputShape(mode, key, own_source=True)
        found = verdicts_of_deliveries(shape, run(words, operator).given, run(other, operator).given)
        assert "VIOLATED" not in found.values()
        assert found[EXACTLY_ONCE] == "HOLDS"


def verdicts_of_deliveries(shape: OutputShape, wanted: list[Given], found: list[Given]) -> dict[str, str]:
    with_rows = ([one for one in given if one.rows] for given in (wanted, found))
    return statuses(query_history(shape, *with_rows), shape, *ALL)


def mutants(given: list[Given]) -> Iterator[list[Given]]:
    """Every row of every batch, left out, given twice, and altered."""
    for place, one in enumerate(given):
        for number, row in enumerate(one.rows):
            before, after = list(one.rows[:number]), list(one.rows[number + 1 :])
            for rows in ([], [row, row], [{**row, "word": "z"}]):
                yield [*given[:place], Given(one.batch, [*before, *rows, *after]), *given[place + 1 :]]


@given(words=WORDS)
def test_no_single_wrong_row_gets_by(words: Words) -> None:
    wanted = run(words, running).given
    for found in mutants(wanted):
        assert verdicts_of_deliveries(APPEND, wanted, found)[EXACTLY_ONCE] == "VIOLATED"
