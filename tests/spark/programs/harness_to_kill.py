"""A harness, with a cluster and a driver at work, that waits to be killed. Arguments: run id, folder, notes folder."""

import signal
import sys
from pathlib import Path

from streamproof.harness.worlds.embedded.options import EmbeddedOptions
from streamproof.harness.worlds.embedded.processes import SparkProcesses

if __name__ == "__main__":
    run, folder, notes = sys.argv[1:]
    with SparkProcesses(run, Path(folder), EmbeddedOptions(workers=1)) as cluster:
        cluster.start_driver("driver", "long_tasks", [notes, "1"])
        signal.pause()
