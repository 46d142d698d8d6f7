"""Certifies sinks with a fault that only a crash shows, and their twins without it, as a user does: by the command.

    python tests/bench/sinks.py                      # the wrong ones, with what `certify` does unless told otherwise
    python tests/bench/sinks.py --right              # their twins, whose driver dies wherever it can
    python tests/bench/sinks.py --sink adds --busy 4 # one, beside four processes that load the machine

Says of each wrong sink how many seconds after the command's start its violation was confirmed, and the median and the
worst of all; of each right one, how many crashes were tried, how many said nothing, and the pace. PostgreSQL, Kafka and
an HTTP store are started on loopback. What was certified stays in `--folder`. Ends with 1 where a verdict is another
than it must be.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import served_sinks
from kafka_broker import kafka_broker
from postgres_server import postgres_server
from streamproof.harness.certifying.campaign_state import FIRST_CONFIRMED
from streamproof.harness.certifying.certificate import Certificate, read_certificate
from streamproof.harness.core.guarantees import exactly_once
from streamproof.harness.core.verdicts import Status
from versions.tables import exit_status
from web_store import web_store

TESTS: Final = Path(__file__).resolve().parent.parent
CLAIM: Final = str(exactly_once())
SERVERS: Final = {
    served_sinks.POSTGRES: postgres_server,
    served_sinks.WEB: web_store,
    served_sinks.KAFKA: kafka_broker,
}


@dataclass(frozen=True)
class Sink:
    name: str
    attribute: str
    """`module:attribute` of its query."""
    server: str = ""
    """The variable that names its store's port; empty where it writes into the run's folders alone."""
    one_batch: str = ""
    """`module:attribute` of an input of one batch; empty where it is fed what `certify` feeds anyone."""

    @property
    def expected(self) -> Status:
        return Status.HOLDS if self.one_batch else Status.VIOLATED


WRONG: Final = (
    Sink("marker-first", "line_sinks:marker_first"),
    Sink("appends", "wrong_sinks:appends"),
    Sink("list-first", "wrong_sinks:list_first"),
    Sink("success-first", "wrong_sinks:success_first"),
    Sink("seals-first", "wrong_sinks:seals_first"),
    Sink("swaps-first", "wrong_sinks:swaps_first"),
    Sink("at-once", "wrong_sinks:at_once"),
    Sink("adds", "wrong_sinks:adds"),
    Sink("adds-without-journal", "wrong_sinks:adds_without_journal"),
    Sink("adds-in-map", "wrong_sinks:adds_in_map"),
    Sink("postgres-in-two", "served_sinks:in_two_transactions", served_sinks.POSTGRES),
    Sink("postgres-adds", "served_sinks:adding_to_counts", served_sinks.POSTGRES),
    Sink("postgres-source-in-two", "served_sinks:source_in_two", served_sinks.POSTGRES),
    Sink("http-without-key", "served_sinks:retrying_without_key", served_sinks.WEB),
    Sink("kafka", "served_sinks:kafka_sink", served_sinks.KAFKA),
)
_FIFTY, _TWENTY, _FIVE = (f"served_sinks:{number}_events" for number in ("fifty", "twenty", "five"))
RIGHT: Final = (
    Sink("both-at-once", "line_sinks:both_at_once", one_batch=_TWENTY),
    Sink("by-batch", "wrong_sinks:by_batch", one_batch=_FIFTY),
    Sink("list-last", "wrong_sinks:list_last", one_batch=_FIFTY),
    Sink("success-last", "wrong_sinks:success_last", one_batch=_FIFTY),
    Sink("seals-last", "wrong_sinks:seals_last", one_batch=_FIFTY),
    Sink("swaps-last", "wrong_sinks:swaps_last", one_batch=_FIFTY),
    Sink("with-its-commit", "wrong_sinks:with_its_commit", one_batch=_FIFTY),
    Sink("adds-once", "wrong_sinks:adds_once", one_batch=_FIFTY),
    Sink("postgres-in-one", "served_sinks:in_one_transaction", served_sinks.POSTGRES, _FIVE),
    Sink("postgres-by-batch", "served_sinks:counting_by_batch", served_sinks.POSTGRES, _FIVE),
    Sink("postgres-source-in-one", "served_sinks:source_in_one", served_sinks.POSTGRES, _FIVE),
    Sink("http-with-key", "served_sinks:retrying_with_key", served_sinks.WEB, _FIVE),
)
SINKS: Final = {sink.name: sink for sink in (*WRONG, *RIGHT)}
ONLY_THE_DRIVER: Final = ("--victim", "driver", "--no-recovering", "--no-split-brain", "--kills", "0")


def main() -> int:
    asked = _asked()
    sinks = [SINKS[name] for name in asked.sink] if asked.sink else RIGHT if asked.right else WRONG
    firsts, trials, silent, others = list[float](), 0, 0, list[str]()
    with ExitStack() as stack:
        ports = {
            server: str(stack.enter_context(SERVERS[server]())) for server in {one.server for one in sinks} if server
        }
        stack.enter_context(_busy(asked.busy))
        for sink in sinks:
            began = time.monotonic()
            certificate = _certified(sink, asked.folder, asked.minutes, ports)
            took = f"{time.monotonic() - began:.0f} s in all"
            if certificate is None:
                print(f"{sink.name:<24} no certificate, {took}", flush=True)
                others.append(sink.name)
                continue
            status = next(one.status for one in certificate.verdicts if one.claim == CLAIM)
            if status is not sink.expected:
                others.append(sink.name)
            trials += len(certificate.trials)
            said_nothing = sum(one.verdicts[CLAIM] is Status.UNKNOWN for one in certificate.trials)
            silent += said_nothing
            print(f"{sink.name:<24} {status}: {_told(certificate, said_nothing)}, {took}", flush=True)
            if (first := certificate.figures.get(FIRST_CONFIRMED)) is not None:
                firsts.append(first)
    if firsts:
        print(f"violations of {len(firsts)} confirmed after {statistics.median(firsts):.1f} s", end="")
        print(f" in the median, {max(firsts):.1f} s at worst")
    print(f"{trials:,} crashes tried, {silent} said nothing")
    return exit_status(others)


def _asked() -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--sink", action="append", choices=SINKS, help="can be given several times")
    parser.add_argument("--right", action="store_true", help="the twins")
    parser.add_argument("--busy", type=int, default=0, help="so many processes load the machine meanwhile")
    parser.add_argument("--minutes", type=float, default=15.0, help="for each of the twins")
    parser.add_argument("--folder", type=Path, help="where certificates go; a new one in /tmp unless it is named")
    asked = parser.parse_args()
    asked.folder = asked.folder or Path(tempfile.mkdtemp(prefix="streamproof-sinks-"))
    return asked


def _certified(sink: Sink, home: Path, minutes: float, ports: dict[str, str]) -> Certificate | None:
    """What the command has left; None, and what it has said, where it has left none."""
    folder = home / f"{sink.name}-{time.time_ns()}"
    command = [
        sys.executable,
        "-m",
        "streamproof",
        "certify",
        sink.attribute,
        "--claim",
        CLAIM,
        "--folder",
        str(folder),
    ]
    if sink.one_batch:
        command += [*ONLY_THE_DRIVER, "--minutes", str(minutes), "--workload", sink.one_batch]
    paths = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    ended = subprocess.run(
        command, env={**os.environ, **ports, "PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )
    if not folder.exists():
        print(ended.stdout[-2_000:], ended.stderr[-2_000:], sep="\n", file=sys.stderr, flush=True)
        return None
    return read_certificate(folder)


def _told(certificate: Certificate, said_nothing: int) -> str:
    tried = f"{len(certificate.trials)} crashes, {said_nothing} of which said nothing"
    return ", ".join([tried, *(f"{name} {value:,.1f}" for name, value in sorted(certificate.figures.items()))])


@contextmanager
def _busy(processes: int) -> Iterator[None]:
    until_this_dies = f"import os\nwhile os.getppid() == {os.getpid()}: pass"
    loads = [subprocess.Popen([sys.executable, "-c", until_this_dies]) for _ in range(processes)]
    try:
        yield
    finally:
        for load in loads:
            load.kill()
            load.wait()


if __name__ == "__main__":
    sys.exit(main())
