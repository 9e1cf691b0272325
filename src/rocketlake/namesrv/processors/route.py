"""Questions about routes, topics and brokers.

Owns        the choice of the JSON flavour for an asker; encoded routes, kept until the table changes.
Must not know   registrations.

Source: docs/internals/name_server.md.
"""

from __future__ import annotations

from rocketlake.base.errors import RemoteError
from rocketlake.model.route import MASTER_ID, Route
from rocketlake.namesrv.config import LiveConfig
from rocketlake.namesrv.kv_config import ORDER_TOPIC_CONFIG, KVConfig
from rocketlake.namesrv.route_table import RouteTable
from rocketlake.net.reply_steps import ReplySteps
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.bodies.long_text import encoding
from rocketlake.protocol.bodies.route import (
    BrokerEntry,
    BrokerMemberGroup,
    ClusterInfo,
    MemberGroupEntry,
    RouteBody,
)
from rocketlake.protocol.bodies.stats import TopicList
from rocketlake.protocol.headers.namesrv import BrokerMemberGroupHeader, GetRouteHeader, TopicsByClusterHeader
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.protocol.versions import STANDARD_JSON_SINCE

__all__ = ["Routes"]

_ROUTES_KEPT_MAX = 10_000


class Routes:
    """GET_ROUTEINFO_BY_TOPIC, cluster picture, topic lists, members of a broker group."""

    def __init__(self, routes: RouteTable, kv_config: KVConfig, config: LiveConfig) -> None:
        self._routes = routes
        self._kv_config = kv_config
        self._config = config
        self._encoded: dict[tuple[str, bool], bytes] = {}
        self._encoded_version = -1

    def route(self, request: Request) -> Reply:
        """The route of a topic; TOPIC_NOT_EXIST if there is none."""
        header = request.header(GetRouteHeader)
        standard = request.command.version >= STANDARD_JSON_SINCE or bool(header.accept_standard_json_only)
        fields = request.command.fields or {}
        zone = fields.get("__ZONE_NAME") if fields.get("__ZONE_MODE", "").lower() == "true" else None
        if zone:
            return Reply(body=self._encode(header.topic, standard=False, zone=zone))
        if self._encoded_version != self._routes.version or len(self._encoded) > _ROUTES_KEPT_MAX:
            self._encoded.clear()
            self._encoded_version = self._routes.version
        key = (header.topic, standard)
        if self._config.now.order_message_enable:
            return Reply(body=self._encode(header.topic, standard=standard))
        body = self._encoded.get(key)
        if body is None:
            body = self._encoded[key] = self._encode(header.topic, standard=standard)
        return Reply(body=body)

    def cluster_info(self, _request: Request) -> Reply:
        """Every cluster, broker name and address."""
        brokers = {name: BrokerEntry.from_model(group) for name, group in self._routes.brokers().items()}
        return Reply(body=ClusterInfo(brokers=brokers, clusters=self._routes.clusters()).encode())

    def member_group(self, request: Request) -> Reply:
        """The replicas of one broker name; empty if the name is unknown."""
        header = request.header(BrokerMemberGroupHeader)
        group = self._routes.broker_group(header.cluster_name, header.broker_name)
        addresses = {} if group is None else dict(sorted(group.addresses.items()))
        entry = MemberGroupEntry(broker_addrs=addresses, broker_name=header.broker_name, cluster=header.cluster_name)
        return Reply(body=BrokerMemberGroup(group=entry).encode())

    def all_topics(self, _request: Request) -> ReplySteps:
        """Names of all topics, if the setting allows the list."""
        if not self._config.now.enable_all_topic_list:
            raise _disabled("enableAllTopicList")
        return (yield from _topic_list(self._routes.topics()))

    def topics_of_cluster(self, request: Request) -> ReplySteps:
        """Names of the topics of one cluster."""
        self._check_topic_list()
        cluster = request.header(TopicsByClusterHeader).cluster
        return (yield from _topic_list((yield from self._routes.topics_of_cluster(cluster))))

    def system_topics(self, _request: Request) -> Reply:
        """Names of clusters and brokers (each is a topic too), and the address of one broker to ask on."""
        names = [name for cluster, brokers in self._routes.clusters().items() for name in (cluster, *brokers)]
        addresses = (address for group in self._routes.brokers().values() for address in group.addresses.values())
        return Reply(body=TopicList(topics=names, broker_addr=next(addresses, None)).encode())

    def unit_topics(self, _request: Request) -> ReplySteps:
        """Topics with the unit flag."""
        self._check_topic_list()
        return (yield from _topic_list((yield from self._routes.unit_topics(unit=True, unit_sub=None))))

    def unit_sub_topics(self, _request: Request) -> ReplySteps:
        """Topics with subscribers in a unit."""
        self._check_topic_list()
        return (yield from _topic_list((yield from self._routes.unit_topics(unit=None, unit_sub=True))))

    def unit_sub_only_topics(self, _request: Request) -> ReplySteps:
        """Topics with subscribers in a unit that are no unit topics themselves."""
        self._check_topic_list()
        return (yield from _topic_list((yield from self._routes.unit_topics(unit=False, unit_sub=True))))

    def _check_topic_list(self) -> None:
        if not self._config.now.enable_topic_list:
            raise _disabled("enableTopicList")

    def _encode(self, topic: str, *, standard: bool, zone: str | None = None) -> bytes:
        route = self._routes.route(topic)
        if route is None:
            raise RemoteError(
                f"No topic route info in name server for the topic: {topic}",
                code=ResponseCode.TOPIC_NOT_EXIST,
                hint="create the topic, or send to it with a producer while autoCreateTopicEnable=true",
            )
        if zone is not None:
            _keep_zone(route, zone)
        if self._config.now.order_message_enable:
            route.order_config = self._kv_config.get(ORDER_TOPIC_CONFIG, topic)
        return RouteBody.from_model(route).encode(standard)


def _keep_zone(route: Route, zone: str) -> None:
    """Keep broker groups of the asker's zone, and groups without a master (no better group may exist)."""
    kept = [g for g in route.brokers if MASTER_ID not in g.addresses or (g.zone or "").lower() == zone.lower()]
    names = {group.name for group in kept}
    route.brokers = kept
    route.queues = [queues for queues in route.queues if queues.broker_name in names]


def _topic_list(names: list[str]) -> ReplySteps:
    return Reply(body=(yield from encoding(TopicList(topics=names))))


def _disabled(setting: str) -> RemoteError:
    return RemoteError("disable", code=ResponseCode.SYSTEM_ERROR, hint=f"set {setting}=true on the name server")
