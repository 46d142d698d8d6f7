"""What is pickled here is read by a process whose pyspark may be an older one."""

from __future__ import annotations

import io
import sys
from types import ModuleType

import pytest

from streamproof.harness.core.pickling import unpickled, with_code

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
