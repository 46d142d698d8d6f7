"""Certifies the same queries on each version of Spark, and makes the table of docs/spark-versions.md of it.

`tox -e versions` tries all of them on all versions for which there is an environment (`streamproof spark add VERSION`),
which takes hours; `-- --spark 3.5.9 --subject blind-append` tries some, and leaves the rest of the table as it is;
`-- --table` only makes the tables. With `-- --cluster docker` executors, Python workers and nodes die, in containers,
and what is certified so has a table of its own; the images are to be there (`python -m
streamproof.harness.worlds.docker.build_image --spark VERSION`). Ends with 1 where a verdict is another than it must be.
Whoever interrupts it calls it again, and it goes on where it was (`kept.py`).
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from readme import CERTIFY, example
from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.certificate import Certificate
from streamproof.harness.certifying.planning import every_crash_point
from streamproof.harness.contracts.query import Query
from streamproof.harness.core.errors import StreamproofError
from streamproof.harness.core.guarantees import Guarantee, exactly_once
from streamproof.harness.core.result_bounds import Measure
from streamproof.harness.core.verdicts import Status
from streamproof.harness.core.workload import Workload
from streamproof.harness.crash_points.inside_spark.versions import SUPPORTED
from streamproof.harness.install.spark_choice import chosen_version
from streamproof.harness.judging.shapes import OutputMode
from streamproof.scenarios.subjects import SUBJECTS, subject
from streamproof.scenarios.workloads import text
from versions.kept import DOCKER, Campaign, certificate_of
from versions.tables import asked_for, exit_status, row, today, with_table

MEASURED = Path(__file__).with_name("measured.json")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark-versions.md"
BEGIN = "<!-- made by tests/versions/matrix.py -->\n"
IN_CONTAINERS = Path(__file__).with_name("measured_in_containers.json")
BEGIN_IN_CONTAINERS = "<!-- made by tests/versions/matrix.py --cluster docker -->\n"
README = "words-counted"
AS_WELL = ", "
"""Between a subject that is wrong and what holds of it all the same, in the name of a line."""
ROWS = (
    README,
    *(row for one in SUBJECTS for row in (one.name, *(f"{one.name}{AS_WELL}{claim}" for claim in one.holds))),
)
DRIVER, TASKS = "the driver", "executors, Python workers and nodes"
"""Who is to die, where not all are."""
SINCE = {"counts-by-processor": "4.1"}
"""The first line on which there is what a query needs."""


@dataclass(frozen=True)
class TriedQuery:
    name: str
    query: Query
    workload: Workload
    claims: tuple[Guarantee, ...]
    expected: Status
    recovers: Status = Status.HOLDS
    anomaly: str = ""


@dataclass(frozen=True)
class Cell:
    """What came of one query on one version."""

    status: str
    """Of what it claims."""
    expected: str
    recovers: str
    trials: int
    spark: str
    """As its JVM has said."""
    seconds: int
    whole: bool
    """Whether all victims were to die, and not some alone."""
    on: str = ""
    """The day."""
    anomaly: str = ""
    """Of the counterexample."""
    wanted_anomaly: str = ""
    must_recover: str = Status.HOLDS
    victims: str = DRIVER
    """Who was to die where not all were."""

    @property
    def right(self) -> bool:
        # A campaign that is over when a claim is violated has not asked whether it recovers.
        over = self.status == Status.VIOLATED and self.recovers == Status.UNKNOWN
        recovers = self.recovers == self.must_recover or over
        return self.status == self.expected and recovers and self.anomaly == self.wanted_anomaly

    @property
    def text(self) -> str:
        missed = "" if self.status == self.expected else f", and must be {self.expected}"
        back = "" if self.recovers == Status.HOLDS or not self.recovers else f", recovers {self.recovers}"
        return f"{self.status}{missed}{back} ({self.trials}{'' if self.whole else f' of {self.victims}'})"


Measured = dict[str, dict[str, Cell]]


def main() -> int:
    asked = _asked()
    file = IN_CONTAINERS if asked.cluster == DOCKER else MEASURED
    # Most crashes of a driver are tried on this machine, whatever the cluster is: those of tasks are left.
    victims = TASKS if asked.cluster == DOCKER else DRIVER if asked.driver else ""
    measured = read_measured(file)
    wrong = []
    for version in asked.spark:
        for name in () if asked.table else asked.subject:
            if _missing(name, version):
                continue
            cell = _certified(name, version, asked.folder, asked.minutes, victims, asked.cluster)
            print(f"{version}  {name:<22} {cell.text}, {cell.seconds} s", flush=True)
            if not cell.right or cell.spark != version:
                wrong.append(f"{name} on {version}")
            measured.setdefault(name, {})[version] = cell
            _write(measured, file)
    _write(measured, file)
    return exit_status(wrong)


def _asked() -> argparse.Namespace:
    own = of_certificates()
    own.add_argument("--cluster", choices=("embedded", DOCKER), default="embedded", help="where it kills for real")
    return asked_for(__doc__, "subject", ROWS, own)


def of_certificates() -> argparse.ArgumentParser:
    """What is asked for where certificates are made."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--minutes", type=float, default=30.0, help="for each")
    parser.add_argument("--driver", action="store_true", help="let no more than the driver die, once in a run")
    parser.add_argument("--folder", type=Path, default=Path("certificates"), help="where certificates are kept")
    return parser


