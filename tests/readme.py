"""The examples of README.md, which must run as they stand."""

from __future__ import annotations

from pathlib import Path


def example(line: str) -> str:
    """The one block of Python in which this stands."""
    text = (Path(__file__).resolve().parents[1] / "README.md").read_text()
    (found,) = (block for rest in text.split("```python\n")[1:] if line in (block := rest.partition("```")[0]))
    return found
