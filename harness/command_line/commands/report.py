"""`streamproof report`: a page to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...core.errors import ExitStatus, Unsupported
from ..options import Json
from ..output import print_json, show
from ..progress_line import working
from ..registered import registered


def report_command(
    what: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER|FILE [FOLDER]",
            help="The folder of a run or of a certificate, a counterexample, or what `explore --json` has printed. "
            "Of two folders, runs or certificates, the page has one beside the other.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where the page goes; by default report.html in the folder, of two comparison.html here.",
            show_default=False,
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
    from ..drawing import draw_certificate, draw_comparison, draw_file, draw_folder

    registry = registered()
    one, *others = what
    if len(others) > 1:
        raise typer.BadParameter(f"one folder is drawn, or two are compared; {len(what)} were given")
    if svg is not None and (others or is_certificate(one)):
        said = "two folders side by side have" if others else f"{one} is a certificate, which has"
        raise Unsupported(f"{said} no diagram: leave out --svg")
    with working(f"drawing {' and '.join(map(str, what))}"):
        if others:
            file = draw_comparison(one, others[0], registry, output)
        elif is_certificate(one):
            file = draw_certificate(one, output)
        elif one.is_dir() or not one.exists():
            file = draw_folder(one, registry, output, svg)
        else:
            file = draw_file(one, registry, output, svg)
    if as_json:
        print_json({"file": str(file), "bytes": file.stat().st_size})
    else:
        show([report_line(file)])
    return ExitStatus.HOLDS
