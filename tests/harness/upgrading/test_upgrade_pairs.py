"""The table of the documentation has each pair, with its outcome."""

from __future__ import annotations

import re
from pathlib import Path

from streamproof.scenarios.upgrades import PAIRS

PAGE = Path(__file__).parents[3] / "docs" / "upgrades.md"
ROW = re.compile(r"^\| `(?P<pair>[^`]+)`\*? \| [^|]+ \| (?:\*\*)?(?P<outcome>[a-z ]+?)(?:\*\*)? \|", re.MULTILINE)


def test_the_page_says_what_is_expected_of_each_pair() -> None:
    _, _, told = PAGE.read_text(encoding="utf-8").partition("\n## What happens\n")
    section, _, _ = told.partition("\n## ")
    said = {row["pair"]: row["outcome"] for row in ROW.finditer(section)}

    assert said == {pair.name: pair.expected for pair in PAIRS}


def test_no_two_pairs_have_one_name() -> None:
    assert len({pair.name for pair in PAIRS}) == len(PAIRS)
