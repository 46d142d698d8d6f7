"""Puts a page together: one file with its styles, its program and its drawings in it.

All text of a record is escaped, since a key or a value may be anything; and the page forbids itself every request, so
that whatever slipped through could ask nobody for anything.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ...core.errors import StorageFailed
from ...recording.folder import write_whole
from .shapes_drawn import arrow_path, sign_path

TEMPLATES: Final = Path(__file__).parent / "templates"


def render(template: str, **content: Any) -> str:
    """A whole page."""
    return _environment().get_template(template).render(**content)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        # Whatever the file is called: nothing of a record is mark-up.
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["at"] = said_at
    made.filters["span"] = said_span
    made.filters["arrow_path"] = arrow_path
    made.filters["sign_path"] = sign_path
    return made


def said_at(at: int) -> str:
    """A moment of a run, as verdicts say it."""
    return f"{at / 1e6:.3f} s"


def said_span(micros: int) -> str:
    """How long something took."""
    if micros >= 1_000_000:
        return f"{micros / 1e6:,.2f} s"
    return f"{micros / 1e3:.0f} ms" if micros >= 100_000 else f"{micros / 1e3:.1f} ms"


def write_page(file: Path, text: str) -> None:
    """In one step, so that no half of a page is left. Raises StorageFailed."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, text.encode())
    except OSError as error:
        raise StorageFailed(f"cannot write {file}: {error.strerror}; name another file with --output") from error
