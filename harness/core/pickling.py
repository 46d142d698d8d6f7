"""Pickles what another process is to have, with the user's code in it."""

from __future__ import annotations

import os
import pickle
import site
import sys
import sysconfig
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any, BinaryIO

from pyspark import cloudpickle

from .errors import InvalidOperator

_one_at_a_time = threading.Lock()
"""What goes by value is a list of cloudpickle's, the same for all threads."""


def pickled(plan: object, what: str, by_value: Sequence[ModuleType]) -> bytes:
    """A plan, with the code in it that comes from these modules. Raises InvalidOperator when it cannot be pickled."""
    try:
        return with_code(plan, by_value)
    except Exception as error:
        raise InvalidOperator(f"{what} cannot be sent to Spark: {type(error).__name__}: {error}") from error


def with_code(content: object, by_value: Sequence[ModuleType]) -> bytes:
    """What is pickled with the code in it that comes from these modules. Raises whatever goes wrong with that."""
    with sent_along(by_value):
        body: bytes = cloudpickle.dumps(content)  # type: ignore[no-untyped-call]
    return body


@contextmanager
def sent_along(by_value: Sequence[ModuleType]) -> Iterator[None]:
    """What is pickled meanwhile takes the code of these modules along."""
    with _one_at_a_time:
        for module in by_value:
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        try:
            yield
        finally:
            for module in by_value:
                cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]


def unpickled(file: BinaryIO) -> Any:
    """What `with_code` has made, in a process whose pyspark may be an older one. Raises whatever goes wrong."""
    return _Unpickler(file).load()


class _Unpickler(pickle.Unpickler):
    """What makes functions and classes again has other names in the cloudpickle of pyspark before 4.0: that of the
    environment is taken then."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return super().find_class(module, name)
        except (AttributeError, ImportError):
            ours = cloudpickle.__name__
            if module != ours and not module.startswith(f"{ours}."):
                raise
            return super().find_class(module.removeprefix("pyspark."), name)


def send_by_value(holds: tuple[type, ...]) -> None:
    """From now on, what is sent from this process to Spark's workers takes the code along of those modules of the
    user's that hold something of these types: what they make at their import, no worker can make."""
    for module in modules_of_the_user():
        if any(isinstance(value, holds) for value in list(vars(module).values())):
            with _one_at_a_time:
                cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def modules_of_the_user() -> list[ModuleType]:
    """The modules of this process that no package has installed: other machines do not have them."""
    return [module for _, module in _not_installed()]


def modules_only_here() -> list[ModuleType]:
    """The modules of this process that another with the same import path would not find, or would find elsewhere."""
    known = _known_by(tuple(map(os.path.abspath, sys.path)), tuple(map(id, sys.meta_path)))
    found: dict[int, ModuleType] = {}
    for name, module in _not_installed():
        asked = name, module.__file__ or ""
        if asked not in known:
            known[asked] = _is_found(*asked)
        if not known[asked]:
            # One module can go by two names, as `__main__` does in a process that multiprocessing has started.
            found[id(module)] = module
    return list(found.values())


@cache
def _known_by(path: tuple[str, ...], finders: tuple[int, ...]) -> dict[tuple[str, str], bool]:
    """By its name and its file, whether a module is found by this import path. Kept: whoever copies an operator, or
    starts a driver, asks this of every module of its process, and a finder looks into each folder of the path."""
    return {}


def _not_installed() -> list[tuple[str, ModuleType]]:
    ours = __name__.partition(".")[0]
    return [
        (name, module)
        for name, module in list(sys.modules.items())
        if (file := getattr(module, "__file__", None)) and name.partition(".")[0] != ours and not _is_installed(file)
    ]


@cache
def _is_installed(file: str) -> bool:
    """Whether a module's file came with Python or with a package. Kept: each incarnation of a driver asks this of
    every module of its process."""
    return f"{os.sep}site-packages{os.sep}" in file or os.path.realpath(file).startswith(_installed_below())


@cache
def _installed_below() -> tuple[str, ...]:
    folders = {*sysconfig.get_paths().values(), *site.getsitepackages()}
    return tuple(sorted(os.path.realpath(folder) + os.sep for folder in folders))


def _is_found(name: str, file: str) -> bool:
    """Whether an import by this name leads to this file."""
    within: Sequence[str] | None = None
    spec = None
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        found = (finder.find_spec(".".join(parts[:end]), within) for finder in sys.meta_path)
        spec = next((one for one in found if one is not None), None)
        if spec is None:
            return False
        within = spec.submodule_search_locations or []
    assert spec is not None
    return os.path.realpath(spec.origin or "") == os.path.realpath(file)
