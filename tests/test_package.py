"""What is installed is what the checkout holds."""

import os
import re
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

import streamproof

CHECKOUT = Path(__file__).resolve().parents[1]
ROOMS = ("faults", "harness", "oracles", "reference_impls", "scenarios")
INSTALLED = Path(str(files("streamproof")))


def shipped_sources() -> Iterator[Path]:
    """Every file, relative to the root, that a user of the package must get."""
    yield from (file.relative_to(CHECKOUT) for file in CHECKOUT.glob("*.py"))
    yield Path("py.typed")
    yield from (file.relative_to(CHECKOUT) for file in (CHECKOUT / "images").glob("*.Dockerfile"))
    for room in ROOMS:
        for file in (CHECKOUT / room).rglob("*"):
            hidden = any(part.startswith(".") or part == "__pycache__" for part in file.relative_to(CHECKOUT).parts)
            if file.is_file() and not hidden and file.suffix != ".md":
                yield file.relative_to(CHECKOUT)


def test_every_package_is_listed() -> None:
    listed = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {file.parent for file in shipped_sources() if file.suffix == ".py"}
    assert sorted(listed) == sorted(".".join(("streamproof", *folder.parts)) for folder in folders)
    assert [folder for folder in sorted(folders) if not (CHECKOUT / folder / "__init__.py").exists()] == []


@pytest.mark.skipif("TOX_ENV_NAME" not in os.environ, reason="only tox tests the installed wheel")
class TestInstalledWheel:
    def test_is_what_these_tests_import(self) -> None:
        assert streamproof.__file__ is not None
        assert "site-packages" in Path(streamproof.__file__).parts

    def test_holds_every_file(self) -> None:
        """A file missing here: list its package, or its pattern as package data, in pyproject.toml."""
        assert [str(file) for file in sorted(shipped_sources()) if not (INSTALLED / file).is_file()] == []

    def test_holds_no_other_module(self) -> None:
        modules = {file.relative_to(INSTALLED) for file in INSTALLED.rglob("*.py")}
        assert sorted(modules - set(shipped_sources())) == []


def test_what_starts_spark_or_containers_lies_where_it_is_looked_for() -> None:
    """Each environment collects its own tests alone, which takes seconds in place of half a minute."""
    here = Path(__file__).parent
    for marker, places in (("spark", ("spark", "bench", "test_examples.py")), ("docker", ("containers", "bench"))):
        marked = re.compile(rf"^\s*(?:pytestmark\b.*|@|.*marks=.*)pytest\.mark\.{marker}\b", re.MULTILINE)
        found = [file.relative_to(here) for file in here.rglob("test_*.py") if marked.search(file.read_text())]
        assert [str(file) for file in found if file.parts[0] not in places] == []
        assert len(found) > 5
