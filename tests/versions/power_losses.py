"""Lets the power fail under Spark's own files, and makes the table of docs/power-losses.md of what comes of it.

`tox -e power-losses` tries its file sink, and a state in each of its stores; `-- --query "state in RocksDB"` tries one,
and leaves the rest of the table as it is; `-- --table` only makes the table. Whoever interrupts it calls it again, and
it goes on where it was (`kept.py`). Ends with 1 where something of it is not known.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.certificate import Certificate
from streamproof.harness.certifying.plan import CrashTrial, How
from streamproof.harness.certifying.planning import every_crash_point
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.query_parts import ROCKSDB, STATE_STORE
from streamproof.harness.core.guarantees import exactly_once, recovers, survives_power_loss
from streamproof.harness.core.promises import Extent, Promise
from streamproof.harness.core.verdicts import Status
from streamproof.harness.recording.history import Lost
from versions.kept import Campaign, certificate_of
from versions.matrix import README, tried_query
from versions.tables import exit_status, row, with_table

MEASURED: Final = Path(__file__).with_name("measured_power_losses.json")
PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "power-losses.md"
BEGIN: Final = "<!-- made by tests/versions/power_losses.py -->\n"
CHANGELOG: Final = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
BATCHES: Final = 2
PROMISE: Final = Promise.EXT4_ORDERED
RIGHT_AFTER: Final = survives_power_loss(exactly_once(), PROMISE, checkpoint_syncs=False)
STARTS_AFTER: Final = survives_power_loss(recovers(), PROMISE, checkpoint_syncs=False)
"""The checkpoint lies on a disk like any other here."""
RIGHT, WRONG, UNKNOWN = "goes on, rightly", "**goes on, wrongly**", "unknown"
DEAD, UNREADABLE = "**never starts again**", "**goes on, and cannot be read**"
"""What can come of a loss."""
_CONTENT: Final = re.compile(r"what (\S+) was written since its last fsync")
_TORN: Final = re.compile(r"the last pages of what (\S+) was written")


@dataclass(frozen=True)
class Measured:
    """What came of one query."""

    outcomes: dict[str, dict[str, int]]
    """What was lost -> what came of it -> how often."""
    planned: int
    """Losses that there could have been."""
    spark: str
    seconds: int
    on: str
    """The day."""

    @property
    def unknown(self) -> int:
        return sum(found.get(UNKNOWN, 0) for found in self.outcomes.values())

    @property
    def tried(self) -> int:
        return sum(sum(found.values()) for found in self.outcomes.values())


def main() -> int:
    asked = _asked()
    measured, unknown = read_measured(), []
    for name in () if asked.table else asked.query or QUERIES:
        query = QUERIES[name](asked.folder)
        certificate = certificate_of(campaign(query, asked.folder, asked.minutes), asked.folder, _file_name(name))
        measured[name] = _measured(certificate)
        print(f"{name:<24} {_summed(measured[name])}, {measured[name].seconds} s", flush=True)
        if measured[name].unknown:
            unknown.append(name)
        _write(measured)
    _write(measured)
    return exit_status(unknown)


def _asked() -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--query", action="append", choices=QUERIES, help="can be given several times")
    parser.add_argument("--minutes", type=float, default=30.0, help="for each")
    parser.add_argument("--folder", type=Path, default=Path("certificates"), help="where certificates are kept")
    parser.add_argument("--table", action="store_true", help="make no more than the table")
    return parser.parse_args()


def _words_counted(**settings: str) -> Callable[[Path], Query]:
    """That of README.md, with a state where these settings put it."""
    return lambda folder: replace(tried_query(README, (folder / "user").resolve()).query, settings=settings)


QUERIES: Final[Mapping[str, Callable[[Path], Query]]] = {
    "file sink": lambda folder: tried_query("file-sink", folder).query,
    "state in files": _words_counted(),
    "state in RocksDB": _words_counted(**{STATE_STORE: ROCKSDB, CHANGELOG: "false"}),
    "state in RocksDB, changelog": _words_counted(**{STATE_STORE: ROCKSDB, CHANGELOG: "true"}),
}


def campaign(query: Query, folder: Path, minutes: float) -> Campaign:
    fed = replace(tried_query("file-sink", folder).workload, events=BATCHES * query.batch_events)
    faults = every_crash_point("python", recovering=False, split_brain=False)
    # Every loss is to be tried, whatever the first ones come to.
    budget = Budget(kills=0, minutes=minutes, goes_on=True)
    return Campaign(query, (RIGHT_AFTER, STARTS_AFTER), fed, faults, budget)


def _file_name(name: str) -> str:
    return re.sub(r"\W+", "-", f"power-losses-{name}")


def _measured(certificate: Certificate) -> Measured:
    outcomes: dict[str, Counter[str]] = {}
    # What has shown a violation is tried once more.
    for crashes, trial in {one.crashes: one for one in certificate.trials if one.how is How.POWER_LOSS}.items():
        if what := _what_was_lost(crashes[-1].lost):
            outcomes.setdefault(what, Counter())[_outcome(trial)] += 1
    return Measured(
        {what: dict(sorted(found.items())) for what, found in sorted(outcomes.items())},
        len({line.crash for line in certificate.plan if _what_was_lost(line.crash.lost)}),
        certificate.versions["spark"],
        round(certificate.durations["total"]),
        certificate.began[: len("2026-01-01")],
    )


def _what_was_lost(lost: Lost | None) -> str:
    """By a name that is the same for all files of a kind; empty where nothing was."""
    if lost is None or lost.extent is Extent.NOTHING:
        return ""
    if lost.extent is Extent.EVERYTHING:
        return "everything that is not synced"
    if found := _CONTENT.match(lost.what):
        return f"the content of `{_kind_of_file(found[1])}`"
    if found := _TORN.match(lost.what):
        return f"the last pages of `{_kind_of_file(found[1])}`"
    if lost.extent is Extent.CONTENTS:
        return "the contents of all files that are not synced"
    return "the newest names, and what was done after them"


def _kind_of_file(path: str) -> str:
    return re.sub(r"\d+", "N", path)


def _outcome(trial: CrashTrial) -> str:
    right, starts = (trial.verdicts[str(claim)] for claim in _claims(trial))
    if starts is Status.VIOLATED:
        # A consumer's error is said as one of reading.
        return UNREADABLE if ": read failed: " in trial.reason else DEAD
    if right is Status.VIOLATED:
        return WRONG
    return RIGHT if (right, starts) == (Status.HOLDS, Status.HOLDS) else UNKNOWN


def _claims(trial: CrashTrial) -> tuple[str, str]:
    """As a campaign calls them, which states a time for each that was asked for without one."""
    (starts,) = (claim for claim in trial.verdicts if "(recovers" in claim)
    return str(RIGHT_AFTER), starts


def _summed(one: Measured) -> str:
    every = sum((Counter(found) for found in one.outcomes.values()), Counter[str]())
    return ", ".join(f"{outcome} {times}" for outcome, times in sorted(every.items()))


def read_measured() -> dict[str, Measured]:
    kept = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    return {name: Measured(**one) for name, one in kept.items()}


def _write(measured: Mapping[str, Measured]) -> None:
    MEASURED.write_text(json.dumps({name: asdict(one) for name, one in measured.items()}, indent=2) + "\n")
    PAGE.write_text(page(PAGE.read_text()))


def page(text: str) -> str:
    return with_table(text, table(read_measured()), BEGIN)


def table(measured: Mapping[str, Measured]) -> str:
    """A line for each kind of loss, with what came of it for each query."""
    names = [name for name in QUERIES if name in measured]
    lines = [row(["lost", *names]), row(["---"] * (1 + len(names)))]
    tried = [f"{measured[name].tried} of {measured[name].planned} tried" for name in names]
    lines.append(row(["all that was planned", *tried]))
    for what in sorted({what for name in names for what in measured[name].outcomes}):
        lines.append(row([what, *(_cell(measured[name].outcomes.get(what, {})) for name in names)]))
    return "".join(lines)


def _cell(found: Mapping[str, int]) -> str:
    return ", ".join(f"{outcome} ({times})" for outcome, times in found.items()) or "not tried"


if __name__ == "__main__":
    sys.exit(main())
