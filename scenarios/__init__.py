"""The library of scenarios, and the workloads and topologies that they are made of."""

from __future__ import annotations

from .library import SCENARIOS

__all__ = ["SCENARIOS"]
