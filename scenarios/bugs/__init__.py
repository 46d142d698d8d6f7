"""Bugs of Spark and its connectors that were released, each with a schedule that shows it on a release that has it and
shows nothing on one where it is corrected. docs/bugs.md tells of each.

`tox -e bugs` tries them. The query of each can be certified without being told where to look:
`streamproof certify streamproof.scenarios.bugs.iceberg_file_names:repeats_file_names --claim exactly-once`.
"""

from __future__ import annotations

from typing import Final

from ...harness.core.errors import UnknownName
from . import (
    async_progress,
    changelog_versions,
    files_of_one_version,
    first_entry,
    iceberg_file_names,
    iceberg_first_offset,
    kafka_partitions,
    large_state,
    paimon_batch_ids,
    random_job_ids,
    retried_stage,
)
from .line import RealBug, Release, Report

__all__ = ["BUGS", "RealBug", "Release", "Report", "real_bug"]

BUGS: Final[tuple[RealBug, ...]] = (
    iceberg_file_names.BUG,
    random_job_ids.BUG,
    retried_stage.BUG,
    files_of_one_version.BUG,
    async_progress.BUG,
    changelog_versions.BUG,
    large_state.BUG,
    first_entry.BUG,
    kafka_partitions.BUG,
    iceberg_first_offset.BUG,
    paimon_batch_ids.BUG,
)


def real_bug(name: str) -> RealBug:
    """Raises UnknownName."""
    for one in BUGS:
        if one.name == name:
            return one
    raise UnknownName("bug", name, [one.name for one in BUGS])
