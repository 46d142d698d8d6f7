"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated, Final

import typer

SEED: Final = 7
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]


def not_empty(given: str | None) -> str | None:
    """For an option without which something else is taken: a variable of the shell's that is not set takes nothing.
    Raises BadParameter."""
    if given == "":
        raise typer.BadParameter("it is empty; leave it out where nothing is meant")
    return given
