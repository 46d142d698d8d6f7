"""Writes golden histories anew, and says which are others now, and in what.

`tox -e golden` runs what is kept, as it was drawn, and draws for schemes, workloads and mutants of which nothing is
kept yet; `-- --draw` draws all of it anew. Names of files, as in `-- gap mutants`, leave the others as they are, and
`-- --check` leaves all. Ends with 1 where something is another.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from golden_draws import counterexample, drawn
from golden_lines import Block, Difference, difference, path_of, read, schemes_kept, write
from golden_runs import (
    MUTANTS_FILE,
    Sized,
    claims_of,
    judged_of,
    mutants,
    others_than_claimed,
    outcome,
    scenario,
    workloads_of,
)
from simulation import SCHEMES, WORKLOADS

SHOWN = 10
"""Runs of a file whose differences are shown in full."""


@dataclass(frozen=True)
class Written:
    """What became of one block."""

    block: Block
    new: bool
    differences: tuple[Difference, ...] = ()
    drawn: tuple[int, int] = (0, 0)
    """How many runs came and went."""
    claims: str = ""
    """What was claimed, where that is another."""


def main() -> int:
    asked = _asked()
    names = asked.names or [*SCHEMES, MUTANTS_FILE]
    gone = [] if asked.names else sorted(set(schemes_kept()) - {*names})
    jobs = [(name, workload, asked.draw) for name in names for workload in _workloads(name)]
    with ProcessPoolExecutor(asked.jobs) as pool:
        done = list(pool.map(_worked, *zip(*jobs, strict=True), chunksize=1))
    changed = bool(gone)
    for name in names:
        found = [written for (of, *_), written in zip(jobs, done, strict=True) if of == name]
        kept = {_known_as(name, block.workload) for block in read(name)}
        lost = sorted(kept - {_known_as(name, one.block.workload) for one in found})
        changed |= _said(name, found, lost)
        if not asked.check:
            write(name, [one.block for one in found])
    for name in gone:
        print(f"{name}: is no scheme any more")
        if not asked.check:
            path_of(name).unlink()
    runs = sum(len(one.block.runs) for one in done)
    print(f"{runs:,} runs, {sum(len(one.differences) for one in done):,} of them others than kept")
    return 1 if changed else 0


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of files; all by default: {', '.join([*SCHEMES, MUTANTS_FILE])}")
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--draw", action="store_true", help="draw what is run anew as well")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once")
    asked = parser.parse_args()
    unknown = set(asked.names) - {*SCHEMES, MUTANTS_FILE}
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    return asked


def _workloads(name: str) -> list[str]:
    return list(mutants()) if name == MUTANTS_FILE else workloads_of(name)


def _known_as(name: str, workload: str) -> str:
    """A mutant's input may be another once its counterexample is drawn anew."""
    return Sized.parse(workload).mutant if name == MUTANTS_FILE else workload


def _worked(name: str, workload: str, draw: bool) -> Written:
    """Run one block; of a mutant, `workload` is its name."""
    kept = next((block for block in read(name) if _known_as(name, block.workload) == workload), None)
    if kept is not None and not draw:
        block = kept
        plans = [planned for planned, _ in kept.runs]
    elif name == MUTANTS_FILE:
        sized, planned = counterexample(workload)
        block, plans = Block(str(sized), "", (), ()), [planned]
    else:
        block, plans = Block(workload, "", (), ()), drawn(name, workload, list(WORKLOADS).index(workload))
    of = scenario(name, block.workload)
    claims, others = claims_of(of), others_than_claimed(of)
    runs = tuple((planned, outcome(of, others, planned)) for planned in plans)
    block = replace(block, claims=claims, others=others, runs=runs)
    if kept is None:
        return Written(block, new=True)
    if judged_of(kept) != judged_of(block):
        return Written(block, new=False, claims=kept.claims)
    return _compared(name, kept, block)


def _compared(name: str, kept: Block, block: Block) -> Written:
    before = dict(kept.runs) if kept.workload == block.workload else {}
    found = (
        difference(name, block, planned, before[planned], now, judged_of(block))
        for planned, now in block.runs
        if planned in before
    )
    same = sum(planned in before for planned, _ in block.runs)
    came = (len(block.runs) - same, len(kept.runs) - same)
    return Written(block, False, tuple(one for one in found if one is not None), came)


def _said(name: str, found: Sequence[Written], lost: Iterable[str]) -> bool:
    """Say what is another of a file; whether anything is."""
    lines = [f"  {workload}: is no more" for workload in lost]
    for one in found:
        block = one.block
        if one.new:
            lines.append(f"  {block.workload}: new, {len(block.runs)} runs")
        if one.claims:
            lines.append(f"  {block.workload}: claimed was {one.claims}, is {block.claims}; compare with git diff")
        if any(one.drawn):
            lines.append(f"  {block.workload}: drawn anew, {one.drawn[0]} runs came and {one.drawn[1]} went")
    others = [(judged_of(one.block), other) for one in found for other in one.differences]
    if others:
        counts = Counter(what for _, other in others for what in other.what)
        lines.append(f"  {len(others)} runs are others: {', '.join(f'{what} {n}' for what, n in counts.most_common())}")
    for judged, other in others[:SHOWN]:
        lines += [f"    {line}" for line in other.told(judged)]
    if len(others) > SHOWN:
        lines.append(f"    and {len(others) - SHOWN} more; git diff shows them all")
    if lines:
        print("\n".join([f"{name}:", *lines]), flush=True)
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
