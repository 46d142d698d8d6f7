"""What the documents name is there."""

from __future__ import annotations

import ast
import configparser
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import readme
from streamproof import Scenario, events, gap, gap_recovery, ms, numbered, passive_replication, trace
from streamproof.harness.certifying import certificate, saved
from streamproof.harness.command_line.cli import app
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core import wire
from streamproof.harness.core.verdicts import Status
from streamproof.harness.exploration import corpus, counterexample, search_document
from streamproof.harness.recording import folder
from streamproof.harness.running.run import run_in_memory
from streamproof.harness.upgrading import record
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [
    *(ROOT / name for name in ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "examples" / "README.md",
]
MADE = {".venv", ".tox", "certificates", "runs", "checkpoint", "offsets", "commits", "sources", "sink"}
"""Folders that are not kept in the repository, but in runs and by Spark."""
READERS = {
    "my_operator.py",
    "test_my_operator.py",
    "my_faults.py",
    "my_orders.py",
    "my_database.py",
    "my_oracle.py",
    "my_scheme.py",
    "tests/certificates/test_counts_survive.py",
    "certificate.html",
    "certificate.md",
    "certificate.json",
    "counterexample.json",
}
"""Files that who follows a page has written, or was given."""
SPELT_IN_PARTS = {f"streamproof_{option}" for option in ("cluster", "budget", "seed", "folder")}
"""Names that the code puts together."""
FILES = re.compile(r"[\w.*-]*(?:/[\w.*-]*)+|[\w-]+\.(?:py|md|toml|ini|yaml)")
NAMES = re.compile(r"[A-Za-z_][\w-]{3,}(?:\.[a-z_]+)*(?:\(.*\))?")
NEAR = ("", "harness", "harness/certifying", "reference_impls", "reference_impls/mutants", "scenarios", "tests")
"""Where a file is meant to be that a sentence calls by less than its path."""
MADE_FOR_SITE = re.compile(r"(?:\.\./)?(?:schemes|reference)/")
"""Pages that `docs/site_pages.py` makes; that links to them lead somewhere is seen where the site is built."""
FOLLOWED = ROOT / "docs" / "tutorial.md"
"""Names files that who follows it makes, as `test_site.py` does."""
NOT_OURS = {"LD_PRELOAD", "NullPointerException", "NumberFormatException", "StreamTest", "bulk_insert", "ptrace"}
"""Names of others."""


@pytest.fixture(params=DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def document(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def quoted(document: Path) -> list[str]:
    """What stands in backticks within sentences and tables."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"`([^`\n]+)`", text)


def commands(document: Path) -> list[str]:
    """The lines of shell in a document, and what of it stands in sentences."""
    blocks = re.findall(r"^```sh\n(.*?)^```", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    lines = [line.partition("  #")[0].strip() for block in blocks for line in block.splitlines()]
    spoken = [said for said in quoted(document) if re.match(r"(?:\.venv/bin/|bin/|streamproof |tox )", said)]
    return [line for line in (*lines, *spoken) if line]


@cache
def words_of_the_source() -> frozenset[str]:
    files = [
        path
        for suffix in ("*.py", "*.toml", "*.ini", "*.java")
        for path in ROOT.rglob(suffix)
        if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
    ]
    return frozenset(word for file in files for word in re.findall(r"[A-Za-z_][\w-]*", file.read_text()))


def test_links_lead_to_files(document: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", document.read_text())
    inside = [link for link in links if "://" not in link]
    there = [link for link in inside if not (ROOT / "docs" in document.parents and MADE_FOR_SITE.match(link))]
    assert [link for link in there if not (document.parent / link).exists()] == []


def test_files_and_folders_are_there(document: Path) -> None:
    if document == FOLLOWED:
        return
    named = [said for said in quoted(document) if FILES.fullmatch(said) and not said.startswith("/")]
    homes = [document.parent, *(ROOT / near for near in NEAR)]
    kept = [said for said in named if said.partition("/")[0] not in MADE]
    assert [said for said in kept if said not in READERS and not any((home / said).exists() for home in homes)] == []


def test_names_of_code_are_in_the_code(document: Path) -> None:
    """Classes, functions, settings, mutants, faults: whatever is quoted and is one word."""
    heads = {re.split(r"[.(]", said)[0] for said in quoted(document) if NAMES.fullmatch(said)}
    assert sorted(heads - words_of_the_source() - SPELT_IN_PARTS - NOT_OURS) == []


def test_commands_are_there(document: Path) -> None:
    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    known |= {group.name for group in app.registered_groups if isinstance(group.name, str)}
    environments = {name.removeprefix("testenv:") for name in tox().sections()}
    for line in commands(document):
        asked = re.match(r"(?:\.venv/bin/)?streamproof (\w+)", line)
        if asked:
            assert asked[1] in known, line
        for environment in re.findall(r"(?:bin/test|tox(?: run)?)(?: -q)? -e ([\w-]+)", line):
            assert environment in environments, line
        for path in re.findall(r"(?:^| )((?:tests|bin)/[\w./-]+)", line):
            assert (ROOT / path).exists() or any(file.startswith(path) for file in READERS), line


def tox() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "tox.ini")
    return parser


def test_the_changelog_has_the_versions_of_formats() -> None:
    table = re.findall(r"^\| .*? \| (\d+) \| `([^`]+)` \|", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    modules = (folder, counterexample, corpus, search_document, saved, certificate, record, wire)
    versions = {str(Path(*module.__name__.split(".")[1:]).with_suffix(".py")): module.VERSION for module in modules}
    assert {file: int(version) for version, file in table} == versions


def test_code_in_documents_can_be_parsed(document: Path) -> None:
    blocks = re.findall(r"^```python[^\n]*\n(.*?)^```", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    for block in blocks:
        ast.parse(block)


def example(line: str) -> dict[str, Any]:
    """What the block of CONTRIBUTING.md makes in which this stands."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL | re.MULTILINE)
    (found,) = [block for block in blocks if line in block]
    made: dict[str, Any] = {}
    exec(found, made)
    return made


def test_the_fault_and_the_workload_of_contributing_work() -> None:
    """The fault bites twice, and a scheme survives it."""
    fault, workload = example("def crash_beside_pause"), example("def countdown")["countdown"]
    planned = fault["crash_beside_pause"]("trace-0", "relay-0").after(events(40)).lasting(ms(4))
    subject = passive_replication(trace(), checkpoint_every=events(20), sink_filter=True)
    scenario = Scenario(subject, numbered(), [planned])
    kinds = {**Registry().faults, planned.kind: fault["KIND"]}
    history, judgement = run_in_memory(scenario, SimulatedCluster(), kinds, Registry().oracles, seed=1)
    assert [struck.bite.why_not for struck in history.struck()] == ["", ""]
    assert [verdict.status for verdict in judgement.verdicts] == [Status.HOLDS]
    assert [event.value for batch in workload(events=3).batches("source-0") for event in batch] == [3, 2, 1]


def test_the_property_test_of_the_how_to_passes_where_the_scheme_keeps_its_word() -> None:
    subject = gap(trace(parallelism=1), checkpoint_every=events(5))
    scenario = Scenario(subject, numbered(events=20, batch=2), claims=[gap_recovery()])
    made: dict[str, Any] = {"SCENARIO": scenario}
    exec(readme.example("def test_no_crash_shows", readme.FAULT_SCENARIO), made)
    settings(max_examples=5, deadline=None, database=None)(made["test_no_crash_shows"])()


def test_the_oracle_of_the_how_to_judges() -> None:
    made: dict[str, Any] = {"__name__": "of_a_reader"}
    exec(readme.example("no-key-more-than", readme.ADD_YOUR_OWN), made)
    oracle = made["ORACLE"]
    subject = passive_replication(trace(), checkpoint_every=events(20))
    for times, status in ((1_000, Status.HOLDS), (0, Status.VIOLATED)):
        scenario = Scenario(subject, numbered(), claims=[oracle.claim(times=times)])
        oracles = {**Registry().oracles, oracle.guarantee: oracle}
        _, judgement = run_in_memory(scenario, SimulatedCluster(), Registry().faults, oracles, seed=1)
        assert [verdict.status for verdict in judgement.verdicts] == [status]


def test_the_mechanism_and_the_scheme_of_the_how_to_break_what_they_expect_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_scheme.py").write_text(readme.example("class Shedding", readme.ADD_YOUR_OWN))
    monkeypatch.syspath_prepend(tmp_path)
    scenario = Registry().scenario("my_scheme:crashed_while_shedding").scenario
    _, judgement = run_in_memory(scenario, SimulatedCluster(), Registry().faults, Registry().oracles, seed=7)
    assert [verdict.status for verdict in judgement.verdicts] == [Status.HOLDS]
    assert [verdict.status for verdict in judgement.broken] == [Status.VIOLATED]
    made: dict[str, Any] = {"__name__": "of_a_reader"}
    exec(readme.example("no-key-more-than", readme.ADD_YOUR_OWN), made)
    oracles = {"no-key-more-than": made["ORACLE"]}
    asked = replace(scenario, claims=[made["ORACLE"].claim(times=3)], breaks=[])
    _, judgement = run_in_memory(asked, SimulatedCluster(), Registry().faults, oracles, seed=7)
    assert [verdict.status for verdict in judgement.verdicts] == [Status.VIOLATED]


def test_the_architecture_and_the_linter_name_the_same_rooms_in_the_same_order() -> None:
    contracts = (ROOT / ".importlinter").read_text()
    assert "ignore_imports" not in contracts
    layers = re.search(r"contract:layers\].*?^layers =\n((?:    [^\n]+\n)+)", contracts, re.DOTALL | re.MULTILINE)
    assert layers is not None
    linted = [sorted(line.replace("|", " ").split()) for line in layers[1].splitlines()]
    rows = (ROOT / "ARCHITECTURE.md").read_text().partition("Within `harness/`")[2].partition("\n\n`.importlinter`")[0]
    told = [sorted(re.findall(r"`(\w+)/`", row.split("|")[1])) for row in rows.splitlines() if row.startswith("| `")]
    assert told == linted
