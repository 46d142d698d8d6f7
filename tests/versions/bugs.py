"""Runs the schedule of each real bug on a release that has it and on one that has it no more, or not yet, and makes the
table of docs/bugs.md of it.

`tox -e bugs` tries all of them for whose Sparks there are environments (`streamproof spark add VERSION`); `-- --bug
spark-41448` tries one, and leaves the rest of the table as it is; `-- --hunt` looks for each on the release that has it
by a campaign that is told nothing; `-- --table` only makes the table. Ends with 1 where what comes of it is not as it
must be.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kafka_broker import kafka_broker
from streamproof.harness.certifying.budget import MINUTES, Budget
from streamproof.harness.certifying.campaign import certify
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.core.errors import InvalidOperator, MissingTool
from streamproof.harness.core.verdicts import Status
from streamproof.harness.install.spark_choice import chosen_version
from streamproof.harness.running.run import Finished, run_named
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.scenarios.bugs import BUGS, RealBug, Release, real_bug
from versions.tables import exit_status, today, with_table

MEASURED = Path(__file__).with_name("measured_bugs.json")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "bugs.md"
BEGIN = "<!-- made by tests/versions/bugs.py -->\n"
FAILS = "fails without any fault"
AFFECTED, FIXED = SIDES = ("affected", "fixed")
TRIES = 3
"""How often a schedule is run of which it is not proven that its fault struck where it was to, as on a machine that is
too busy."""


@dataclass(frozen=True)
class Shown:
    """What came of a schedule on a release."""

    release: str
    spark: str
    """As its JVM has said; of a query that fails without any fault, as its environment has."""
    status: str
    """Or that it fails without any fault."""
    anomalies: Mapping[str, int]
    struck: tuple[str, ...]
    """Where the faults did."""
    seconds: int
    on: str
    """The day."""

    def right(self, bug: RealBug) -> bool:
        affected = self.release == bug.affected.name
        release = bug.affected if affected else bug.fixed
        return release is not None and (
            (self.release, self.spark) == (release.name, release.spark)
            and self.status == _due(bug, affected)
            and set(self.anomalies) == (bug.anomalies if affected else set())
            and len(self.struck) == (0 if self.status == FAILS else len(bug.schedule))
        )

    @property
    def text(self) -> str:
        return ", ".join([self.status, *(f"{count} {name}" for name, count in sorted(self.anomalies.items()))])


def _due(bug: RealBug, affected: bool) -> str:
    """What is to come of its schedule."""
    if not affected:
        return Status.HOLDS
    return Status.VIOLATED if bug.anomalies else FAILS


@dataclass(frozen=True)
class Hunted:
    """What came of a campaign on the affected release that was told nothing but what is claimed."""

    release: str
    spark: str
    status: str
    anomaly: str
    """Of the counterexample."""
    schedule: str
    """Of the counterexample, once it was made as small as can be."""
    trials: int
    minutes: float
    """All that it took, with the kills that confirm it and make it smaller."""
    allowed: float
    on: str

    @property
    def text(self) -> str:
        if self.status != Status.VIOLATED:
            return f"{self.status} after {self.minutes:g} minutes, {self.trials} crashes"
        return f"in {self.minutes:g} minutes, {self.trials} crashes: {self.schedule}"


@dataclass(frozen=True)
class Measured:
    """Of one bug."""

    affected: Shown | None = None
    fixed: Shown | None = None
    hunted: Hunted | None = None


def main() -> int:
    asked = _asked()
    wrong = []
    for name in () if asked.table else asked.bug:
        bug = real_bug(name)
        for side in ("hunted",) if asked.hunt else [one for one in asked.side if release_of(bug, one) is not None]:
            try:
                shown = hunted(bug, asked) if side == "hunted" else tried(bug, side, asked.folder)
            except MissingTool as error:
                print(f"{name}, {side}: {error}", file=sys.stderr, flush=True)
                continue
            print(f"{name}, {side}: {shown.text}", flush=True)
            if not isinstance(shown, Hunted) and not shown.right(bug):
                wrong.append(f"{name}, {side}")
            # Read anew, since another may have measured meanwhile.
            measured = read_measured()
            measured[name] = Measured(**{**vars(measured.get(name, Measured())), side: shown})
            _write(measured)
    _write(read_measured())
    return exit_status(wrong)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [one.name for one in BUGS]
    parser.add_argument("--bug", action="append", choices=names)
    parser.add_argument("--side", action="append", choices=SIDES)
    parser.add_argument("--hunt", action="store_true", help="look for it without being told where")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="for each hunt")
    parser.add_argument("--folder", type=Path, default=Path("runs"))
    parser.add_argument("--table", action="store_true", help="make no more than the table")
    asked = parser.parse_args()
    asked.bug, asked.side = asked.bug or names, asked.side or [*SIDES]
    return asked


def tried(bug: RealBug, side: str, home: Path) -> Shown:
    """Raises MissingTool where its Spark or its packages cannot be had."""
    began = time.monotonic()
    release = release_of(bug, side)
    assert release is not None
    try:
        finished = ran(bug, side, home / f"{bug.name}-{side}")
    except InvalidOperator:
        spent = round(time.monotonic() - began)
        return Shown(release.name, chosen_version(release.spark), FAILS, {}, (), spent, today())
    (verdict,) = finished.judgement.verdicts
    return Shown(
        release.name,
        str(finished.description.cluster["spark"]),
        str(verdict.status),
        {str(one.anomaly): one.count for one in verdict.anomalies},
        tuple(one.address or "" for one in finished.history.struck() if not one.bite.why_not),
        round(time.monotonic() - began),
        today(),
    )


def release_of(bug: RealBug, side: str) -> Release | None:
    return bug.affected if side == AFFECTED else bug.fixed


def ran(bug: RealBug, side: str, folder: Path) -> Finished:
    """Its schedule on one of its releases, again where the fault did not strike as it was to."""
    release = release_of(bug, side)
    assert release is not None
    with served(bug, release) as release:
        for _ in range(TRIES):
            shutil.rmtree(folder, ignore_errors=True)
            named = Named(bug.name, bug.what, "", bug.scenario(release))
            finished = run_named(named, EmbeddedCluster(), Registry(), seed=1, folder=folder)
            if not any(one.bite.why_not for one in finished.history.struck()):
                break
    return finished


@contextmanager
def served(bug: RealBug, release: Release) -> Iterator[Release]:
    """With the place of the server that it needs, which is there meanwhile. Raises MissingTool where it cannot be
    fetched."""
    if not bug.server:
        yield release
        return
    with kafka_broker() as port:
        yield replace(release, server=f"127.0.0.1:{port}")


def hunted(bug: RealBug, asked: argparse.Namespace) -> Hunted:
    """By every crash point, as `streamproof certify` does unless it is told otherwise."""
    folder = asked.folder / f"{bug.name}-hunted"
    shutil.rmtree(folder, ignore_errors=True)
    began = time.monotonic()
    with served(bug, bug.affected) as release:
        certificate = certify(
            bug.make(release),
            (bug.claim,),
            workload=bug.workload,
            cluster=EmbeddedCluster(),
            registry=Registry(),
            budget=Budget(minutes=asked.minutes),
            folder=folder,
        ).certificate
    shown = certificate.counterexample
    return Hunted(
        bug.affected.name,
        certificate.versions["spark"],
        # A certificate says more of some claims than who makes them: how long it takes a recovery to be.
        str(next(one.status for one in certificate.verdicts if one.claim.partition(" ")[0] == bug.claim.name)),
        "" if shown is None else shown.anomaly,
        "" if shown is None else "; ".join(map(str, shown.crashes)),
        len(certificate.trials),
        round((time.monotonic() - began) / 60, 1),
        asked.minutes,
        today(),
    )


def read_measured() -> dict[str, Measured]:
    kept = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    return {name: _measured(sides) for name, sides in kept.items()}


def _measured(sides: Mapping[str, Any]) -> Measured:
    def shown(side: str) -> Shown | None:
        found = sides.get(side)
        return None if found is None else Shown(**{**found, "struck": tuple(found["struck"])})

    hunt = sides.get("hunted")
    return Measured(shown(AFFECTED), shown(FIXED), None if hunt is None else Hunted(**hunt))


def _write(measured: Mapping[str, Measured]) -> None:
    plain = {name: {side: it for side, it in asdict(one).items() if it} for name, one in measured.items()}
    MEASURED.write_text(json.dumps(plain, indent=2, sort_keys=True) + "\n")
    PAGE.write_text(with_table(PAGE.read_text(), table(measured), BEGIN))


def table(measured: Mapping[str, Measured]) -> str:
    """A line for each bug."""
    lines = ["| bug | schedule | on what has it | on what has it not | told nothing |\n"]
    lines.append("| --- | --- | --- | --- | --- |\n")
    for bug in BUGS:
        one = measured.get(bug.name, Measured())
        schedule = "; ".join(map(str, bug.schedule))
        cells = [f"[{bug.name}](#{bug.name}): {bug.what}", schedule]
        cells += [_told(bug, AFFECTED, one.affected), _told(bug, FIXED, one.fixed)]
        cells.append("not tried" if one.hunted is None else one.hunted.text)
        lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)


def _told(bug: RealBug, side: str, shown: Shown | None) -> str:
    release = release_of(bug, side)
    if release is None:
        return "none is known"
    on = release.name if release.packages == () else f"{release.name} (Spark {release.spark})"
    return f"{on}: {'not tried' if shown is None else shown.text}"


if __name__ == "__main__":
    sys.exit(main())
