"""A long history is judged in columns: as a short one is, and in little memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import long_histories

ALONE = Path(long_histories.__file__).with_name("judged_alone.py")
BOUND = 300
"""Bytes that one more output may take."""


def _judged(folder: Path, outputs: int, *, crash: bool, masked: bool) -> dict[str, Any]:
    delivered = long_histories.write(folder, outputs, crash=crash, masked=masked)
    words = [sys.executable, str(ALONE), str(folder), str(outputs), *(["masked"] if masked else [])]
    said: dict[str, Any] = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return {**said, "delivered": delivered}


@pytest.mark.parametrize(
    ("crash", "masked", "strongest"),
    [
        (True, False, "rollback-recovery-repeating"),
        (True, True, "precise-recovery"),
        (False, False, "precise-recovery"),
    ],
    ids=["repeated outputs", "masked", "no crash"],
)
def test_a_long_history_is_judged_as_a_short_one_is(crash: bool, masked: bool, strongest: str, tmp_path: Path) -> None:
    short, long = (_judged(tmp_path / str(outputs), outputs, crash=crash, masked=masked) for outputs in (2_000, 40_000))
    for one, outputs in ((short, 2_000), (long, 40_000)):
        assert "HOLDS" in one["verdicts"][0]
        assert one["repeated"] == one["delivered"] - outputs
        assert (one["repeated"] > 0) == (crash and not masked)
        assert strongest in one["strongest"]
    assert short["strongest"] == long["strongest"]


def test_an_output_takes_little_memory_to_judge(tmp_path: Path) -> None:
    fewer, more = (_judged(tmp_path / str(n), n, crash=True, masked=False) for n in (60_000, 260_000))
    assert more["bytes"] - fewer["bytes"] < BOUND * (more["delivered"] - fewer["delivered"])
