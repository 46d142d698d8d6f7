"""Measures approximate fault tolerance beside no protection, mini-batches and upstream backup to a server, as AF-Stream
does (section 4), and writes a table and a plot.

    python tests/bench/approximate_figures.py throughput accuracy --into docs/figures

`throughput` and `figure-5a` run on embedded Spark, each protection of an algorithm in turn, `--repeats` times; what is
compared was run one after the other on one machine. `accuracy` runs in the simulator, where nothing depends on the
machine. What was measured before is kept in approximate.json, and `render` makes the table and the plot of it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cpu_of_a_run import CpuOfRun
from streamproof.faults.crash import crash
from streamproof.harness.contracts.cluster import Run
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.quantities import events as so_many
from streamproof.harness.core.quantities import seconds
from streamproof.harness.core.topology import Role, Topology
from streamproof.harness.core.verdicts import Status
from streamproof.harness.core.workload import Workload
from streamproof.harness.exploration.bench import Bench, Trial
from streamproof.harness.exploration.drawn_on_the_way import FaultAhead
from streamproof.harness.recording.folder import RunFolder, read_history
from streamproof.harness.recording.history import History
from streamproof.harness.recording.records import CheckpointTaken, Delivered, Offered, Record, Taken
from streamproof.harness.running.run import describe, new_run_id
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.reference_impls.amnesia import amnesia
from streamproof.reference_impls.approximate import approximate
from streamproof.reference_impls.mechanisms.approximate_backup import ApproximateBackup
from streamproof.scenarios import accuracy
from streamproof.scenarios.grep import grep
from streamproof.scenarios.heavy_hitters import heavy_hitters
from streamproof.scenarios.logistic_regression import logistic_regression
from streamproof.scenarios.partial_counts import partial_counts
from streamproof.scenarios.ripple_join import ripple_join
from streamproof.scenarios.skewed_streams import packets, points, visits_of_two_sites, zipf_words
from streamproof.scenarios.workloads import text

FAILURES = (0, 1, 5, 10)
MINI_BATCHES = 800
"""As in the paper: a backup of the state, and of the items, for each."""
UNLIMITED = 1e5
"""Outputs that are not acknowledged, of who loses nothing."""
TOGETHER = so_many(1_000)
"""Acknowledged in one message, where nobody waits for it: of word count and heavy hitters a source hears of every tenth
batch."""
RATE = 0.3
"""Of the samples of the join."""
HEAVY = 60_000
ORDER_MATTERS = ("online join", "logistic regression")
"""How much these deliver depends on what comes first."""
TEST_POINTS = 400


@dataclass(frozen=True)
class Algorithm:
    """One of the five, with what it is fed, at three settings of the thresholds."""

    topology: Callable[[], Topology]
    fed: Callable[[int, int], Workload]
    """Of so many events, in batches of so many."""
    settings: tuple[tuple[float, float, float], ...]
    """(theta, l, gamma), from the tightest to the widest."""
    accurate: Mapping[str, Callable[[History], float]]
    """By what is measured."""
    papers: tuple[float, float, float]
    """Percent of the unprotected rate: approximate, mini-batch, upstream backup (tables 4 and 5)."""
    papers_accuracy: Mapping[str, str]
    """Without a failure, and after ten at two settings of (theta, l), where the paper measures the same."""
    weights: Mapping[str, float] | None = None


def _predicted(history: History) -> float:
    test = [e for batch in points(events=TEST_POINTS, batch=TEST_POINTS, seed=99).batches("source-0") for e in batch]
    return accuracy.predicted_rightly(history, test)


ALGORITHMS = {
    "grep": Algorithm(
        lambda: grep("LETTER"),
        lambda events, batch: text("unicode-names", events=events, batch=batch),
        ((0, 1e2, 1e4), (0, 1e3, 1e4), (0, 1e4, 1e5)),
        {"share of matches delivered": lambda history: accuracy.share_of_matches(history, "LETTER")},
        (98.0, 10.1, 10.7),
        {},
    ),
    "word count": Algorithm(
        lambda: partial_counts(every=10),
        lambda events, batch: zipf_words(events=events, batch=batch),
        ((1e2, 1e2, 1e4), (1e3, 1e3, 1e4), (1e4, 1e3, 1e3)),
        {"largest error of a count": lambda history: float(accuracy.largest_count_error(history))},
        (97.9, 19.8, 19.5),
        {},
    ),
    "heavy hitters": Algorithm(
        lambda: heavy_hitters(width=512, heavy=HEAVY, slack=50_000),
        lambda events, batch: packets(window=events // 4 - 2, events=events, batch=batch),
        ((2e4, 1e2, 1e4), (1e5, 1e3, 1e3), (1e6, 1e3, 1e5)),
        {
            "precision": lambda history: accuracy.precision_and_recall(history, HEAVY)[0],
            "recall": lambda history: accuracy.precision_and_recall(history, HEAVY)[1],
        },
        (95.5, 7.4, 7.2),
        {"precision": "0.989; 0.928 (1e5, 1e3), 0.955 (1e4, 100)", "recall": "1, with compensation"},
        {"sketch": 1},
    ),
    "online join": Algorithm(
        lambda: ripple_join(rate=RATE, most=10),
        lambda events, batch: visits_of_two_sites(every=20, events=events // 2, batch=batch),
        ((1e2, 1e3, 1e5), (1e3, 1e3, 1e5), (1e4, 1e4, 1e6)),
        {"relative error of the estimate": lambda history: accuracy.join_error(history, RATE)},
        (94.7, 12.8, 12.5),
        {"relative error of the estimate": "0.091; 0.113, 0.106"},
    ),
    "logistic regression": Algorithm(
        lambda: logistic_regression(every=100),
        lambda events, batch: points(events=events, batch=batch),
        ((10, 1e2, 1e4), (40, 1e3, 1e4), (200, 1e3, 1e5)),
        {"share predicted rightly": _predicted},
        (99.4, 23.6, 20.5),
        {"share predicted rightly": "0.943; 0.904 (10, 1e3), 0.929 (1, 100)"},
        {"local": 1},
    ),
}
FIGURE_5A = (1, 10, 100, 1_000, 10_000)
"""Theta of word count."""


def error_free(topology: Topology, gamma: float, keep: int) -> SchemeSubject:
    """Every item is backed up before it is processed, in the groups in which items arrive; the state so often."""
    subject = approximate(topology, theta=0, l=0, gamma=gamma, acknowledge_every=TOGETHER)
    setup = subject.setups[Role.OPERATOR]
    mechanisms = tuple(
        replace(one, keep=keep) if isinstance(one, ApproximateBackup) else one for one in setup.mechanisms
    )
    return replace(subject, setups={**subject.setups, Role.OPERATOR: replace(setup, mechanisms=mechanisms)})


def protections(one: Algorithm, events: int) -> dict[str, SchemeSubject]:
    """By name."""
    return {
        "unprotected": amnesia(one.topology()),
        "mini-batch": error_free(one.topology(), UNLIMITED, max(1, events // MINI_BATCHES)),
        "upstream backup": error_free(one.topology(), UNLIMITED, max(1, events // 100)),
        **{said(*thresholds): _approximate(one, *thresholds) for thresholds in one.settings},
    }


def said(theta: float, l: float, gamma: float) -> str:  # noqa: E741  It is the paper's.
    return f"theta {theta:g}, l {l:g}, gamma {gamma:g}"


def _approximate(one: Algorithm, theta: float, l: float, gamma: float) -> SchemeSubject:  # noqa: E741
    return approximate(one.topology(), theta=theta, l=l, gamma=gamma, weights=one.weights, acknowledge_every=TOGETHER)


# Throughput


@dataclass(frozen=True)
class Measured:
    """Of one run."""

    rate: float
    """Events a second, from the first that was offered until nothing was taken any more."""
    cpu: float
    """Microseconds of all Python processes, an event."""
    backups: float
    """The share of what slices took that caused a backup of a state."""
    delivered: int


class _Clocked(RunFolder):
    """Knows when its clock began, on the machine's, in nanoseconds."""

    began = 0

    def note(self, at: int, record: Record) -> None:
        self.began = self.began or time.monotonic_ns() - at * 1_000
        super().note(at, record)


