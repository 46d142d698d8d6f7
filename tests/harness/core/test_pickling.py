"""What is pickled here is read by a process whose pyspark may be an older one."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import ModuleType

import pytest

from streamproof.harness.core.pickling import modules_only_here, unpickled, with_code

THEIRS = "pyspark.cloudpickle.cloudpickle"


def global_of(module: str, name: str) -> bytes:
    """A pickle that is one thing, by its name."""
    return f"c{module}\n{name}\n.".encode()


def test_code_that_was_handed_over_is_what_it_was() -> None:
    add = 3
    assert unpickled(io.BytesIO(with_code(lambda number: number + add, ())))(4) == 7


def test_what_the_cloudpickle_of_pyspark_has_not_is_taken_from_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    newer = ModuleType("cloudpickle.cloudpickle")
    newer.__dict__["only_there"] = 7
    monkeypatch.setitem(sys.modules, "cloudpickle", ModuleType("cloudpickle"))
    monkeypatch.setitem(sys.modules, "cloudpickle.cloudpickle", newer)
    assert unpickled(io.BytesIO(global_of(THEIRS, "only_there"))) == 7
    assert unpickled(io.BytesIO(global_of(THEIRS, "dumps"))) is sys.modules[THEIRS].dumps


def test_what_nobody_has_is_said_to_be_missing() -> None:
    with pytest.raises((AttributeError, ImportError), match=r"nothing_of_this_name|cloudpickle"):
        unpickled(io.BytesIO(global_of(THEIRS, "nothing_of_this_name")))
    with pytest.raises(AttributeError):
        unpickled(io.BytesIO(global_of("pickle", "nothing_of_this_name")))


def test_whether_a_module_is_found_is_asked_once_and_again_when_the_import_path_is_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    class Finder:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> None:
            asked.append(name)

    made = ModuleType("made_up_here")
    made.__file__ = str(tmp_path / "made_up_here.py")
    (tmp_path / "made_up_here.py").touch()
    monkeypatch.setitem(sys.modules, made.__name__, made)
    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    for _ in range(3):
        assert made in modules_only_here()
    assert asked.count(made.__name__) == 1
    monkeypatch.syspath_prepend(tmp_path)
    assert made not in modules_only_here()
    assert asked.count(made.__name__) == 2
