"""Which of the user's functions go by numbers that a crash state does not have as a death leaves them, as far as their
code says so by names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .own_lines import functions_whose_code

if TYPE_CHECKING:
    from ...contracts.query import Query

_OF_FILES: Final = frozenset({"st_ino", "inode", "st_nlink", "st_blocks"})
"""Files that were put back have other inodes, and may take more blocks or fewer; and how many lie in a folder, as it
says itself, tells no two apart."""
_OF_SPARK: Final = frozenset({"taskAttemptId", "stageId", "getActiveJobsIds", "getActiveStageIds"})
"""A session in which one attempt follows the other goes on to count, and a driver that is started again begins anew."""


def functions_that_go_by_numbers(query: Query) -> tuple[str, ...]:
    """Their names (`sinks.write`), in order."""
    wanted = _OF_FILES | _OF_SPARK
    return functions_whose_code(query, lambda _, code: bool(wanted & {*code.co_names}))
