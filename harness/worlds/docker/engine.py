"""The Docker engine of this machine, or the reason why there is none that can be used."""

from __future__ import annotations

import errno
import os
import platform
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import docker
from docker.errors import APIError, DockerException
from requests.exceptions import RequestException

from ...core.errors import MissingTool, OwnFailure, StreamproofError, Unsupported

SOCKET = "/var/run/docker.sock"
INSTALL = "Debian: apt-get install docker.io"


def connect(environment: Mapping[str, str] | None = None, seconds: int = 60) -> docker.DockerClient:
    """A client of this machine's engine, once it has answered.

    Raises Unsupported for an engine on another machine, MissingTool where none runs or it is not for this user.
    """
    path = socket_path(environment)
    _knock(path)
    client: docker.DockerClient | None = None
    try:
        client = docker.DockerClient(base_url=f"unix://{path}", version="auto", timeout=seconds)
        kernel = client.info()["KernelVersion"]
    except (DockerException, RequestException, LookupError, TypeError) as error:
        if client is not None:
            client.close()
        raise MissingTool(f"the Docker engine at {path} does not answer as one: {error}") from error
    if kernel != platform.release():
        client.close()
        raise Unsupported(
            f"the Docker engine at {path} runs on another machine (its kernel is {kernel}, this one's "
            f"{platform.release()}): containers must reach the harness, so only an engine of this machine can be used"
        )
    return client


def socket_path(environment: Mapping[str, str] | None = None) -> str:
    """Where the engine listens. Raises Unsupported when DOCKER_HOST leads to another machine."""
    named = (os.environ if environment is None else environment).get("DOCKER_HOST", "")
    if named and not named.startswith("unix://"):
        raise Unsupported(
            f"DOCKER_HOST is {named!r}: an engine that is not on this machine cannot be used yet; unset DOCKER_HOST, "
            "or let it be unix:// and a socket"
        )
    return named.removeprefix("unix://") or SOCKET


def _knock(path: str) -> None:
    """Tell apart, before a library does, why nobody answers."""
    with socket.socket(socket.AF_UNIX) as knocking:
        knocking.settimeout(5)
        try:
            knocking.connect(path)
        except FileNotFoundError:
            raise MissingTool(f"no Docker engine: there is no {path}. Install and start one ({INSTALL})") from None
        except PermissionError:
            raise MissingTool(
                f"no permission to use the Docker engine at {path}: let this user be in the socket's group "
                "(sudo usermod -aG docker $USER, and log in again)"
            ) from None
        except ConnectionRefusedError:
            raise MissingTool(f"no Docker engine runs behind {path}: start it (systemctl start docker)") from None
        except OSError as error:
            reason = errno.errorcode.get(error.errno or 0, str(error))
            raise MissingTool(f"the Docker engine at {path} cannot be reached: {reason}") from error


def engine_or_none() -> docker.DockerClient | None:
    """For who only looks what is there to be removed: where no engine can be used, nothing can have been left."""
    try:
        return connect(seconds=30)
    except StreamproofError:
        return None


@contextmanager
def asking_engine(what: str, passing: tuple[int, ...] = ()) -> Iterator[None]:
    """An engine that fails, does not answer, or refuses with another status than `passing`, is our own failure."""
    try:
        yield
    except APIError as problem:
        if problem.status_code not in passing:
            raise OwnFailure(f"{what}: {problem.explanation}") from problem
    except (DockerException, RequestException) as problem:
        raise OwnFailure(f"{what}: {problem}") from problem
