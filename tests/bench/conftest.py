"""What benchmarks came to is kept as ratios to a yardstick, a piece of work that does not change, on the same processor
in the same minute: so the figures of one machine say something to another. `--keep` writes them anew."""

from __future__ import annotations

import datetime
import json
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import pytest

KEPT: Final = Path(__file__).with_name("kept.json")
FALLEN_BEHIND: Final = 0.75
"""Less than so much of what was kept is said to be slower."""
_ROUNDS: Final = 5


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--keep", action="store_true", help="Keep what the benchmarks come to, in tests/bench/kept.json.")


def yardstick() -> float:
    """Seconds on the processor that the piece of work takes, at best."""
    best = float("inf")
    for _ in range(_ROUNDS):
        began = time.process_time()
        counts: dict[str, int] = {}
        for number in range(100_000):
            key = str(zlib.crc32(number.to_bytes(4, "big")) % 1_000)
            counts[key] = counts.get(key, 0) + 1
        msgspec.json.decode(msgspec.json.encode([counts] * 20))
        best = min(best, time.process_time() - began)
    return best


@pytest.fixture
def kept(request: pytest.FixtureRequest) -> Callable[[str, float], None]:
    """Takes the name of a figure and a rate, in anything a second: says how it stands to what was kept of it, and fails
    where it has fallen behind."""

    def compare(name: str, rate: float) -> None:
        ratio = rate * yardstick()
        known = json.loads(KEPT.read_text()) if KEPT.exists() else {}
        if request.config.getoption("--keep", False):
            known[name] = {"ratio": round(ratio, 3), "date": datetime.datetime.now(datetime.UTC).date().isoformat()}
            KEPT.write_text(json.dumps(dict(sorted(known.items())), indent=2) + "\n")
            print(f"\n{name}: {ratio:,.3f} a yardstick, kept")
            return
        before = known.get(name)
        if before is None:
            print(f"\n{name}: {ratio:,.3f} a yardstick; nothing is kept of it (tox -e bench -- --keep)")
            return
        print(f"\n{name}: {ratio:,.3f} a yardstick, {ratio / before['ratio']:.2f} of {before['date']}")
        assert ratio >= FALLEN_BEHIND * before["ratio"], f"{name} has fallen behind what it was on {before['date']}"

    return compare
