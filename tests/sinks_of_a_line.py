"""Queries whose function is made of a line, behind what its module says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamproof.harness.contracts.query import Query


def query_of(folder: Path, module: str, body: str) -> Query:
    """`write(frame)` of a module `a_sink` does it; its source is in the folder."""
    file = folder / "a_sink.py"
    file.write_text(f"{module}\n\ndef write(frame):\n    {body}\n    return frame\n")
    space: dict[str, Any] = {"__name__": "a_sink", "__file__": str(file)}
    exec(compile(file.read_text(), str(file), "exec"), space)
    return Query(space["write"])
