"""The pages of the site that are made of the package itself, so that they say what it does: one for each scheme, with
runs of it that are drawn here, and the reference. A hook of MkDocs; `mkdocs.yml` names it.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args
from weakref import WeakKeyDictionary

from site_drawings import batch_svg, lattice_svg

import streamproof
from streamproof import crash, events
from streamproof.harness.certifying.page import MEANINGS
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.addresses import FINE_POINTS, Point
from streamproof.harness.core.reasons import Why
from streamproof.harness.core.schedule import Fault
from streamproof.harness.core.topology import Role
from streamproof.harness.core.verdicts import Anomaly, Status
from streamproof.harness.exploration.sizes import brought_down
from streamproof.harness.recording.history import History, TimelineEntry
from streamproof.harness.recording.records import Record
from streamproof.harness.reporting.html.affected import harmed_inputs
from streamproof.harness.reporting.html.spacetime import spacetime
from streamproof.harness.reporting.html.spacetime_drawing import drawing, drawing_svg
from streamproof.harness.running.judgement import Judgement
from streamproof.harness.running.run import run_in_memory
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.reference_impls import SCHEMES

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

EVENTS: Final = 12
"""That are fed where a run is drawn."""
SEED: Final = 7
DEPARTS: Final = re.compile(r"depart", re.IGNORECASE)
_PASSED: Final = tuple(one for one in MEANINGS if one not in {*FINE_POINTS, Point.RENAME})
"""The crash points of a query that lie at one place of a batch each, in their order."""
_RECORDS: Final[tuple[Any, ...]] = get_args(Record)
_ENTRIES: Final[tuple[Any, ...]] = get_args(TimelineEntry)
_FORMATS: Final = (
    ("`scenario.json`, of a run", "harness/recording/folder.py", "Description"),
    ("`certificate.json`", "harness/certifying/certificate.py", "Certificate"),
    ("`counterexample.json`, of a search", "harness/exploration/counterexample.py", "Counterexample"),
    ("`counterexample.json`, of a certificate", "harness/certifying/saved.py", "SavedSchedule"),
    ("A file of a corpus (`explore --corpus`)", "harness/exploration/corpus.py", "CorpusFile"),
    ("What `explore --json` prints", "harness/exploration/search_document.py", "SearchDocument"),
    ("`upgrade.json`", "harness/upgrading/record.py", "UpgradeRecord"),
)
"""Title, file, and the class of which a file of this format is one."""
_CHOICE: Final = (
    ("all that a slice held", "", "[amnesia](amnesia.md)"),
    ("what came since a checkpoint", "", "[gap recovery](gap.md)"),
    ("an error of a stated size", "operators say how far two states are apart", "[approximate](approximate.md)"),
    ("inputs that count twice, none lost", "the source keeps what it gave", "[source replay](source-replay.md)"),
    (
        "outputs that come again, nothing lost",
        "the state is a window, or none",
        "[upstream backup](upstream-backup.md)",
    ),
    ("outputs that come again", "the state is more", "[passive replication](passive-replication.md)"),
    (
        "time alone: the state is restored, and what came since taken again",
        "the sink drops what comes again, or commits with its place",
        "[passive replication](passive-replication.md), [a transactional sink](transactional-sink.md)",
    ),
    (
        "little time",
        "a second node can be kept ready",
        "[deployed](deployed.md), [passive standby](passive-standby.md)",
    ),
    (
        "hardly any time",
        "everything can be done twice, in one order",
        "[active standby](active-standby.md), [active replication](active-replication.md)",
    ),
    (
        "hardly any time",
        "the order where channels meet does not matter",
        "[k-safe fields grouping](k-safe-grouping.md), [epochs](epoch-based-processing.md)",
    ),
)
"""What may be lost, what can be had, and where to begin."""
_SMALLEST: Final[WeakKeyDictionary[Registry, dict[str, list[tuple[bool, int, str]]]]] = WeakKeyDictionary()
Page = tuple[str, str]
"""Path in the site, and content."""


# What MkDocs calls


def on_config(config: MkDocsConfig) -> None:
    """The scheme pages take their place in the navigation."""
    names = [scheme.__name__ for scheme in schemes()]
    for entry in config["nav"]:
        if isinstance(entry, dict) and "Schemes" in entry:
            entry["Schemes"] = ["schemes/index.md", *(f"schemes/{name.replace('_', '-')}.md" for name in names)]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """The pages that are in no file."""
    from mkdocs.structure.files import File

    for path, content in pages():
        files.append(File.generated(config, path, content=content))


def pages() -> Iterator[Page]:
    """All of them, with the drawings."""
    registry = Registry()
    yield "schemes/index.md", _schemes_page(registry)
    for scheme in schemes():
        yield from scheme_pages(scheme, registry)
    yield from reference(registry)


def reference(registry: Registry) -> Iterator[Page]:
    """What there is, by name."""
    yield "reference/guarantees.md", _guarantees(registry)
    yield "reference/drawn/guarantees.svg", lattice_svg(_weaker(registry))
    yield "reference/anomalies.md", _anomalies(registry)
    yield "reference/unknown.md", _unknown()
    yield "reference/faults.md", _faults(registry)
    yield "reference/crash-points.md", _crash_points()
    yield "reference/drawn/micro-batch.svg", batch_svg(_PASSED)
    yield "reference/formats.md", _formats()
    yield "reference/names.md", _names()
    yield "reference/commands.md", _commands()


# Schemes


def schemes() -> list[Any]:
    """The functions that make one."""
    return [entry.make for entry in SCHEMES]


def scheme_pages(scheme: Any, registry: Registry) -> Iterator[Page]:
    """Its page, and the two runs that it shows."""
    path = scheme.__name__.replace("_", "-")
    name, scenario = example_of(path, registry)
    calm = _run(scenario, (), registry)
    fault, struck = with_a_crash(scenario, registry)
    title, lead, rest = _docstring(sys.modules[scheme.__module__].__doc__ or "")
    departures = [one for one in rest if DEPARTS.search(one.partition("\n")[0])]
    subject = scenario.subject
    assert isinstance(subject, SchemeSubject)
    lines = [
        f"# {title}",
        "",
        lead,
        "",
        "## The algorithm",
        "",
        *_paragraphs(one for one in rest if one not in departures),
        *([] if any(one not in departures for one in rest) else [lead, ""]),
        "## What it claims, costs and refuses",
        "",
        *_paragraphs((inspect.getdoc(scheme) or "").split("\n\n")),
        "```python",
        f"{scheme.__name__}{_signature(scheme)}",
        "```",
        "",
        f"On `{subject.topology.name}`, with the settings of the scenario `{name}`:",
        "",
        *_claims(subject),
        "## A run without a failure",
        "",
        f"{_fed(scenario)} A line for each incarnation of a slice, an arrow for each message with its numbers.",
        "",
        f"[![{title}, without a failure](drawn/{path}-calm.svg)](drawn/{path}-calm.svg)",
        "",
        "## A run with a failure",
        "",
        f"`{fault}`. What was lost or doubled is in colour, with all that is made of it.",
        "",
        f"[![{title}, with a failure](drawn/{path}-crash.svg)](drawn/{path}-crash.svg)",
        "",
        *_outcome(struck[1]),
        "The same at its full size, with everything to step through:",
        "",
        "```sh",
        f"streamproof run {name} --cluster simulated --report",
        "```",
        "",
        "## What it is made of",
        "",
        *_made_of(subject),
        "## Where this departs from the paper",
        "",
        *(_paragraphs(departures) or ["The file of the scheme states no departure.", ""]),
        f"The source is `{scheme.__module__.removeprefix('streamproof.').replace('.', '/')}.py`.",
    ]
    yield f"schemes/{path}.md", "\n".join(lines) + "\n"
    yield f"schemes/drawn/{path}-calm.svg", _svg(calm, f"{title}, without a failure")
    yield f"schemes/drawn/{path}-crash.svg", _svg(struck, f"{title}: {fault}")


def example_of(kind: str, registry: Registry) -> tuple[str, Scenario]:
    """Of the scenarios under a scheme the one with the fewest slices, brought down to what can be drawn."""
    under = smallest_of_each(registry)
    # Some say in their names which variant they are.
    examples = [one for found in under if _scheme_of(found) == kind for one in under[found]]
    if not examples:
        raise LookupError(f"no scenario of the library is under {kind}, to be drawn on its page: scenarios/library/")
    name = min(examples)[-1]
    small = brought_down(name, registry, EVENTS, False).scenario
    return name, replace(small, faults=(), breaks=())


def _scheme_of(kind: str) -> str:
    """Of the schemes whose name it begins with, that with the longest: one is called as another, and more."""
    paths = (scheme.__name__.replace("_", "-") for scheme in schemes())
    return max((path for path in paths if kind == path or kind.startswith(f"{path}-")), key=len, default="")


def smallest_of_each(registry: Registry) -> dict[str, list[tuple[bool, int, str]]]:
    """Scheme -> its scenarios, those first that are about nothing but the scheme, then by the number of slices. Asked
    for once: to make a scenario takes a while."""
    if registry not in _SMALLEST:
        found = _SMALLEST[registry] = {}
        for name in registry.scenarios:
            subject = registry.scenario(name).scenario.subject
            if isinstance(subject, SchemeSubject):
                special = not name.startswith(f"{subject.topology.name}.")
                found.setdefault(subject.kind, []).append((special, len(subject.topology.slices), name))
    return _SMALLEST[registry]


def with_a_crash(scenario: Scenario, registry: Registry) -> tuple[Fault, tuple[History, Judgement]]:
    """Of an operator that can be hit in the middle of its input, within what is claimed if that can be."""
    subject = scenario.subject
    assert isinstance(subject, SchemeSubject)
    operators = [one for one in subject.topology.slices if subject.topology.role(one) is Role.OPERATOR]
    bitten = []
    for victim in reversed(operators):
        for taken in sorted(range(1, EVENTS), key=lambda count: abs(count - EVENTS // 2)):
            fault = crash(victim).after(events(taken))
            ended = _run(scenario, (fault,), registry)
            if any(entry.bite.bit for entry in ended[0].struck()):
                bitten.append((fault, ended))
                if all(verdict.status is not Status.UNKNOWN for verdict in ended[1].verdicts):
                    return bitten[-1]
    return bitten[0]


def _run(scenario: Scenario, faults: Sequence[Fault], registry: Registry) -> tuple[History, Judgement]:
    planned = replace(scenario, faults=tuple(faults), minimal=True)
    return run_in_memory(planned, SimulatedCluster(), registry.faults, registry.oracles, seed=SEED)


def _svg(ended: tuple[History, Judgement], title: str) -> str:
    history, judgement = ended
    collation = judgement.collation
    assert collation.reexecution is not None
    assert collation.wanted is not None
    harmed = harmed_inputs(collation.reexecution, collation.wanted)
    return drawing_svg(drawing(spacetime(history, collation.reexecution), harmed), title)


def _fed(scenario: Scenario) -> str:
    workload = scenario.workload
    return f"In the simulator, fed {workload.events} events of {workload.name}, {workload.batch} at a time."


def _outcome(judgement: Judgement) -> list[str]:
    rows = [(f"`{one.guarantee}`", str(one.status), one.reason or one.summary) for one in judgement.verdicts]
    strongest = ", ".join(map(str, judgement.strongest)) or "none"
    return [*_table(("claim", "verdict", "since"), rows), f"Strongest guarantee seen: {strongest}.", ""]


def _claims(subject: SchemeSubject) -> list[str]:
    rows = [
        (
            f"[`{claim.guarantee}`](../reference/guarantees.md#{claim.guarantee.name})",
            claim.needs or "",
            ", ".join(map(str, claim.rests_on or ())) or "nothing",
        )
        for claim in subject.claims
    ]
    return _table(("claims", "as long as", "rests on"), rows)


def _made_of(subject: SchemeSubject) -> list[str]:
    rows = [
        (str(role), f"`{type(mechanism).__name__}`", _first(type(mechanism).__doc__ or ""))
        for role, setup in subject.setups.items()
        for mechanism in setup.mechanisms
    ]
    rows += [
        (
            f"coordinator {one.slice_id}",
            f"`{type(one.coordinator).__name__}`",
            _first(type(one.coordinator).__doc__ or ""),
        )
        for one in subject.coordinators
    ]
    nothing = ["Of nothing: its slices have no mechanisms.", ""]
    return _table(("of", "mechanism", "does"), [(_role(role), *more) for role, *more in rows]) if rows else nothing


def _role(role: str) -> str:
    return f"{role}s" if role in set(Role) else role


def _schemes_page(registry: Registry) -> str:
    rows = []
    for scheme in schemes():
        path = scheme.__name__.replace("_", "-")
        subject = example_of(path, registry)[1].subject
        assert isinstance(subject, SchemeSubject)
        title, _, _ = _docstring(sys.modules[scheme.__module__].__doc__ or "")
        costs = re.search(r"Costs (.*?\.)(?:\s|$)", " ".join((inspect.getdoc(scheme) or "").split()))
        rows.append(
            (
                f"[{title}]({path}.md)",
                ", ".join(f"`{claim.guarantee}`" for claim in subject.claims),
                "; ".join(dict.fromkeys(claim.needs for claim in subject.claims if claim.needs)),
                costs[1] if costs else "",
            )
        )
    return "\n".join(
        [
            "# Which scheme do I need?",
            "",
            "The cheapest whose claim suffices, and whose conditions you can keep. Each page has the algorithm, a run "
            "without and with a failure as streamproof's simulator gives it, and where the implementation departs from "
            "its paper. What is claimed depends on settings and operators; here it is that of one scenario.",
            "",
            "## By what a failure may cost you",
            "",
            *_table(("a failure may cost", "and", "begin with"), _CHOICE),
            "## All of them",
            "",
            *_table(("scheme", "claims", "as long as", "costs"), rows),
        ]
    )


# The reference


def _guarantees(registry: Registry) -> str:
    lines = [
        "# Guarantees",
        "",
        "What a subject can claim, each as the definition that its oracle checks. A weaker one is implied by a "
        "stronger; where a stronger holds and a weaker is violated, streamproof says that it contradicts itself.",
        "",
        "[![Each guarantee with an arrow to those that it implies](drawn/guarantees.svg)](drawn/guarantees.svg)",
        "",
        "An arrow leads from a guarantee to one that it implies.",
        "",
    ]
    for name, oracle in sorted(registry.oracles.items()):
        lines += [f"## {name} {{ #{name} }}", "", *_paragraphs((inspect.getdoc(oracle.judge) or "").split("\n\n"))]
        for label, others in (("Implies", oracle.implies), ("Implied by", oracle.implied_by)):
            known = [one for one in others if one in registry.oracles]
            if known:
                lines += [f"{label}: {', '.join(f'[{one}](#{one})' for one in known)}.", ""]
        if oracle.anomalies:
            shows = ", ".join(f"[{one}](anomalies.md#{one})" for one in oracle.anomalies)
            lines += [f"Violated where one of these shows: {shows}.", ""]
        if oracle.parameters:
            rows = [(f"`{one.name}`", "yes" if one.required else "", one.meaning) for one in oracle.parameters]
            lines += _table(("amount", "required", "says"), rows)
    return "\n".join(lines)


def _weaker(registry: Registry) -> dict[str, list[str]]:
    """Of each guarantee those that it implies, whichever of the two says so."""
    oracles = registry.oracles
    found = {name: [one for one in oracle.implies if one in oracles] for name, oracle in sorted(oracles.items())}
    for name, oracle in sorted(oracles.items()):
        for stronger in oracle.implied_by:
            if stronger in found and name not in found[stronger]:
                found[stronger].append(name)
    return found


def _anomalies(registry: Registry) -> str:
    lines = [
        "# Anomalies",
        "",
        "The ways to be wrong that a violated verdict names, with how often each was seen and a sample as evidence. An "
        "oracle of your own can name others.",
        "",
    ]
    for name, said in members_said(Anomaly):
        of = [guarantee for guarantee, oracle in sorted(registry.oracles.items()) if name in oracle.anomalies]
        shown = ", ".join(f"[{one}](guarantees.md#{one})" for one in of)
        lines += [f"## {name} {{ #{name} }}", "", said, "", f"Violates, where they are claimed: {shown}.", ""]
    return "\n".join(lines)


def _unknown() -> str:
    return "\n".join(
        [
            "# Why a verdict is UNKNOWN",
            "",
            "UNKNOWN always says why. The reason is one of these kinds, which `--json` and `verdicts.json` name, with "
            "what it is about. [What a verdict is worth](../verdicts.md#why-unknown) says what to do about each.",
            "",
            *_table(("reason", "says"), [(f"`{name}`", said) for name, said in members_said(Why)]),
        ]
    )


def _formats() -> str:
    lines = [
        "# Formats of files",
        "",
        "All that streamproof leaves is JSON, JSON a line, or Parquet. Each kind of file has a version of its own, "
        "which rises when what it says changes; a file of another version is refused, by name, and never read as if it "
        "were of this one. What changed from one to the next stands in the repository's `CHANGELOG.md`.",
        "",
        "## A run's folder",
        "",
        *_layout("harness/recording/folder.py"),
        "What `records.frames` and the three Parquet files hold are these records, each with the microseconds since "
        "the run began:",
        "",
        *_table(
            ("record", "says"), [(f"`{kind.__struct_config__.tag}`", _first(kind.__doc__ or "")) for kind in _RECORDS]
        ),
        "And these are the entries of `timeline.jsonl`:",
        "",
        *_table(
            ("entry", "says"), [(f"`{kind.__struct_config__.tag}`", _first(kind.__doc__ or "")) for kind in _ENTRIES]
        ),
    ]
    lines += ["## A certificate's folder", "", *_layout("harness/certifying/certificate.py")]
    lines += ["## The folder of an upgrade", "", *_layout("harness/upgrading/record.py")]
    for title, file, name in _FORMATS:
        read = _source(file)
        version = next(
            one.value for one in read.body if isinstance(one, ast.AnnAssign | ast.Assign) and _is_version(one)
        )
        assert isinstance(version, ast.Constant)
        assert isinstance(version.value, int)
        kind = next(one for one in read.body if isinstance(one, ast.ClassDef) and one.name == name)
        lines += [f"## {title}", "", f"Version {version.value}.", ""]
        lines += _table(("field", "is", "means"), _fields(kind))
    return "\n".join(lines)


def _source(file: str) -> ast.Module:
    """Read, and not imported: what makes certificates needs Spark, which this site is made without."""
    return ast.parse((Path(streamproof.__path__[0]) / file).read_text())


def _is_version(one: ast.AnnAssign | ast.Assign) -> bool:
    target = one.target if isinstance(one, ast.AnnAssign) else one.targets[0]
    return isinstance(target, ast.Name) and target.id == "VERSION"


def _layout(file: str) -> list[str]:
    """The folder, as the docstring of its module draws it."""
    drawn = re.search(r"^```\n.*?^```$", ast.get_docstring(_source(file)) or "", re.DOTALL | re.MULTILINE)
    assert drawn is not None, file
    return [drawn[0].replace("```\n", "```text\n", 1), ""]


def _fields(kind: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    said = dict(_said(kind))
    for one in kind.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            of = re.sub(r"Annotated\[(.+), _\w+\]", r"\1", ast.unparse(one.annotation)).replace("_Amount", "int")
            yield f"`{one.target.id}`", f"`{of}`", said.get(one.target.id, "")


def members_said(kind: type) -> Iterator[tuple[str, str]]:
    """The members of an enumeration, and what stands below each in its source."""
    (read,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(read, ast.ClassDef)
    yield from _said(read)


def _said(kind: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """The members of an enumeration, by their values, or the fields of a record."""
    for one, following in pairwise(kind.body):
        said = following.value if isinstance(following, ast.Expr) else None
        if not isinstance(said, ast.Constant) or not isinstance(said.value, str):
            continue
        text = " ".join(inspect.cleandoc(said.value).split())
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant):
            yield str(one.value.value), text
        elif isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            yield one.target.id, text


def _faults(registry: Registry) -> str:
    rows = []
    for name, kind in sorted(registry.faults.items()):
        rows.append((f"`{name}`", kind.breaks, kind.heals or "nothing", ", ".join(sorted(kind.clusters)) or "none"))
    return "\n".join(
        [
            "# Faults",
            "",
            "What each breaks, what heals it, and on which clusters something can carry it out. `--dry-run` says by "
            "what means, and a scenario with a fault that a cluster cannot carry out is refused before it starts.",
            "",
            *_table(("fault", "breaks", "healed by", "clusters"), rows),
        ]
    )


def _crash_points() -> str:
    rows = [(str(number), f"`{point}`", MEANINGS[point]) for number, point in enumerate(_PASSED, start=1)]
    anywhere = [(f"`{point}`", said) for point, said in MEANINGS.items() if point not in _PASSED]
    said = dict(members_said(Point))
    of_schemes = [(f"`{point}`", said.get(str(point), "")) for point in Point if point not in MEANINGS]
    return "\n".join(
        [
            "# Crash points",
            "",
            "Places in a protocol at which a node can be held and killed. Each has a side before it and one after it. "
            "A schedule names the point, its key and the side, and the node dies there, not about then.",
            "",
            "## Of a query",
            "",
            "[![The crash points of a micro-batch](drawn/micro-batch.svg)](drawn/micro-batch.svg)",
            "",
            "A micro-batch from left to right, and who is held at each point. No query has all of them: which it has "
            "depends on its source, its state and its sink. The call that hands the batch to the sink lasts until all "
            "of its tasks are done. A green line begins where something is durable. A sink that has stored the batch "
            "before Spark has noted that it is done is given it again, and doubles it unless it knows its number.",
            "",
            *_table(("", "point", "is where"), rows),
            "These lie wherever a batch does such a thing:",
            "",
            *_table(("point", "is where"), anywhere),
            "## Of a scheme's slices",
            "",
            "The same in the simulator and on Spark, so that what a search finds can be run on a cluster.",
            "",
            *_table(("point", "is where"), of_schemes),
        ]
    )


def _names() -> str:
    lines = ["# Public names", "", "What `from streamproof import ...` offers; everything else may change.", ""]
    for name in sorted(streamproof.__all__, key=str.lower):
        home = streamproof._HOMES[name]
        lines += [f"::: streamproof.{home[0]}.{home[1]}", ""]
    return "\n".join(lines)


def _commands() -> str:
    import typer

    from streamproof.harness.command_line.cli import app
    from streamproof.harness.core.errors import ExitStatus

    command: Any = typer.main.get_command(app)
    context = command.make_context("streamproof", [], resilient_parsing=True)
    lines = ["# Commands", ""]
    for name, one in _subcommands(command, "streamproof"):
        within = type(context)(one, info_name=name, terminal_width=100, max_content_width=100)
        lines += [f"## {name}", "", "```text", one.get_help(within).strip(), "```", ""]
    meanings = {
        ExitStatus.HOLDS: "all claims hold, or are violated where that is expected",
        ExitStatus.VIOLATED: "one is violated",
        ExitStatus.UNKNOWN: "none is violated, and one is unknown",
        ExitStatus.USER_MISTAKE: "something is wrong with what was asked for",
        ExitStatus.OWN_FAILURE: "streamproof itself has failed",
    }
    rows = [(str(int(status)), said) for status, said in meanings.items()]
    return "\n".join([*lines, "## Exit statuses", "", *_table(("status", "says"), rows)])


def _subcommands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    for key, one in command.commands.items():
        if getattr(one, "commands", None):
            yield from _subcommands(one, f"{name} {key}")
        else:
            yield f"{name} {key}", one


# Markdown


def _docstring(text: str) -> tuple[str, str, list[str]]:
    """What stands before the colon, the rest of the first paragraph, and the other paragraphs."""
    first, *rest = inspect.cleandoc(text).split("\n\n")
    title, _, lead = " ".join(first.split()).partition(": ")
    return title, lead[:1].upper() + lead[1:], rest


def _paragraphs(texts: Iterable[str]) -> list[str]:
    return [line for text in texts for line in (_escaped(text), "")]


def _escaped(text: str) -> str:
    """A docstring is plain prose: nothing in it is HTML, and what is indented is code."""
    return re.sub(r"<(?=[A-Za-z/!])", "&lt;", text)


def _signature(function: Any) -> str:
    """With annotations as they are written."""
    return re.sub(r"(: |-> )'([^']+)'", r"\1\2", str(inspect.signature(function)))


def _first(text: str) -> str:
    return " ".join(inspect.cleandoc(text).split("\n\n")[0].split())


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    body = [f"| {' | '.join(' '.join(cell.replace('|', chr(92) + '|').split()) for cell in row)} |" for row in rows]
    return [f"| {' | '.join(head)} |", f"| {' | '.join('---' for _ in head)} |", *body, ""]
