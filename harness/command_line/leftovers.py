"""What is said of what runs have left behind that were killed themselves."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..core.errors import StreamproofError
from .output import complain


def reap_silently() -> None:
    """End it before a run; that nothing can be ended is no reason not to run."""
    from .clusters import reap_all

    try:
        for one in reap_all():
            complain(said(one))
    except StreamproofError as error:
        # The run may need nothing of what failed.
        complain(str(error))


def said(reaped: Any) -> str:
    if hasattr(reaped, "containers"):
        sorts = ("containers", "networks", "volumes")
        counts = ", ".join(f"{len(found)} {sort}" for sort in sorts if (found := getattr(reaped, sort)))
        text = f"ended what run {reaped.run} had left: {counts or 'nothing'}"
        if reaped.stuck:
            text += f"; the engine keeps {', '.join(reaped.stuck)} until it is restarted, though nothing uses it"
        return text + (f"; still there: {', '.join(reaped.survivors)}" if reaped.survivors else "")
    kinds = ", ".join(sorted({process.kind for process in reaped.processes}))
    text = f"ended what run {reaped.run} had left: {len(reaped.processes)} processes ({kinds})"
    if reaped.survivors:
        text += f"; still there: pid {', '.join(str(process.pid) for process in reaped.survivors)}"
    return text


def reaped_document(reaped: Any) -> dict[str, Any]:
    if hasattr(reaped, "containers"):
        return asdict(reaped)
    return {
        "run": reaped.run,
        "ended": [{"pid": process.pid, "kind": process.kind} for process in reaped.processes],
        "survivors": [process.pid for process in reaped.survivors],
    }
