"""What a search makes of one change to a scheme's code, in a process of its own."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import pytest

from mutation.searched import PowerSearch, Unchanged, changed, unchanged
from python_text import require_expected_text
from streamproof.harness.exploration.power import FoundBy

ASKED = PowerSearch("word-count.gap", schedules=20, seed=7)
MODULE = "streamproof.reference_impls.mechanisms.checkpointing"


@cache
def as_it_is() -> Unchanged:
    return unchanged(ASKED, looked_at=True)


@pytest.mark.parametrize(
    ("before", "after", "by", "first"),
    [
        ("", "", FoundBy.NOTHING, ASKED.schedules),
        ("return max(0, self.left())", "return max(1, self.left())", FoundBy.VIOLATION, 3),
        ("if keeper is not None and", "if keeper is None and", FoundBy.ERROR, 0),
        ("if self.since >= self.every", "while True", FoundBy.STALL, 0),
        # What shows only in a crash does not show without any.
        (
            "self.since += more",
            "self.since += more\n        while self.machine.incarnation > 1: pass",
            FoundBy.STALL,
            1,
        ),
    ],
)
def test_a_change_is_found_by_what_it_does(before: str, after: str, by: FoundBy, first: int) -> None:
    source = Path(as_it_is().files[MODULE]).read_text()
    assert before in source
    if by is FoundBy.VIOLATION:
        require_expected_text()
    found = changed(ASKED, MODULE, source.replace(before, after), cpu=2)
    assert (found.by, found.schedule) == (by, first), found.why


def test_only_lines_that_run_while_schedules_are_tried_count() -> None:
    ran = as_it_is()
    assert ran.kind == "gap"
    assert list(ran.lines) == [MODULE]
    lines = Path(ran.files[MODULE]).read_text().splitlines()
    texts = {lines[number - 1].strip() for number in ran.lines[MODULE]}
    assert "if self.since >= self.every and self._pending is None:" in texts
    assert not any(text.startswith(("def ", "class ", "@", "import ", "from ")) for text in texts)


def test_nothing_of_it_is_left_in_this_process() -> None:
    module = sys.modules.get(MODULE)
    changed(ASKED, MODULE, "raise RuntimeError('never')", cpu=2)
    assert sys.modules.get(MODULE) is module


def test_what_cannot_be_searched_as_it_is_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"word-count\.nothing"):
        unchanged(PowerSearch("word-count.nothing", 5, 7), looked_at=False)
