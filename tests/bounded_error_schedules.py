"""Many random schedules, of up to ten failures each, under the sound scheme: no bound may be exceeded.

    python tests/bounded_error_schedules.py --seeds 0-200000 --jobs 2

Each seed is a topology with several operators and copies, its settings, a world, and a schedule, and is tried by
itself, so that a range can be cut into parts. Failures are drawn while the run goes on, each at an address that is
passed, where it ends all of its targets while input is still to be processed. What breaks the claim is printed with its
seed; ends with 1 where anything does.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from multiprocessing import get_context
from random import Random

from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.addresses import Point
from streamproof.harness.core.schedule import Fault
from streamproof.harness.core.topology import Topology
from streamproof.harness.core.verdicts import Status, Verdict
from streamproof.harness.core.workload import Workload
from streamproof.harness.exploration.bench import Bench, Trial
from streamproof.harness.exploration.drawn_on_the_way import DrawnRun, FaultAhead
from streamproof.harness.worlds.simulated.options import SimulationOptions
from streamproof.reference_impls.approximate import approximate
from streamproof.reference_impls.mechanisms.thresholds import ThresholdWindow, WindowKind
from streamproof.scenarios.countdown import countdown
from streamproof.scenarios.grep import grep
from streamproof.scenarios.heavy_hitters import heavy_hitters
from streamproof.scenarios.logistic_regression import logistic_regression
from streamproof.scenarios.partial_counts import partial_counts
from streamproof.scenarios.ripple_join import ripple_join
from streamproof.scenarios.skewed_streams import packets, points, visits_of_two_sites, zipf_words
from streamproof.scenarios.totals import MarkedTotals, SafeTotals, Totals, relays, totals_of_all, word_totals
from streamproof.scenarios.workloads import numbered, ones, text, words

MOST = 10
THETAS = (0, 2, 6, 20)
WINDOWS = (
    None,
    None,
    None,
    ThresholdWindow(WindowKind.HOPPING, 20),
    ThresholdWindow(WindowKind.SLIDING, 20),
)
WORLDS = (
    SimulationOptions(),
    # Who failed is soon back, so that many failures find a run that goes on.
    SimulationOptions(detection=1_000, redeployment=500, restart_node_after=2_000),
    # A backup takes as long as several batches.
    SimulationOptions(disk_delay=(3_000, 12_000), detection=1_000, redeployment=500, restart_node_after=2_000),
)
CASES: dict[str, tuple[Callable[[], Topology], Callable[[], Workload], float]] = {
    "word totals": (lambda: word_totals(3), lambda: words(vocabulary=6, events=48, batch=4), 1),
    "totals of all": (lambda: totals_of_all(3), lambda: ones(events=48, batch=4), 1),
    "totals by sum": (
        lambda: totals_of_all(2, operator=Totals(by_sum=True, leaves_out=1)),
        lambda: ones(keys=6, events=48, batch=4),
        1,
    ),
    "safe totals": (lambda: totals_of_all(2, operator=SafeTotals()), lambda: ones(keys=3, events=48, batch=4), 1),
    "marked totals": (
        lambda: totals_of_all(2, operator=MarkedTotals()),
        lambda: ones(marks=5, events=48, batch=4),
        1,
    ),
    "relays": (lambda: relays(3), lambda: ones(events=48, batch=4), 1),
    "relays to four sinks": (lambda: relays(3, sinks=4), lambda: ones(events=48, batch=4), 1),
    "cycle": (lambda: countdown(turns=8), lambda: numbered(events=32, batch=4), 1),
    "grep": (lambda: grep("LETTER"), lambda: text("unicode-names", events=48, batch=4), 1),
    "word count": (lambda: partial_counts(), lambda: zipf_words(10, events=48, batch=4), 1),
    "heavy hitters": (
        lambda: heavy_hitters(width=16, rows=2, heavy=5_000),
        lambda: packets(10, window=18, events=60, batch=4),
        1_500,
    ),
    "compensated": (
        lambda: heavy_hitters(width=16, rows=2, heavy=5_000, slack=5_000, compensated=True),
        lambda: packets(10, window=18, events=60, batch=4),
        1_500,
    ),
    "online join": (
        lambda: ripple_join(rate=0.6, most=3),
        lambda: visits_of_two_sites(5, events=40, every=20, batch=4),
        1,
    ),
    "logistic regression": (logistic_regression, lambda: points(events=48, batch=4), 0.5),
}
"""A topology, its input, and by how much one event moves its states at most."""
EVERY = frozenset(Point)
RECOVERIES = frozenset({Point.STARTED, Point.REROUTED})
BACKUPS = frozenset({Point.CHECKPOINT_ISSUED, Point.CHECKPOINT_DURABLE, Point.CHECKPOINT_TOLD})
SENDS = frozenset({Point.SEND_ISSUED, Point.SEND_HANDED_OVER})
LARGEST_KEPT = 5


@dataclass(frozen=True)
class Settings:
    """What is drawn of a case, beside the schedule."""

    name: str
    theta: float
    loose: float
    ahead: int
    partial: bool
    window: ThresholdWindow | None
    world: int

    def bench(self) -> Bench:
        make, fed, alpha = CASES[self.name]
        subject = approximate(
            make(),
            theta=self.theta * alpha,
            l=self.loose,
            gamma=4 * self.loose,
            window=self.window,
            ahead=self.ahead,
            partial=self.partial,
        )
        return Bench(Scenario(subject, fed()), Registry(), seed=7, options=WORLDS[self.world])


bench_of = cache(Settings.bench)


@cache
def _passed(settings: Settings) -> Counter[Point]:
    # The bench goes, and with it the run.
    return Counter(one.address.point for one in settings.bench().calm)


def passed_in_calm(settings: Settings) -> Counter[Point]:
    """How often each kind of point is passed without a failure, about."""
    return _passed(replace(settings, ahead=0, partial=True, window=None))


@dataclass(frozen=True)
class Draw:
    """What a seed stands for."""

    settings: Settings
    bench: Bench
    world: int
    """The seed of the simulated one."""
    ahead: tuple[FaultAhead, ...]

    def run(self) -> DrawnRun:
        return self.bench.drawn(Trial((), self.world), self.ahead)


def drawn(seed: int) -> Draw:
    """The case of a seed."""
    random = Random(f"bounded error/{seed}")
    settings = Settings(
        random.choice(sorted(CASES)),
        random.choice(THETAS),
        random.choice((0, 6, 40)),
        random.choice((0, 0, 2)),
        random.random() < 0.7,
        random.choice(WINDOWS),
        random.randrange(len(WORLDS)),
    )
    bench, passed = bench_of(settings), passed_in_calm(settings)
    count = random.randint(1, MOST)
    spread = random.random() < 0.7
    ahead = tuple(_fault(random, bench, passed, place, count, spread) for place in range(count))
    return Draw(settings, bench, random.getrandbits(32), ahead)


def _fault(random: Random, bench: Bench, passed: Counter[Point], place: int, count: int, spread: bool) -> FaultAhead:
    """A failure of one slice, of some or of all at once: spread over the run, or soon after the one before."""
    kind = random.choice(("crash", "crash", "crash", "handed-over-loss"))
    targets = bench.actors if random.random() < 0.25 else bench.aims.some(random)
    aimed = [SENDS, *([BACKUPS] if passed.keys() & BACKUPS else []), *([RECOVERIES] if place else [])]
    points = random.choice((EVERY, EVERY, *aimed))
    if kind == "handed-over-loss":
        # Each of them has to have something on its way.
        targets, points = (random.choice(bench.actors),), SENDS
    in_all = sum(times for point, times in passed.items() if point in points)
    far = min(in_all, 12) if points is RECOVERIES else 2 * in_all // (count + 1)
    few = random.randint(0, far) if spread else int((far + 1) ** random.random()) - 1
    return FaultAhead(
        Fault(kind, tuple(targets)), few, lambda address: address.point in points, spared=False, biting=True
    )


@dataclass
class Found:
    """What came of some schedules."""

    tried: int = 0
    statuses: Counter[Status] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    """By the reason."""
    failures: Counter[int] = field(default_factory=Counter)
    """Failures that struck -> schedules."""
    at_once: Counter[int] = field(default_factory=Counter)
    """Nodes that a failure ended -> failures."""
    slices: Counter[int] = field(default_factory=Counter)
    """Failures of the slice that failed most -> schedules."""
    cases: Counter[str] = field(default_factory=Counter)
    bit: int = 0
    """Schedules in which something struck, and all that struck bit."""
    largest: list[tuple[float, str]] = field(default_factory=list)
    """Error / bound, with what it was."""
    largest_of: dict[str, tuple[float, str]] = field(default_factory=dict)
    """The same, of each case the largest."""
    told: list[str] = field(default_factory=list)
    """Of each that breaks the claim."""

    def add(self, other: Found) -> None:
        self.tried += other.tried
        self.statuses += other.statuses
        self.unknown += other.unknown
        self.failures += other.failures
        self.at_once += other.at_once
        self.slices += other.slices
        self.cases += other.cases
        self.bit += other.bit
        self.largest = sorted([*self.largest, *other.largest], reverse=True)[:LARGEST_KEPT]
        for name, one in other.largest_of.items():
            self.largest_of[name] = max(one, self.largest_of.get(name, one))
        self.told += other.told

    def __str__(self) -> str:
        share = self.statuses[Status.UNKNOWN] / max(1, self.tried)
        bits = f"{self.bit:,} bit with all their failures; " + ", ".join(
            f"{self.statuses[status]:,} {status}" for status in Status
        )
        return f"{self.tried:,} schedules: {bits} ({share:.2%} UNKNOWN)"

    def in_detail(self) -> Iterator[str]:
        yield f"failures of a schedule: {_histogram(self.failures)}"
        yield f"nodes that a failure ended: {_histogram(self.at_once)}"
        yield f"failures of the slice that failed most: {_histogram(self.slices)}"
        yield f"schedules by case: {', '.join(f'{count:,} {name}' for name, count in sorted(self.cases.items()))}"
        for reason, count in self.unknown.most_common():
            yield f"{count:,} UNKNOWN: {reason}"
        for ratio, what in self.largest:
            yield f"error / bound {ratio:.3f}: {what}"
        for name, (ratio, what) in sorted(self.largest_of.items()):
            yield f"largest error / bound of {name}: {ratio:.3f}, {what}"


def _histogram(counts: Counter[int]) -> str:
    return ", ".join(f"{count:,} with {number}" for number, count in sorted(counts.items()))


def tried(seeds: range) -> Found:
    """Try these, one after the other."""
    found = Found()
    for seed in seeds:
        found.add(tried_one(seed))
    return found


def tried_one(seed: int) -> Found:
    draw = drawn(seed)
    run = draw.run()
    (verdict,) = draw.bench.judge(run.history)
    found = Found(tried=1, statuses=Counter([verdict.status]), cases=Counter([draw.settings.name]))
    bites = [(entry.number, entry.bite.bit) for entry in run.history.struck()]
    ended = Counter(number for number, bit in bites if bit)
    found.failures[len(ended)] += 1
    found.at_once.update(ended.values())
    found.bit = int(bool(bites) and all(bit for _, bit in bites))
    if verdict.measured:
        found.slices[max(one.failures for one in verdict.measured)] += 1
    if verdict.unknown is not None:
        found.unknown[_in_general(verdict)] += 1
    if verdict.status is Status.VIOLATED:
        found.told.append("\n".join(_told(seed, draw, run, verdict)))
    elif verdict.measured:
        most = max(verdict.measured, key=lambda one: one.ratio)
        largest = most.ratio, f"seed {seed}, {draw.settings}: {most}"
        found.largest.append(largest)
        found.largest_of[draw.settings.name] = largest
    return found


def _in_general(verdict: Verdict) -> str:
    assert verdict.unknown is not None
    return str(verdict.unknown.why)


def _told(seed: int, draw: Draw, run: DrawnRun, verdict: Verdict) -> Iterator[str]:
    yield f"seed {seed}: {draw.settings}, world {draw.world}: {'; '.join(map(str, run.schedule))}"
    for tally in verdict.anomalies:
        yield f"  {tally}: {'; '.join(f'{piece.where}: {piece.what}' for piece in tally.sample[:3])}"


def _each(seeds: range, jobs: int, chunk: int) -> Iterator[Found]:
    """What comes of parts of them, in order."""
    chunks = [seeds[first : first + chunk] for first in range(0, len(seeds), chunk)]
    if jobs == 1:
        yield from map(tried, chunks)
        return
    with get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(tried, chunks)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0-200000", help="from the first to before the last")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after so long")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    asked = parser.parse_args()
    seeds, began, found, said = range(*map(int, asked.seeds.split("-"))), time.monotonic(), Found(), 0
    for part in _each(seeds, asked.jobs, chunk=50):
        found.add(part)
        for one in part.told:
            print(one, flush=True)
        took = time.monotonic() - began
        if found.tried // 1_000 > said:
            said = found.tried // 1_000
            print(f"{took:,.0f} s, {found.tried / took:.1f} a second: {found}", flush=True)
        if took > asked.seconds:
            break
    print(f"seeds {seeds.start:,} to {seeds.start + found.tried:,}, {time.monotonic() - began:,.0f} s: {found}")
    print(*found.in_detail(), sep="\n")
    return 1 if found.statuses[Status.VIOLATED] else 0


if __name__ == "__main__":
    sys.exit(main())
