"""What containers of a run are given of this machine, and how one is made."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
from docker.types import Mount

from ...core.errors import StorageFailed
from ...install.private_files import write_private
from ...install.settings import LOG4J2
from ..embedded.reaping import NODE, RUN, mark_scratch
from ..spark.control.layout import Layout
from ..spark.control.nodes import ADDRESS
from .cleanliness import granted
from .code import code_under_test
from .labels import RunLabels
from .limits import PERIOD
from .node_containers import ContainerNode
from .options import ContainerOptions

TMP = Path("/tmp")
GATES = "gates"
"""The folder of files that nodes wait for before they begin."""
_HELPER_MB = 256
"""What a container may use that is no node."""


@dataclass(frozen=True)
class ContainerSurroundings:
    """What every container of a run is given."""

    settings: Mapping[str, str]
    """Of Spark."""
    import_path: str
    mounts: list[Mount]


def prepare_surroundings(
    folder: Path,
    layout: Layout,
    labels: RunLabels,
    settings: Mapping[str, str],
    logs: Path,
    checkpoints: Path,
    python: str,
) -> ContainerSurroundings:
    """Make the folders of a run, and what lies in them before its first container. `python` is the interpreter whose
    packages its image has. Raises StorageFailed."""
    scratch = layout.scratch
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        mark_scratch(scratch, labels.run, labels.owner)
        for needed in (logs, scratch, checkpoints, scratch / "conf", scratch / GATES):
            needed.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise StorageFailed(f"{folder} cannot be written to: {problem}") from problem
    complete = {**settings, **layout.private_settings(secrets.token_hex(32))}
    write_private(layout.log4j2, LOG4J2)
    write_private(layout.daemon_properties, layout.daemon_settings(complete))
    # Java wants a name for the user, whoever that is.
    passwd = scratch / "conf" / "passwd"
    write_private(passwd, f"streamproof:x:{os.geteuid()}:{os.getegid()}::{TMP}:/bin/sh\n")
    code = code_under_test(python)
    mounts = [
        *(Mount(str(needed), str(needed), type="bind") for needed in (logs, scratch)),
        *(Mount(inside, str(outside), type="bind", read_only=True) for inside, outside in code.mounts.items()),
        Mount("/etc/passwd", str(passwd), type="bind", read_only=True),
    ]
    return ContainerSurroundings(complete, code.import_path, mounts)


class ContainerMaker:
    """Makes the containers of a run."""

    def __init__(
        self,
        engine: docker.DockerClient,
        image: str,
        network: str,
        labels: RunLabels,
        layout: Layout,
        options: ContainerOptions,
        surroundings: ContainerSurroundings,
    ) -> None:
        self._engine = engine
        self._image = image
        self._network = network
        self._labels = labels
        self._layout = layout
        self._options = options
        self._surroundings = surroundings

    def start(
        self,
        node: ContainerNode,
        address: str,
        name: str,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str],
    ) -> str:
        """A new container, of that name: the engine's id of it."""
        memory = self._memory(node.role)
        endpoint = self._engine.api.create_endpoint_config(ipv4_address=address, aliases=[node.name])
        names: Any = {self._network: endpoint}  # Which the stubs take for one endpoint.
        networks = self._engine.api.create_networking_config(names)
        created = self._engine.api.create_container(
            self._image,
            list(command),
            name=name,
            hostname=node.name,
            user=f"{os.geteuid()}:{os.getegid()}",
            working_dir=str(TMP),
            labels=self._labels.of(node.name),
            environment={
                **self._layout.environment(address, TMP / "spark", self._surroundings.import_path),
                RUN: self._labels.run,
                NODE: node.name,
                ADDRESS: address,
                "HOME": str(TMP),
                **environment,
            },
            host_config=self._engine.api.create_host_config(
                init=True,
                mounts=self._surroundings.mounts,
                mem_limit=memory,
                memswap_limit=memory,
                # Not as `nano_cpus`, which the engine lets nobody change afterwards.
                cpu_period=PERIOD,
                cpu_quota=round(self._options.cpus * PERIOD),
                pids_limit=4096,
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
            ),
            networking_config=networks,
        )
        container = str(created["Id"])
        node.granted = granted(self._engine.api.inspect_container(container))
        node.container, node.log = container, log
        node.incarnation += 1  # Last: whoever sees the new incarnation sees its container and its log.
        self._engine.api.start(container)
        return container

    def _memory(self, role: str) -> int:
        """That its container may use, in bytes."""
        kind = role.partition("-")[0]
        more = self._options.another_executor_mb * (self._options.executors - 1) if kind == "worker" else 0
        return (self._options.limits_mb.get(kind, _HELPER_MB) + more) << 20
