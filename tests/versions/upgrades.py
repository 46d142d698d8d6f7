"""Tries the pairs of versions of the library on each version of Spark, and makes the table of docs/upgrades.md of it.

`tox -e upgrades` tries all of them on all versions for which there is an environment, from one state each; `-- --spark
4.1.3 --pair keys-swapped` tries some, and leaves the rest of the table as it is; `-- --table` only makes the table.
Ends with 1 where an outcome is another than it must be. The record of each is kept, and taken from there by whoever
calls it again with the same code: only what was interrupted, or could not be judged, is tried again.
"""

from __future__ import annotations

import argparse
import glob
import json
import re
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from streamproof.harness.command_line.leftovers import reap_silently
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.errors import DamagedHistory, StreamproofError, UnknownHistoryVersion
from streamproof.harness.core.verdicts import Status
from streamproof.harness.crash_points.inside_spark.versions import SUPPORTED
from streamproof.harness.install.spark_choice import chosen_version
from streamproof.harness.upgrading.outcomes import Switched, UpgradeOutcome
from streamproof.harness.upgrading.record import UpgradeRecord, is_upgrade, judge_upgrade, read_upgrade
from streamproof.harness.upgrading.request import MINUTES, UpgradeRequest, UpgradeSide
from streamproof.harness.upgrading.telling import shortened_why
from streamproof.harness.upgrading.upgrade import upgrade
from streamproof.scenarios.upgrades import PAIRS, UpgradePair
from versions.kept import LENGTH, digest_of_work
from versions.tables import asked_for, exit_status, row, today, with_table

MEASURED = Path(__file__).with_name("measured_upgrades.json")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "upgrades.md"
BEGIN = "<!-- made by tests/versions/upgrades.py -->\n"
NAMES = [pair.name for pair in PAIRS]
BLAMED = (UpgradeOutcome.WRONG, UpgradeOutcome.CRASH_LOOP)
_CONDITION = re.compile(r"\[([A-Z][A-Z_]+(?:\.[A-Z_]+)*)\]")
"""As Spark names an error."""
_OF_STREAM = "STREAM_FAILED"
"""That says no more than that there is another."""


@dataclass(frozen=True)
class Came:
    """What came of a pair on one version of Spark, from states with a committed batch."""

    outcome: str
    """Of all of these; or the error that kept it from being tried."""
    expected: str
    states: int
    error: str
    """As Spark names it, of what was refused or is in a crash loop."""
    left: str
    """Of what was refused: what it has left behind, and whether OLD goes on from that."""
    blamed: str
    """The status of each state. VIOLATED: the old version continues from where the new one does not."""
    said: str
    """Of the first state: the error, how its table differs, or the reason why it is unknown."""
    rows: tuple[str, ...]
    """Rows of it that differ, a few."""
    spark: str
    """As both JVMs have said."""
    seconds: int
    on: str
    """The day."""

    @property
    def right(self) -> bool:
        sure = self.blamed == Status.VIOLATED if self.outcome in BLAMED else True
        return self.outcome == self.expected and self.states > 0 and sure

    @property
    def text(self) -> str:
        shown = f"**{self.outcome}**" if self.outcome in BLAMED else self.outcome
        missed = "" if self.outcome == self.expected else f", and must be {self.expected}"
        found = [one for one in (self.error, self.left) if one]
        more = f": {'; '.join(found)}" if found else ""
        count = "" if self.states == 1 else f" ({self.states} states)"
        return f"{shown}{missed}{count}{more}"


Measured = dict[str, dict[str, Came]]


def main() -> int:
    asked = asked_for(__doc__, "pair", NAMES, _own())
    measured, wrong = read_measured(), []
    for version in asked.spark:
        for pair in () if asked.table else [one for one in PAIRS if one.name in asked.pair]:
            came = tried(pair, version, asked)
            print(f"{version}  {pair.name:<30} {came.text}, {came.seconds} s", flush=True)
            if not came.right or came.spark != version:
                wrong.append(f"{pair.name} on {version}")
            measured.setdefault(pair.name, {})[version] = came
            _write(measured)
    _write(measured)
    return exit_status(wrong)


def _own() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="for each")
    parser.add_argument("--states", type=int, default=1, help="for each")
    parser.add_argument("--folder", type=Path, default=Path("upgrades"), help="where records are kept")
    return parser


def tried(pair: UpgradePair, version: str, asked: argparse.Namespace) -> Came:
    """Nothing that one pair raises for itself ends the others."""
    began = time.monotonic()
    try:
        folder, record = record_of(pair, version, asked)
        differ = judge_upgrade(folder, Registry().oracles).differences
    except StreamproofError as error:
        name = type(error).__name__
        print(f"{pair.name} on {version}: {name}: {error}", file=sys.stderr, flush=True)
        spent = round(time.monotonic() - began)
        said = shortened_why(str(error))
        return Came(name, _expected(pair, version), 0, _condition([str(error)]), "", "", said, (), "", spent, today())
    for said in differ:
        print(f"{pair.name} on {version}: judged again: {said}", file=sys.stderr, flush=True)
    came = what_came(pair, record, version)
    return replace(came, outcome="judged otherwise again") if differ else came


