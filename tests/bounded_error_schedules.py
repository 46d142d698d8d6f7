"""Many random schedules, of up to ten failures each, under the sound scheme: no bound may be exceeded.

    python tests/bounded_error_schedules.py --seeds 0-200000

Each seed is a topology with several operators and copies, its settings, and a schedule, and is tried by itself, so that
a range can be cut into parts. What breaks the claim is printed with its seed; ends with 1 where anything does.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from random import Random

from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.addresses import Moment, Point, Side
from streamproof.harness.core.model import Topology
from streamproof.harness.core.quantities import Duration
from streamproof.harness.core.schedule import AtTime, Fault
from streamproof.harness.core.verdicts import Status, Verdict
from streamproof.harness.core.workload import Workload
from streamproof.harness.exploration.bench import Bench, Trial
from streamproof.reference_impls.approximate import approximate
from streamproof.scenarios.grep import grep
from streamproof.scenarios.heavy_hitters import heavy_hitters
from streamproof.scenarios.logistic_regression import logistic_regression
from streamproof.scenarios.partial_counts import partial_counts
from streamproof.scenarios.ripple_join import ripple_join
from streamproof.scenarios.skewed_streams import packets, points, visits_of_two_sites, zipf_words
from streamproof.scenarios.totals import MarkedTotals, SafeTotals, Totals, relays, totals_of_all, word_totals
from streamproof.scenarios.workloads import ones, text, words

MOST = 10
THETAS = (0, 2, 6, 20)
CASES: dict[str, tuple[Callable[[], Topology], Callable[[], Workload], float]] = {
    "word totals": (lambda: word_totals(3), lambda: words(vocabulary=6, events=60, batch=4), 1),
    "totals of all": (lambda: totals_of_all(3), lambda: ones(events=60, batch=4), 1),
    "totals by sum": (
        lambda: totals_of_all(2, operator=Totals(by_sum=True, leaves_out=1)),
        lambda: ones(keys=6, events=60, batch=4),
        1,
    ),
    "safe totals": (lambda: totals_of_all(2, operator=SafeTotals()), lambda: ones(keys=3, events=60, batch=4), 1),
    "marked totals": (
        lambda: totals_of_all(2, operator=MarkedTotals()),
        lambda: ones(marks=5, events=60, batch=4),
        1,
    ),
    "relays": (lambda: relays(3), lambda: ones(events=60, batch=4), 1),
    "grep": (lambda: grep("LETTER"), lambda: text("unicode-names", events=60, batch=4), 1),
    "word count": (lambda: partial_counts(), lambda: zipf_words(10, events=60, batch=4), 1),
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
    "logistic regression": (logistic_regression, lambda: points(events=60, batch=4), 0.5),
}
"""A topology, its input, and by how much one event moves its states at most."""


@cache
def bench_of(name: str, theta: float, loose: float, ahead: int, partial: bool) -> Bench:
    make, fed, alpha = CASES[name]
    subject = approximate(make(), theta=theta * alpha, l=loose, gamma=4 * loose, ahead=ahead, partial=partial)
    return Bench(Scenario(subject, fed()), Registry(), seed=7)


def drawn(seed: int) -> tuple[str, Bench, Trial]:
    """The case of a seed."""
    random = Random(f"bounded error/{seed}")
    name = random.choice(sorted(CASES))
    settings = random.choice(THETAS), random.choice((0, 6, 40)), random.choice((0, 0, 2)), random.random() < 0.7
    bench = bench_of(name, *settings)
    faults = [_fault(random, bench) for _ in range(random.randint(1, MOST))]
    return f"{name} {settings}", bench, Trial(tuple(faults), random.getrandbits(32), random=True)


def _fault(random: Random, bench: Bench) -> Fault:
    kind = random.choice(("crash", "crash", "crash", "handed-over-loss"))
    targets = bench.actors if random.random() < 0.2 else bench.aims.some(random)
    actor = random.choice(bench.actors)
    match random.choice(("time", "time", "address", "recovery", "backup")):
        case "time":
            return Fault(kind, targets, AtTime(Duration(random.randrange(1, bench.aims.span.micros))))
        case "address":
            return Fault(kind, targets, Moment.exactly(random.choice(bench.calm).address))
        case "recovery":
            point = random.choice((Point.STARTED, Point.REROUTED))
            return Fault(kind, targets, Moment(point, Side.AFTER, actor=actor, incarnation=random.randint(2, 4)))
        case _:
            point = random.choice((Point.CHECKPOINT_ISSUED, Point.CHECKPOINT_DURABLE, Point.CHECKPOINT_TOLD))
            return Fault(kind, targets, Moment(point, Side.BEFORE, actor=actor, incarnation=random.randint(1, 4)))


def judged(bench: Bench, trial: Trial) -> Verdict:
    (verdict,) = bench.judge(bench.run(trial.schedule, trial.seed))
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0-200000", help="from the first to before the last")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after so long")
    asked = parser.parse_args()
    first, last = map(int, asked.seeds.split("-"))
    began, statuses, struck = time.monotonic(), Counter[Status](), Counter[int]()
    largest = 0.0
    tried = first
    for tried in range(first, last):
        name, bench, trial = drawn(tried)
        verdict = judged(bench, trial)
        statuses[verdict.status] += 1
        if verdict.measured:
            # Also where it is UNKNOWN since a fault did not come, or harmed nobody.
            struck[max(one.failures for one in verdict.measured)] += 1
        if verdict.status is not Status.VIOLATED:
            largest = max([largest, *(one.ratio for one in verdict.measured)])
        else:
            print(f"seed {tried}: {name}, world {trial.seed}: {'; '.join(map(str, trial.schedule))}")
            for tally in verdict.anomalies:
                print(
                    f"  {tally}: {'; '.join(f'{piece.where}: {piece.what}' for piece in tally.sample[:3])}", flush=True
                )
        if (tried + 1) % 1_000 == 0 or time.monotonic() - began > asked.seconds:
            told = f"{struck.total():,} measured, " + ", ".join(f"{statuses[status]:,} {status}" for status in Status)
            print(f"{tried + 1 - first:,} schedules in {time.monotonic() - began:,.0f} s: {told}", flush=True)
        if time.monotonic() - began > asked.seconds:
            break
    most = ", ".join(f"{count:,} with {failures}" for failures, count in sorted(struck.items()))
    print(f"failures of the slice that failed most: {most}; largest error / bound {largest:.2f}")
    return 1 if statuses[Status.VIOLATED] else 0


if __name__ == "__main__":
    sys.exit(main())
