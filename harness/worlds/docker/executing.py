"""Runs shell commands, and the operations of `inside`, in containers, and hears what they say.

An engine ends the output of a process that is over at once before it has read it, now and then: the process has said
something, ended well, and nothing is heard. So whoever goes by what was said asks whether it was all.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import docker
from docker.errors import APIError, DockerException
from requests.exceptions import RequestException

from ...core.errors import OwnFailure, StreamproofError
from ...core.waiting import wait_until

_SECONDS = 10.0
_KILLED = 137
_GONE = (404, 409)
"""What the engine answers where a container is not there, or not running, or paused."""


_ALL_SAID = "all was said"
"""What commands print last."""


@dataclass(frozen=True)
class ShellEnded:
    """What shell commands in a container came to: their exit status, and what they printed."""

    status: int
    said: str
    wrong: str
    """On their standard error."""
    is_all: bool
    """Whether the engine has handed over all that they printed, where none of them failed."""


def run_in_shell(client: docker.DockerClient, container: str, commands: str) -> ShellEnded:
    """Carry out commands, up to the first that fails or one that exits. Raises docker's APIError."""
    made = client.api.exec_create(container, ["/bin/sh", "-ec", f"(\n{commands}\n)\necho '{_ALL_SAID}'"])["Id"]
    said, wrong = client.api.exec_start(made, demux=True)
    text, found, _ = (said or b"").decode(errors="replace").rpartition(f"{_ALL_SAID}\n")
    status = client.api.exec_inspect(made)["ExitCode"]
    return ShellEnded(status, text, (wrong or b"").decode(errors="replace").strip(), bool(found))


def _command(operation: str, arguments: tuple[str, ...]) -> list[str]:
    source = (files(__package__) / "inside.py").read_text()
    return ["python3", "-I", "-S", "-c", source, operation, *arguments]


def run_inside(client: docker.DockerClient, container: str, operation: str, *arguments: str) -> dict[str, Any] | None:
    """What an operation said last. None: the container does not run, or ended meanwhile.

    Raises OwnFailure when the operation fails.
    """
    try:
        made = client.api.exec_create(container, _command(operation, arguments))
        said = client.api.exec_start(made["Id"]).decode(errors="replace").strip()
        status = client.api.exec_inspect(made["Id"])["ExitCode"]
    except APIError as problem:
        if problem.status_code in _GONE:
            return None
        raise OwnFailure(f"{operation} cannot be run in a container: {problem.explanation}") from problem
    except (DockerException, RequestException) as problem:
        raise OwnFailure(f"{operation} cannot be run in a container: {problem}") from problem
    if status == _KILLED:
        return None
    if status != 0:
        raise OwnFailure(f"{operation} {' '.join(arguments)} failed in a container: {said.splitlines()[-1:]}")
    if not said:
        raise OwnFailure(f"the engine has lost what {operation} said in a container: run it again")
    answer: dict[str, Any] = json.loads(said.splitlines()[-1])
    return answer


class Background:
    """An operation that goes on in a container until it is told to end, or the container ends."""

    def __init__(
        self,
        client: docker.DockerClient,
        container: str,
        operation: str,
        *arguments: str,
        ended: Callable[[Background], None] = lambda background: None,
    ) -> None:
        """`ended` is called with this, in a thread of its own, once it has. Raises OwnFailure when it cannot be
        started. Where the container does not run, it has ended."""
        self.said: list[dict[str, Any]] = []
        self.problem = ""
        self._is_over = False
        self._client = client
        self._container = container
        self._operation = operation
        self._when_ended = ended
        self._id = ""
        output: Iterator[bytes] = iter(())
        try:
            made = client.api.exec_create(container, _command(operation, arguments))
            self._id = made["Id"]
            output = client.api.exec_start(self._id, stream=True)
        except APIError as problem:
            if problem.status_code not in _GONE:
                raise OwnFailure(f"{operation} cannot be run in a container: {problem.explanation}") from problem
        self._thread = threading.Thread(target=self._hear, args=(output,), name=operation, daemon=True)
        self._thread.start()

    def _hear(self, output: Iterator[bytes]) -> None:
        text = ""
        try:
            for part in output:
                text += part.decode(errors="replace")
                *lines, text = text.split("\n")
                for line in lines:
                    if line.startswith("{"):
                        self.said.append(json.loads(line))
                    else:
                        self.problem = line
            self._is_over = True
            self._when_ended(self)
        except (StreamproofError, DockerException, RequestException, OSError) as problem:
            self.problem = str(problem)

    @property
    def ended(self) -> bool:
        """Whether it has, and whoever is told of that has been."""
        return not self._thread.is_alive()

    @property
    def was_killed(self) -> bool:
        """Whether a signal has ended it, once it has ended."""
        if not self._id:
            return False
        # Its output ends a little before the engine knows how it did.
        return self._status() == _KILLED

    def _status(self) -> int:
        def look() -> dict[str, Any] | None:
            found: dict[str, Any] = self._client.api.exec_inspect(self._id)
            return None if found["Running"] else found

        return int(wait_until(look, _SECONDS, f"{self._operation} to be seen to have ended")["ExitCode"])

    def end(self) -> None:
        """Kill it, which has said its pid first, and wait until it is gone."""
        wait_until(lambda: self.ended or self.said, _SECONDS, f"{self._operation} to begin in a container")
        if not (self._is_over or self.ended):  # Else the pid may be another's by now.
            run_inside(self._client, self._container, "end", str(self.said[0]["pid"]))
        self.wait()

    def wait(self) -> None:
        """Until it has ended by itself."""
        wait_until(lambda: self.ended, _SECONDS, f"{self._operation} to end in a container", lambda: self.problem)
