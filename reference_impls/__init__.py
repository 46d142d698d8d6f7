"""The reference schemes, one file each, and the deliberately broken mutants. A new one is registered here by one
line."""

from __future__ import annotations

from ..harness.library import Entry, entries
from .amnesia import amnesia
from .gap import gap
from .passive_replication import passive_replication

SCHEMES: tuple[Entry, ...] = entries("", amnesia, gap, passive_replication)
