"""What carries faults out, where it has to be made ready before the run: the words that kinds of fault, clusters and
the screen share."""

from __future__ import annotations

from typing import Final

RELAY: Final = "the relay that the links of slices pass through"
TOXIPROXY: Final = "a toxiproxy behind the relay that the links of slices pass through"
PACKET_RULES: Final = "packet rules in the receiving nodes' network namespaces"
PACKET_QUEUE: Final = "a queue for packets in the receiving nodes' network namespaces"
PACKET_SHAPER: Final = "a shaped queue in the sending nodes' network namespaces"
RELAY_OF_STORES: Final = "the relay between a run and its stores outside"
OF_LINKS: Final = frozenset({RELAY, TOXIPROXY})
"""With any of these, all links of slices pass through the harness."""
OF_PACKETS: Final = frozenset({PACKET_RULES, PACKET_QUEUE, PACKET_SHAPER})
"""These get at what passes between two nodes and nowhere else."""
STORE_VOLUME: Final = "the volume of the checkpoints, of a fixed size"
STORE_FOLDER: Final = "the folder of the checkpoints"
FILE_LAYER: Final = "the file system that the folders of a query lie in"
OF_QUERIES: Final = frozenset({FILE_LAYER})
"""With these, nothing but a query can be disturbed."""
DISK_THROTTLE: Final = "a throttle on the container's block device"
CPU_QUOTA: Final = "the quota of the container's processors"
MEMORY_LIMIT: Final = "the limit of the container's memory"
