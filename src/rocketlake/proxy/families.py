"""The figures of a proxy as Prometheus reads them.

Owns        the families of connections, calls and bytes.
Must not know   HTTP, how calls are served.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketlake.net.http.exposition import Family, labels_text, number
from rocketlake.proxy.server import GrpcServer

__all__ = ["proxy_families"]


def proxy_families(server: GrpcServer) -> Iterator[Family]:
    """Counted by its links and calls since the start."""
    yield Family("rocketmq_proxy_up", "gauge", "Always 1", [(labels_text({"proxy_mode": "cluster"}), 1)])
    yield number("rocketlake_proxy_connections", "Open connections of clients", len(server.links))
    yield number("rocketlake_proxy_connections_total", "Connections that came", server.accepted, kind="counter")
    yield number("rocketlake_proxy_open_calls", "Calls that wait", sum(len(link.calls) for link in server.links))
    held = sum(link.held_bytes for link in server.links)
    yield number("rocketlake_proxy_held", "Requests in memory that are not answered yet", held, "bytes")
    traffic = server.traffic
    yield number("rocketlake_proxy_received_bytes_total", "Bytes that came", traffic.received, kind="counter")
    yield number("rocketlake_proxy_sent_bytes_total", "Bytes that went", traffic.sent, kind="counter")
    calls = [
        (labels_text({"method": path.decode().rpartition("/")[2], "outcome": outcome.lower()}), count)
        for path, method in server.methods.items()
        for outcome, count in method.ended.items()
    ]
    text = "Calls that are over, by how: the code of RocketMQ in the answer if it refuses, else the status of gRPC"
    yield Family("rocketlake_proxy_calls_total", "counter", text, calls)
