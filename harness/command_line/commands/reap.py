"""`streamproof reap`."""

from __future__ import annotations

from ...core.errors import ExitStatus
from ..options import Json
from ..output import print_json, print_text


def reap_command(as_json: Json = False) -> ExitStatus:
    """End what runs have left behind that were killed themselves."""
    from ..clusters import reap_all
    from ..leftovers import reaped_document, said

    reaped = reap_all()
    if as_json:
        print_json({"reaped": [reaped_document(one) for one in reaped]})
    elif reaped:
        print_text("".join(said(one) + "\n" for one in reaped))
    else:
        print_text("nothing was left behind\n")
    return ExitStatus.OWN_FAILURE if any(one.survivors for one in reaped) else ExitStatus.HOLDS
