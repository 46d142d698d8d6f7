"""When a subject counts as one that does not come back."""

from __future__ import annotations

from typing import Final

from ..core.quantities import Duration

ATTEMPTS: Final = 3
"""How often in a row a subject fails at the same place before that is a crash loop."""
STATED: Final = Duration(30_000_000)
"""How long a subject must have given no sign of work to have stalled, where nobody states a time."""
