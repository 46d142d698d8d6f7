"""Judges a folder of `long_histories` in a process of its own: `judged_alone.py FOLDER OUTPUTS [masked]`.

Prints the memory at its peak less what the interpreter and the imports take, in bytes, that of the largest process
beside it, the seconds, the verdict on the claim, and what the history is consistent with, as JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from long_histories import scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.recording.folder import read_records
from streamproof.harness.running.judgement import judge_history
from streamproof.oracles import ORACLES


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _processor() -> float:
    """Seconds, those of other processes that have ended among them."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def main() -> None:
    folder, outputs, masked = Path(sys.argv[1]), int(sys.argv[2]), "masked" in sys.argv
    judged = scenario(masked, outputs)
    assert isinstance(judged.subject, SchemeSubject)
    assert judged.subject.specs
    before, began = _peak(), time.monotonic()
    history = read_records(folder)
    judgement = judge_history(judged, history, {oracle.guarantee: oracle for oracle in ORACLES}, False)
    print(
        json.dumps(
            {
                "bytes": _peak() - before,
                "peak": _peak(),
                "beside": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024,
                "seconds": time.monotonic() - began,
                "cpu": _processor(),
                "verdicts": [f"{v.guarantee}: {v.status} {v.summary or v.reason}" for v in judgement.verdicts],
                "strongest": [str(guarantee) for guarantee in judgement.strongest],
                "repeated": judgement.collation.duplicate_outputs.count,
                "digest": judgement.digest,
            }
        )
    )


if __name__ == "__main__":
    main()
