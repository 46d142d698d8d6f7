"""Schemes that are broken on purpose, each by one rule of its protocol: what a harness must catch.

They stand apart from the schemes and are data. A mutant claims what its scheme claims, or more, and does not keep it:
some schedule shows the anomaly that it names.
"""

from __future__ import annotations

from .library import MUTANTS
from .mutant import BrokenScheme

__all__ = ["MUTANTS", "BrokenScheme"]
