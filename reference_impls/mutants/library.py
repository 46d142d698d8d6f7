"""The mutants of all schemes. Those of a new scheme are registered here by one line."""

from __future__ import annotations

from . import (
    active_replication,
    active_standby,
    amnesia,
    approximate,
    deployed,
    epoch_based_processing,
    epoch_merge,
    gap,
    gap_by_load,
    k_safe_grouping,
    passive_replication,
    passive_standby,
    source_replay,
    transactional_sink,
    turns_by_load,
    upstream_backup,
)
from .mutant import BrokenScheme

MUTANTS: tuple[BrokenScheme, ...] = (
    *amnesia.MUTANTS,
    *gap.MUTANTS,
    *upstream_backup.MUTANTS,
    *passive_replication.MUTANTS,
    *transactional_sink.MUTANTS,
    *deployed.MUTANTS,
    *passive_standby.MUTANTS,
    *active_standby.MUTANTS,
    *active_replication.MUTANTS,
    *k_safe_grouping.MUTANTS,
    *source_replay.MUTANTS,
    *epoch_based_processing.MUTANTS,
    *epoch_merge.MUTANTS,
    *approximate.MUTANTS,
    *turns_by_load.MUTANTS,
    *gap_by_load.MUTANTS,
)
