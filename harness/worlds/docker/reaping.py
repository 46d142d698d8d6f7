"""Ends what runs that were killed themselves have left: containers, networks, volumes, and scratch folders."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.errors import APIError, DockerException, NotFound
from docker.models.containers import Container
from docker.models.networks import Network
from docker.models.volumes import Volume
from requests.exceptions import RequestException

from ...core.errors import OwnFailure
from ..embedded.reaping import ProcessId, remove_scratch
from .engine import engine_or_none
from .labels import OWNER, RUN, SCRATCH, owner_is_gone

_SECONDS = 30.0
_PAUSE = 0.05
"""Between two lists: what the engine was just making, or removing, shows in a later one."""

_STUCK = 1.0
"""Seconds after which a network that is refused though nothing uses it is left: the engine has lost count of what was
connected to it, as Docker 20.10 does now and then, and removes it only once it has been restarted."""

Resource = Container | Network | Volume


@dataclass(frozen=True)
class Removed:
    """Names of what was on the engine and is removed, and of what is there nevertheless."""

    containers: tuple[str, ...]
    networks: tuple[str, ...]
    volumes: tuple[str, ...]
    survivors: tuple[str, ...]
    stuck: tuple[str, ...] = ()
    """Networks that the engine keeps though nothing uses them."""


@dataclass(frozen=True, kw_only=True)
class ReapedContainers(Removed):
    """What a run has left on the engine, and is removed now."""

    run: str


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
        for labels in map(_labels, _list(client, RUN))
        if owner_is_gone(labels)
    }
    return [_reap(client, labels) for _, labels in sorted(left.items())]


def _reap(client: docker.DockerClient, labels: dict[str, str]) -> ReapedContainers:
    run, owner = labels[RUN], labels.get(OWNER, "")

    def remove_folder() -> None:
        if SCRATCH in labels:
            remove_scratch(Path(labels[SCRATCH]), run, ProcessId.parse(owner))

    removed = remove_all(client, run, remove_folder, lambda one: _labels(one).get(OWNER, "") == owner)
    return ReapedContainers(**vars(removed), run=run)


def remove_all(
    client: docker.DockerClient,
    run: str,
    remove_folder: Callable[[], None] = lambda: None,
    wanted: Callable[[Resource], bool] = lambda one: True,
) -> Removed:
    """Remove the run's containers and volumes, its folder, and the networks, until two lists in a row are empty.

    The networks go last since their labels tell where the folder is: whenever this is cut short, the next one to reap
    finds all that is left. A folder that cannot be removed is among the survivors.
    """
    label = f"{RUN}={run}"
    removed: dict[type[Resource], set[str]] = {Container: set(), Network: set(), Volume: set()}
    empty = 0
    folder: list[str] | None = None
    began = used = time.monotonic()
    while True:
        left = [one for one in _list(client, label) if wanted(one)]
        for one in left:
            removed[type(one)].add(resource_name(one))
        there = [one for one in left if isinstance(one, Container)]
        # What containers use can only go after them.
        remove_containers(there)
        for volume in (one for one in left if isinstance(one, Volume)):
            _remove(volume)
        if not there:
            if folder is None:
                folder = _refused(remove_folder)
                began = used = time.monotonic()  # What that took is no sign of an engine that is stuck.
            for network in (one for one in left if isinstance(one, Network)):
                _remove(network)
        empty = 0 if left else empty + 1
        now = time.monotonic()
        if not all(isinstance(one, Network) and not _is_used(one) for one in left):
            used = now
        if empty == 2 or now - began > _SECONDS or now - used > _STUCK:
            break
        time.sleep(_PAUSE)
    still = [] if empty == 2 else [one for one in _list(client, label) if wanted(one)]
    stuck = [resource_name(one) for one in still if isinstance(one, Network) and not _is_used(one)]
    survivors = [*(name for one in still if (name := resource_name(one)) not in stuck), *(folder or ())]
    removed[Network] -= set(stuck)
    containers, networks, volumes = (tuple(sorted(removed[kind])) for kind in (Container, Network, Volume))
    return Removed(containers, networks, volumes, tuple(survivors), tuple(stuck))


def _refused(remove: Callable[[], None]) -> list[str]:
    """What could not be removed, and why."""
    try:
        remove()
    except OSError as error:
        return [str(error)]
    return []


def _is_used(network: Network) -> bool:
    """Whether a container is connected to it, or was a moment ago: one that is gone is not used."""
    with suppress(NotFound):
        network.reload()
        return bool(network.attrs["Containers"])
    return False


def containers_of(client: docker.DockerClient, run: str) -> list[Container]:
    """Every container of a run, also those that have ended."""
    return _containers(client, f"{RUN}={run}")


def resource_name(one: Resource) -> str:
    # In a list the engine names a container otherwise than by itself.
    return str(one.attrs["Names"][0]).removeprefix("/") if "Names" in one.attrs else str(one.name)


def remove_containers(containers: Sequence[Container]) -> None:
    """Whatever they do; one that is gone, or that somebody else removes too, is no failure."""
    with ThreadPoolExecutor(max_workers=max(1, len(containers))) as pool:
        list(pool.map(_remove, containers))


def _remove(one: Resource) -> None:
    # Somebody else removes it too, or it is in use still: the next list shows it.
    with suppress(APIError):
        if isinstance(one, Container):
            one.remove(force=True, v=True)
        else:
            one.remove()


def _list(client: docker.DockerClient, label: str) -> list[Resource]:
    filters = {"label": label}
    return [*_containers(client, label), *client.networks.list(filters=filters), *client.volumes.list(filters=filters)]


def _containers(client: docker.DockerClient, label: str) -> list[Container]:
    # Not one request for each: between the list and it a container can go.
    return client.containers.list(all=True, filters={"label": label}, sparse=True)


def _labels(one: Resource) -> dict[str, str]:
    return dict(one.attrs.get("Labels") or {})