def measured(subject: SchemeSubject, fed: Workload) -> Measured:
    """It is not judged: that takes longer than the run. All that was offered has to be taken, and who runs several on
    one input compares what they delivered."""
    scenario = Scenario(subject, fed, deadline=seconds(600))
    registry, cluster, run_id = Registry(), EmbeddedCluster(), new_run_id("throughput")
    with TemporaryDirectory(prefix="streamproof-bench-") as folder:
        path = Path(folder) / "run"
        description = describe(Named("throughput", "bench", "", scenario), cluster, 1, run_id)
        with CpuOfRun(path.parent) as cpu, _Clocked(path, description) as recorder:
            run = Run(run_id, scenario, 1, recorder, registry.faults, path.resolve())
            with cluster.deploy(run) as deployment:
                deployment.prepare()
                deployment.start()
                if not deployment.drained(scenario.deadline):
                    raise SystemExit(f"{subject.kind} did not come to its end: {deployment.waiting_for()}")
                deployment.stop()
            recorder.seal()
        history = read_history(path)
        first, last = min(one.at for one in history.of(Offered)), max(one.at for one in history.of(Taken, Delivered))
        offered = sum(len(one.events) for one in history.each(Offered))
        taken = sum(one.count for one in history.each(Taken))
        used = cpu.between(recorder.began + first * 1_000, recorder.began + last * 1_000)
        return Measured(
            offered / ((last - first) / 1e6),
            used / offered * 1e6,
            sum(1 for _ in history.of(CheckpointTaken)) / taken,
            sum(len(one.rows) for one in history.each(Delivered)),
        )


