"""The reference schemes, one file each, and the deliberately broken mutants. A new one is registered here by one
line."""

from __future__ import annotations

from ..harness.core.library import Entry, entries
from .active_replication import active_replication
from .active_standby import active_standby
from .amnesia import amnesia
from .approximate import approximate
from .deployed import deployed
from .epoch_based_processing import epoch_based_processing
from .epoch_merge import epoch_merge
from .gap import gap
from .gap_by_load import gap_by_load
from .k_safe_grouping import k_safe_grouping
from .passive_replication import passive_replication
from .passive_standby import passive_standby
from .source_replay import source_replay
from .transactional_sink import transactional_sink
from .turns_by_load import turns_by_load
from .upstream_backup import upstream_backup

SCHEMES: tuple[Entry, ...] = entries(
    "",
    amnesia,
    gap,
    upstream_backup,
    passive_replication,
    transactional_sink,
    deployed,
    passive_standby,
    active_standby,
    active_replication,
    k_safe_grouping,
    source_replay,
    epoch_based_processing,
    epoch_merge,
    approximate,
    turns_by_load,
    gap_by_load,
)
