"""What an SQL statement is called among the requests of a run, and whether it may change anything."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Final

# Texts and comments, which hold words that are none. Names in quotes stay.
_ASIDE: Final = re.compile(
    r"""'(?:[^']|'')*'|\$(\w*)\$.*?\$\1\$|--[^\n]*|/\*.*?\*/""",
    re.DOTALL,
)
_NAME: Final = r'(?:"(?:[^"]|"")*"|[A-Za-z_][\w$]*)'
_WORD: Final = re.compile(rf"{_NAME}(?:\s*\.\s*{_NAME})*|[^\s\w]|\d+")
_NOISE: Final = frozenset(
    [
        "INTO",
        "FROM",
        "ONLY",
        "TABLE",
        "TEMP",
        "TEMPORARY",
        "UNLOGGED",
        "IF",
        "NOT",
        "EXISTS",
        "OR",
        "REPLACE",
        "UNIQUE",
        "INDEX",
        "CONCURRENTLY",
        "ON",
    ]
)
"""What stands between a statement's first word and what it is about."""
_ABOUT: Final = frozenset(
    ["INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "COPY", "CREATE", "DROP", "ALTER", "CALL", "EXECUTE", "LOCK"]
)
_READS: Final = frozenset(
    [
        "SHOW",
        "SET",
        "RESET",
        "BEGIN",
        "START",
        "ROLLBACK",
        "ABORT",
        "SAVEPOINT",
        "RELEASE",
        "DEALLOCATE",
        "DISCARD",
        "DECLARE",
        "FETCH",
        "MOVE",
        "CLOSE",
        "LISTEN",
        "UNLISTEN",
        "VALUES",
        "TABLE",
        "CHECKPOINT",
        "PREPARE",
    ]
)
"""Statements that leave what is stored as it is; what a transaction has done is durable by its commit."""
_CHANGING: Final = frozenset(["INSERT", "UPDATE", "DELETE", "MERGE", "INTO"])
_PURE: Final = frozenset(
    [
        "COUNT",
        "SUM",
        "MIN",
        "MAX",
        "AVG",
        "COALESCE",
        "NOW",
        "VERSION",
        "CURRENT_SCHEMA",
        "CURRENT_DATABASE",
        "CURRENT_SETTING",
        "PG_IS_IN_RECOVERY",
        "TO_REGCLASS",
        "LOWER",
        "UPPER",
        "LENGTH",
        "CAST",
        "EXISTS",
        "IN",
        "ANY",
        "ALL",
        "AS",
        "OVER",
        "AND",
        "OR",
        "NOT",
        "WHERE",
        "FROM",
        "SELECT",
        "VALUES",
        "ON",
        "USING",
        "BY",
        "ROW_NUMBER",
        "RANK",
        "ARRAY_AGG",
        "STRING_AGG",
        "JSON_AGG",
        "ROUND",
        "ABS",
        "NULLIF",
        "GREATEST",
        "LEAST",
        "DISTINCT",
        "WITH",
        "THEN",
        "ELSE",
        "WHEN",
        "CASE",
        "UNION",
        "EXCEPT",
        "INTERSECT",
        "LIKE",
        "BETWEEN",
        "IS",
        "JOIN",
        "HAVING",
    ]
)
"""What may stand before a parenthesis in a SELECT that only reads."""


def kind_of_sql(text: str) -> tuple[str, bool]:
    """The name of what is sent as one, and whether it may change anything: `INSERT orders`, `COMMIT`; of several
    statements, those that may, each once: `INSERT orders; COMMIT`."""
    kinds = [_kind(words) for words in _statements(text)]
    if not kinds:
        return "nothing", False
    changing = [name for name, changes in kinds if changes]
    return "; ".join(dict.fromkeys(changing or [name for name, _ in kinds])), bool(changing)


def _statements(text: str) -> Iterator[list[str]]:
    words: list[str] = []
    for match in _WORD.finditer(_ASIDE.sub(_instead, text)):
        word = match[0]
        if word == ";":
            if words:
                yield words
            words = []
        else:
            words.append(word)
    if words:
        yield words


def _instead(aside: re.Match[str]) -> str:
    return " " if aside[0].startswith(("--", "/*")) else " 0 "


def _kind(words: list[str]) -> tuple[str, bool]:
    first = words[0].upper() if words[0][0].isalpha() else words[0]
    upper = [word.upper() for word in words]
    if first in ("END", "COMMIT"):
        # Of a transaction in two phases, what follows names the transaction.
        return ("COMMIT PREPARED" if "PREPARED" in upper else "COMMIT"), True
    if first in ("SELECT", "WITH", "EXPLAIN", "("):
        about = _changed(words, upper) if first != "SELECT" else ""
        changes = _may_change(upper) and (first != "EXPLAIN" or "ANALYZE" in upper or "ANALYSE" in upper)
        return f"{first} {about}".strip(), changes
    if first == "COPY":
        return _about(first, words), "TO" not in upper[1:] or "FROM" in upper[1:]
    if first == "PREPARE":
        # Of a transaction, it is half of a commit; of a statement, nothing yet.
        return first, upper[1:2] == ["TRANSACTION"]
    if first == "ROLLBACK":
        return first, "PREPARED" in upper
    return (_about(first, words) if first in _ABOUT else first), first not in _READS


def _about(first: str, words: list[str]) -> str:
    for word in words[1:]:
        if word.upper() not in _NOISE:
            return f"{first} {_plain(word)}" if word[0].isalpha() or word[0] in '_"' else first
    return first


def _changed(words: list[str], upper: list[str]) -> str:
    """Of a statement that begins with something else, what it does and to what."""
    for place, word in enumerate(upper):
        if word in _CHANGING - {"INTO"}:
            return _about(word, words[place:])
    return ""


def _may_change(upper: list[str]) -> bool:
    """Whether a statement that reads does more than that: a function may do anything."""
    if any(word in _CHANGING for word in upper):
        return True
    calls = (word for word, after in itertools.pairwise(upper) if after == "(")
    return any((word[0].isalpha() or word[0] in '_"') and word not in _PURE for word in calls)


def _plain(name: str) -> str:
    """Without quotes and the schema's name, as one writes it."""
    *_, last = (part[0] for part in re.finditer(_NAME, name))
    return last.strip('"') if last.startswith('"') else last.lower()
