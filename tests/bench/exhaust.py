"""Exhausts a small world of every scheme, and writes docs/exhaustion.md.

    python tests/bench/exhaust.py                      # all of them, five minutes each at most
    python tests/bench/exhaust.py word-count.gap       # some of them; the others stay as they were
    python tests/bench/exhaust.py --minutes 20 --jobs 4
    python tests/bench/exhaust.py --page               # the page alone, of what is kept

What was found stands in exhausted.json beside this file; the page is made of it. Ends with 1 where a claim is violated.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.wording import counted
from streamproof.harness.exploration.bench import Bench
from streamproof.harness.exploration.exhausting import (
    EXHAUSTED_BATCHES,
    EXHAUSTED_EVENTS,
    CrashStatement,
    not_covered,
    statements,
    world_of,
)
from streamproof.harness.exploration.plans import RUN_ON, SUCCESSIVE_UP_TO, SearchPlan, Successive
from streamproof.harness.exploration.search import SearchBudget, search
from streamproof.harness.exploration.sizes import brought_down
from streamproof.harness.exploration.small_worlds import SLOW_REPLAY
from streamproof.harness.judging.exercised import Activity

SCENARIOS: Final = (
    "word-count.amnesia",
    "word-count.gap",
    "parameter-server.gap",
    "trace.gap-by-load",
    "stateless.upstream-backup",
    "windows.upstream-backup",
    "stateless.source-replay",
    "word-count.passive-replication",
    "word-count.passive-replication-masked",
    "word-count.deployed",
    "jumping-join.epoch-based-processing",
    "word-totals.approximate",
    "word-count.active-standby",
    "word-count.passive-standby-cold",
    "word-count.passive-standby-hot",
    "words.k-safe-grouping",
    "words.2-safe-grouping",
    "jumping-join.epoch-merge-equal-times",
    "word-count.active-replication",
    "order.turns-by-load",
)
SEED: Final = 7
_HERE: Final = Path(__file__).resolve().parent
KEPT: Final = _HERE / "exhausted.json"
PAGE: Final = _HERE.parent.parent / "docs" / "exhaustion.md"


class Level(msgspec.Struct):
    """So many crashes, one after the other."""

    statement: CrashStatement
    reasons: dict[str, int] = {}
    """Why it is unknown."""


class Exhausted(msgspec.Struct):
    """What came of one scenario."""

    scenario: str
    scheme: str
    claims: list[str]
    world: str
    levels: list[Level]
    exercised: dict[str, int]
    seconds: float
    cpu_seconds: float
    jobs: int
    day: str
    load: float
    """Of the machine when it was over, in processes that wanted to run."""


def exhausted(name: str, registry: Registry, seconds: float, jobs: int) -> Exhausted:
    """Raises ProcessDied when a process of the search ends by itself."""
    named = brought_down(name, registry, None, exhaust=True)
    bench = Bench(named.scenario, registry, seed=SEED, options=SLOW_REPLAY)
    began, cpu = time.monotonic(), _cpu()
    plans: list[SearchPlan] = [Successive(1), Successive(2)]
    found = search(bench, plans, SearchBudget(seconds=seconds), jobs=jobs, origin=named.origin, in_order=True)
    if found.interrupted:
        raise KeyboardInterrupt
    levels = [Level(one, dict(found.successions[one.faults].essential_reasons)) for one in statements(bench, found)]
    return Exhausted(
        name,
        bench.scenario.subject.kind,
        [str(claim) for claim in bench.claims],
        world_of(bench),
        levels,
        {str(activity): found.exercised[activity] for activity in Activity if found.exercised[activity]},
        round(time.monotonic() - began, 1),
        round(_cpu() - cpu, 1),
        jobs,
        datetime.now(UTC).date().isoformat(),
        round(os.getloadavg()[0], 1),
    )


def _cpu() -> float:
    """Of this process and of those that it has waited for."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def page(kept: Sequence[Exhausted]) -> str:
    ordered = sorted(kept, key=lambda made: SCENARIOS.index(made.scenario))
    return "\n".join(_lines(ordered)) + "\n"


