"""The examples of README.md and of the pages in docs/, which must run as they stand."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ADD_YOUR_OWN = "docs/how-to/add-your-own.md"
CI = "docs/how-to/run-in-ci.md"
CERTIFY = "docs/how-to/certify-a-query.md"
DATABASE = "docs/how-to/write-to-a-database.md"
FAULT_SCENARIO = "docs/how-to/write-a-fault-scenario.md"


def example(line: str, page: str = "README.md") -> str:
    """The one block of Python of a page in which this stands."""
    text = (ROOT / page).read_text()
    (found,) = (block for rest in text.split("```python\n")[1:] if line in (block := rest.partition("```")[0]))
    return found
