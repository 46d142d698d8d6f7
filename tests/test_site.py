"""The site of the documentation: its tutorial does what it says, and every scheme and public name has its place.

`tox -e docs` builds it, and fails for links that lead nowhere."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import get_args
from xml.etree import ElementTree

import pytest

import streamproof
from asking import Answer
from python_text import require_expected_text
from streamproof.harness.certifying.subjects import QueryShape, load_subject, load_workload
from streamproof.harness.command_line.cli import run_command_line
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.addresses import FINE_POINTS, QUERY_POINTS, Point
from streamproof.harness.core.reasons import Why
from streamproof.harness.core.verdicts import Anomaly
from streamproof.harness.recording.records import Record
from streamproof.reference_impls import SCHEMES
from tutorial import tutorial_blocks

DOCS = Path(__file__).resolve().parents[1] / "docs"
LEFT_OUT = "..."
STATUSES = {"run": 1, "explore": 1, "report": 0}
"""Of the commands of the tutorial, in which something is refuted."""


@pytest.fixture(scope="module")
def making() -> Iterator[ModuleType]:
    """What makes the generated pages, found as MkDocs finds it: beside itself it imports what draws."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        yield importlib.import_module("site_pages")


@pytest.fixture(scope="module")
def reference(making: ModuleType) -> dict[str, str]:
    """Path -> page, or drawing."""
    return dict(making.reference(Registry()))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the files of the tutorial, as who has followed it to its end has saved them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    saved = [(block.file, block.content) for block in tutorial_blocks() if block.language == "python"]
    assert [name for name, _ in saved] == ["counts.py", "orders.py", "orders.py", "test_orders.py"]
    for name, content in saved:
        (tmp_path / name).write_text(content)
    yield tmp_path
    for name, _ in saved:
        sys.modules.pop(name.removesuffix(".py"), None)


def test_the_commands_of_the_tutorial_say_what_it_says(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    require_expected_text()
    answer: Answer | None = None
    asked = 0
    for block in tutorial_blocks():
        if block.language == "sh":
            for line in block.content.splitlines():
                name, *arguments = line.split()
                assert name == "streamproof"
                status = run_command_line(arguments)
                captured = capsys.readouterr()
                # What takes a minute here says that it is alive.
                complaints = [said for said in captured.err.splitlines() if " · " not in said]
                assert (status, complaints) == (STATUSES[arguments[0]], [])
                answer = Answer(status, captured.out, captured.err)
                asked += 1
        elif block.language == "text" and answer is not None and not block.content.startswith("streamproof"):
            said = [line for line in block.content.splitlines() if line.strip() and line != LEFT_OUT]
            assert [line for line in said if line not in answer.out.splitlines()] == []
            answer = None
    assert asked == 4
    assert (files / "first" / "report.html").exists()
    assert (files / "counterexample.html").exists()


@pytest.mark.usefixtures("files")
def test_the_sink_of_the_tutorial_can_be_certified() -> None:
    assert load_subject("orders:orders", Registry(), QueryShape("", (), "")).query.name == "orders"
    assert load_workload("orders:small").events == 20


def test_every_scheme_has_a_page_with_a_run_that_fails_and_one_that_does_not(making: ModuleType) -> None:
    registry = Registry()
    for entry in SCHEMES:
        page, calm, crashed = making.scheme_pages(entry.make, registry)
        assert page[0] == f"schemes/{entry.name}.md"
        for heading in ("The algorithm", "What it claims, costs and refuses", "Where this departs from the paper"):
            assert f"\n## {heading}\n" in page[1]
        for path, text in (calm, crashed):
            assert path.removeprefix("schemes/") in page[1]
            ElementTree.fromstring(text)
        assert 'class="step crash"' in crashed[1]
        assert 'class="step crash"' not in calm[1]
        title, _, said = (sys.modules[entry.make.__module__].__doc__ or "").partition(": ")
        assert len(title) < 50, f"{entry.name}: the page of a scheme is called what stands before the colon"
        assert page[1].startswith(f"# {title}\n")
        assert said


def test_the_page_of_a_scheme_shows_that_scheme_and_its_coordinators(making: ModuleType) -> None:
    registry = Registry()
    for entry in SCHEMES:
        _, scenario = making.example_of(entry.name, registry)
        others = [other.name for other in SCHEMES if other.name.startswith(f"{entry.name}-")]
        assert not scenario.subject.kind.startswith(tuple(others)), scenario.subject.kind
        made_of = "\n".join(making._made_of(scenario.subject))
        for one in scenario.subject.coordinators:
            assert f"`{type(one.coordinator).__name__}`" in made_of


def test_every_public_name_says_what_it_is_and_is_in_the_reference(reference: dict[str, str]) -> None:
    page = reference["reference/names.md"]
    for name in streamproof.__all__:
        assert re.search(rf"^::: streamproof[\w.]*\.{name}$", page, re.MULTILINE), name
        assert (inspect.getdoc(getattr(streamproof, name)) or "").strip(), name


def drawn_texts(drawing: str) -> list[str]:
    return [(one.text or "") for one in ElementTree.fromstring(drawing).iter("{http://www.w3.org/2000/svg}text")]


def test_the_drawing_of_the_guarantees_has_each_and_an_arrow_for_each_that_it_implies(
    reference: dict[str, str],
) -> None:
    oracles = Registry().oracles
    drawing = reference["reference/drawn/guarantees.svg"]
    assert sorted(set(drawn_texts(drawing)) & set(oracles)) == sorted(oracles)
    pairs = {(name, one) for name, oracle in oracles.items() for one in oracle.implies}
    pairs |= {(one, name) for name, oracle in oracles.items() for one in oracle.implied_by}
    assert drawing.count('class="edge"') == len(pairs)


def test_the_drawing_of_a_batch_has_each_of_its_points(making: ModuleType, reference: dict[str, str]) -> None:
    said = drawn_texts(reference["reference/drawn/micro-batch.svg"])
    assert [one for one in said if one.isdigit()] == [str(number + 1) for number in range(len(making._PASSED))]
    assert {*making._PASSED, Point.RENAME, *FINE_POINTS} == QUERY_POINTS - {Point.STARTED}


def test_the_reference_says_what_each_anomaly_reason_point_and_record_is(reference: dict[str, str]) -> None:
    for page in ("anomalies", "unknown", "crash-points", "formats"):
        text = reference[f"reference/{page}.md"]
        tables = text.partition("## `scenario.json`")[0]
        assert [row for row in tables.splitlines() if row.startswith("|") and row.endswith("|  |")] == [], page
    assert re.findall(r"^## ([a-z-]+) ", reference["reference/anomalies.md"], re.MULTILINE) == [*map(str, Anomaly)]
    for reason in Why:
        assert f"| `{reason}` |" in reference["reference/unknown.md"]
    for kind in get_args(Record):
        assert f"| `{kind.__struct_config__.tag}` |" in reference["reference/formats.md"]
