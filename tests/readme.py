"""The examples of README.md and of the pages in docs/, which must run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ADD_YOUR_OWN = "docs/how-to/add-your-own.md"
CI = "docs/how-to/run-in-ci.md"
CERTIFY = "docs/how-to/certify-a-query.md"
DATABASE = "docs/how-to/write-to-a-database.md"
SUITE = "docs/how-to/test-in-an-existing-suite.md"
FAULT_SCENARIO = "docs/how-to/write-a-fault-scenario.md"


def example(line: str, page: str = "README.md") -> str:
    """The one block of Python of a page in which this stands."""
    text = (ROOT / page).read_text()
    blocks = re.findall(r'^```python(?: title="[^"]+")?\n(.*?)^```', text, re.DOTALL | re.MULTILINE)
    (found,) = (block for block in blocks if line in block)
    return found
