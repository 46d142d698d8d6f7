"""The blocks of the tutorial, in their order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class TutorialBlock:
    language: str
    file: str
    """Which it is to be saved as; empty for all but Python."""
    content: str


def tutorial_blocks() -> list[TutorialBlock]:
    text = (Path(__file__).resolve().parents[1] / "docs" / "tutorial.md").read_text()
    return [TutorialBlock(*found) for found in _BLOCK.findall(text)]