def throughput(
    names: list[str], events: int, batch: int, repeats: int, only: Collection[str] = ()
) -> Iterator[tuple[str, Any]]:
    """Of these protections, beside none; of all where none is named."""
    for name in names:
        one = ALGORITHMS[name]
        runs: dict[str, list[Measured]] = {}
        for _ in range(repeats):
            for protection, subject in protections(one, events).items():
                if only and protection != "unprotected" and protection not in only:
                    continue
                found = measured(subject, one.fed(events, batch))
                runs.setdefault(protection, []).append(found)
                print(f"{name}, {protection}: {found}", flush=True)
        delivered = {found.delivered for some in runs.values() for found in some}
        if len(delivered) > 1 and name not in ORDER_MATTERS:
            raise SystemExit(f"{name}: without a failure they delivered {sorted(delivered)} outputs, and not as many")
        rate = median(found.rate for found in runs["unprotected"])
        cpu = median(found.cpu for found in runs["unprotected"])
        yield (
            name,
            {
                protection: {
                    "rate": median(found.rate for found in some),
                    "ratio": median(found.rate for found in some) / rate,
                    "cpu": median(found.cpu for found in some),
                    "cpu ratio": cpu / median(found.cpu for found in some),
                    "backups": some[-1].backups,
                }
                for protection, some in runs.items()
            },
        )


def figure_5a(events: int, batch: int, repeats: int) -> Any:
    """Ratio to unprotected of word count, by theta, in CPU time: on a machine that others use a rate tells less."""
    one = ALGORITHMS["word count"]
    subjects = {"unprotected": amnesia(one.topology())}
    subjects |= {f"{theta:g}": _approximate(one, theta, 1e3, 1e3) for theta in FIGURE_5A}
    needed: dict[str, list[float]] = {}
    for _ in range(repeats):
        for theta, subject in subjects.items():
            found = measured(subject, one.fed(events, batch))
            needed.setdefault(theta, []).append(found.cpu)
            print(f"figure 5a, theta {theta}: {found}", flush=True)
    whole = median(needed.pop("unprotected"))
    return {theta: whole / median(some) for theta, some in needed.items()}


# Accuracy


def accuracies(names: list[str], events: int) -> Iterator[tuple[str, Any]]:
    """After so many failures of all slices at once, in the simulator."""
    for name in names:
        one = ALGORITHMS[name]
        rows: dict[str, Any] = {}
        for thresholds in one.settings[:2]:
            row: dict[str, Any] = {}
            for failures in FAILURES:
                row[str(failures)] = dict(_accuracy(one, _approximate(one, *thresholds), events, failures))
            rows[said(*thresholds)] = row
            print(f"{name}, {said(*thresholds)}: {row}", flush=True)
        yield name, rows


def _accuracy(one: Algorithm, subject: SchemeSubject, events: int, failures: int) -> Iterator[tuple[str, Any]]:
    """Each failure strikes when all slices run, so many addresses after the one before."""
    bench = Bench(Scenario(subject, one.fed(events, 10)), Registry(), seed=7)
    # What waits when a recovery is over is taken in larger parts, so that fewer addresses are passed.
    apart = len(bench.calm) // (2 * failures + 1)
    crash_of_all = FaultAhead(crash(*subject.actors), apart, lambda address: True, spared=False, biting=True)
    run = bench.drawn(Trial((), bench.seed), [crash_of_all] * failures)
    if len(run.schedule) < failures:
        raise SystemExit(f"{subject.kind}: {len(run.schedule)} of {failures} failures struck; use more events")
    (verdict,) = bench.judge(run.history)
    yield "accuracy", {measure: accurate(run.history) for measure, accurate in one.accurate.items()}
    yield "verdict", str(verdict.status)
    yield "ratio", max((amount.ratio for amount in verdict.measured), default=0.0)


