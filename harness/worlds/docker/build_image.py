"""Builds the image that containers are made from, if the engine has none that fits this installation.

Run as a module, it says how long it took, and the size.
"""

from __future__ import annotations

import sys
from contextlib import closing

from ...core.errors import StreamproofError
from .engine import connect
from .image import build, tag


def main() -> int:
    try:
        with closing(connect(seconds=1800)) as engine:
            if engine.images.list(name=tag()):
                print(f"{tag()}: there already")
                return 0
            built = build(engine, lambda line: print(line, file=sys.stderr, flush=True))
    except StreamproofError as error:
        print(f"streamproof: {error}", file=sys.stderr)
        return int(error.exit_status)
    print(f"{built.tag}: built in {built.seconds:.0f} s, {built.bytes / 1e9:.2f} GB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