def _missing(name: str, version: str) -> bool:
    line = ".".join(version.split(".")[:2])
    return line < SINCE.get(name.partition(AS_WELL)[0], "")


def tried_query(name: str, folder: Path) -> TriedQuery:
    """By its name in the table; that of README.md is written to the folder as a user would have it."""
    if name != README:
        of, _, claim = name.partition(AS_WELL)
        one = subject(of)
        # One batch, and the two that close the input: one of each kind.
        fed = replace(one.workload, events=one.query.batch_events)
        if claim:
            (held,) = (held for held in one.holds if str(held) == claim)
            # What may be lost has to be less than all there is.
            size = max(one.query.batch_events, 10 + int(held.amount(Measure.ROWS) or 0))
            query = replace(one.query, batch_events=size)
            return TriedQuery(name, query, replace(fed, events=size), (held,), Status.HOLDS)
        return TriedQuery(name, one.query, fed, one.claims, one.expected, one.recovers, str(one.anomaly or ""))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "my_operator.py").write_text(example("def count_words", CERTIFY))
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    query = Query(importlib.import_module("my_operator").count_words, mode=OutputMode.UPDATE, key=("word",))
    return TriedQuery(name, query, text(events=query.batch_events), (exactly_once(),), Status.HOLDS)


def _certified(name: str, version: str, home: Path, minutes: float, victims: str, cluster: str) -> Cell:
    return certified(tried_query(name, (home / "user").resolve()), version, home, minutes, victims, cluster)


def certified(
    tried: TriedQuery, version: str, home: Path, minutes: float, victims: str = "", cluster: str = "embedded"
) -> Cell:
    """What comes of it on that version where these victims are to die, or all. Nothing that a campaign raises for
    itself ends the others."""
    name = tried.name
    query = replace(tried.query, spark="" if version == chosen_version() else version)
    few = partial(every_crash_point, recovering=False, split_brain=False)
    faults = {"": every_crash_point, DRIVER: partial(few, "driver"), TASKS: partial(few, "executor", "python", "node")}
    # Who is to die but once has no kills drawn beside.
    budget = Budget(minutes=minutes, kills=0 if victims else 4)
    campaign = Campaign(query, tried.claims, tried.workload, faults[victims](), budget, cluster)
    place = "-in-containers" if cluster == DOCKER else ""
    began = time.monotonic()
    try:
        certificate = certificate_of(campaign, home, f"{name.replace(AS_WELL, '-')}-{version}{place}")
    except StreamproofError as error:
        print(f"{name} on {version}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return Cell(
            type(error).__name__, tried.expected, "", 0, "", round(time.monotonic() - began), not victims, today()
        )
    return _cell(tried, certificate, victims)


def _cell(tried: TriedQuery, certificate: Certificate, victims: str) -> Cell:
    said = {one.status for one in certificate.verdicts if one.claim in map(str, tried.claims)}
    shown = certificate.counterexample
    return Cell(
        status=" and ".join(sorted(said)),
        expected=tried.expected,
        recovers=next(one.status for one in certificate.verdicts if one.claim.startswith("recovers")),
        trials=len(certificate.trials),
        spark=certificate.versions["spark"],
        seconds=round(certificate.durations["total"]),
        whole=not victims,
        victims=victims or DRIVER,
        on=certificate.began[: len("2026-01-01")],
        anomaly="" if shown is None else shown.anomaly,
        wanted_anomaly=tried.anomaly,
        must_recover=tried.recovers,
    )


def read_measured(file: Path = MEASURED) -> Measured:
    kept = json.loads(file.read_text()) if file.exists() else {}
    return {name: {version: Cell(**cell) for version, cell in cells.items()} for name, cells in kept.items()}


def _write(measured: Measured, file: Path) -> None:
    write_measured(measured, file)
    PAGE.write_text(page(PAGE.read_text()))


def page(text: str) -> str:
    """With the tables of what was measured."""
    text = with_table(text, table(read_measured()), BEGIN)
    return with_table(text, table(read_measured(IN_CONTAINERS), whole=False), BEGIN_IN_CONTAINERS)


def write_measured(measured: Measured, file: Path) -> None:
    plain = {name: {version: asdict(cell) for version, cell in cells.items()} for name, cells in measured.items()}
    file.write_text(json.dumps(plain, indent=2, sort_keys=True) + "\n")


def table(measured: Measured, whole: bool = True) -> str:
    """Of all queries and versions, or of those alone of which something was tried."""
    rows = [name for name in ROWS if whole or measured.get(name)]
    tried = {version for cells in measured.values() for version in cells}
    versions = [one.tried for one in SUPPORTED.values() if whole or one.tried in tried]
    lines = [row(["query", *versions]), row(["---"] * (1 + len(versions)))]
    for name in rows:
        cells = [_told(name, version, measured.get(name, {}).get(version)) for version in versions]
        lines.append(row([f"`{name}`", *cells]))
    return "".join(lines)


def _told(name: str, version: str, cell: Cell | None) -> str:
    if _missing(name, version):
        return f"not before {SINCE[name.partition(AS_WELL)[0]]}"
    return cell.text if cell is not None else "not tried"


if __name__ == "__main__":
    sys.exit(main())
