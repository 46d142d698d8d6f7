"""What `report` draws, and `run` with `--report`: which page it is to be, and where it goes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import Unsupported, UserMistake

if TYPE_CHECKING:
    from ..contracts.registry import Registry
    from ..recording.folder import Description
    from ..recording.history import History
    from ..running.judgement import Judgement

PAGE = "report.html"


def draw_run(
    description: Description,
    history: History,
    judgement: Judgement,
    folder: Path,
    output: Path | None = None,
    svg: Path | None = None,
    *,
    not_judged: str = "",
) -> Path:
    """Write the page of a run, and the first of its diagrams where that is asked for. Returns where the page is. Raises
    StorageFailed, and Unsupported where there is no diagram."""
    from ..reporting.html.document import write_page
    from ..reporting.html.run_page import run_html, run_page
    from ..reporting.html.spacetime_drawing import drawing_svg

    file = output or _beside(folder)
    _refuse_within_certificates(file, svg)
    page = run_page(description, history, judgement, folder, not_judged)
    if svg is not None:
        if not page.diagrams:
            raise Unsupported(f"{folder} has no diagram to write to {svg}. {page.undrawn}")
        write_page(svg, drawing_svg(page.diagrams[0].drawing, page.diagrams[0].title))
    write_page(file, run_html(page))
    return file


def draw_folder(folder: Path, registry: Registry, output: Path | None, svg: Path | None) -> Path:
    """The same, from the folder of a run, which is judged again; where its scenario is gone or another by now, with the
    verdicts on record. Raises as `judge_folder` does."""
    from ..core.errors import NotImportable, ScenarioChanged, UnknownName
    from ..recording.folder import read_description, read_history
    from ..reporting.html.recorded import as_recorded
    from ..running.judgement import judge_folder

    try:
        return draw_run(*judge_folder(folder, registry), folder, output, svg)
    except (NotImportable, ScenarioChanged, UnknownName) as error:
        description, history = read_description(folder), read_history(folder)
        recorded = as_recorded(description, history, folder)
        if recorded is None:
            raise
        return draw_run(description, history, recorded, folder, output, svg, not_judged=str(error))


def _beside(run: Path) -> Path:
    """In the run's folder, but for a run of a certificate, in which nothing may change: then in the current one."""
    from ..certifying.certificate import is_certificate

    path = run.resolve()
    return Path(f"{path.name}.html") if is_certificate(path.parent.parent) else run / PAGE


def _refuse_within_certificates(*files: Path | None) -> None:
    """Raises UserMistake for a file that would lie in the folder of a certificate."""
    from ..certifying.certificate import is_certificate

    for file in files:
        for folder in file.resolve().parents if file is not None else ():
            if is_certificate(folder):
                raise UserMistake(f"{file} is within the certificate {folder}, in which nothing may change")


def draw_counterexample(file: Path, registry: Registry, output: Path | None, svg: Path | None) -> Path:
    """Write the page of what `explore` has saved, run again in the simulator, and its diagram where that is asked for.
    Returns where the page is."""
    from ..exploration.counterexample import replay_counterexample
    from ..exploration.pages import counterexample_html, counterexample_svg
    from ..reporting.html.document import write_page

    page = output or file.with_suffix(".html")
    _refuse_within_certificates(page, svg)
    replayed = replay_counterexample(file, registry=registry)
    if svg is not None:
        write_page(svg, counterexample_svg(replayed, file))
    write_page(page, counterexample_html(replayed, file))
    return page


def refuse_saved(file: Path) -> None:
    """Raises Unsupported for what `certify` has saved: of a query, nobody saw what happened inside."""
    from ..certifying.saved import is_saved

    if is_saved(file):
        raise Unsupported(
            f"{file} is a schedule of crashes of a query, of which there is no diagram: nothing says what happened "
            f"inside it. `streamproof report {shlex.quote(str(file.parent))}` draws the certificate that it lies in"
        )


def draw_certificate(folder: Path, output: Path | None) -> Path:
    """Write the page of a certificate: beside its folder, in which nothing may change. Raises as `read_certificate`
    does."""
    from ..certifying.certificate import read_certificate
    from ..certifying.drawing import certificate_html
    from ..reporting.html.document import write_page

    path = folder.resolve()
    page = output or path.with_name(f"{path.name}.html")
    if page.resolve().is_relative_to(path):
        raise UserMistake(
            f"{page} is within {folder}, in which nothing may change; name a file elsewhere with --output"
        )
    certificate = read_certificate(folder)
    beside = path.name if page.resolve().parent == path.parent else None
    write_page(page, certificate_html(certificate, folder, beside))
    return page
