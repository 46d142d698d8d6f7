"""What threads of a campaign decode side by side is known to msgspec before the first of them asks for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from streamproof.harness.contracts.registry import Registry
from streamproof.harness.running.run import run_named
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster

READ = """\
import sys, threading
from pathlib import Path
from streamproof.harness.crash_points.inside_python.following import read_noted
from streamproof.harness.recording.folder import read_description
sys.setswitchinterval(1e-6)
folder, start = Path(sys.argv[1]), threading.Barrier(4)

def read():
    start.wait()
    read_noted(b'{"effects": [], "unannounced": 1}')
    read_description(folder)

threads = [threading.Thread(target=read) for _ in range(4)]
for one in threads:
    one.start()
for one in threads:
    one.join()
"""


def test_threads_read_records_side_by_side(tmp_path: Path) -> None:
    """Without that, four of five such processes ended with SIGSEGV."""
    folder = tmp_path / "run"
    run_named(Registry().scenario("word-count.gap"), SimulatedCluster(), Registry(), seed=7, folder=folder)
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", READ, str(folder)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
