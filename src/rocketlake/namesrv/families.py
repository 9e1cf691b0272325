"""The figures of a name server as Prometheus reads them.

Owns        the families of routes.
Must not know   HTTP, how routes are kept.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketlake.namesrv.route_table import RouteTable
from rocketlake.net.http.exposition import Family, labels_text, number

__all__ = ["route_families"]


def route_families(routes: RouteTable) -> Iterator[Family]:
    """Topics and brokers with a route."""
    yield number("rocketlake_routes_topics", "Topics with a route", len(routes.topics()))
    counts: dict[str, int] = {}
    for group in routes.brokers().values():
        counts[group.cluster] = counts.get(group.cluster, 0) + len(group.addresses)
    brokers = [(labels_text({"cluster_name": cluster}), count) for cluster, count in counts.items()]
    yield Family("rocketlake_routes_brokers", "gauge", "Brokers that are registered", brokers)
