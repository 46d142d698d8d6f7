"""Where a command's words go: stdout has what was asked for, stderr what went wrong."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.console import Console

if TYPE_CHECKING:
    from rich.text import Text


def show(lines: Iterable[Text]) -> None:
    """Coloured on a terminal only (rich looks, and heeds NO_COLOR); long lines are the terminal's to wrap."""
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    with console.capture() as captured:
        for line in lines:
            console.print(line)
    print_text(captured.get())


def print_json(document: Any) -> None:
    text = json.dumps(document, indent=2, ensure_ascii=False, default=str)
    try:
        text.encode()
    except UnicodeEncodeError:
        # A path that is no text: escaped, it comes back as it was.
        text = json.dumps(document, indent=2, default=str)
    print_text(f"{text}\n")


def print_text(text: str) -> None:
    """To stdout. Who reads it may have had enough (`| head`): that does not change how the command ended."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(text: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"streamproof: {text}\n")
        sys.stderr.flush()
