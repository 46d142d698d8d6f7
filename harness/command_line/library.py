"""What `list` says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from rich.text import Text

from ..core.library import List


def library_screen(sections: Mapping[List, Mapping[str, str]]) -> Iterator[Text]:
    """What `list` says: kind -> name -> its one line."""
    for place, (kind, names) in enumerate(sections.items()):
        if place:
            yield Text()
        yield Text(kind, "bold")
        width = max(map(len, names), default=0)
        for name, line in names.items():
            yield Text(f"  {name:<{width}}   {line}".rstrip())


def first_sentence(text: str) -> str:
    """Of a docstring or a description."""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", paragraph, maxsplit=1)[0]
