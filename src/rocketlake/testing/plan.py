"""The plan of a simulated cluster, drawn from its seed before it starts.

Owns        how many nodes and clients there are, the store's settings, the load.
Must not know   how nodes are run (nodes.py), what goes wrong (faults.py).
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from rocketlake.store.config import StoreConfig
from rocketlake.testing.workload import Load

__all__ = ["Plan"]


@dataclass(frozen=True, slots=True)
class Plan:
    """The cluster that a seed gives."""

    seed: int
    name_servers: int
    brokers: int
    senders: int
    receivers: int
    store: StoreConfig
    load: Load

    @classmethod
    def of(cls, seed: int) -> Plan:
        """Draw a plan: small files, so that they roll; both ways to flush."""
        choice = random.Random(f"plan {seed}")
        pool = choice.random() < 0.15
        store = StoreConfig(
            flush_disk_type=choice.choice(("SYNC_FLUSH", "ASYNC_FLUSH")),
            sync_flush_timeout_ms=choice.choice((1000, 5000)),
            commit_log_file_bytes=choice.choice((8, 16, 64)) * 1024,
            consume_queue_file_bytes=20 * choice.choice((7, 20, 100)),
            index_slots=10,
            index_entries=choice.choice((20, 100)),
            index_safe=choice.random() < 0.5,
            flush_least_pages=choice.choice((0, 4)),
            write_pool_enabled=pool,
            write_pool_buffers=3,
            clean_forcibly=False,
        )
        return cls(
            seed,
            name_servers=choice.randint(1, 2),
            brokers=choice.randint(1, 2),
            senders=2,
            receivers=choice.randint(1, 3),
            store=store,
            load=Load(messages=choice.choice((30, 60, 100)), refuse_chance=choice.choice((0.0, 0.03, 0.1))),
        )
