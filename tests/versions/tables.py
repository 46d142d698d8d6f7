"""What is common to whoever measures something of many versions and makes a table of it: what is asked for, where the
table stands in its page, and how it ends."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from streamproof.harness.install.spark_choice import chosen_version
from streamproof.harness.install.spark_environments import environments

END = "<!-- until here -->\n"


def asked_for(said: str | None, what: str, choices: Sequence[str], own: argparse.ArgumentParser) -> argparse.Namespace:
    """What the command line asks for: all versions that there are, and all of these, unless it names some. `own` has
    what is asked for beside."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=said, formatter_class=raw, parents=[own])
    there = [one.version for one in environments() if one.whole]
    parser.add_argument("--spark", action="append", help=f"a version; there are: {', '.join(there)}")
    parser.add_argument(f"--{what}", action="append", choices=choices)
    parser.add_argument("--table", action="store_true", help="make no more than the table")
    asked = parser.parse_args()
    asked.spark = asked.spark or [*there, chosen_version()]
    setattr(asked, what, getattr(asked, what) or [*choices])
    return asked


def exit_status(wrong: Sequence[str]) -> int:
    """1 where something did not come out as it must, which is said; else 0."""
    if wrong:
        print(f"not as it must be: {', '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def with_table(page: str, made: str, begin: str) -> str:
    before, _, rest = page.partition(begin)
    return f"{before}{begin}{made}{END}{rest.partition(END)[2]}"
