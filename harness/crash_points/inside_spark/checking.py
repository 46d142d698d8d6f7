"""Finds a rule that matches nothing in this Spark before a run, not after.

Byteman drops such a rule without a word, and then a point is never reached. Its own check of a script says so, in its
output alone: its exit status is always 0, and a method that does not exist is not even a warning, but a rule of which
it does not say that it was checked.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...core.errors import OwnFailure, Unsupported
from ...install.event_source import source_jar
from ...install.machine import Java, Spark, find_java, find_spark
from .agent import SHA256
from .rules import script
from .versions import Hook, SparkVersion

CHECK_SECONDS = 120


def check_rules(
    version: SparkVersion,
    agent: Path,
    own: Sequence[Hook] = (),
    environment: Mapping[str, str] | None = None,
    spark: Spark | None = None,
) -> None:
    """Raises Unsupported, with the rules that match nothing in this Spark, or that of this interpreter.

    What was found good once is remembered in the user's cache folder, for these rules and exactly these jars.
    """
    env = os.environ if environment is None else environment
    java, spark = find_java(env), spark or find_spark()
    text = script(
        version, ("127.0.0.1", 1), "token", "node", 1, own=own, inside=("/nowhere",), last_first=Path("/nowhere")
    )
    good = _mark(env, spark, text)
    if good.exists():
        return
    source = [source_jar(spark, java, env)] if version.source_in_java else []
    said = _checked(java, spark, [agent, *source], text)
    if bad := unmatched(text, said):
        names = ", ".join(bad)
        raise Unsupported(
            f"{len(bad)} of the rules for crash points inside Spark match nothing in {spark.home}, which should be "
            f"Spark {version.number}: {names}. {_first_error(said)}"
        )
    try:
        good.parent.mkdir(parents=True, exist_ok=True)
        good.touch()
    except OSError:
        # Nothing is lost but a second at the next run.
        return


def unmatched(text: str, said: str) -> list[str]:
    """The rules of a script of which the check does not say that they are right."""
    checked = set(re.findall(r'^Type checked [a-z ]*rule "(.+?)"', said, re.MULTILINE))
    wrong = set(re.findall(r'^(?:ERROR|WARNING) .*?rule "(.+?)"', said, re.MULTILINE))
    rules = re.findall(r"^RULE (.+)$", text, re.MULTILINE)
    return [rule for rule in rules if rule not in checked or rule in wrong]


def _first_error(said: str) -> str:
    return next((line for line in said.splitlines() if line.startswith("ERROR")), "Byteman says of them no more.")


def _checked(java: Java, spark: Spark, jars: Sequence[Path], text: str) -> str:
    with tempfile.TemporaryDirectory(prefix="streamproof-rules-") as folder:
        rules = Path(folder, "rules.btm")
        rules.write_text(text)
        classpath = os.pathsep.join([spark.classpath, *map(str, jars)])
        command = [str(java.executable), "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", classpath]
        command += ["org.jboss.byteman.check.TestScript", str(rules)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=CHECK_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise OwnFailure(f"the rules for crash points inside Spark could not be checked: {problem}") from problem
    said = done.stdout + done.stderr
    if "TestScript: " not in said:
        raise OwnFailure(f"Byteman's check of the rules for crash points did not end: {said[-2000:]}")
    return said


def _mark(environment: Mapping[str, str], spark: Spark, text: str) -> Path:
    jars = sorted((jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in (spark.home / "jars").glob("*.jar"))
    stamp = hashlib.sha256(repr((text, SHA256, str(spark.home), jars)).encode()).hexdigest()
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "streamproof" / f"rules-{stamp[:16]}.checked"
