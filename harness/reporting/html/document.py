"""Puts a page together: one file with its styles, its program and its drawings in it.

All text of a record is escaped, since a key or a value may be anything; and the page forbids itself every request, so
that whatever slipped through could ask nobody for anything.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ...core.wording import amount_said
from ...recording.folder import refused_place, write_whole
from .shapes_drawn import arrow_path, sign_path

_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufdd0-\ufdef\ufeff\ufffe\uffff]"
)
"""Control characters but tabs and newlines, what has no width, changes the direction of writing, or is no character."""
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
        finalize=made_visible,
    )
    made.policies["json.dumps_function"] = _dumps
    made.filters["amount"] = amount_said
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


def made_visible(value: Any) -> Any:
    """What stands in a page, without characters that a reader cannot see, or that turn the text around them, as marks
    in their place. What is mark-up by now was text once, and went through here."""
    if type(value) is not str:
        return value
    return _UNSEEN.sub(_mark, value)


def _mark(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    # What stands for a byte of a name that is no text.
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\u27e8U+{code:04X}\u27e9"


def _dumps(found: Any, **settings: Any) -> str:
    return json.dumps(_all_visible(found), **settings)


def _all_visible(found: Any) -> Any:
    if isinstance(found, Mapping):
        return {made_visible(key): _all_visible(value) for key, value in found.items()}
    return [_all_visible(one) for one in found] if isinstance(found, list | tuple) else made_visible(found)


def shell_word(path: object) -> str:
    """A path as a word of a command that can be pasted into a shell, also where it is no text."""
    text = str(path)
    try:
        text.encode()
    except UnicodeEncodeError:
        plain = (
            chr(byte) if 0x20 <= byte < 0x7F and byte not in b"'\\" else f"\\x{byte:02x}" for byte in os.fsencode(text)
        )
        return f"$'{''.join(plain)}'"
    return shlex.quote(text)


def write_page(file: Path, text: str) -> None:
    """In one step, so that no half of a page is left. Raises UnusablePlace and StorageFailed."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, text.encode())
    except OSError as error:
        said = f"cannot write {file}: {error.strerror or error}"
        raise refused_place(error, said, "name another file with --output") from error
