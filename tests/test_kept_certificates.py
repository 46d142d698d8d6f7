"""The tables of certificates go on where they were interrupted: without Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streamproof.harness.certifying import campaign
from streamproof.harness.certifying.budget import Budget, CampaignProgress
from streamproof.harness.certifying.campaign import Certified
from streamproof.harness.certifying.certificate import Certificate, read_certificate
from streamproof.harness.core.errors import StorageFailed
from streamproof.harness.core.guarantees import exactly_once
from streamproof.harness.core.verdicts import Status
from streamproof.harness.install.spark_choice import chosen_version
from streamproof.scenarios.workloads import words
from toy_spark import Does, ToyCluster, install, toy
from versions import kept
from versions.kept import LENGTH, digest_of_files
from versions.matrix import DRIVER, Cell, TriedQuery, certified

HERE = chosen_version()


class Java:
    version = 17


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    install(monkeypatch, tmp_path)
    monkeypatch.setattr(kept, "EmbeddedCluster", ToyCluster)
    monkeypatch.setattr(kept, "find_java", Java)
    monkeypatch.setattr(kept, "reap_silently", lambda: None)
    return tmp_path / "certificates"


def certify(
    home: Path, batch_events: int = 10, minutes: float = 5, whole: bool = False, does: Does = Does.BY_ID
) -> Cell:
    query = toy(does, name="toy", batch_events=batch_events)
    tried = TriedQuery("toy", query, words(events=30), (exactly_once(),), Status.HOLDS)
    return certified(tried, HERE, home, minutes, "" if whole else DRIVER)


def cut_short(*arguments: Any, budget: Budget, **named: Any) -> Certified:
    return campaign.certify(*arguments, budget=replace(budget, runs=3), **named)


def the_certificate(home: Path) -> tuple[Path, Certificate]:
    (folder,) = home.iterdir()
    return folder, read_certificate(folder)


def show_until(phase: str, done: int) -> Callable[[CampaignProgress], None]:
    def show(progress: CampaignProgress) -> None:
        if progress.phase == phase and progress.done >= done:
            raise KeyboardInterrupt

    return show


def test_what_the_same_code_has_certified_is_taken(home: Path) -> None:
    first = certify(home)
    folder, certificate = the_certificate(home)
    assert (first.status, first.spark, first.trials) == (Status.HOLDS, HERE, len(certificate.trials))
    assert folder.name[:-LENGTH] == f"toy-{HERE}-"
    assert certify(home) == first
    assert the_certificate(home) == (folder, certificate)


def test_what_was_interrupted_goes_on_and_its_trials_count(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = certify(home.with_name("whole"))
    with monkeypatch.context() as patch:
        patch.setattr(kept, "certify", partial(kept.certify, show=show_until("crash states", 3)))
        with pytest.raises(KeyboardInterrupt):
            certify(home)
    again = certify(home)
    assert (again.status, again.recovers, again.right) == (whole.status, whole.recovers, True)
    parts = the_certificate(home)[1].parts
    assert [part.interrupted for part in parts] == [True, False]
    assert parts[1].known >= 3


def test_what_was_not_known_goes_on_where_something_is_left(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(kept, "certify", cut_short)
        assert certify(home).status == Status.UNKNOWN
    assert certify(home).status == Status.HOLDS
    assert len(the_certificate(home)[1].parts) == 2


def test_what_is_not_known_and_leaves_nothing_is_taken(home: Path) -> None:
    first = certify(home, does=Does.ASKS_THE_CLOCK)
    _, certificate = the_certificate(home)
    assert first.status == Status.UNKNOWN
    assert certify(home, does=Does.ASKS_THE_CLOCK) == first
    assert the_certificate(home)[1] == certificate


@pytest.mark.parametrize("change", ["code", "query", "minutes", "crash plan", "java"])
def test_what_is_not_the_same_begins_anew_in_its_place(
    change: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Path] = []

    def begins(*_: object, folder: Path, **__: object) -> None:
        assert not begun or not begun[-1].exists()
        folder.mkdir(parents=True)
        begun.append(folder)
        raise StorageFailed("no room")

    monkeypatch.setattr(kept, "certify", begins)
    certify(home)
    if change == "code":
        monkeypatch.setattr(kept, "digest_of_files", lambda package: "another")
    if change == "java":
        monkeypatch.setattr(Java, "version", 21)
    batch_events, minutes = 15 if change == "query" else 10, 6 if change == "minutes" else 5
    certify(home, batch_events, minutes, whole=change == "crash plan")
    assert len(set(begun)) == 2


def test_a_certificate_that_was_altered_is_made_anew(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = certify(home)
    folder, _ = the_certificate(home)
    (folder / "certificate.md").write_text("HOLDS")
    again = certify(home)
    assert (again.status, again.trials) == (first.status, first.trials)
    assert "begun anew: " in capsys.readouterr().err
    assert (folder / "certificate.md").read_text() != "HOLDS"


def test_of_a_checkout_only_the_package_counts(tmp_path: Path) -> None:
    for name in (
        "__init__.py",
        "room/__init__.py",
        "room/inner/page.html",
        "room/__pycache__/a.pyc",
        "tests/test_a.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    before = digest_of_files(tmp_path)
    for name in ("room/__pycache__/a.pyc", "tests/test_a.py"):
        (tmp_path / name).write_text("another")
    assert digest_of_files(tmp_path) == before
    (tmp_path / "room/inner/page.html").write_text("another")
    assert digest_of_files(tmp_path) != before
