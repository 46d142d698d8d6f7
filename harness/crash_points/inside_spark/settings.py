"""The settings with which Spark's JVMs start with the agent and its script."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from ...core.errors import InvalidScenario


def agent_settings(agent: Path, script: Path) -> dict[str, str]:
    """For the driver and the executors; both files are at these paths on every node. Raises InvalidScenario.

    They take effect when a JVM starts. Where the user has such options too, `with_options` keeps both.
    """
    for path in (agent, script):
        if "," in str(path):
            raise InvalidScenario(f"{path} has a comma in it, at which the agent's options are split: move it")
    option = shlex.quote(f"-javaagent:{agent}=script:{script}")
    return {"spark.driver.extraJavaOptions": option, "spark.executor.extraJavaOptions": option}


def with_options(given: Mapping[str, str], ours: Mapping[str, str]) -> dict[str, str]:
    """Our settings, each after what the user has given under the same name."""
    return {name: f"{given[name]} {value}" if given.get(name) else value for name, value in ours.items()}
