"""Who is connected.

Owns        the families of producers and consumers.
Must not know   heartbeats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rocketlake.broker.clients.consumers import ConsumerTable
from rocketlake.broker.clients.producers import ProducerTable
from rocketlake.broker.metrics.labels import is_system
from rocketlake.net.http.exposition import Family, labels_text
from rocketlake.protocol.versions import version_name

__all__ = ["client_families"]

_MODES = {"CONSUME_ACTIVELY": "pull", "CONSUME_PASSIVELY": "push", "CONSUME_POP": "pop"}


def client_families(consumers: ConsumerTable, producers: ProducerTable) -> Iterator[Family]:
    """Connections, not groups: a client in two groups counts in both."""
    counts: Counter[str] = Counter()
    for group in producers.groups():
        for member in producers.members(group):
            labels = {"language": member.language.lower(), "version": version_name(member.version).lower()}
            counts[labels_text({**labels, "protocol_type": "remoting"})] += 1
    yield Family("rocketmq_producer_connections", "gauge", "Connected producers", list(counts.items()))
    counts = Counter()
    for entry in consumers:
        for member in entry.members.values():
            labels = {
                "consumer_group": entry.name,
                "language": member.language.lower(),
                "version": version_name(member.version).lower(),
                "consume_mode": _MODES.get(entry.consume_type, entry.consume_type.lower()),
                "protocol_type": "remoting",
                "is_system": "true" if is_system(entry.name, "") else "false",
            }
            counts[labels_text(labels)] += 1
    yield Family("rocketmq_consumer_connections", "gauge", "Connected consumers", list(counts.items()))
