"""Which Python this process runs on, and which releases of what a query's data passes through.

Both the harness and the drivers that it starts say it of themselves, so that what was to run and what has run can be
told apart. Of another interpreter the harness asks the same in `spark_choice`.
"""

from __future__ import annotations

import functools
import importlib.util
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Final

PACKAGES: Final = ("pyspark", "pandas", "pyarrow")


def python_versions() -> dict[str, str]:
    """Python's own, and that of each package that is installed."""
    return dict(_versions())


@functools.cache
def _versions() -> dict[str, str]:
    """Looked up once: a campaign says them of each of its runs, and what is imported stays what it is."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def has_module(name: str) -> bool:
    """Whether there is one to import. What is a package in one release of pyspark is a plain module in another."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
