"""Whether the containers of a cluster are, after a run, as they were before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import docker
from docker.errors import APIError, NotFound
from docker.models.containers import Container

from ...install.settings import DAEMON_MODULE
from ..spark.control.warm import Unclean
from .executing import run_in_shell
from .labels import RUN
from .reaping import containers_of, resource_name
from .sidecars import is_sidecar, sidecar_name

_EXECUTORS = ("org.apache.spark.executor.", "pyspark.daemon", "pyspark.worker", DAEMON_MODULE)
"""In the command line of what an application leaves on a worker while it runs."""
_LOOKS = 3
"""How often rules are listed, where the engine loses what that prints."""
_LIST_RULES = """\
rules=$(iptables-save -t filter && iptables-save -t mangle)
queues=$(tc qdisc show)
echo "$rules" | grep -e ^-A || true
echo "$queues" | grep -v -e ^$ -e " noqueue " -e " dev lo " || true
"""
"""Prints nothing where nothing stands in the way of packets, and fails where that cannot be seen: not in a pipe, which
would hide it."""


class Granted(NamedTuple):
    """The limits of a container as the engine has them: what the kernel cannot limit is not what was asked for."""

    memory: int
    memory_and_swap: int
    cpu_quota: int


def granted(found: Mapping[str, Any]) -> Granted:
    """To a container of which the engine says this."""
    host = found["HostConfig"]
    return Granted(host["Memory"], host["MemorySwap"], host["CpuQuota"])


@dataclass(frozen=True)
class StandingNode:
    """A node that stays between runs, and what it was given."""

    name: str
    container: str
    address: str
    granted: Granted
    """At its start."""
    comes_back: bool
    """Whether it is started again when it has ended."""


def container_changes(client: docker.DockerClient, run: str, nodes: Sequence[StandingNode]) -> Unclean:
    """What is not as it was. Raises the engine's own errors."""
    lasting: list[str] = []
    passing: list[str] = []
    stay = [node.container for node in nodes]
    for one in containers_of(client, run):
        state = one.attrs["State"]
        # Earlier incarnations of a node have ended, and stay until the end of the next run.
        if not belongs_to(one, stay) and state not in ("exited", "dead"):
            # Perhaps the next incarnation of a worker is being made, and its sidecar takes the place of the one before.
            coming = state == "created" or is_sidecar(resource_name(one))
            (passing if coming else lasting).append(f"container {resource_name(one)} is {state}")
    for node in nodes:
        found = _running(client, node)
        if found is None:
            (passing if node.comes_back else lasting).append(f"{node.name} does not run")
            continue
        lasting += [f"{node.name} {change}" for change in _changes(node, found)]
        if not found["State"]["Paused"] and _has_executor(client, node):
            passing.append(f"{node.name} runs an executor still")
        sidecar = _sidecar(client, run, node)
        if sidecar is None:
            continue
        if not sidecar["State"]["Running"]:
            # Beside a node that came back just now it is being started, and has run beside all others since they came.
            coming = sidecar["State"]["Status"] == "created"
            (passing if coming else lasting).append(f"the sidecar of {node.name} is {sidecar['State']['Status']}")
        elif rules := _rules(client, sidecar["Id"]):
            lasting.append(f"packets to {node.name} are in the hands of {'; '.join(rules)}")
    return Unclean(tuple(lasting), tuple(passing))


def belongs_to(one: Container, nodes: Sequence[str]) -> bool:
    """Whether it is one of these containers, or the sidecar of one."""
    return one.id in nodes or any(resource_name(one) == sidecar_name(_run(one), node) for node in nodes)


def _running(client: docker.DockerClient, node: StandingNode) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = client.api.inspect_container(node.container)
    except NotFound:
        return None
    return found if found["State"]["Running"] else None


def _changes(node: StandingNode, found: dict[str, Any]) -> Iterator[str]:
    if found["State"]["Paused"]:
        yield "is paused"
    if granted(found) != node.granted:
        yield f"has other limits than at its start: {granted(found)}, not {node.granted}"
    addresses = [network["IPAddress"] for network in found["NetworkSettings"]["Networks"].values()]
    if addresses != [node.address]:
        yield f"is at {', '.join(addresses) or 'no address'}, not {node.address}"


def _sidecar(client: docker.DockerClient, run: str, node: StandingNode) -> dict[str, Any] | None:
    """Of a node, where it has one."""
    try:
        found: dict[str, Any] = client.api.inspect_container(sidecar_name(run, node.container))
    except NotFound:
        return None
    return found


def _rules(client: docker.DockerClient, sidecar: str) -> list[str]:
    """What stands in the network of a node, by what its sidecar sees."""
    for _ in range(_LOOKS):
        try:
            ended = run_in_shell(client, sidecar, _LIST_RULES)
        except NotFound:
            return []
        if ended.status != 0:
            return [f"nobody knows what, since looking failed with status {ended.status} ({ended.wrong})"]
        if ended.is_all:
            return ended.said.splitlines()
    return [f"nobody knows what, since the engine has lost {_LOOKS} times what a look printed"]


def _run(one: Container) -> str:
    return str(one.attrs["Labels"][RUN])


def _has_executor(client: docker.DockerClient, node: StandingNode) -> bool:
    """Of a container that runs: of a paused one this would wait until it goes on."""
    try:
        processes = client.api.top(node.container)["Processes"]
    except APIError as error:
        if error.status_code not in (404, 409):
            raise
        return False  # It has ended just now, which the next look shows.
    return any(sign in process[-1] for process in processes for sign in _EXECUTORS)
