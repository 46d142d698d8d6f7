"""Errors of somebody's code, in words."""

from __future__ import annotations

import os
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from .errors import StreamproofError

_HARNESS = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def described_error(error: BaseException) -> str:
    """An error of somebody's code in one line, with the innermost place that no package has installed; what raised it
    within one may have said nothing at all."""
    frames = traceback.extract_tb(error.__traceback__)
    installed = tuple({f"{os.path.realpath(path)}{os.sep}" for path in sysconfig.get_paths().values()})
    own = [
        frame
        for frame in frames
        if f"{os.sep}site-packages{os.sep}" not in frame.filename
        and not frame.filename.startswith(("<frozen", *installed))
        and not os.path.realpath(frame.filename).startswith(_HARNESS + os.sep)
    ]
    text = f"{type(error).__name__}: {error}" if str(error) else f"{type(error).__name__} without a word"
    place = (own or frames)[-1:]
    return f"{text} ({place[0].filename}, line {place[0].lineno})" if place else text


@contextmanager
def somebodys_code(kind: type[StreamproofError], failed: str) -> Iterator[None]:
    """What somebody's code raises within is an error of that kind, which begins with what has failed; the harness's own
    errors go through."""
    try:
        yield
    except StreamproofError:
        raise
    except Exception as error:
        raise kind(f"{failed}: {described_error(error)}") from error