def _lines(kept: Sequence[Exhausted]) -> Iterator[str]:
    yield from _BEFORE.splitlines()
    yield ""
    yield "| scenario | world | single crashes | pairs of crashes | CPU minutes |"
    yield "| --- | --- | --- | --- | --- |"
    for one in kept:
        said = [_said(level) for level in one.levels] + ["not begun"] * (2 - len(one.levels))
        yield f"| {one.scenario} | {one.world} | {said[0]} | {said[1]} | {one.cpu_seconds / 60:.1f} |"
    if missing := [name for name in SCENARIOS if name not in {one.scenario for one in kept}]:
        yield ""
        yield f"Not tried yet: {', '.join(missing)}."
    yield ""
    yield "What is claimed, and in how many of the schedules, but for those that were left, each of these was at work:"
    yield ""
    yield "| scenario | claims | at work | measured |"
    yield "| --- | --- | --- | --- |"
    for one in kept:
        at_work = ", ".join(f"{what} {count:,}" for what, count in one.exercised.items()) or "nothing"
        when = (
            f"{one.day}, {one.seconds / 60:.1f} min on {counted(one.jobs, 'process', 'processes')}, load {one.load:.0f}"
        )
        yield f"| {one.scenario} | {', '.join(one.claims)} | {at_work} | {when} |"
    yield ""
    yield "## What is left out"
    yield ""
    for what in not_covered(SEED):
        yield f"- {what}"


def _said(level: Level) -> str:
    one = level.statement
    amount = f"{one.tried:,}"
    if one.addresses is not None:
        amount += f", which stand for {one.addresses:,}"
    if one.complete:
        text = f"**all** {amount}"
    else:
        text = f"{amount} of about {one.exist:,}" if one.exist else f"{amount}, and more"
    if one.violated:
        text += f": **VIOLATED** under {one.violated:,}"
    elif one.unknown:
        why = "; ".join(f"{count:,} × {reason}" for reason, count in level.reasons.items())
        text += f": unknown under {one.unknown:,}" + (f", {why}" if why else "")
    elif one.never:
        text += f": {one.never}"
    else:
        text += ": hold" if one.complete else ": no violation"
    on = f", {one.run_on:,} of them run on" if one.run_on < one.beyond else ""
    aside = [f"{one.beyond:,} beyond the claim{on}"] if one.beyond else []
    aside += [f"{one.harmless:,} harmed nobody"] if one.harmless else []
    return f"{text} ({', '.join(aside)})" if aside else text


_BEFORE: Final = f"""\
# What was exhausted

`streamproof explore SCENARIO --exhaust` tries every crash of a small world, then every pair of crashes, one after the
other: the second strikes wherever the run comes to once the first has struck. A crash that leaves the same world behind
as another is tried once. This page is written by `python tests/bench/exhaust.py`, with a limit of time for each scheme:
what says *all* is complete, and what does not says how much was tried, in an order drawn at random.

The world has {EXHAUSTED_EVENTS} events in {EXHAUSTED_BATCHES} batches, or {SUCCESSIVE_UP_TO} where of fewer nothing
reaches a sink, and the delays of seed {SEED}. CPU minutes are those of all processes together. A schedule that goes
*beyond the claim* lets more fail at once than the scheme says it survives: where it says so, one in {round(1 / RUN_ON)}
of the pairs that do so with their second crash, drawn at random, was *run on* to its end, to see whether any code fails
there, and the others were left once that crash had struck. One that *harmed nobody* struck where nothing ran, or when
all input was through. Neither says anything of the claim.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="scenarios; without any, all that stand in SCENARIOS")
    parser.add_argument("--minutes", type=float, default=5.0, help="for each, at most")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--page", action="store_true", help="try nothing, and write the page of what is kept")
    asked = parser.parse_args()
    registry = Registry()
    known = msgspec.json.decode(KEPT.read_bytes(), type=dict[str, Exhausted]) if KEPT.exists() else {}
    violated = False
    for name in () if asked.page else asked.names or SCENARIOS:
        one = exhausted(name, registry, asked.minutes * 60, asked.jobs)
        violated |= any(level.statement.violated for level in one.levels)
        known[name] = one
        print(f"{name}: {'; '.join(map(_said, one.levels))}; {one.cpu_seconds / 60:.1f} CPU minutes", flush=True)
        KEPT.write_bytes(msgspec.json.format(msgspec.json.encode(known), indent=1) + b"\n")
        PAGE.write_text(page(list(known.values())))
    PAGE.write_text(page(list(known.values())))
    return int(violated)


if __name__ == "__main__":
    sys.exit(main())
