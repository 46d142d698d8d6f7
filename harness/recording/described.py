"""What every record says of its input and of where it ran, as plain data: what is shown of it has to be of its kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def check_described(workload: Mapping[str, Any], cluster: Mapping[str, Any]) -> None:
    """Raises ValueError. What is not said is not asked for."""
    _check("workload", workload, {"name": str, "events": int, "seed": int})
    _check("cluster", cluster, {"cluster": str, "how": str, "warm": dict})
    if "warm" in cluster:
        _check("cluster: warm", cluster["warm"], {"served": int})


def _check(where: str, said: Mapping[str, Any], kinds: Mapping[str, type]) -> None:
    for name, kind in kinds.items():
        value = said.get(name)
        if name in said and (not isinstance(value, kind) or isinstance(value, bool)):
            raise ValueError(f"{where} has {name}={str(value)[:80]!r}")
