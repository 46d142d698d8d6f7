"""The script with which Byteman makes Spark's threads tell the harness where they are, and wait for its answer.

One script for driver and executors. A thread that comes to a point opens a connection, sends one line and reads one
byte; end of file, and a harness that cannot be reached, let it go on as well, so that Spark never fails of being
watched. The line: token, node, incarnation, process id, side, point, key; spaces between them, and the key is the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..addresses import Point, Side
from ..errors import InvalidScenario
from ..wire import Place
from .versions import Hook, SparkVersion

CONNECT_MS = 10_000
"""How long a thread tries to reach a harness that does not refuse and does not answer either."""


def script(
    version: SparkVersion,
    place: Place,
    token: str,
    node: str,
    incarnation: int,
    points: Collection[Point] | None = None,
    own: Sequence[Hook] = (),
) -> str:
    """The rules for `points`, or for all that are known, and for `own` hooks. It holds the token: keep it private.

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
    for hook in version.hooks:
        if hook.point in wanted:
            rules.extend(_rules(hook, str(hook.point)))
    for number, hook in enumerate(own):
        rules.extend(_rules(hook, f"{hook.point} {number}"))
    return "\n".join(rules)


# A thread connects, writes and reads; -1 is what comes of any failure. Rules have no `try`, and what a rule raises
# would fail Spark: so this is put together once, when a JVM of Spark starts, from method handles, which can catch.
_START = """\
RULE start
CLASS {start[0]}
METHOD {start[1]}
AT ENTRY
BIND
  lookup:java.lang.invoke.MethodHandles$Lookup = java.lang.invoke.MethodHandles.publicLookup();
  none:Class = java.lang.Void.TYPE;
  whole:Class = java.lang.Integer.TYPE;
  bytes:Class = Class.forName("[B");
  socket:Class = Class.forName("java.net.Socket");
  output:Class = Class.forName("java.io.OutputStream");
  input:Class = Class.forName("java.io.InputStream");
  problem:Class = Class.forName("java.lang.Throwable");
  address:Class = Class.forName("java.net.SocketAddress");
  connect:java.lang.invoke.MethodHandle = lookup.findVirtual(socket, "connect",
    java.lang.invoke.MethodType.methodType(none, address, new Class[] {{ whole }}));
  reach:java.lang.invoke.MethodHandle = java.lang.invoke.MethodHandles.insertArguments(connect, 1,
    new Object[] {{ new java.net.InetSocketAddress("{host}", {port}), {connect_ms} }});
  write:java.lang.invoke.MethodHandle = lookup.findVirtual(output, "write",
    java.lang.invoke.MethodType.methodType(none, bytes));
  say:java.lang.invoke.MethodHandle = java.lang.invoke.MethodHandles.filterArguments(write, 0,
    new java.lang.invoke.MethodHandle[] {{ lookup.findVirtual(socket, "getOutputStream",
    java.lang.invoke.MethodType.methodType(output)) }});
  read:java.lang.invoke.MethodHandle = lookup.findVirtual(input, "read",
    java.lang.invoke.MethodType.methodType(whole));
  hear:java.lang.invoke.MethodHandle = java.lang.invoke.MethodHandles.filterArguments(read, 0,
    new java.lang.invoke.MethodHandle[] {{ lookup.findVirtual(socket, "getInputStream",
    java.lang.invoke.MethodType.methodType(input)) }});
  talk:java.lang.invoke.MethodHandle = java.lang.invoke.MethodHandles.foldArguments(
    java.lang.invoke.MethodHandles.dropArguments(hear, 1, new Class[] {{ bytes }}), say);
  exchange:java.lang.invoke.MethodHandle = java.lang.invoke.MethodHandles.foldArguments(talk, reach);
  failed:java.lang.invoke.MethodHandle = java.lang.invoke.MethodHandles.dropArguments(
    java.lang.invoke.MethodHandles.constant(whole, -1), 0, new Class[] {{ problem }})
IF true
DO
  link("streamproof", "exchange", java.lang.invoke.MethodHandles.catchException(exchange, problem, failed));
  link("streamproof", "head", "{head} " + java.lang.ProcessHandle.current().pid() + " ")
ENDRULE
"""

_POINT = """\
RULE {name}
{hook.place}
METHOD {hook.method}
{where}
BIND
  {bindings}
IF {condition}
DO
  socket = new java.net.Socket();
  exchange.invokeWithArguments(new Object[] {{ socket, (head + "{said} " + key + "\\n").getBytes("UTF-8") }});
  socket.close()
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


def _start(version: SparkVersion, place: Place, head: str) -> str:
    return _START.format(start=version.start, host=place[0], port=place[1], head=head, connect_ms=CONNECT_MS)


def _rules(hook: Hook, name: str) -> list[str]:
    depth = f'"{name} " + Thread.currentThread().getId()'
    rules = [_rule(hook, name, depth, Side.BEFORE, hook.before), _rule(hook, name, depth, Side.AFTER, hook.after)]
    return [*rules, _LEAVE.format(name=f"{name} left", hook=hook, depth=depth)] if hook.overridden else rules


def _rule(hook: Hook, name: str, depth: str, side: Side, where: str) -> str:
    bindings = [
        *hook.bindings,
        f"key:String = {hook.key}",
        'head:String = linked("streamproof", "head")',
        'exchange:java.lang.invoke.MethodHandle = linked("streamproof", "exchange")',
        "socket:java.net.Socket = null",
    ]
    condition = f"({hook.condition}) && key != null && exchange != null"
    if hook.overridden:
        # Counted first, whatever else is asked: each way in has its way out.
        count, outermost = ("incrementCounter", 1) if side is Side.BEFORE else ("decrementCounter", 0)
        condition = f"{count}({depth}) == {outermost} && {condition}"
    return _POINT.format(
        name=f"{name} {side}",
        hook=hook,
        where=where,
        bindings=";\n  ".join(bindings),
        condition=condition,
        said=f"{side} {hook.point}",
    )
