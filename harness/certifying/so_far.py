"""What is known of a campaign that has come to no end: it goes on, or somebody has interrupted it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

import msgspec

from ..core.errors import InvalidCertificate
from ..core.verdicts import Status
from .certificate import Certificate, with_conclusion
from .conclusion import ClaimVerdict
from .journal import is_under_way, read_journal

GOES_ON: Final = "the campaign goes on"
NO_END: Final = "the campaign has come to no end"
INTERRUPTED: Final = "it was interrupted"


def so_far(folder: Path, why: str, exhausted: str = "") -> Certificate:
    """What the journal of a campaign comes to. No claim holds before the end, and the reason is `why`; what was shown
    to be violated is VIOLATED: nothing that comes later mends it. `exhausted` says why the rest was not tried.

    Raises as `read_journal` does.
    """

    def open_(verdict: ClaimVerdict) -> ClaimVerdict:
        if verdict.status is Status.VIOLATED:
            return verdict
        return msgspec.structs.replace(verdict, status=Status.UNKNOWN, summary="", reasons=(why,))

    journal = read_journal(folder)
    concluded = with_conclusion(msgspec.structs.replace(journal, exhausted=exhausted or journal.exhausted))
    return msgspec.structs.replace(concluded, verdicts=tuple(map(open_, concluded.verdicts)))


def go_on_command(folder: Path) -> str:
    """What goes on with the campaign."""
    return f"streamproof certify --continue {shlex.quote(str(folder))}"


def refuse_without_end(folder: Path) -> None:
    """Raises InvalidCertificate where the campaign in the folder has come to no end."""
    if is_under_way(folder):
        raise InvalidCertificate(
            f"the campaign in {folder} has come to no end: it is going on, or was interrupted; go on with: "
            f"{go_on_command(folder)}"
        )
