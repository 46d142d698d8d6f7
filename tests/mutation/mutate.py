"""Changes the package, one small thing at a time, and runs the tests that should notice: who lives is a test that is
missing, or a change that changes nothing.

`tox -e mutate -- --sample 60 --seed 1` tries 60 changes that the seed draws, a quarter of an hour's work; without
`--sample` all are tried, which takes hours. The changes are cosmic-ray's. Each worker has a copy of the package of its
own, which comes first on the import path: neither the checkout nor what is installed is touched. A session that was cut
short goes on where it was (`--work`, with the same seed). README.md says what became of those that lived.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import queue
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

from attrs import evolve
from cosmic_ray.commands.init import init
from cosmic_ray.modules import find_modules
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkItem, WorkResult

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mutation.changes import says_nothing

TESTS = Path(__file__).resolve().parent.parent
FAST = "not spark and not docker and not bench and not long"


@dataclass(frozen=True)
class Room:
    """What is changed, and the tests that are to notice, the likeliest first."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


_JUDGING = (
    "harness/judging/test_recovery.py",
    "harness/judging/test_tolerance.py",
    "harness/judging/test_tables.py",
    "harness/running/test_judgement.py",
    "harness/judging/test_reexecution.py",
    "oracles",
    "harness/judging/test_references.py",
    "harness/judging/test_output_modes.py",
)
ROOMS = {
    "judging": Room(("harness/judging",), _JUDGING),
    "oracles": Room(("oracles",), ("oracles", *(test for test in _JUDGING if test != "oracles"))),
    "certifying": Room(
        ("harness/certifying",),
        (
            "harness/certifying/test_certificate_statistics.py",
            "harness/certifying/test_certificate_conclusions.py",
            "harness/certifying/test_certificate_page.py",
            "harness/certifying/test_planning.py",
            "harness/certifying/test_crash_states.py",
            "harness/certifying/test_recovering.py",
            "harness/certifying/test_certificates.py",
            "harness/certifying/test_campaigns.py",
            "harness/certifying/test_killing_and_shrinking.py",
            "harness/certifying/test_saved_schedules_of_queries.py",
            "harness/worlds/spark/test_query_kills.py",
            "harness/command_line/test_cli_certifying.py",
        ),
    ),
    "protocol": Room(
        ("harness/protocol",),
        (
            "harness/protocol/test_slices.py",
            "harness/protocol/test_channels.py",
            "harness/protocol/test_merging.py",
            "harness/protocol/test_replicas.py",
            "harness/protocol/test_tracking.py",
            "harness/worlds/spark/test_refused_checkpoints.py",
            "harness/protocol/test_determinism.py",
            "reference_impls",
        ),
    ),
}


def main() -> int:
    asked = _asked()
    work = Path(asked.work or tempfile.mkdtemp(prefix="streamproof-mutate-")).resolve()
    copies = [_copied(work / f"copy-{number}") for number in range(asked.jobs)]
    # Where the checkout is the working folder, its rooms would be found as packages of their own.
    os.chdir(work)
    lived: list[tuple[WorkItem, WorkResult]] = []
    ends = None if asked.minutes is None else time.monotonic() + asked.minutes * 60
    for name in asked.rooms.split(","):
        lived += _try_room(name, ROOMS[name], work, copies, asked, ends)
    report = work / "lived.txt"
    report.write_text("\n".join(_described(item, result) for item, result in lived))
    print(f"{len(lived)} lived: {report}")
    return 1 if lived else 0


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rooms", default=",".join(ROOMS), help=f"of {', '.join(ROOMS)}; all by default")
    parser.add_argument("--sample", type=int, help="how many to try of all rooms together; all by default")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2), help="how many at once")
    parser.add_argument("--minutes", type=float, help="begin no more after so long")
    parser.add_argument("--work", help="the folder of a session that is to go on; a new one by default")
    parser.add_argument("--python", default=sys.executable, help="whose tests are run")
    asked = parser.parse_args()
    unknown = set(asked.rooms.split(",")) - ROOMS.keys()
    if unknown:
        parser.error(f"there is no room {', '.join(sorted(unknown))}; there are: {', '.join(ROOMS)}")
    return asked


