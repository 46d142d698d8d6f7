"""The file systems of the harness's own in this machine's table of mounts, and how to take them away."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

MOUNTED: Final = "mounted"
"""How each folder is called where one is mounted."""
MARK: Final = "streamproof"
"""How their names begin; the run's id follows."""
_MOUNTS: Final = Path("/proc/self/mounts")


def mount_name(run: str) -> str:
    """What the file systems of a run are called in the table."""
    return f"{MARK}:{run}"


def mounts_of(run: str | None = None) -> list[Path]:
    """Where file systems of ours are mounted: of one run, or of all."""
    wanted = f"{MARK}:" if run is None else f"{mount_name(run)} "
    try:
        lines = _MOUNTS.read_text().splitlines()
    except FileNotFoundError:
        return []
    # Spaces and the like are written in octal.
    return [Path(line.split(" ")[1].encode().decode("unicode_escape")) for line in lines if line.startswith(wanted)]


def unmount(mount: Path) -> None:
    """Take a mount away at once, whoever still uses it, and whether its server lives or not. None there: nothing."""
    command = ["umount", "-l"] if os.geteuid() == 0 else ["fusermount3", "-u", "-z"]
    subprocess.run([*command, str(mount)], check=False, capture_output=True)


def unmount_all(run: str) -> None:
    for mount in mounts_of(run):
        unmount(mount)
