"""The kinds of fault, one file each. A new one is registered here by one line."""

from __future__ import annotations

from ..harness.injection import FaultKind
from . import crash

FAULTS: tuple[FaultKind, ...] = (crash.KIND,)
