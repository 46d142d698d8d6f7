"""The script with which Byteman makes Spark's threads tell the harness where they are, and wait for its answer.

One script for driver and executors. `Announcer.java` is what talks. A line of it: token, node, incarnation, process id,
side, point, key; spaces between them, and the key is the rest.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from importlib import resources
from pathlib import Path

from ...core.addresses import Point, Side
from ...core.errors import InvalidScenario
from ...core.wire import Endpoint
from .versions import Hook, SparkVersion

CONNECT_MS = 10_000
"""How long a thread tries to reach a harness that does not refuse and does not answer either."""


def script(
    version: SparkVersion,
    place: Endpoint,
    token: str,
    node: str,
    incarnation: int,
    points: Collection[Point] | None = None,
    own: Sequence[Hook] = (),
    inside: Sequence[str] | None = None,
    last_first: Path | None = None,
) -> str:
    """The rules for `points`, or for all that are known, and for `own` hooks. Where there are folders that files are
    to be `inside` of, what is written, made or taken away elsewhere is said in passing, and which databases are
    connected to. While there is a file `last_first`, of which the path is absolute, the tasks of each stage that begins
    are run in the other order, that of the last partition first. What a Python data source does beside its tasks is
    followed as its tasks are. It holds the token: keep it private.

    Raises InvalidScenario for a token, node or host that a line cannot carry, or a point that is not inside Spark.
    """
    for text in (token, node, place[0]):
        if not text or not all(character.isalnum() or character in "-_.:" for character in text):
            raise InvalidScenario(f"{text!r} cannot be announced: letters, digits, '-', '_', '.' and ':' can")
    known = {hook.point for hook in version.hooks}
    wanted = known if points is None else set(points)
    if unknown := sorted(wanted - known):
        raise InvalidScenario(f"{unknown[0].value!r} is no point inside Spark; there are: {', '.join(sorted(known))}")
    rules = [_start(version, place, f"{token} {node} {incarnation}")]
    rules.extend(_NAMED.format(one=one) for one in version.named)
    for hook in version.hooks:
        if hook.point in wanted:
            rules.extend(_rules(hook, str(hook.point)))
    for number, hook in enumerate(own):
        rules.extend(_rules(hook, f"{hook.point} {number}"))
    if inside is not None:
        rules.extend(_elsewhere(name, *done, inside) for name, done in _DONE_TO_FILES.items())
        rules += [_connected(inside), _TRANSFORMED]
    if last_first is not None:
        # What is no ASCII is in a URI's own signs: a rule with others is dropped by Byteman.
        rules.append(_LAST_FIRST.format(file=json.dumps(last_first.as_uri())))
    return "\n".join(rules)


# Byteman interprets what a rule says, so that is as little as can be. What a rule raises would fail Spark, and rules
# have no `try`: the announcer has. A JVM sets Spark's environment more than once: at its end too.
_START = """\
RULE start
CLASS {start[0]}
METHOD {start[1]}
AT ENTRY
BIND
  compiler:org.codehaus.janino.SimpleCompiler = new org.codehaus.janino.SimpleCompiler();
  text:Class = Class.forName("java.lang.String");
  number:Class = java.lang.Integer.TYPE
IF linked("streamproof", "announcer") == null
DO
  compiler.cook({source});
  link("streamproof", "announcer", compiler.getClassLoader().loadClass("Announcer")
    .getConstructor(new Class[] {{ text, number, number, text }})
    .newInstance(new Object[] {{
      "{host}", {port}, {connect_ms}, "{head} " + java.lang.ProcessHandle.current().pid() + " " }}))
ENDRULE
"""

_NAMED = """\
RULE {one.name}
CLASS {one.cls}
METHOD {one.method}
AT ENTRY
IF true
DO
  RETURN "{one.ours}"
ENDRULE
"""

_POINT = """\
RULE {name}
{hook.place}
METHOD {hook.method}
{where}
BIND
  {bindings};
  due:boolean = {condition} && key != null;
  announcer:java.util.function.Consumer = linked("streamproof", "announcer")
IF due && announcer != null
DO
  announcer.accept("{said} " + key)
ENDRULE
"""

_LEAVE = """\
RULE {name}
{hook.place}
METHOD {hook.method}
AT EXCEPTION EXIT
IF decrementCounter({depth}) < 0
DO NOTHING
ENDRULE
"""


_ELSEWHERE = """\
RULE elsewhere {name}
CLASS ^org.apache.hadoop.fs.FileSystem
METHOD {method}
AT ENTRY
BIND
  path:String = $0.makeQualified({path}).toString();
  elsewhere:boolean = !path.endsWith(".crc") && {outside};
  file:java.io.File = new java.io.File(path.replaceFirst("^file:", ""));
  due:boolean = elsewhere && {condition};
  announcer:java.util.function.Consumer = linked("streamproof", "announcer")
IF due && announcer != null
DO
  announcer.accept("elsewhere " + path{sign})
ENDRULE
"""
# A driver gives null for a database that is none of its own.
_CONNECTED = """\
RULE elsewhere connect
INTERFACE java.sql.Driver
METHOD connect(java.lang.String, java.util.Properties)
AT EXIT
BIND
  due:boolean = $! != null && {outside};
  announcer:java.util.function.Consumer = linked("streamproof", "announcer")
