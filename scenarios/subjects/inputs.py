"""What the subjects are fed. They are small: a certificate runs each hundreds of times."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from ...harness.core.workload import Workload
from ..workloads import words

BATCH = 40
EVENTS = 5 * BATCH

VISIT = "user STRING, page STRING, late INT"
"""A visit to a page, which was `late` milliseconds on its way here."""
AD_EVENT = "kind STRING, ad INT, late INT"
"""An ad was shown or clicked, and that was `late` milliseconds on its way here."""


def some_words(seed: int = 7) -> Workload:
    """A word an event, out of twenty."""
    return words(20, events=EVENTS, batch=BATCH, seed=seed)


def visits(seed: int = 7) -> Workload:
    """Nine users, three at a time, so that each comes and goes; one visit in eight is late, and some of those by more
    than a batch."""

    def draw(count: int, seed: int) -> Iterator[tuple[str, object]]:
        random = Random(seed)
        for number in range(count):
            user = f"u{number // 20 % 3 * 3 + random.randrange(3)}"
            yield user, {"user": user, "page": f"p{random.randrange(4)}", "late": _late(random)}

    return Workload("visits", EVENTS, BATCH, draw, seed)


def ad_events(seed: int = 7) -> Workload:
    """Ads are shown one after the other; a click is on one of the last six, or, one time in ten, on one long gone."""

    def draw(count: int, seed: int) -> Iterator[tuple[str, object]]:
        random = Random(seed)
        shown = 0
        for _ in range(count):
            if shown == 0 or random.random() < 0.6:
                kind, ad = "shown", shown
                shown += 1
            else:
                oldest = 0 if random.random() < 0.1 else max(0, shown - 6)
                kind, ad = "clicked", random.randrange(oldest, shown)
            yield str(ad), {"kind": kind, "ad": ad, "late": _late(random)}

    return Workload("ad-events", EVENTS, BATCH, draw, seed)


def _late(random: Random) -> int:
    return random.randrange(5, 90) if random.random() < 1 / 8 else 0
