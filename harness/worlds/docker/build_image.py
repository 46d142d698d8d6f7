"""Builds the image that containers are made from, if the engine has none that fits this installation.

Run as a module, it says how long it took, and the size. `--spark VERSION` builds the one with a Spark that was added by
`streamproof spark add`, `--python PATH` that with the pyspark of another interpreter; of several, what they share is
built once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import closing

import docker

from ...core.errors import StreamproofError
from ...install.spark_choice import chosen_spark
from .engine import connect
from .image import BUILD_MODULE, build, built_with, remove_stages


def main(arguments: Sequence[str] | None = None) -> int:
    wanted = _wanted(arguments)
    try:
        pythons = [chosen_spark(one).python for one in wanted]
        with closing(connect(seconds=1800)) as engine:
            try:
                for python in pythons:
                    _build(engine, python)
            finally:
                remove_stages(engine)
    except StreamproofError as error:
        print(f"streamproof: {error}", file=sys.stderr)
        return int(error.exit_status)
    return 0


def _build(engine: docker.DockerClient, python: str) -> None:
    if name := built_with(engine, python):
        print(f"{name}: there already", flush=True)
        return
    built = build(engine, lambda line: print(line, file=sys.stderr, flush=True), python)
    print(f"{built.tag}: built in {built.seconds:.0f} s, {built.bytes / 1e9:.2f} GB", flush=True)


def _wanted(arguments: Sequence[str] | None) -> list[str]:
    """As queries name them."""
    parser = argparse.ArgumentParser(prog=f"python -m {BUILD_MODULE}", description=__doc__)
    added = "as `streamproof spark list` shows them: 4.1.3; can be given several times"
    parser.add_argument("--spark", action="append", default=[], metavar="VERSION", help=added)
    own = "an interpreter that has pyspark, as .venv/bin/python; can be given several times"
    parser.add_argument("--python", action="append", default=[], metavar="PATH", help=own)
    asked = parser.parse_args(arguments)
    return [*asked.spark, *map(os.path.abspath, asked.python)] or [""]


if __name__ == "__main__":
    sys.exit(main())
