"""A harness that is slow to hear what the processes of a run say."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest


def hear_late(monkeypatch: pytest.MonkeyPatch, room: Any, by: float) -> None:
    """Let this module of the harness read every message `by` seconds late, when who said it can be gone already."""
    read = room.read_frame

    async def read_late(reader: asyncio.StreamReader) -> bytes | None:
        await asyncio.sleep(by)
        body: bytes | None = await read(reader)
        return body

    monkeypatch.setattr(room, "read_frame", read_late)
