"""Carries a run out on a cluster: from its deployment to its end, with everything released on every path."""

from __future__ import annotations

from ..contracts.cluster import Cluster, Run
from ..core.errors import StreamproofError
from ..recording.history import Aborted


def carry_out(run: Run, cluster: Cluster) -> None:
    """The record is with the run's recorder. What goes wrong is written to the timeline and raised."""
    try:
        with cluster.deploy(run) as deployment:
            deployment.prepare()
            deployment.start()
            if not deployment.drained(run.scenario.deadline) and not deployment.stalled:
                run.recorder.log(
                    Aborted(run.recorder.latest, f"stall: {deployment.waiting_for()}", deployment.silent())
                )
            deployment.stop()
    except StreamproofError as error:
        run.recorder.log(Aborted(run.recorder.latest, f"{type(error).__name__}: {error}"))
        raise
    except KeyboardInterrupt:
        run.recorder.log(Aborted(run.recorder.latest, "interrupted by the user"))
        raise
