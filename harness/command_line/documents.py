"""What `run`, `replay` and `judge` print of a run for programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def run_document(folder: Path, description: Any, judgement: Any) -> dict[str, Any]:
    from ..running.run import summary

    return {
        "folder": str(folder),
        "run": description.run,
        "scenario": description.scenario,
        "origin": description.origin,
        "cluster": description.cluster.get("cluster"),
        "seed": description.seed,
        **summary(judgement),
    }
