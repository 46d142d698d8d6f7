"""Tries a million random schedules: every small case of every scheme, in every kind of world.

    python tests/bench/night.py                        # all of it, on all cores
    python tests/bench/night.py --schedules 100000 --jobs 1

What is done is kept in night.jsonl (`--kept FILE` names another), a line for each case in each world, and not done
again. Ends with 1 where a claim is violated. The last line says how much memory its processes took in the first and the
last tenth of the time: a search that takes more the longer it goes on does not last a night.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from simulation import CASES, WORLDS, options_of, scenario_of
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.verdicts import Status
from streamproof.harness.exploration.bench import Bench
from streamproof.harness.exploration.plans import RandomSchedules

MILLION: Final = 1_000_000
_PAGE_BYTES: Final = resource.getpagesize()


class Unit(msgspec.Struct, frozen=True):
    """One case in one kind of world, and so many schedules."""

    case: str
    world: str
    schedules: int


class Tried(msgspec.Struct):
    """What came of a unit."""

    unit: Unit
    statuses: dict[str, int]
    unknown: dict[str, int]
    """Why, where it was for another reason than the schedule's own faults."""
    violated: list[str]
    cpu_seconds: float
    memory_mb: float
    """Of its process, at its end."""
    at: float
    """When it was over, in seconds since the epoch."""


def units(schedules: int) -> list[Unit]:
    """World by world, so that whoever interrupts it has tried all cases in some."""
    each = -(-schedules // (len(CASES) * len(WORLDS)))
    return [Unit(case, world, each) for world in WORLDS for case in CASES]


def tried(unit: Unit) -> Tried:
    began = time.process_time()
    scenario = scenario_of(unit.case)
    bench = Bench(scenario, Registry(), seed=1, options=options_of(unit.world, scenario))
    plan = RandomSchedules([*WORLDS].index(unit.world), count=unit.schedules)
    statuses: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    violated: list[str] = []
    for piece in plan.pieces(bench):
        for trial, outcome in plan.attempts(bench, piece):
            statuses[outcome.status.value] += 1
            if outcome.status is Status.VIOLATED:
                violated.append(f"seed {trial.seed}: {'; '.join(map(str, trial.schedule))}: {outcome.kind}")
            elif outcome.essential:
                unknown[outcome.reason] += 1
    spent = round(time.process_time() - began, 2)
    return Tried(unit, dict(statuses), dict(unknown), violated, spent, _resident_mb(), time.time())


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * _PAGE_BYTES / 1e6, 1)


def known(kept: Path) -> list[Tried]:
    return [msgspec.json.decode(line, type=Tried) for line in kept.read_bytes().splitlines()] if kept.exists() else []


def told(found: Sequence[Tried]) -> Iterator[str]:
    statuses: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    for one in found:
        statuses.update(one.statuses)
        unknown.update(one.unknown)
    amounts = ", ".join(f"{count:,} {status}" for status, count in statuses.most_common())
    cases, worlds = len({one.unit.case for one in found}), len({one.unit.world for one in found})
    cpu = sum(one.cpu_seconds for one in found)
    yield f"{statuses.total():,} schedules of {cases} cases in {worlds} kinds of worlds: {amounts}"
    yield from (f"unknown under {count:,}: {reason}" for reason, count in unknown.most_common())
    yield f"{cpu / 60:.1f} CPU minutes, {statuses.total() / cpu:,.0f} schedules/s and core"
    ordered = sorted(found, key=lambda one: one.at)
    tenth = -(-len(ordered) // 10)
    first, last = (max(one.memory_mb for one in part) for part in (ordered[:tenth], ordered[-tenth:]))
    minutes = (ordered[-1].at - ordered[0].at) / 60
    yield f"memory: {first:.0f} MB at most in the first tenth, {last:.0f} in the last, {minutes:.0f} minutes later"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--schedules", type=int, default=MILLION)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--kept", type=Path, default=Path("night.jsonl"))
    asked = parser.parse_args()
    asked_for = units(asked.schedules)
    found = [one for one in known(asked.kept) if one.unit in asked_for]
    done = {one.unit for one in found}
    left = [unit for unit in asked_for if unit not in done]
    # What a process keeps from one unit to the next is what would grow.
    with asked.kept.open("ab") as lines, get_context("spawn").Pool(asked.jobs) as pool:
        for one in pool.imap_unordered(tried, left):
            lines.write(msgspec.json.encode(one) + b"\n")
            lines.flush()
            found.append(one)
            for violation in one.violated:
                print(f"VIOLATED: {one.unit.case} in {one.unit.world}, {violation}", flush=True)
    for line in told(found):
        print(line)
    return int(any(one.violated for one in found))


if __name__ == "__main__":
    sys.exit(main())
