"""`streamproof doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from rich.text import Text

from ...core.errors import ExitStatus
from ..options import Json
from ..output import print_json, show
from ..progress_line import working

if TYPE_CHECKING:
    from ..diagnosis import Diagnosis

_LABEL: Final = 11


def doctor_command(as_json: Json = False) -> ExitStatus:
    """Show what this machine can run, and the command that adds the rest."""
    from ..diagnosis import diagnose

    with working("looking at this machine"):
        found = diagnose()
    if as_json:
        print_json(
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
        show(_screen(found))
    return ExitStatus.HOLDS if found.embedded else ExitStatus.USER_MISTAKE


def _screen(found: Diagnosis) -> Iterator[Text]:
    """What `doctor` says."""
    for finding in found.findings:
        word, style = (
            ("ok", "green")
            if finding.good
            else ("missing", "bold red" if finding.needed else "yellow")
            if finding.needed or finding.containers or finding.add
            else ("low", "yellow")
        )
        yield Text.assemble(f"  {finding.what:<{_LABEL}}", (f"{word:<9}", style), finding.found)
    yield Text()
    yield Text("  simulator        can run")
    if found.embedded:
        yield Text("  embedded Spark   can run")
    else:
        yield from _cannot_run("embedded Spark", found.commands)
    if found.docker:
        yield Text("  containers       can run")
    else:
        yield from _cannot_run("containers", found.docker_commands)


def _cannot_run(cluster: str, commands: Sequence[str]) -> Iterator[Text]:
    yield Text(f"  {cluster:<14}   cannot run" + ("; this adds what is missing:" if commands else ""))
    for command in commands:
        yield Text(f"      {command}")
