"""The texts are real and long enough; single words come as a counter takes them."""

import hashlib

import pytest

from streamproof.scenarios.workloads import TEXTS, single_words, text


def lines(name: str, count: int) -> list[str]:
    return [event.value for batch in text(name, events=count).batches("source-0") for event in batch]


@pytest.mark.parametrize("name", [name for name in TEXTS if name != "zen"])
def test_a_text_has_thousands_of_lines_and_words(name: str) -> None:
    found = lines(name, 5_000)
    assert all(line and line == line.strip() for line in found)
    assert len(set(found)) > 3_000
    assert len({word for line in found for word in line.lower().split()}) > 1_000


@pytest.mark.parametrize(("name", "count"), [("zen", 20), ("unicode-names", 12_886)])
def test_a_text_that_is_the_same_in_every_python_starts_over_where_it_ends(name: str, count: int) -> None:
    found = lines(name, count + 1)
    assert found[0] == found[-1]
    known = {"zen": "f704418f3746", "unicode-names": "c237ea1ddb7e"}
    assert hashlib.sha256("\n".join(sorted(found[:-1])).encode()).hexdigest()[:12] == known[name]


def test_single_words_are_keyed_by_the_word_and_count_one() -> None:
    events = [event for batch in single_words(5, events=100).batches("source-0") for event in batch]
    assert {event.key for event in events} == {f"w{n}" for n in range(5)}
    assert {event.value for event in events} == {1}
