"""Kills a container, or freezes it, and waits until the engine has seen that."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import docker
from docker.errors import APIError

from ...core.errors import DeadlinePassed
from ...core.waiting import wait_until
from .engine import asking_engine
from .proofs import ContainerKill, ContainerStop


class ContainerStrikes:
    """What is done to containers of a run. Who calls it sees to it that no other takes the place of one meanwhile."""

    def __init__(self, engine: docker.DockerClient, seconds: float) -> None:
        """`seconds` is how long a container may take to end, or to freeze."""
        self._engine = engine
        self._seconds = seconds

    def end(self, name: str, container: str, number: signal.Signals) -> ContainerKill:
        """Send the container of this node a signal. SIGKILL ends it for certain: else DeadlinePassed is raised."""
        pid = int(self.state(container)["Pid"])
        if pid:  # A container that is not there has ended by itself meanwhile.
            with asking_engine(f"{name} cannot be killed", passing=(404, 409)):
                self._engine.api.kill(container, number.name)
        try:
            state = self.await_state(container, lambda state: not state["Running"], f"{name} to end")
        except DeadlinePassed:
            if number is signal.SIGKILL:
                raise
            return ContainerKill(name, container, number, (pid,) if pid else (), False, None, "")
        status = int(state["ExitCode"])
        return ContainerKill(name, container, number, (pid,) if pid else (), True, status, state["FinishedAt"])

    def freeze(self, name: str, container: str) -> ContainerStop:
        """`resume` lets it go on."""
        pid = int(self.state(container)["Pid"])
        if pid:
            with asking_engine(f"{name} cannot be paused", passing=(404, 409)):
                wait_until(lambda: self._pause(container), self._seconds, f"{name} to freeze")
        return ContainerStop(container, (pid,) if pid else (), bool(self.state(container)["Paused"]))

    def _pause(self, container: str) -> bool:
        """False: the kernel could not freeze it this time, as with cgroups of version 1 while it starts processes."""
        try:
            self._engine.api.pause(container)
        except APIError as problem:
            if "unable to freeze" not in str(problem.explanation):
                raise
            return False
        return True

    def resume(self, stopped: ContainerStop) -> None:
        """A container that has ended meanwhile, or its successor, is not touched."""
        with asking_engine("a container cannot go on", passing=(404, 409, 500)):
            self._engine.api.unpause(stopped.container)
        self.await_state(stopped.container, lambda state: not state["Paused"], "a container to go on")

    def await_state(self, container: str, wanted: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            state = self.state(container)
            return state if wanted(state) else None

        return wait_until(look, self._seconds, what, every=0.005)

    def state(self, container: str) -> dict[str, Any]:
        with asking_engine("a container cannot be looked at"):
            state: dict[str, Any] = self._engine.api.inspect_container(container)["State"]
        return state
