"""Sidecars: a container beside that of each node, in the same network namespace, which may change it.

The node's own container needs no privilege then. The namespace of a container that has ended stays, with its counters,
for as long as its sidecar runs; only the interface is gone from it.
"""

from __future__ import annotations

from importlib.resources import files

import docker
from docker.errors import APIError

from ...core.errors import OwnFailure
from .executing import run_in_shell
from .labels import RunLabels

_PROGRAMS = ("probe", "packet_delays")
"""The modules of this package which run in sidecars, each on its own. Their source is handed over in the environment: a
sidecar's user, which has no privilege over files, may not be able to read this user's."""
_MEMORY = "128m"
_PIDS = 128
_CPU_SHARES = 16 << 10
"""Sixteen times a node's: what strikes, or holds packets, does not wait behind what it disturbs."""


def sidecar_name(run: str, container: str) -> str:
    return f"streamproof-{run}-sidecar-{container[:12]}"


def python(program: str, *arguments: object) -> str:
    """The shell command, in a sidecar, that runs one of the programs there."""
    return " ".join((f'python3 -I -S -c "${_variable(program)}"', *map(str, arguments)))


def sources() -> dict[str, str]:
    """The environment variables that `python` needs."""
    return {_variable(program): (files(__package__) / f"{program}.py").read_text() for program in _PROGRAMS}


def _variable(program: str) -> str:
    return f"STREAMPROOF_{program.upper()}"


def is_sidecar(name: str) -> bool:
    """By the name of a container."""
    return name.startswith("streamproof-") and "-sidecar-" in name


class Sidecars:
    """Starts and removes them, and runs commands in them. They carry the run's labels, and go with all else of it."""

    def __init__(self, engine: docker.DockerClient, image: str, labels: RunLabels) -> None:
        """The image has iptables, tc and Python."""
        self._engine = engine
        self._image = image
        self._labels = labels
        self._environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **sources()}

    def start(self, container: str) -> str:
        """A sidecar of a container that runs: the engine's id of it."""
        try:
            created = self._engine.api.create_container(
                self._image,
                entrypoint=["sleep", "infinity"],
                name=sidecar_name(self._labels.run, container),
                user="0:0",
                labels=self._labels.of(),
                environment=self._environment,
                host_config=self._engine.api.create_host_config(
                    init=True,
                    network_mode=f"container:{container}",
                    mem_limit=_MEMORY,
                    memswap_limit=_MEMORY,
                    pids_limit=_PIDS,
                    cpu_shares=_CPU_SHARES,
                    cap_drop=["ALL"],
                    cap_add=["NET_ADMIN"],
                    security_opt=["no-new-privileges"],
                ),
            )
            sidecar = str(created["Id"])
            self._engine.api.start(sidecar)
        except APIError as problem:
            raise OwnFailure(
                f"no sidecar of container {container[:12]} can be started: {problem.explanation}"
            ) from problem
        return sidecar

    def run(self, sidecar: str, commands: str, heard: bool = True) -> str:
        """What shell commands have printed. Raises OwnFailure where one of them fails; and where what they printed was
        lost, if it is to be `heard`."""
        try:
            ended = run_in_shell(self._engine, sidecar, commands)
        except APIError as problem:
            raise OwnFailure(f"sidecar {sidecar[:12]} runs no command: {problem.explanation}") from problem
        where = f"in sidecar {sidecar[:12]} commands"
        if ended.status != 0:
            raise OwnFailure(f"{where} failed with status {ended.status} ({ended.wrong}):\n{commands}")
        if heard and not ended.is_all:
            raise OwnFailure(f"{where} were carried out, and the engine has lost what they printed: run it again")
        return ended.said

    def remove(self, sidecar: str) -> None:
        """With the network, where its node's container has ended."""
        try:
            self._engine.api.remove_container(sidecar, force=True, v=True)
        except APIError as problem:
            if problem.status_code not in (404, 409):  # Else the end of the run removes it too.
                raise OwnFailure(f"sidecar {sidecar[:12]} cannot be removed: {problem.explanation}") from problem

    def runs(self, container: str) -> bool:
        """Whether a node's container does."""
        try:
            return bool(self._engine.api.inspect_container(container)["State"]["Running"])
        except APIError as problem:
            if problem.status_code == 404:
                return False
            raise OwnFailure(f"container {container[:12]} cannot be inspected: {problem.explanation}") from problem
