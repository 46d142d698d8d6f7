"""What `report` draws, and `run` with `--report`: which page it is to be, and where it goes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..core.errors import InvalidDocument, Unsupported, UserMistake

if TYPE_CHECKING:
    from ..contracts.registry import Registry
    from ..recording.folder import Description
    from ..recording.history import History
    from ..running.judgement import Judgement
    from ..worlds.simulated.seen_beside import SeenBeside

PAGE = "report.html"
COMPARISON = "comparison.html"
"""In the current folder: of two, it belongs to neither."""
LOOKED_AT: Final = 20_000
"""Events; a longer run is not looked at once more."""
DRAWABLE: Final = (
    "`report` draws the folder of a run or of a certificate, a counterexample that `explore` has saved, and what "
    "`explore --json` has printed"
)


def draw_run(
    description: Description,
    history: History,
    judgement: Judgement,
    folder: Path,
    registry: Registry,
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
    remark = f"These are the verdicts on record. They could not be judged again: {not_judged}" if not_judged else ""
    beside = None if not_judged else _seen_beside(folder, description, history, registry)
    page = run_page(description, history, judgement, folder, remark, beside)
    if svg is not None:
        if not page.diagrams:
            raise Unsupported(f"{folder} has no diagram to write to {svg}. {page.undrawn}")
        write_page(svg, drawing_svg(page.diagrams[0].drawing, page.diagrams[0].title))
    write_page(file, run_html(page))
    return file


def _seen_beside(folder: Path, description: Description, history: History, registry: Registry) -> SeenBeside | None:
    """Of a run of the simulator that came to its end, unless it is too long to be looked at once more."""
    from ..running.replaying import planned_again
    from .clusters import cluster_again

    if description.cluster.get("cluster") != "simulated" or not history.sealed:
        return None
    if sum(span.length for span in history.offered()) > LOOKED_AT:
        return None
    from ..worlds.simulated.cluster import SimulatedCluster
    from ..worlds.simulated.looking_on import look_on

    _, named = planned_again(folder, registry)
    cluster = cluster_again(description.cluster)
    assert isinstance(cluster, SimulatedCluster)
    return look_on(cluster, named.scenario, description.seed, registry.faults, history)


def draw_folder(folder: Path, registry: Registry, output: Path | None, svg: Path | None) -> Path:
    """The same, from the folder of a run, which is judged again; where its scenario is gone or another by now, with the
    verdicts on record. Raises as `judge_folder` does."""
    description, history, judgement, not_judged = _judged_or_recorded(folder, registry)
    return draw_run(description, history, judgement, folder, registry, output, svg, not_judged=not_judged)


def _judged_or_recorded(folder: Path, registry: Registry) -> tuple[Description, History, Judgement, str]:
    """With why it was not judged again; empty where it was."""
    from ..core.errors import NotImportable, ScenarioChanged, UnknownName
    from ..recording.folder import read_description, read_history
    from ..reporting.html.recorded import as_recorded
    from ..running.judgement import judge_folder
    from .clusters import cluster_again

    try:
        return *judge_folder(folder, registry, cluster_again), ""
    except (NotImportable, ScenarioChanged, UnknownName) as error:
        description, history = read_description(folder), read_history(folder)
        recorded = as_recorded(description, history, folder)
        if recorded is None:
            raise
        return description, history, recorded, str(error)


def draw_comparison(left: Path, right: Path, registry: Registry, output: Path | None) -> Path:
    """Write the page of two runs, or of two certificates, side by side. Raises UserMistake where they are not two of a
    kind, and else as `draw_folder` and `draw_certificate` do."""
    from ..certifying.certificate import is_certificate, read_certificate
    from ..certifying.comparing import compared_certificates
    from ..certifying.so_far import refuse_without_end
    from ..reporting.html.comparison import comparison_html
    from ..reporting.html.document import write_page
    from ..reporting.html.run_comparison import ComparedRun, compared_runs

    def compared(name: str, folder: Path) -> ComparedRun:
        description, history, judgement, not_judged = _judged_or_recorded(folder, registry)
        return ComparedRun(name, description, history, judgement, folder, not_judged)

    page = output or Path(COMPARISON)
    _refuse_within_certificates(page)
    certificates = [is_certificate(one) for one in (left, right)]
    if certificates[0] != certificates[1]:
        certificate, run = (left, right) if certificates[0] else (right, left)
        raise UserMistake(f"{certificate} is a certificate and {run} is none: two of a kind can be compared")
    for one in (left, right):
        if one.is_file():
            raise UserMistake(f"{one} is a file: the folders of two runs, or of two certificates, can be compared")
    if certificates[0]:
        for one in (left, right):
            refuse_without_end(one)
        found = compared_certificates(left, read_certificate(left), right, read_certificate(right))
    else:
        found = compared_runs(compared("A", left), compared("B", right))
    command = f"streamproof report {shlex.quote(str(left))} {shlex.quote(str(right))}"
    write_page(page, comparison_html(found, [("draw it again", command)]))
    return page


def draw_violation(certificate: Path, run: str, registry: Registry) -> Path:
    """Write the page of the run that refutes a claim, beside the folder of the certificate. Raises as `draw_folder`
    does."""
    path = certificate.resolve()
    page = certificate.with_name(f"{path.name}-violation.html")
    return draw_folder(certificate / run, registry, page, None)


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


def draw_file(file: Path, registry: Registry, output: Path | None, svg: Path | None) -> Path:
    """Write the page of a file: a counterexample, or what a search has printed. Returns where the page is. Raises
    InvalidDocument, with what the file is instead and what can be drawn in its place, InvalidCounterexample, and
    Unsupported where there is no diagram."""
    from ..exploration.search_document import FORMAT

    found = _read_document(file)
    if found.get("format") == FORMAT:
        return _draw_search(file, found, registry, output, svg)
    if "faults" in found and "version" in found:
        return draw_counterexample(file, registry, output, svg)
    raise InvalidDocument(f"{file} is {_what_else(file, found)}")


def _draw_search(file: Path, found: dict[str, Any], registry: Registry, output: Path | None, svg: Path | None) -> Path:
    from ..exploration.search_document import search_document
    from ..exploration.search_page import search_html
    from ..reporting.html.document import write_page

    if svg is not None:
        raise Unsupported(f"{file} is a search; --svg draws one of its counterexamples, which it names as `file`")
    page = output or file.with_suffix(".html")
    _refuse_within_certificates(page)
    write_page(page, search_html(search_document(file, found), file, registry))
    return page


def _read_document(file: Path) -> dict[str, Any]:
    """Raises InvalidDocument."""
    try:
        found = msgspec.json.decode(file.read_bytes())
    except OSError as error:
        raise InvalidDocument(f"{file} cannot be read: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidDocument(f"{file} is no JSON ({error}), and {DRAWABLE}") from error
    if not isinstance(found, dict):
        raise InvalidDocument(f"{file} holds {type(found).__name__} in JSON, and {DRAWABLE}")
    return found


def _what_else(file: Path, found: dict[str, Any]) -> str:
    """What it is, and what to draw instead."""
    from ..certifying.saved import KIND

    folder = shlex.quote(str(file.parent))
    if found.get("kind") == KIND:
        return (
            "a schedule of crashes of a query, of which there is no diagram: nothing says what happened inside it. "
            f"`streamproof report {folder}` draws the certificate that it lies in"
        )
    if "seal" in found and "trials" in found:
        return f"what a certificate's folder says: `streamproof report {folder}` draws that"
    if "schedule" in found and "claims" in found and "run" in found:
        return f"what a run's folder says: `streamproof report {folder}` draws that"
    if isinstance(found.get("folder"), str) and "verdicts" in found:
        named = shlex.quote(found["folder"])
        return f"what a command has printed about {found['folder']}: `streamproof report {named}` draws that"
    if "mutants" in found:
        return "what `explore --mutants` has printed, of which there is no page: it is a table already"
    return f"nothing of streamproof's that can be drawn, and {DRAWABLE}"


def draw_certificate(folder: Path, output: Path | None) -> Path:
    """Write the page of a certificate, or of a campaign that has come to no end: beside its folder, in which nothing
    may change. Raises as `read_certificate` and `read_journal` do."""
    from ..certifying.certificate import read_certificate
    from ..certifying.drawing import certificate_html
    from ..certifying.journal import is_under_way
    from ..certifying.so_far import NO_END, so_far
    from ..reporting.html.document import write_page

    path = folder.resolve()
    page = output or path.with_name(f"{path.name}.html")
    if page.resolve().is_relative_to(path):
        raise UserMistake(
            f"{page} is within {folder}, in which nothing may change; name a file elsewhere with --output"
        )
    ended = not is_under_way(folder)
    certificate = read_certificate(folder) if ended else so_far(folder, NO_END)
    beside = path.name if page.resolve().parent == path.parent else None
    write_page(page, certificate_html(certificate, folder, beside, ended=ended))
    return page
