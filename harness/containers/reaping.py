"""Ends what runs that were killed themselves have left on the engine, containers, networks and volumes, and their
scratch folders."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.errors import APIError, DockerException
from docker.models.containers import Container
from docker.models.networks import Network
from docker.models.volumes import Volume
from requests.exceptions import RequestException

from ..embedded.reaping import ProcessId, remove_scratch
from ..errors import OwnFailure
from .engine import engine_or_none
from .labels import OWNER, RUN, SCRATCH, owner_is_gone

_SECONDS = 30.0
_PAUSE = 0.05
"""Between two lists: what the engine was just making, or removing, shows in a later one."""

_Left = Container | Network | Volume


@dataclass(frozen=True)
class ReapedContainers:
    """What a run has left on the engine, and is removed now."""

    run: str
    containers: tuple[str, ...]
    networks: tuple[str, ...]
    volumes: tuple[str, ...]
    survivors: tuple[str, ...]


def reap_containers(client: docker.DockerClient | None = None) -> list[ReapedContainers]:
    """Remove everything on this machine's engine of runs whose owner is gone; nothing where there is no engine.

    Raises OwnFailure when the engine fails meanwhile.
    """
    own = client is None
    client = client or engine_or_none()
    if client is None:
        return []
    try:
        return _reap_on(client)
    except (DockerException, RequestException) as error:
        raise OwnFailure(f"what runs have left on the Docker engine cannot be removed: {error}") from error
    finally:
        if own:
            client.close()


def _reap_on(client: docker.DockerClient) -> list[ReapedContainers]:
    left = {
        (labels[RUN], labels.get(OWNER, "")): labels
        for labels in map(_labels, _all(client, RUN))
        if owner_is_gone(labels)
    }
    return [_reap(client, labels) for _, labels in sorted(left.items())]


def _reap(client: docker.DockerClient, labels: dict[str, str]) -> ReapedContainers:
    run, owner = labels[RUN], labels.get(OWNER, "")

    def same(one: _Left) -> bool:
        return _labels(one).get(OWNER, "") == owner

    removed = remove_all(client, run, same)
    if SCRATCH in labels:
        remove_scratch(Path(labels[SCRATCH]), run, ProcessId.parse(owner))
    return ReapedContainers(run, *removed)


def remove_all(
    client: docker.DockerClient, run: str, wanted: Callable[[_Left], bool] = lambda one: True
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Remove the run's containers, running or not, then its networks and volumes, until two lists in a row are empty.

    Returns their names, and those of what is there nevertheless.
    """
    label = f"{RUN}={run}"
    containers: dict[str, str] = {}
    networks: dict[str, str] = {}
    volumes: dict[str, str] = {}
    empty = 0
    deadline = time.monotonic() + _SECONDS
    while True:
        nodes = [one for one in _containers(client, label) if wanted(one)]
        containers.update((str(one.id), str(one.name)) for one in nodes)
        with ThreadPoolExecutor(max_workers=max(1, len(nodes))) as pool:
            list(pool.map(_remove, nodes))
        nets = [one for one in _networks(client, label) if wanted(one)]
        networks.update((str(one.id), str(one.name)) for one in nets)
        disks = [one for one in _volumes(client, label) if wanted(one)]
        volumes.update((str(one.id), str(one.name)) for one in disks)
        for net in nets:
            _remove(net)
        for disk in disks:
            _remove(disk)
        empty = 0 if nodes or nets or disks else empty + 1
        if empty == 2 or time.monotonic() > deadline:
            break
        time.sleep(_PAUSE)
    left = _all(client, label) if empty < 2 else []
    survivors = tuple(str(one.name) for one in left if wanted(one))
    return _sorted(containers), _sorted(networks), _sorted(volumes), survivors


def _sorted(names: dict[str, str]) -> tuple[str, ...]:
    return tuple(sorted(names.values()))


def _remove(one: _Left) -> None:
    # Somebody else removes it too, or it is in use still: the next list shows it.
    with suppress(APIError):
        if isinstance(one, Container):
            one.remove(force=True, v=True)
        else:
            one.remove()


def _all(client: docker.DockerClient, label: str) -> list[_Left]:
    return [*_containers(client, label), *_networks(client, label), *_volumes(client, label)]


def _containers(client: docker.DockerClient, label: str) -> list[Container]:
    # Not one request for each: between the list and it a container can go.
    return client.containers.list(all=True, filters={"label": label}, sparse=True)


def _networks(client: docker.DockerClient, label: str) -> list[Network]:
    return client.networks.list(filters={"label": label})


def _volumes(client: docker.DockerClient, label: str) -> list[Volume]:
    return client.volumes.list(filters={"label": label})


def _labels(one: _Left) -> dict[str, str]:
    return dict(one.attrs.get("Labels") or {})
