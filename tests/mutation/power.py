"""Measures of how many small changes to a scheme's own code a search finds one, and keeps it for `explore` to say.

    tox -e power                                                  # every scenario, the changes drawn by the seed
    tox -e power -- word-count.gap                                # some; the others stay as they were
    tox -e power -- --schedules 1000 --sample 200                 # more of each

A change is cosmic-ray's, of one operator, number or the like, in a line of `reference_impls/` that runs while schedules
are tried; at each place that has any, one is drawn. What is made only once, when a module or a scheme is loaded, is not
changed. The search is that of `explore`, on one core. What stands in `harness/exploration/power.json` comes with the
package; `explore` says it as long as the sources are the very same. Changes that change nothing count as not found.
Ends with 1 where a scheme could not be measured, as the search does not say that it holds as it is.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Final

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mutation.changes import Change, changes_of
from mutation.searched import PowerSearch, Unchanged, changed, unchanged
from streamproof.harness.exploration.power import FILE, ChangeTried, PowerMeasured, digest_of, of_so_many

SCENARIOS: Final = (
    "word-count.passive-replication",
    "word-count.passive-replication-masked",
    "word-count.active-replication",
    "word-count.gap",
    "stateless.upstream-backup",
    "stateless.source-replay",
    "words.k-safe-grouping",
    "word-count.active-standby",
    "word-count.passive-standby-cold",
    "word-count.passive-standby-hot",
    "jumping-join.epoch-based-processing",
    "jumping-join.epoch-merge-equal-times",
    "word-count.deployed",
    "word-count.transactional-sink",
    "word-totals.approximate",
    "trace.gap-by-load",
    "order.turns-by-load",
    "word-count.amnesia",
)
"""At least one of each scheme."""
SEED: Final = 7
KEPT: Final = Path(__file__).resolve().parents[2] / "harness" / "exploration" / FILE
_CPU_EACH: Final = 5
"""Times what the search under the scheme as it is takes, and some seconds: who takes longer does not come to an end."""
_CPU_LEAST: Final = 5


def main() -> int:
    asked = _asked()
    known = {one.scenario: one for one in msgspec.json.decode(KEPT.read_bytes(), type=list[PowerMeasured])}
    ends = None if asked.minutes is None else time.monotonic() + asked.minutes * 60
    failed: list[str] = []
    for name in asked.names or SCENARIOS:
        if ends is not None and time.monotonic() > ends:
            print(f"{name}: not begun, {asked.minutes:g} minutes are over", flush=True)
            continue
        try:
            measured = _measured(PowerSearch(name, asked.schedules, asked.seed), asked.sample)
        except RuntimeError as error:
            print(f"{name}: {error}", flush=True)
            failed.append(name)
            continue
        known[name] = measured
        print(f"{name}: {of_so_many(measured, asked.schedules)}; {measured.all_cpu:.0f} s of CPU", flush=True)
        # A line for each, so that a difference shows which were measured anew.
        kept = sorted(known.values(), key=lambda one: one.scenario)
        KEPT.write_bytes(b"[\n" + b",\n".join(map(msgspec.json.encode, kept)) + b"\n]\n")
    return int(bool(failed))


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="scenarios; without any, those of each scheme")
    parser.add_argument("--schedules", type=int, default=300, help="that are tried of each change at most")
    parser.add_argument("--sample", type=int, default=60, help="how many places are changed at most")
    parser.add_argument("--seed", type=int, default=SEED, help="of the sample, the changes and the search")
    parser.add_argument("--minutes", type=float, help="begin no more scenarios after so long")
    return parser.parse_args()


def _measured(asked: PowerSearch, sample: int) -> PowerMeasured:
    began = _cpu()
    as_it_is = unchanged(asked, looked_at=False)
    ran = unchanged(asked, looked_at=True)
    random = Random(asked.seed)
    places = [(module, random.choice(those)) for module, those in _places(ran)]
    drawn = sorted(random.sample(range(len(places)), min(sample, len(places))))
    print(f"{asked.scenario}: {len(drawn)} of {len(places)} places; a search takes {as_it_is.cpu:.1f} s", flush=True)
    limit = _CPU_EACH * as_it_is.cpu + _CPU_LEAST
    tried = []
    for module, change in (places[number] for number in drawn):
        tried.append(_tried(asked, module, Path(ran.files[module]), change, limit))
    return PowerMeasured(
        asked.scenario,
        ran.kind,
        ran.parts,
        {module: digest_of(module) for module in sorted(ran.lines)},
        ran.events,
        asked.schedules,
        asked.seed,
        len(places),
        tried,
        round(as_it_is.cpu, 2),
        round(_cpu() - began, 1),
        version("streamproof"),
        platform.python_version(),
        datetime.now(UTC).date().isoformat(),
    )


def _places(ran: Unchanged) -> Iterator[tuple[str, Sequence[Change]]]:
    """Module, and the changes at one place of it that runs."""
    for module, lines in sorted(ran.lines.items()):
        those = [change for change in changes_of(Path(ran.files[module])) if change.place[0] in lines]
        for _, at_one in itertools.groupby(those, key=lambda change: change.place):
            yield module, list(at_one)


def _tried(asked: PowerSearch, module: str, file: Path, change: Change, cpu: float) -> ChangeTried:
    source = file.read_text()
    other = change.made(source)
    result = changed(asked, module, other, cpu)
    line, column = change.place
    place = f"{module.partition('.')[2]}:{line}:{column}"
    before, after = source.splitlines()[line - 1].strip(), other.splitlines()[line - 1].strip()
    print(f"{result.by:10} {result.schedule:4} {place} {after}", flush=True)
    # Where the package lies here is nobody's matter.
    why = result.why.replace(f"{file.parents[module.count('.') - 1]}/", "")
    return ChangeTried(place, f"{before} -> {after}", result.by, result.schedule, why)


def _cpu() -> float:
    """Of the processes that were waited for, and this one."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    sys.exit(main())
