"""The handler of each request code.

Owns        one row per request code.
Must not know   the work of a processor.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.auth.action import Action, Kind, Need, on_topic
from rocketlake.model.topic import TEMPLATE_TOPIC
from rocketlake.namesrv.change_line import ChangeLine
from rocketlake.namesrv.processors.broker import Brokers
from rocketlake.namesrv.processors.kv import KV
from rocketlake.namesrv.processors.route import Routes
from rocketlake.namesrv.processors.settings import Settings
from rocketlake.net.dispatcher import Row
from rocketlake.net.gate.needs import ANY_USER, cluster, every, members, needs, taking
from rocketlake.net.reply_steps import ReplySteps
from rocketlake.net.request import Handler, Request
from rocketlake.protocol.headers.namesrv import GetRouteHeader
from rocketlake.protocol.request_code import RequestCode as Code

__all__ = ["controller_settings", "rows"]

_CHANGE = cluster(Action.UPDATE)
_MEMBERS = members()
_READ = cluster(Action.GET)
_LIST = every(Kind.TOPIC, Action.LIST)


def _route(request: Request) -> tuple[Need, ...]:
    """Who may use a topic may know where it is. The route of the template topic says nothing about any other one."""
    topic = request.header(GetRouteHeader).topic
    return () if topic == TEMPLATE_TOPIC else (on_topic(topic, Action.PUB, Action.SUB, Action.GET),)


_ROUTE = needs(_route, Action.GET)


def rows(
    routes: Routes,
    brokers: Brokers,
    kv: KV,
    settings: Settings,
    changes: ChangeLine,
    in_steps: Callable[[Callable[[Request], ReplySteps]], Handler],
    asking_first: Callable[[Handler], Handler],
) -> list[Row]:
    """The table.

    A request that changes routes queues in `changes`; a request for a long answer is served `in_steps`, a
    registration after `asking_first`.
    """
    change = changes.handler
    return [
        Row(Code.GET_ROUTEINFO_BY_TOPIC, routes.route, _ROUTE),
        Row(Code.GET_BROKER_CLUSTER_INFO, routes.cluster_info, ANY_USER),
        Row(Code.GET_BROKER_MEMBER_GROUP, routes.member_group, _READ),
        Row(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, in_steps(routes.all_topics), _LIST),
        Row(Code.GET_TOPICS_BY_CLUSTER, in_steps(routes.topics_of_cluster), _LIST),
        Row(Code.GET_SYSTEM_TOPIC_LIST_FROM_NS, routes.system_topics, _LIST),
        Row(Code.GET_UNIT_TOPIC_LIST, in_steps(routes.unit_topics), _LIST),
        Row(Code.GET_HAS_UNIT_SUB_TOPIC_LIST, in_steps(routes.unit_sub_topics), _LIST),
        Row(Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, in_steps(routes.unit_sub_only_topics), _LIST),
        Row(Code.REGISTER_BROKER, asking_first(change(brokers.register)), _MEMBERS),
        Row(Code.UNREGISTER_BROKER, change(brokers.unregister), _MEMBERS),
        Row(Code.BROKER_HEARTBEAT, brokers.heartbeat, _MEMBERS),
        Row(Code.QUERY_DATA_VERSION, brokers.query_data_version, _READ),
        Row(Code.REGISTER_TOPIC_IN_NAMESRV, change(brokers.register_topic), _MEMBERS),
        Row(Code.DELETE_TOPIC_IN_NAMESRV, change(brokers.delete_topic), taking(_CHANGE)),
        Row(Code.WIPE_WRITE_PERM_OF_BROKER, change(brokers.wipe_write_perm), taking(_CHANGE)),
        Row(Code.ADD_WRITE_PERM_OF_BROKER, change(brokers.add_write_perm), taking(_CHANGE)),
        Row(Code.PUT_KV_CONFIG, kv.put, _CHANGE),
        Row(Code.GET_KV_CONFIG, kv.get, ANY_USER),
        Row(Code.GET_KVLIST_BY_NAMESPACE, kv.list, ANY_USER),
        Row(Code.DELETE_KV_CONFIG, kv.delete, taking(_CHANGE)),
        Row(Code.UPDATE_NAMESRV_CONFIG, settings.update, taking(_CHANGE)),
        Row(Code.GET_NAMESRV_CONFIG, settings.get, _READ),
    ]


def controller_settings(settings: Settings) -> list[Row]:
    """The settings of the controller inside: they are those of the name server."""
    return [
        Row(Code.UPDATE_CONTROLLER_CONFIG, settings.update, taking(_CHANGE)),
        Row(Code.GET_CONTROLLER_CONFIG, settings.get, _READ),
    ]
