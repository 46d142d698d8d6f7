"""Workloads that are skewed as the real ones are which they stand for: a few keys come often, most of them seldom.

Ranks follow Zipf's law: the k-th key has a share in proportion to 1/k. Whatever is drawn needs only what IEEE 754 fixes
to the last bit (no power, no logarithm), so that it is the same on each machine.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import accumulate
from math import fsum, sqrt
from random import Random

from ..harness.core.errors import InvalidScenario
from ..harness.core.proper import positive
from ..harness.core.workload import Workload
from .parameter_server import one_for_each

PACKET_SIZES = ((40, 0.5), (576, 0.2), (1_500, 0.3))
"""Bytes of a packet -> how many packets are so large."""
END = "end"
"""In the place of a flow: a window ends."""
_SECOND = 1_000


@cache
def _shares(ranks: int) -> tuple[float, ...]:
    return tuple(accumulate(1 / rank for rank in range(1, ranks + 1)))


def _zipf(random: Random, ranks: int) -> int:
    """A rank from 0 on, the more seldom the higher."""
    shares = _shares(ranks)
    return bisect(shares, random.random() * shares[-1], 0, ranks - 1)


def zipf_words(
    vocabulary: int = 1_000, *, events: int = 200, batch: int = 10, seed: int = 7, rate: int | None = None
) -> Workload:
    """Single words, keyed by their number in the stream. A fair stand-in for text: how often words come in a long text
    follows Zipf's law, and what is counted here is words, whatever their order."""
    positive(vocabulary, "vocabulary")

    def draw(count: int, seed: int) -> Iterator[tuple[str, object]]:
        random = Random(seed)
        for number in range(count):
            yield str(number), f"w{_zipf(random, vocabulary)}"

    return Workload("zipf-words", events, batch, draw, seed, rate)


def packets(
    flows: int = 1_000,
    *,
    window: int = 100,
    workers: int = 2,
    events: int = 204,
    batch: int = 10,
    seed: int = 7,
    rate: int | None = None,
) -> Workload:
    """Packets as [flow, bytes], keyed by their number, so that they are spread evenly; after every `window` of them,
    [END, number of the window] for each of so many workers. A fair stand-in for a trace of a backbone: flows follow
    Zipf's law, which makes a few of them heavy, and most packets are as small as an acknowledgement or as large as
    Ethernet carries. Packets of one flow are not in bursts here, as they are there: no counter of a sketch minds."""
    positive(flows, "flows")
    positive(window, "window")
    keys = one_for_each(workers)

    def draw(count: int, seed: int) -> Iterator[tuple[str, object]]:
        random = Random(seed)
        sizes = [size for size, _ in PACKET_SIZES]
        bounds = list(accumulate(share for _, share in PACKET_SIZES))
        for number in range(count):
            windows, place = divmod(number, window + workers)
            if place < window:
                size = sizes[bisect(bounds, random.random(), 0, len(sizes) - 1)]
                yield str(number), [f"f{_zipf(random, flows)}", size]
            else:
                yield keys[place - window], [END, windows]

    return Workload("packets", events, batch, draw, seed, rate)


def visits_of_two_sites(
    hosts: int = 100,
    *,
    every: int = 100,
    events: int = 200,
    batch: int = 10,
    seed: int = 7,
    rate: int | None = None,
) -> Workload:
    """Packet headers as [destination, ms], one after each `every` ms, keyed by their number; each source draws its own.
    A fair stand-in for two cities' traces: both visit the same few popular hosts within the same second, so that pairs
    are many and very unevenly spread, which is what makes an estimate from samples hard."""
    positive(hosts, "hosts")
    positive(every, "every")

    def draw(count: int, seed: int) -> Iterator[tuple[str, object]]:
        random = Random(seed)
        for number in range(count):
            yield str(number), [f"h{_zipf(random, hosts)}", number * every]

    return Workload("visits", events, batch, draw, seed, rate)


def second_of(header: Sequence[int]) -> int:
    """The second in which a header of `visits_of_two_sites` was sent."""
    return header[1] // _SECOND


def points(
    dimensions: int = 5,
    *,
    noise: float = 0.05,
    truth: int = 1,
    events: int = 200,
    batch: int = 10,
    seed: int = 7,
    rate: int | None = None,
) -> Workload:
    """Points as [[coordinates], label 0 or 1], of length 1 at most; a plane through 0, which `truth` chooses, separates
    the labels, but for a share of `noise`. A fair stand-in for clicks on advertisements: labels that no model predicts
    all of, and the best one is linear; there are far fewer features here, and none is rare."""
    positive(dimensions, "dimensions")
    if not 0 <= noise < 0.5:
        raise InvalidScenario(f"noise={noise!r} of points: it is a share, 0 or more and less than 0.5")
    plane = _coordinates(Random(truth).random, dimensions)

    def draw(count: int, seed: int) -> Iterator[tuple[str, object]]:
        random = Random(seed)
        for number in range(count):
            point = _coordinates(random.random, dimensions)
            label = fsum(map(float.__mul__, plane, point)) > 0
            yield str(number), [point, int(label != (random.random() < noise))]

    return Workload("points", events, batch, draw, seed, rate)


def _coordinates(chance: Callable[[], float], dimensions: int) -> list[float]:
    """Of a point in a cube within the sphere of radius 1, none of them with more than four places."""
    widest = int(10_000 / sqrt(dimensions))
    return [int((2 * chance() - 1) * widest) / 10_000 for _ in range(dimensions)]
