"""Files that users hand over, damaged in every way: each is refused with what is wrong with it, or judged as what it
says; no command fails of its own, and none leaves half of something."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from asking import Ask
from certified import crash_at, write_run
from resealing import seal_anew
from small_scenario import SMALL_SCENARIO
from streamproof.faults.crash import crash
from streamproof.harness.core.guarantees import exactly_once
from streamproof.harness.core.quantities import events
from streamproof.harness.exploration.counterexample import (
    VERSION,
    Counterexample,
    FedInput,
    FoundIn,
    load_counterexample,
)
from streamproof.harness.exploration.search_document import SearchDocument
from streamproof.harness.recording.claims_and_faults import SavedClaim, SavedFault

GONE = object()
OTHERS: Sequence[Any] = (GONE, None, "x", -1, 10**30, 1e308, [], {}, ["x", None], True, "a\0b", "\ud800")
"""What stands in the place of a value, one after the other: each value is replaced by one of them."""

pytestmark = pytest.mark.usefixtures("here")


def damaged(content: bytes) -> Iterator[bytes]:
    """As bytes, whatever they say."""
    yield b""
    for share in (1, 50, 99):
        yield content[: len(content) * share // 100]
    yield from (b"\xef\xbb\xbf" + content, content[:9] + b"\xff" + content[9:], content + content, b"\0" + content)
    yield from (b"null", b"3", b'"x"', b"[" + content + b"]", b"[" * 100_000, b'{"a":' * 50_000, bytes(range(256)))


def altered(found: Any) -> Iterator[Any]:
    """What was decoded, with one value replaced or gone; of lists the first alone."""
    for place, other in zip(_places(found), cycle(OTHERS), strict=False):
        changed = copy.deepcopy(found)
        holder = changed
        for step in place[:-1]:
            holder = holder[step]
        if other is GONE:
            del holder[place[-1]]
        else:
            holder[place[-1]] = other
        yield changed


def _places(found: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if place:
        yield place
    steps = found if isinstance(found, dict) else range(min(1, len(found))) if isinstance(found, list) else ()
    for step in steps:
        yield from _places(found[step], (*place, step))


def all_of(content: bytes) -> Iterator[bytes]:
    yield from damaged(content)
    yield from (json.dumps(found).encode() for found in altered(json.loads(content)))


def refuses(ask: Ask, *command: object, statuses: Sequence[int] = (0, 1, 2, 3)) -> int:
    answer = ask(*command)
    assert answer.status in statuses, (answer.status, answer.err)
    if answer.status == 3:
        assert answer.err.startswith("streamproof: ")
        assert answer.out == ""
    assert "Traceback" not in answer.err
    return answer.status


@pytest.fixture
def small(tmp_path: Path) -> Path:
    (tmp_path / "user_damaged.py").write_text(SMALL_SCENARIO)
    return tmp_path


def counterexample() -> dict[str, Any]:
    """One that can be read, whatever came of running it."""
    found = Counterexample(
        version=VERSION,
        scenario="mine",
        origin="user_damaged:mine",
        subject={"name": "count", "slices": ["source-0", "count-0", "sink-0"], "edges": [["source", "count", "full"]]},
        workload=FedInput("numbered", 7, 4, 1),
        seed=7,
        world={"nodes": 3},
        placement={"node-0": ["count-0"]},
        faults=(SavedFault.of(crash("count-0").after(events(2))),),
        claim=SavedClaim.of(exactly_once()),
        anomaly="lost-input",
        evidence="count-0: nothing",
        digest="0" * 64,
        found=FoundIn(1, 1, 4),
    )
    told: dict[str, Any] = msgspec.to_builtins(found)
    return told


def test_counterexamples(ask: Ask, small: Path) -> None:
    found, file = counterexample(), small / "damaged.json"
    content = json.dumps(found).encode()
    file.write_bytes(content)
    load_counterexample(file)
    for changed in all_of(content):
        file.write_bytes(changed)
        # It breaks a claim that its scenario does not make, so that none is run.
        refuses(ask, "replay", file, statuses=(3,))


def test_what_a_search_has_printed(ask: Ask, small: Path) -> None:
    answer = ask("explore", "user_damaged:mine", "--schedules", 12, "--jobs", 1, "--events", 4, "--json")
    assert answer.status == 0
    drawn, file, page = json.loads(answer.out), small / "damaged.json", small / "page.html"
    told = {name: drawn[name] for name in (*SearchDocument.__struct_fields__, "format") if name in drawn}
    for content in all_of(json.dumps(told).encode()):
        file.write_bytes(content)
        status = refuses(ask, "report", file, "--output", page, statuses=(0, 3))
        assert page.exists() == (status == 0), "no half of a page stays"
        page.unlink(missing_ok=True)


def test_schedules_of_a_corpus(ask: Ask, small: Path) -> None:
    search = ("explore", "user_damaged:mine", "--jobs", 1, "--events", 4, "--corpus", "corpus", "--schedules")
    assert ask(*search, 40).status == 0
    file, *others = sorted((small / "corpus").iterdir())
    content, kept = file.read_bytes(), [one.read_bytes() for one in others]
    for changed in list(damaged(content))[::3]:
        file.write_bytes(changed)
        refuses(ask, *search, 1, statuses=(3,))
    assert [one.read_bytes() for one in sorted((small / "corpus").iterdir()) if one != file] == kept


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a query, which is judged without its code."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    write_run(folder, crash_at())
    description = json.loads((folder / "scenario.json").read_bytes())
    description["claims"] = [msgspec.to_builtins(SavedClaim.of(exactly_once()))]
    (folder / "scenario.json").write_text(json.dumps(description))
    seal_anew(folder)
    return folder


@pytest.mark.parametrize("name", ["scenario.json", "timeline.jsonl", "seal.json"])
def test_files_of_a_run(name: str, ask: Ask, whole: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    assert ask("judge", run).status == 0
    content = (run / name).read_bytes()
    lines = content.splitlines(keepends=True) if name.endswith("l") else [content]
    for number, line in enumerate(lines):
        for changed in all_of(line):
            ended = changed + b"\n" if name.endswith("l") else changed
            (run / name).write_bytes(b"".join([*lines[:number], ended, *lines[number + 1 :]]))
            if name != "seal.json":
                seal_anew(run)
            refuses(ask, "judge", run)
        (run / name).write_bytes(content)


@pytest.mark.parametrize(
    ("table", "column", "others"),
    [
        ("offered", "value", (str(10**30), "[" * 100_000, "{", "", "1e999")),
        ("delivered", "value", (str(10**30), "[" * 100_000)),
        ("steps", "fields", ("[" * 100_000, '["ended","reference-1",' + "9" * 30 + ',{"source":[1]}]', "null")),
    ],
)
def test_records_that_nobody_could_have_written(
    table: str, column: str, others: Sequence[str], ask: Ask, whole: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    path = run / f"{table}.parquet"
    found = pq.read_table(path)
    for other in others:
        first, *rest = found.to_pylist()
        pq.write_table(pa.Table.from_pylist([{**first, column: other}, *rest], schema=found.schema), path)
        seal_anew(run)
        assert refuses(ask, "judge", run) == 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"key": "word"}, "its key is 'word', and no list of columns"),
        ({"key": ["word", None]}, "and no list of columns"),
        ({"reads": "no"}, "'no', and neither true nor false"),
        ({"code": "source"}, "its code is 'source'"),
        ({"mode": "some"}, "'some' is not a valid OutputMode"),
    ],
)
def test_what_a_query_is_said_to_be_is_not_taken_for_something_like_it(
    change: dict[str, Any], said: str, ask: Ask, whole: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    description = json.loads((run / "scenario.json").read_bytes())
    description["subject"].update(change)
    (run / "scenario.json").write_text(json.dumps(description))
    seal_anew(run)
    answer = ask("judge", run)
    assert answer.status == 3
    assert said in answer.err


def test_who_is_named_twice_by_what_struck_is_lost_once(ask: Ask, whole: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    lines = [json.loads(line) for line in (run / "timeline.jsonl").read_text().splitlines()]
    placed = {"type": "placed", "stamp": {"at": 1}, "actor": "driver", "incarnation": 1, "node": "driver"}
    lines[0]["bite"]["actors"] *= 2
    (run / "timeline.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in (placed, *lines)))
    seal_anew(run)
    assert ask("judge", run).status == 0
