"""The words that every part uses: events and topologies, amounts, crash addresses, schedules, guarantees, errors."""
