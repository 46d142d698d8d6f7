"""What `report` draws, and `run` with `--report`: which page it is to be, and where it goes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..recording.folder import Description
    from ..recording.history import History
    from ..running.judgement import Judgement

PAGE = "report.html"


def draw_run(
    description: Description, history: History, judgement: Judgement, folder: Path, output: Path | None = None
) -> Path:
    """Write the page of a run. Returns where it is. Raises StorageFailed."""
    from ..reporting.html.document import write_page
    from ..reporting.html.run_page import run_html, run_page

    file = output or _beside(folder)
    write_page(file, run_html(run_page(description, history, judgement, folder)))
    return file


def _beside(run: Path) -> Path:
    """In the run's folder, but for a run of a certificate, in which nothing may change: then in the current one."""
    from ..certifying.certificate import is_certificate

    path = run.resolve()
    return Path(f"{path.name}.html") if is_certificate(path.parent.parent) else run / PAGE
