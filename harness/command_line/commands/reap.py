"""`streamproof reap`."""

from __future__ import annotations

from ...core.errors import ExitStatus
from ..options import Json
from ..output import write, write_json


def reap(as_json: Json = False) -> ExitStatus:
    """End what runs have left behind that were killed themselves."""
    from ..clusters import reap_all
    from ..leftovers import reaped_document, said

    reaped = reap_all()
    if as_json:
        write_json({"reaped": [reaped_document(one) for one in reaped]})
    elif reaped:
        write("".join(said(one) + "\n" for one in reaped))
    else:
        write("nothing was left behind\n")
    return ExitStatus.OWN_FAILURE if any(one.survivors for one in reaped) else ExitStatus.HOLDS
