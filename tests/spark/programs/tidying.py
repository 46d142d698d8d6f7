"""A driver whose last child tidies up when it sees its parent die. Argument: a folder for notes: `ready`, `tidied`."""

import os
import signal
import sys
from pathlib import Path

OTHERS = 200
"""Children that come between the two in every list of processes."""


def main(notes: str) -> None:
    for _ in range(OTHERS):
        if os.fork() == 0:
            signal.pause()
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(writing)
        Path(notes, "ready").touch()
        os.read(reading, 1)
        Path(notes, "tidied").touch()
    else:
        os.close(reading)
    signal.pause()


if __name__ == "__main__":
    main(sys.argv[1])
