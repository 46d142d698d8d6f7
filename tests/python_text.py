"""The text of Python's help(), which is an input of some scenarios, and another one in other versions of Python."""

from __future__ import annotations

import hashlib
import platform
from pydoc_data.topics import topics

import pytest

EXPECTED_OF = "7224739c3ce9d19b"
"""The digest of the text with which was found what tests expect of searches that are fed it."""


def require_expected_text() -> None:
    """Skip a test of what a search finds first, or shrinks to, where Python has another text: it goes by the words."""
    lines = [line.strip() for topic in sorted(topics) for line in topics[topic].splitlines()]
    digest = hashlib.sha256("\n".join(filter(None, lines)).encode()).hexdigest()[: len(EXPECTED_OF)]
    if digest != EXPECTED_OF:
        pytest.skip(f"the text of help() in Python {platform.python_version()} is not that of which this is expected")
