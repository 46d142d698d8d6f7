"""What containers and networks of a run carry, so that they are found again whoever is left to look."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..embedded.reaping import PROC, ProcessId

RUN: Final = "streamproof.run"
OWNER: Final = "streamproof.owner"
HOME: Final = "streamproof.home"
"""The owner's machine since it booted, its pid namespace and its user: elsewhere its pid means nothing."""
SCRATCH: Final = "streamproof.scratch"
NODE: Final = "streamproof.node"


@dataclass(frozen=True)
class RunLabels:
    run: str
    owner: ProcessId
    scratch: Path

    def of(self, node: str | None = None) -> dict[str, str]:
        labels = {RUN: self.run, OWNER: str(self.owner), HOME: home(), SCRATCH: str(self.scratch)}
        return labels if node is None else {**labels, NODE: node}


def home() -> str:
    boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.readlink(PROC / 'self/ns/pid')} {os.geteuid()}"


def owner_is_gone(labels: dict[str, str]) -> bool:
    """Whether the owner can be seen to be gone: not from another pid namespace, while the machine is up, or user."""
    boot, _, rest = labels.get(HOME, "").partition(" ")
    here, _, ours = home().partition(" ")
    if rest.rpartition(" ")[2] != ours.rpartition(" ")[2]:
        return False
    if boot != here:
        return True
    owner = ProcessId.parse(labels.get(OWNER, ""))
    return rest == ours and (owner is None or not owner.alive())
