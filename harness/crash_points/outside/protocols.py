"""The protocols that can be read, by the names that a Store gives them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from .bursts import bursts
from .framing import Converse
from .http import http
from .kafka import kafka
from .postgres import postgres

BYTES: Final = "bytes"
"""Any other: cut at each burst in one direction."""
HTTP: Final = "http"
PROTOCOLS: Final[Mapping[str, Converse]] = MappingProxyType(
    {"postgres": postgres, "kafka": kafka, HTTP: http, BYTES: bursts}
)
