"""An input is named as that of a row only where the row says so much of no other."""

from __future__ import annotations

from streamproof.harness.core.events import Event
from streamproof.harness.judging.inputs import Inputs
from streamproof.harness.recording.history import History
from streamproof.harness.recording.records import Offered, Stamped


def inputs(*batches: list[str]) -> Inputs:
    numbers = iter(range(1, 100))
    events = [[Event("source", seq := next(numbers), str(seq), line, 0) for line in batch] for batch in batches]
    return Inputs(History([Stamped(0, Offered("source", batch)) for batch in events], ()))


def test_the_only_line_with_a_word_is_named() -> None:
    found = inputs(["the cat", "a dog"], ["a cow"]).likely({"word": "dog"})
    assert found is not None
    assert (found[0], found[1] and found[1].seq) == (0, 2)


def test_of_several_lines_with_a_word_none_is_but_their_batch_is() -> None:
    assert inputs(["the cat", "the dog"], ["a cow"]).likely({"word": "the"}) == (0, None)


def test_a_word_of_several_batches_says_nothing() -> None:
    assert inputs(["the cat"], ["the cow"]).likely({"word": "the"}) is None
