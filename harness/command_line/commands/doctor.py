"""`streamproof doctor`."""

from __future__ import annotations

from dataclasses import asdict

from ...core.errors import ExitStatus
from ..options import Json
from ..output import show, write_json


def doctor(as_json: Json = False) -> ExitStatus:
    """Show what this machine can run, and the command that adds the rest."""
    from ..diagnosis import diagnose
    from ..screen import diagnosis

    found = diagnose()
    if as_json:
        write_json(
            {
                **asdict(found),
                "embedded": found.embedded,
                "simulated": True,
                "docker": found.docker,
                "commands": found.commands,
                "docker_commands": found.docker_commands,
            }
        )
    else:
        show(diagnosis(found))
    return ExitStatus.HOLDS if found.embedded else ExitStatus.USER_MISTAKE
