"""`streamproof spark`: which environments there are, and what cannot be added."""

from __future__ import annotations

from pathlib import Path

import pytest

from asking import Ask
from streamproof.harness.command_line import diagnosis
from streamproof.harness.install.spark_choice import chosen_version

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where environments are: one that is whole, and one that is not."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    home = tmp_path / "streamproof" / "spark"
    for version in ("3.5.9", "4.1.3"):
        (home / version).mkdir(parents=True)
    (home / "4.1.3" / "whole").touch()
    return home


def test_list_shows_what_there_is_and_what_is_not_whole(ask: Ask, home: Path) -> None:
    document = ask("spark", "list", "--json").document
    assert document["own"] == chosen_version()
    assert document["lines"] == ["3.3", "3.4", "3.5", "4.0", "4.1", "4.2", "4.3"]
    assert [(one["version"], one["whole"]) for one in document["environments"]] == [("3.5.9", False), ("4.1.3", True)]
    shown = ask("spark", "list").out
    assert f"4.1.3    {home}/4.1.3/bin/python\n" in shown
    assert "3.5.9/bin/python, not whole: add it again, or remove it" in shown


def test_remove_takes_one_away(ask: Ask, home: Path) -> None:
    assert ask("spark", "remove", "3.5.9").status == 0
    assert [path.name for path in home.iterdir() if path.is_dir()] == ["4.1.3"]
    answer = ask("spark", "remove", "3.5.9")
    assert (answer.status, "there are: 4.1.3" in answer.err) == (3, True)


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("3.2.4", "only those of Spark 3.3, 3.4, 3.5, 4.0"),
        ("9.1.0", "are not known"),
        ("4.1", "as in 4.1.3"),
        ("x", "not known"),
    ],
)
def test_what_is_not_known_is_refused_before_anything_is_fetched(ask: Ask, home: Path, version: str, said: str) -> None:
    before = sorted(home.iterdir())
    answer = ask("spark", "add", version)
    assert answer.status == 3
    assert said in answer.err
    assert sorted(home.iterdir()) == before


def test_doctor_lists_them(home: Path) -> None:
    whole, broken = sorted(diagnosis._other_sparks(), key=lambda found: not found.good)
    assert (whole.good, whole.found) == (True, f"4.1.3, {home}/4.1.3/bin/python")
    assert (broken.good, broken.needed, broken.add) == (False, False, "streamproof spark add 3.5.9")
