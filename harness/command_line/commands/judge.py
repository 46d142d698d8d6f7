"""`streamproof judge`."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from ...core.errors import ExitStatus, StorageFailed
from ..options import Json
from ..output import print_json, show
from ..progress_line import working
from ..registered import registered

if TYPE_CHECKING:
    from ...certifying.rejudging import Rejudged


def judge_command(
    folder: Annotated[
        Path, typer.Argument(help="The folder of a run, of a certificate, or of an upgrade.", show_default=False)
    ],
    as_json: Json = False,
) -> ExitStatus:
    """Judge a run again from its folder, or a certificate or an upgrade with all of its runs.

    The runs of these two are judged without the query's code. One that was altered, or does not say what its runs come
    to, ends in status 3.
    """
    from ...certifying.certificate import is_certificate
    from ...recording.folder import in_use
    from ...reporting.runs import view_of_run
    from ...reporting.screen import run_screen
    from ...running.judgement import judge_folder
    from ...running.run import write_verdicts
    from ...upgrading.record import is_upgrade
    from ..clusters import cluster_again
    from ..documents import run_document

    if is_upgrade(folder):
        return _judge_upgrade(folder, as_json)
    if is_certificate(folder):
        return _judge_certificate(folder, as_json)
    with working(f"judging {folder}"):
        description, history, judgement = judge_folder(folder, registered(), cluster_again)
    # What a certificate lists must stay as it is.
    if not in_use(folder) and not is_certificate(folder.resolve().parent.parent):
        # A folder that cannot be written can be judged all the same.
        with contextlib.suppress(StorageFailed):
            judgement = write_verdicts(folder, judgement)
    if as_json:
        print_json(run_document(folder, description, judgement))
    else:
        show(run_screen(view_of_run(description, history, judgement, folder)))
    return judgement.exit_status


def _judge_certificate(folder: Path, as_json: bool) -> ExitStatus:
    from ...certifying.rejudging import judge_certificate
    from ...certifying.telling import view_of_rejudged
    from ...reporting.screen import rejudged_screen

    with working(f"judging every run of {folder}"):
        judged = judge_certificate(folder, registered().oracles)
    if as_json:
        print_json(_document(judged, folder))
    else:
        show(rejudged_screen(view_of_rejudged(judged, folder)))
    return judged.exit_status


def _judge_upgrade(folder: Path, as_json: bool) -> ExitStatus:
    from ...upgrading.record import judge_upgrade
    from .upgrade import upgrade_document, upgrade_screen

    judged = judge_upgrade(folder, registered().oracles)
    if as_json:
        print_json(upgrade_document(judged.record, folder, judged.exit_status, judged.differences))
    else:
        show(upgrade_screen(judged.record, folder, judged.differences))
    return judged.exit_status


def _document(judged: Rejudged, folder: Path) -> dict[str, Any]:
    """The same, for programs."""
    certificate = judged.certificate
    return {
        "folder": str(folder),
        "certificate": certificate.name,
        "subject": certificate.subject.get("name"),
        "seed": certificate.seed,
        "verdicts": msgspec.to_builtins(judged.conclusion.verdicts),
        "bounds": msgspec.to_builtins(judged.conclusion.bounds),
        "planned": len(judged.conclusion.coverage),
        "trials": len(certificate.trials),
        "files": len(certificate.files),
        "counterexample": msgspec.to_builtins(certificate.counterexample),
        "differences": list(judged.differences),
        "exit_status": int(judged.exit_status),
    }