# What is written


def environment() -> dict[str, Any]:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.processor(),
    )
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "machine": f"{model}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        "load": [round(load, 1) for load in os.getloadavg()],
        "nice": os.nice(0),
        "commit": commit.stdout.strip(),
    }


def rendered(found: Mapping[str, Any]) -> Iterator[str]:
    yield "# Approximate fault tolerance, measured"
    yield ""
    yield "Made by `python tests/bench/approximate_figures.py`; what it measured is in `approximate.json`."
    if {"throughput", "figure 5a"} & found.keys():
        yield ""
        yield "![Throughput of the algorithms by protection, and of word count by theta](approximate.svg)"
    for what in ("throughput", "figure 5a"):
        if what not in found:
            continue
        yield from _heading(what, found)
        if what == "throughput":
            yield from _throughput_table(found[what]["found"])
        else:
            yield "| theta | of unprotected, by CPU |"
            yield "| --- | --- |"
            for theta, ratio in found[what]["found"].items():
                yield f"| {theta} | {ratio:.1%} |"
    if "accuracy" in found:
        yield from _heading("accuracy", found)
        yield from _accuracy_table(found["accuracy"]["found"])


def _heading(what: str, found: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield f"## {what.capitalize()}"
    yield ""
    alike: dict[str, list[str]] = {}
    for name, run in found[what]["runs"].items():
        under = run["environment"]
        machine = f"{under['machine']}, load {'/'.join(map(str, under['load']))}, nice {under['nice']}"
        alike.setdefault(f"{run['said']} {under['date']}, {machine}, at {under['commit']}.", []).append(name)
    for told, names in alike.items():
        yield told if len(alike) == 1 else f"- {', '.join(names)}: {told}"
    yield ""


def _throughput_table(found: Mapping[str, Any]) -> Iterator[str]:
    yield "| algorithm | protection | events/s | of unprotected | CPU us an event | by CPU | backups an item | paper |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for name, rows in found.items():
        papers = ALGORITHMS[name].papers
        for protection, row in rows.items():
            paper = {"unprotected": "100 %", "mini-batch": f"{papers[1]} %", "upstream backup": f"{papers[2]} %"}
            yield (
                f"| {name} | {protection} | {row['rate']:,.0f} | {row['ratio']:.1%} | {row['cpu']:.1f} | "
                f"{row['cpu ratio']:.1%} | {row['backups']:.2%} | "
                f"{paper.get(protection, f'{papers[0]} %')} |"
            )


def _accuracy_table(found: Mapping[str, Any]) -> Iterator[str]:
    heads = " | ".join(f"{count} failure{'' if count == 1 else 's'}" for count in FAILURES)
    yield f"| algorithm | measure | thresholds | {heads} | largest error / bound | paper: none; ten failures |"
    yield f"| --- | --- | --- |{' --- |' * len(FAILURES)} --- | --- |"
    for name, rows in found.items():
        one = ALGORITHMS[name]
        for measure in one.accurate:
            for thresholds, row in rows.items():
                cells = " | ".join(_cell(row[str(k)], measure) for k in FAILURES)
                most, paper = max(row[str(k)]["ratio"] for k in FAILURES), one.papers_accuracy.get(measure, "-")
                yield f"| {name} | {measure} | {thresholds} | {cells} | {most:.2f} | {paper} |"


def _cell(one: Mapping[str, Any], measure: str) -> str:
    verdict = "" if one["verdict"] == Status.HOLDS else f" ({one['verdict']})"
    return f"{one['accuracy'][measure]:.4g}{verdict}"


# The plot

PAGE = 960, 420
LEFT, RIGHT = (60, 40, 520, 280), (640, 40, 280, 280)
"""Of each of the two: x, y, width and height, in pixels."""
COLOURS = ("#4c4c4c", "#c44e52", "#dd8452", "#9ecae1", "#4292c6", "#08519c")
ORDER = "unprotected", "mini-batch", "upstream backup", "theta, the tightest", "in between", "the widest"


def plot(found: Mapping[str, Any]) -> Iterator[str]:
    """Lines of an SVG: rates by protection, and of word count by theta; in CPU time what was measured in it."""
    width, height = PAGE
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">'
    yield f'<rect width="{width}" height="{height}" fill="white"/>'
    yield from _axes(*LEFT, "% of unprotected, by CPU time an event")
    yield from _bars(found.get("throughput", {}).get("found", {}))
    yield from _axes(*RIGHT, "word count by theta (figure 5a)")
    yield from _line(found.get("figure 5a", {}).get("found", {}))
    yield "</svg>"


def _text(x: float, y: float, said: str, size: int = 11, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">{said}</text>'


def _axes(x: int, y: int, width: int, height: int, title: str) -> Iterator[str]:
    yield _text(x + width / 2, y - 14, title, 13)
    for percent in (0, 25, 50, 75, 100):
        at = y + height * (1 - percent / 100)
        yield f'<line x1="{x}" y1="{at:.1f}" x2="{x + width}" y2="{at:.1f}" stroke="#dddddd"/>'
        yield _text(x - 6, at + 4, str(percent), anchor="end")


def _bars(rows: Mapping[str, Any]) -> Iterator[str]:
    x, y, width, height = LEFT
    each = width / max(1, len(rows))
    bar = each / (len(ORDER) + 1.5)
    for place, (name, one) in enumerate(rows.items()):
        yield _text(x + each * (place + 0.5), y + height + 18, name)
        known = list(protections(ALGORITHMS[name], 1_000))
        # What was measured at other thresholds than there are now is left to the table.
        for protection, row in ((one_of, row) for one_of, row in one.items() if one_of in known):
            number, tall = known.index(protection), height * min(1.0, row["cpu ratio"])
            left = x + each * place + bar * (number + 0.75)
            where = f'x="{left:.1f}" y="{y + height - tall:.1f}" width="{bar:.1f}" height="{tall:.1f}"'
            yield f'<rect {where} fill="{COLOURS[number]}"><title>{protection}: {row["cpu ratio"]:.1%}</title></rect>'
    for number, said in enumerate(ORDER):
        left, top = x + 176 * (number % 3), y + height + 36 + 20 * (number // 3)
        yield f'<rect x="{left}" y="{top}" width="12" height="12" fill="{COLOURS[number]}"/>'
        yield _text(left + 18, top + 10, said, anchor="start")


def _line(ratios: Mapping[str, float]) -> Iterator[str]:
    x, y, width, height = RIGHT
    points_of = [
        (x + width * (number + 0.5) / len(ratios), y + height * (1 - min(1.0, ratio)), theta)
        for number, (theta, ratio) in enumerate(ratios.items())
    ]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b, _ in points_of)
    yield f'<polyline points="{path}" fill="none" stroke="{COLOURS[-1]}"/>'
    for a, b, theta in points_of:
        yield f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4" fill="{COLOURS[-1]}"/>'
        yield _text(a, y + height + 18, theta)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", choices=("throughput", "figure-5a", "accuracy", "render"))
    parser.add_argument("--into", type=Path, default=Path("docs/figures"))
    parser.add_argument("--events", type=int, default=120_000, help="that are fed to each run on Spark")
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--simulated-events", type=int, default=2_000)
    parser.add_argument("--algorithm", action="append", choices=list(ALGORITHMS), help="all, unless some are named")
    parser.add_argument("--only", action="append", help="this protection, beside none; all, unless some are named")
    asked = parser.parse_args()
    names = asked.algorithm or list(ALGORITHMS)
    kept = asked.into / "approximate.json"
    asked.into.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}

    def keep(what: str, told: str, part: Mapping[str, Any]) -> None:
        before = found.get(what, {"found": {}, "runs": {}})
        run = {"said": told, "environment": environment()}
        runs = {**before["runs"], **dict.fromkeys(part, run)}
        found[what] = {"found": {**before["found"], **part}, "runs": runs}
        kept.write_text(json.dumps(found, indent=1) + "\n")

    fed = (
        f"{asked.events:,} events in batches of {asked.batch:,}, the median of {asked.repeats:,} runs, embedded Spark."
    )
    if "throughput" in asked.what:
        for name, part in throughput(names, asked.events, asked.batch, asked.repeats, asked.only or ()):
            keep("throughput", fed, {name: part})
    if "figure-5a" in asked.what:
        keep("figure 5a", fed, figure_5a(asked.events, asked.batch, asked.repeats))
    if "accuracy" in asked.what:
        told = (
            f"In the simulator, {asked.simulated_events:,} events; at each failure all slices crash at once, when all "
            "of them have recovered from the one before. Heavy hitters make up for nothing here."
        )
        for name, part in accuracies(names, asked.simulated_events):
            keep("accuracy", told, {name: part})
    (asked.into / "approximate.md").write_text("\n".join(rendered(found)) + "\n")
    (asked.into / "approximate.svg").write_text("\n".join(plot(found)) + "\n")


if __name__ == "__main__":
    main()
