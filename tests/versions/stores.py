"""Certifies sinks that write to stores that people use, and makes the table of docs/stores.md of it.

`tox -e stores` tries all of them on all versions of Spark for which there is a connector and an environment;
`-- --spark 4.1.3 --store delta-sink` tries some, and leaves the rest of the table as it is; `-- --table` only makes the
table. Ends with 1 where a verdict is another than it must be. Whoever interrupts it calls it again, and it goes on
where it was (`kept.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kafka_broker import BROKER, kafka_broker
from streamproof.harness.contracts.query import Query
from streamproof.harness.core.errors import StreamproofError
from streamproof.harness.crash_points.inside_spark.versions import SUPPORTED
from streamproof.scenarios.subjects.stores import STORES, StoreLine, store_line
from versions.matrix import DRIVER, Measured, TriedQuery, certified, of_certificates, read_measured, write_measured
from versions.tables import asked_for, exit_status, with_table

MEASURED = Path(__file__).with_name("measured_stores.json")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "stores.md"
BEGIN = "<!-- made by tests/versions/stores.py -->\n"


def main() -> int:
    asked = asked_for(__doc__, "store", [one.name for one in STORES], of_certificates())
    measured, wrong = read_measured(MEASURED), []
    for name in () if asked.table else asked.store:
        line = store_line(name)
        for version in asked.spark:
            with _server(line) as address:
                try:
                    tried = tried_store(line, version, address)
                except StreamproofError as error:
                    print(f"{name} on {version}: {error}", file=sys.stderr, flush=True)
                    continue
                cell = certified(tried, version, asked.folder, asked.minutes, DRIVER if asked.driver else "")
            print(f"{version}  {name:<26} {cell.text}, {cell.seconds} s", flush=True)
            if not cell.right or cell.spark != version:
                wrong.append(f"{name} on {version}")
            measured.setdefault(name, {})[version] = cell
            _write(measured)
    _write(measured)
    return exit_status(wrong)


@contextmanager
def _server(line: StoreLine) -> Iterator[str]:
    with kafka_broker() if line.server else nullcontext(0) as port:
        yield f"127.0.0.1:{port}" if port else ""


def tried_store(line: StoreLine, version: str, address: str) -> TriedQuery:
    """One batch, and the two that close the input. Raises Unsupported where there is no connector."""
    query = line.make(version, address)
    fed = replace(line.workload, events=query.batch_events)
    return TriedQuery(line.name, query, fed, (line.claim,), line.expected, anomaly=str(line.anomaly or ""))


def _write(measured: Measured) -> None:
    write_measured(measured, MEASURED)
    PAGE.write_text(with_table(PAGE.read_text(), table(measured), BEGIN))


def table(measured: Measured) -> str:
    """A line for each sink and claim, with what was measured of it on each version on which it was."""
    lines = ["| sink | its documentation says | asked for | Spark | connector | measured |\n"]
    lines.append("| --- | --- | --- | --- | --- | --- |\n")
    for one in STORES:
        of_sink = f"{one.sink} | [{one.promise}]({one.documented}) | {one.claim}"
        cells = measured.get(one.name, {})
        for version in [supported.tried for supported in SUPPORTED.values() if supported.tried in cells]:
            made = one.make(version, "127.0.0.1:9092" if one.server else "")
            lines.append(f"| {of_sink} | {version} | {_connector(made, one)} | {cells[version].text} |\n")
        if not cells:
            lines.append(f"| {of_sink} | | | not tried |\n")
    return "".join(lines)


def _connector(query: Query, line: StoreLine) -> str:
    named = [*query.packages, *([BROKER] if line.server else [])]
    return ", ".join(f"`{package.partition(':')[2]}`" for package in named)


if __name__ == "__main__":
    sys.exit(main())
