"""`streamproof report`: a page to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...core.errors import ExitStatus, Unsupported
from ..options import Json
from ..output import print_json, show
from ..registered import registered


def report_command(
    what: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER|FILE",
            help="The folder of a run or of a certificate, or what `explore` has saved.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Where the page goes; by default report.html in the folder.", show_default=False
        ),
    ] = None,
    svg: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where the diagram goes by itself, as SVG.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> ExitStatus:
    """Draw what happened, as one HTML file that opens from disk."""
    from ...certifying.certificate import is_certificate
    from ...reporting.screen import report_line
    from ..drawing import draw_certificate, draw_counterexample, draw_folder, refuse_saved

    registry = registered()
    if is_certificate(what):
        if svg is not None:
            raise Unsupported(f"{what} is a certificate, which has no diagram: leave out --svg")
        file = draw_certificate(what, output)
    elif what.is_dir() or not what.exists():
        file = draw_folder(what, registry, output, svg)
    else:
        refuse_saved(what)
        file = draw_counterexample(what, registry, output, svg)
    if as_json:
        print_json({"file": str(file), "bytes": file.stat().st_size})
    else:
        show([report_line(file)])
    return ExitStatus.HOLDS