def record_of(pair: UpgradePair, version: str, asked: argparse.Namespace) -> tuple[Path, UpgradeRecord]:
    """That which is kept, or else what comes of it now. Raises what `upgrade` raises."""
    spark = "" if version == chosen_version() else version
    old, new = (replace(query, spark=spark) for query in (pair.old, pair.new))
    name = f"{pair.name}-{version}"
    work = digest_of_work([old, new], pair.workload, pair.basis, asked.minutes, asked.states)
    folder = asked.folder / f"{name}-{work}"
    kept = _kept(folder)
    if kept is not None and not kept.cut_short and what_came(pair, kept, version).right:
        print(f"taken from {folder}", file=sys.stderr, flush=True)
        return folder, kept
    for earlier in asked.folder.glob(f"{glob.escape(name)}-{'[0-9a-f]' * LENGTH}"):
        shutil.rmtree(earlier)
    reap_silently()
    request = UpgradeRequest(
        _side(old, pair),
        _side(new, pair),
        pair.workload,
        Registry(),
        basis=pair.basis,
        minutes=asked.minutes,
        states=asked.states,
    )
    return upgrade(request, folder)


def _kept(folder: Path) -> UpgradeRecord | None:
    try:
        return read_upgrade(folder) if is_upgrade(folder) else None
    except (DamagedHistory, UnknownHistoryVersion) as error:
        print(f"tried anew: {error}", file=sys.stderr, flush=True)
        return None


def _side(query: Query, pair: UpgradePair) -> UpgradeSide:
    return UpgradeSide(query, pair.name)


def what_came(pair: UpgradePair, record: UpgradeRecord, version: str) -> Came:
    """Of its states with a committed batch."""
    found = [one for one in record.switched if one.committed >= 0]
    outcomes = sorted({str(one.outcome) for one in found})
    sparks = sorted({side.versions["spark"] for side in (record.old, record.new)})
    return Came(
        outcome=" and ".join(outcomes) or "nothing was tried",
        expected=_expected(pair, version),
        # From one and the same state it goes on in other ways, too.
        states=sum(not one.once_more for one in found),
        error=_condition(one.why for one in found if one.outcome is not UpgradeOutcome.WRONG),
        left=" or ".join(sorted({_left(one) for one in found if one.outcome is UpgradeOutcome.REFUSED})),
        blamed=" and ".join(sorted({str(one.status) for one in found})),
        said=shortened_why(found[0].why) if found else record.unjudgeable,
        rows=found[0].rows[:2] if found else (),
        spark=" and ".join(sparks),
        seconds=round(sum(record.durations.values())),
        on=record.began[: len("2026-01-01")],
    )


def _left(one: Switched) -> str:
    if one.clean:
        return "every file is as it was"
    if one.aside is None or one.aside.outcome is UpgradeOutcome.UNKNOWN:
        return "what OLD makes of what it leaves is not known"
    return "OLD goes on from what it leaves" if one.aside.continues else "OLD does not go on from what it leaves"


def _expected(pair: UpgradePair, version: str) -> str:
    return str(pair.expected_on(version) or "")


def _condition(errors: Iterable[str]) -> str:
    """What Spark calls the error, where it has a name: the innermost of each."""
    found = [[name for name in _CONDITION.findall(one) if name != _OF_STREAM] for one in errors]
    return ", ".join(dict.fromkeys(names[-1] for names in found if names))


def read_measured() -> Measured:
    kept = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    return {name: {version: _came(one) for version, one in by_version.items()} for name, by_version in kept.items()}


def _came(plain: Mapping[str, object]) -> Came:
    return Came(**{**plain, "rows": tuple(plain["rows"])})  # type: ignore[arg-type]


def _write(measured: Measured) -> None:
    plain = {name: {version: asdict(one) for version, one in came.items()} for name, came in measured.items()}
    MEASURED.write_text(json.dumps(plain, indent=2, sort_keys=True) + "\n")
    PAGE.write_text(with_table(PAGE.read_text(), table(measured), BEGIN))


def table(measured: Measured) -> str:
    """A line for each pair that was tried, and a column for each version on which any was."""
    tried_on = {version for came in measured.values() for version in came}
    versions = [one.tried for one in SUPPORTED.values() if one.tried in tried_on]
    lines = [row(["pair", *versions]), row(["---"] * (1 + len(versions)))]
    for pair in PAIRS:
        if came := measured.get(pair.name):
            cells = [came[version].text if version in came else "not tried" for version in versions]
            lines.append(row([f"`{pair.name}`", *cells]))
    return "".join(lines)


if __name__ == "__main__":
    sys.exit(main())
