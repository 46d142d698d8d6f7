"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated, Final

import typer

SEED: Final = 7
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]
