"""`streamproof list`."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from ...core.errors import ExitStatus, UnknownName
from ...core.library import LISTS
from ..completion import complete_kind
from ..options import Json
from ..output import print_json, show
from ..registered import registered

AT_ONCE: Final = ("scenarios", "schemes", "faults", "oracles")
"""What `list` shows unless asked for one kind. Subjects and upgrades import Spark, and mutants are broken on
purpose."""


def list_command(
    kind: Annotated[
        str | None, typer.Argument(help="One of: " + ", ".join(LISTS) + ".", autocompletion=complete_kind)
    ] = None,
    as_json: Json = False,
) -> ExitStatus:
    """List the scenarios, schemes, faults and oracles that are installed; the other kinds when asked for one."""
    from ...certifying.subjects import claims_of
    from ..library import first_sentence, library_screen

    if kind is not None and kind not in LISTS:
        raise UnknownName("list", kind, list(LISTS))
    registry = registered()
    makers = {
        "scenarios": lambda: {entry.name: entry.summary for entry in registry.scenarios.values()},
        "schemes": lambda: {entry.name: entry.summary for entry in registry.schemes.values()},
        "faults": lambda: {fault.name: fault.breaks for fault in registry.faults.values()},
        "oracles": lambda: {oracle.guarantee: oracle.definition for oracle in registry.oracles.values()},
        "subjects": lambda: {name: claims_of(subject) for name, subject in registry.subjects.items()},
        "upgrades": lambda: {name: pair.summary for name, pair in registry.upgrades.items()},
        "mutants": lambda: {mutant.name: f"Breaks: {mutant.breaks}." for mutant in registry.mutants.values()},
    }
    found = {
        name: {key: first_sentence(text) for key, text in makers[name]().items()}
        for name in LISTS
        if kind == name or (kind is None and name in AT_ONCE)
    }
    if as_json:
        more = {name: oracle.described for name, oracle in registry.oracles.items()} if "oracles" in found else {}
        print_json(
            {
                k: [{"name": n, "summary": s, **(more[n] if k == "oracles" else {})} for n, s in names.items()]
                for k, names in found.items()
            }
        )
    else:
        show(library_screen(found))
    return ExitStatus.HOLDS
