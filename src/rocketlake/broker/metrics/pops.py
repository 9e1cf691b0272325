"""Pops that wait, and how far the search for messages that come again is behind.

Owns        these families. What a group has in flight: lag.py.
Must not know   how messages are brought back.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketlake.broker.pop.pop_hold import PopHold
from rocketlake.broker.pop.revive import Revive
from rocketlake.net.http.exposition import Family, labels_text, number

__all__ = ["pop_families"]


def pop_families(hold: PopHold, revive: Revive) -> Iterator[Family]:
    """Of one broker. As in RocketMQ the lag has the unit of a time in its name, and counts records."""
    behind = [(labels_text({"queue_id": str(queue_id)}), queue.behind) for queue_id, queue in enumerate(revive.queues)]
    late = [(labels_text({"queue_id": str(queue_id)}), queue.late_ms) for queue_id, queue in enumerate(revive.queues)]
    text = "Records of pops that are not done with"
    yield Family("rocketmq_pop_revive_lag", "gauge", text, behind, "milliseconds")
    text = "How late messages that were not acknowledged come again"
    yield Family("rocketmq_pop_revive_latency", "gauge", text, late, "milliseconds")
    yield number("rocketlake_held_pops", "Pops that wait for messages", len(hold))
