"""QueryRoute, QueryAssignment: which queues a client sends to and receives from.

Owns        which endpoint clients are told: the one they have come to.
Must not know   the forms of queues (convert/routes.py), name servers (cluster.py).
"""

from __future__ import annotations

from typing import Any

from rocketlake.auth.action import Action, on_group, on_topic
from rocketlake.proxy.cluster import Cluster
from rocketlake.proxy.convert.names import group_of, topic_of
from rocketlake.proxy.convert.refusal import status
from rocketlake.proxy.convert.routes import assignments_of, endpoints_of, queues_of
from rocketlake.proxy.services.caller import Caller
from rocketlake.proxy.v2 import messages as v2

__all__ = ["Routes"]


class Routes:
    """Answers about queues."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def query_route(self, caller: Caller, request: Any) -> Any:
        """QueryRoute."""
        topic = topic_of(request.topic)
        caller.need(on_topic(topic, Action.PUB, Action.SUB))
        route = await self._cluster.route(topic)
        types = await self._cluster.types(topic)
        queues = queues_of(request.topic, route, types, endpoints_of(request.endpoints))
        return v2.QueryRouteResponse(status=status(v2.Code.OK), message_queues=queues)

    async def query_assignment(self, caller: Caller, request: Any) -> Any:
        """QueryAssignment."""
        topic, group = topic_of(request.topic), group_of(request.group)
        caller.need(on_group(group, Action.SUB), on_topic(topic, Action.SUB))
        route = await self._cluster.route(topic)
        settings = await self._cluster.group(group)
        endpoints, in_order = endpoints_of(request.endpoints), settings.consume_message_orderly
        assignments = assignments_of(request.topic, route, endpoints, in_order=in_order)
        return v2.QueryAssignmentResponse(status=status(v2.Code.OK), assignments=assignments)