def _copied(folder: Path) -> Path:
    """A copy of the package, in a folder for the import path."""
    spec = importlib.util.find_spec("streamproof")
    origin = Path(spec.origin) if spec is not None and spec.origin else TESTS.parent / "__init__.py"
    package = folder / "streamproof"
    shutil.rmtree(folder, ignore_errors=True)
    package.mkdir(parents=True)
    for entry in origin.resolve().parent.iterdir():
        if entry.is_file() and (entry.suffix == ".py" or entry.name == "py.typed"):
            shutil.copy(entry, package)
        elif entry.name in ("faults", "harness", "oracles", "reference_impls", "scenarios", "images"):
            shutil.copytree(entry, package / entry.name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def _try_room(
    name: str, room: Room, work: Path, copies: Sequence[Path], asked: argparse.Namespace, ends: float | None
) -> list[tuple[WorkItem, WorkResult]]:
    """Returns those that lived, and what became of them."""
    package = copies[0] / "streamproof"
    session = work / f"{name}.sqlite"
    known = session.exists()
    with use_db(str(session), WorkDB.Mode.open if known else WorkDB.Mode.create) as found:
        if not known:
            init(sorted(find_modules([package / module for module in room.modules])), found, {})
            _leave_out(found, asked)
        began = time.monotonic()
        command = _command(room, copies[0], asked.python)
        if subprocess.run(shlex.split(command), stdout=subprocess.DEVNULL, check=False).returncode:
            raise SystemExit(f"the tests of {name} fail as it is: {command}")
        patience = max(60.0, 5 * (time.monotonic() - began))
        pending = list(found.pending_work_items)
        print(f"{name}: {len(pending)} to try; the tests take {time.monotonic() - began:.0f} s", flush=True)
        free: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for copy in copies:
            free.put(copy)

        def attempt(item: WorkItem) -> WorkResult | None:
            if ends is not None and time.monotonic() > ends:
                return None
            copy = free.get()
            try:
                mutations = [evolve(m, module_path=_in(copy, m.module_path)) for m in item.mutations]
                return mutate_and_test(mutations, _command(room, copy, asked.python), patience)
            finally:
                free.put(copy)

        with ThreadPoolExecutor(len(copies)) as threads:
            for item, result in zip(pending, threads.map(attempt, pending), strict=True):
                if result is not None:
                    found.set_result(item.job_id, result)
                    said = result.test_outcome.value if result.test_outcome else result.worker_outcome.value
                    print(f"{said:12} {_place(item)}", flush=True)
        results = dict(found.results)
        tried = Counter(r.test_outcome for r in results.values() if r.worker_outcome is not WorkerOutcome.SKIPPED)
        print(f"{name}: {', '.join(f'{count} {outcome}' for outcome, count in tried.items())}", flush=True)
        return [
            (item, results[item.job_id])
            for item in found.work_items
            if item.job_id in results and results[item.job_id].test_outcome is TestOutcome.SURVIVED
        ]


def _command(room: Room, copy: Path, python: str) -> str:
    tests = " ".join(shlex.quote(str(TESTS / test)) for test in room.tests)
    path = shlex.quote(f"PYTHONPATH={copy}")
    return f"env {path} {shlex.quote(python)} -m pytest -x -q -p no:cacheprovider -m {shlex.quote(FAST)} {tests}"


def _in(copy: Path, module: Path) -> Path:
    parts = module.parts
    return copy.joinpath(*parts[parts.index("streamproof") :])


def _leave_out(found: WorkDB, asked: argparse.Namespace) -> None:
    """What changes nothing by its place, and what the sample does not have."""
    items = list(found.work_items)
    changing = [item for item in items if not says_nothing(item.mutations[0])]
    kept = changing
    if asked.sample is not None:
        rooms = len(asked.rooms.split(","))
        # By its place and not by its id, which is another each time.
        changing.sort(key=lambda item: (_place(item), item.mutations[0].occurrence))
        kept = Random(asked.seed).sample(changing, min(len(changing), -(-asked.sample // rooms)))
    keep = {item.job_id for item in kept}
    skipped = WorkResult(worker_outcome=WorkerOutcome.SKIPPED)
    found.set_multiple_results([item.job_id for item in items if item.job_id not in keep], skipped)


def _place(item: WorkItem) -> str:
    mutation = item.mutations[0]
    parts = mutation.module_path.parts
    path = "/".join(parts[parts.index("streamproof") + 1 :])
    return f"{path}:{mutation.start_pos[0]}:{mutation.start_pos[1]} {mutation.operator_name}"


def _described(item: WorkItem, result: WorkResult) -> str:
    changed = [line for line in (result.diff or "").splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    return "\n".join([_place(item), *changed, ""])


if __name__ == "__main__":
    sys.exit(main())