IF due && announcer != null
DO
  announcer.accept("elsewhere " + $1)
ENDRULE
"""
_TRANSFORMED = """\
RULE elsewhere transform
INTERFACE org.apache.spark.sql.execution.BaseScriptTransformationExec
METHOD initProc()
AT ENTRY
BIND
  words:String[] = $0.script().trim().split("\\\\s+");
  announcer:java.util.function.Consumer = linked("streamproof", "announcer")
IF announcer != null
DO
  announcer.accept("elsewhere process " + words[0])
ENDRULE
"""
# When a stage begins, its tasks are put on lists that are taken from their ends, without a look at racks; one that is
# tried again is put there with one.
_LAST_FIRST = """\
RULE tasks in the other order
CLASS org.apache.spark.scheduler.TaskSetManager
METHOD addPendingTask(int, boolean, boolean)
AT ENTRY
BIND
  wanted:java.io.File = new java.io.File(java.net.URI.create({file}));
  due:boolean = !$2 && wanted.exists()
IF due
DO
  $1 = $0.numTasks() - $1 - 1
ENDRULE
"""
_PATH = "org.apache.hadoop.fs.Path"
_PERMISSION = "org.apache.hadoop.fs.permission.FsPermission"
_PROGRESS = "org.apache.hadoop.util.Progressable"
_ALWAYS = "true"
# Who makes a folder on this machine makes those above it by the same method; the one that was asked for is told of.
_IS_NEW = '!file.exists() && !callerMatches("mkdirsWith.*")'
_IS_THERE = '(file.exists() || !path.startsWith("file:"))'
_AS_A_FOLDER = ' + "/"'
_AS_IT_IS = ' + (file.isDirectory() ? "/" : "")'
_DONE_TO_FILES = {
    "create": (f"create({_PATH}, {_PERMISSION}, boolean, int, short, long, {_PROGRESS})", "$1", _ALWAYS, ""),
    "append": (f"append({_PATH}, int, {_PROGRESS})", "$1", _ALWAYS, ""),
    "rename": (f"rename({_PATH}, {_PATH})", "$2", _ALWAYS, ""),
    "renamed": (f"rename({_PATH}, {_PATH})", "$1", _IS_THERE, _AS_IT_IS),
    "delete": (f"delete({_PATH}, boolean)", "$1", _IS_THERE, _AS_IT_IS),
    "mkdirs": (f"mkdirs({_PATH})", "$1", _IS_NEW, _AS_A_FOLDER),
    "mkdirs with": (f"mkdirs({_PATH}, {_PERMISSION})", "$1", _IS_NEW, _AS_A_FOLDER),
}
"""How files and folders come about, and go, on any of Hadoop's file systems, which all that Spark writes goes through:
the method, which of its arguments says where, when that counts, and what is said behind it. A folder's path ends in a
slash."""


def _elsewhere(name: str, method: str, path: str, condition: str, sign: str, inside: Sequence[str]) -> str:
    # A rule whose strings are not ASCII is dropped by Byteman; without the folder, too much counts as elsewhere.
    known = (json.dumps(f"file:{folder}/") for folder in inside if folder.isascii())
    outside = " && ".join(f'!(path + "/").startsWith({folder})' for folder in known) or "true"
    return _ELSEWHERE.format(name=name, method=method, path=path, outside=outside, condition=condition, sign=sign)


def _connected(inside: Sequence[str]) -> str:
    """Of databases in files of the folders, each operation is seen."""
    known = (json.dumps(f"{folder}/") for folder in inside if folder.isascii())
    return _CONNECTED.format(outside=" && ".join(f"$1.indexOf({folder}) < 0" for folder in known) or "true")


def _start(version: SparkVersion, place: Endpoint, head: str) -> str:
    # Byteman's strings are escaped as JSON's are.
    source = json.dumps(resources.files(__package__).joinpath("Announcer.java").read_text(encoding="utf-8"))
    host, port = place
    return _START.format(start=version.start, source=source, host=host, port=port, connect_ms=CONNECT_MS, head=head)


def _rules(hook: Hook, name: str) -> list[str]:
    depth = f'"{name} " + Thread.currentThread().getId()'
    sides = ((Side.BEFORE, hook.before), (Side.AFTER, hook.after))
    rules = [_rule(hook, name, depth, side, where) for side, where in sides if where]
    return [*rules, _LEAVE.format(name=f"{name} left", hook=hook, depth=depth)] if hook.overridden else rules


def _rule(hook: Hook, name: str, depth: str, side: Side, where: str) -> str:
    condition = f"({hook.condition})"
    if hook.overridden:
        # Counted first, whatever else is asked: each way in has its way out.
        count, outermost = ("incrementCounter", 1) if side is Side.BEFORE else ("decrementCounter", 0)
        condition = f"{count}({depth}) == {outermost} && {condition}"
    return _POINT.format(
        name=f"{name} {side}",
        hook=hook,
        where=where,
        bindings=";\n  ".join([*hook.bindings, f"key:String = {hook.key}"]),
        condition=condition,
        said=f"{side} {hook.point}",
    )
