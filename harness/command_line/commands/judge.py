"""`streamproof judge`."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from ...core.errors import ExitStatus, StorageFailed
from ..installed import installed
from ..options import Json
from ..output import show, write_json


def judge(
    folder: Annotated[Path, typer.Argument(help="The folder of a run, or of a certificate.", show_default=False)],
    as_json: Json = False,
) -> ExitStatus:
    """Judge a run again from its folder, or a certificate with all of its runs.

    A certificate's runs are judged without the query's code. One that was altered, or does not say what its runs come
    to, ends in status 3.
    """
    from ...certifying.certificate import is_certificate
    from ...recording.folder import in_use
    from ...running.judgement import judge_folder
    from ...running.run import write_verdicts
    from ..documents import run_document
    from ..screen import end_of_run

    if is_certificate(folder):
        return _judge_certificate(folder, as_json)
    description, history, judgement = judge_folder(folder, installed())
    # What a certificate lists must stay as it is.
    if not in_use(folder) and not is_certificate(folder.resolve().parent.parent):
        # A folder that cannot be written can be judged all the same.
        with contextlib.suppress(StorageFailed):
            judgement = write_verdicts(folder, judgement)
    if as_json:
        write_json(run_document(folder, description, judgement))
    else:
        show(end_of_run(description, history, judgement, folder))
    return judgement.exit_status


def _judge_certificate(folder: Path, as_json: bool) -> ExitStatus:
    from ...certifying.rejudging import judge_certificate
    from ..certificates import document, judged_again

    judged = judge_certificate(folder, installed().oracles)
    if as_json:
        write_json(document(judged, folder))
    else:
        show(judged_again(judged, folder))
    return judged.exit_status
