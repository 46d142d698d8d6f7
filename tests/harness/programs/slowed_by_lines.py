"""How long a UDF of 1,000 rows takes, followed in different ways: prints milliseconds, as JSON."""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from collections.abc import Callable

from streamproof.harness.core.addresses import Side
from streamproof.harness.crash_points.inside_python.effects import Effects
from streamproof.harness.crash_points.inside_python.names import place_in
from streamproof.harness.crash_points.inside_python.tracing import Tracer
from streamproof.harness.crash_points.inside_python.watching import Watching
from streamproof.harness.crash_points.inside_python.whose import Whose

ROWS = [(n, "some text of a row") for n in range(1000)]
WHOSE = Whose((), (os.path.dirname(os.path.abspath(__file__)),))


def add(number: int) -> int:
    total = number + 1
    if total % 2:
        total += len(str(total))
    return total


def batch() -> None:
    """As pyspark does it: rows are read, the function is called, and what it gives is written."""
    for place in range(0, len(ROWS), 100):
        read = pickle.loads(pickle.dumps(ROWS[place : place + 100]))
        pickle.dumps([add(row[0]) for row in read])


def milliseconds(work: Callable[[], None]) -> float:
    def once() -> float:
        before = time.perf_counter()
        work()
        return time.perf_counter() - before

    return 1e3 * min(once() for _ in range(9))


def followed(watching: Watching) -> float:
    effects = Effects(watching, ("127.0.0.1", 0))
    if watching.whole:
        effects.install()
        effects.begin()
        tracer = Tracer(watching, lambda actor, side, key, text: effects.come_by(place_in(key)), effects.taken, effects)
    else:
        tracer = Tracer(watching, lambda actor, side, key, text: None, lambda: None)
    with tracer.following():
        taken = milliseconds(batch)
    effects.active = False
    return taken


def main() -> None:
    here = f"{__spec__.name if __spec__ else '__main__'}.add"
    found = {
        "plain": milliseconds(batch),
        "armed": followed(Watching(WHOSE, armed=((Side.BEFORE, f"3/{here}:23#1"),))),
        "elsewhere": followed(Watching(WHOSE, armed=((Side.BEFORE, "3/sinks.write:12#1"),))),
        "whole": followed(Watching(WHOSE, whole=True)),
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
