"""The handler of each request code.

Owns        one row per request code.
Must not know   the work of a processor.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.auth.admin_access import AdminAccess
from rocketlake.namesrv.change_line import ChangeLine
from rocketlake.namesrv.processors.broker import Brokers
from rocketlake.namesrv.processors.kv import KV
from rocketlake.namesrv.processors.route import Routes
from rocketlake.namesrv.processors.settings import Settings
from rocketlake.net.admin_gate import guard
from rocketlake.net.dispatcher import Row
from rocketlake.net.reply_steps import ReplySteps
from rocketlake.net.request import Handler, Request
from rocketlake.protocol.request_code import RequestCode as Code

__all__ = ["controller_settings", "rows"]


def rows(
    routes: Routes,
    brokers: Brokers,
    kv: KV,
    settings: Settings,
    access: AdminAccess,
    changes: ChangeLine,
    in_steps: Callable[[Callable[[Request], ReplySteps]], Handler],
    asking_first: Callable[[Handler], Handler],
) -> list[Row]:
    """The table. Guarded rows: docs/decisions/0004-admin-requests-from-this-machine.md.

    A request that changes routes queues in `changes`; a request for a long answer is served `in_steps`, a
    registration after `asking_first`.
    """
    change = changes.handler
    return [
        Row(Code.GET_ROUTEINFO_BY_TOPIC, routes.route),
        Row(Code.GET_BROKER_CLUSTER_INFO, routes.cluster_info),
        Row(Code.GET_BROKER_MEMBER_GROUP, routes.member_group),
        Row(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, in_steps(routes.all_topics)),
        Row(Code.GET_TOPICS_BY_CLUSTER, in_steps(routes.topics_of_cluster)),
        Row(Code.GET_SYSTEM_TOPIC_LIST_FROM_NS, routes.system_topics),
        Row(Code.GET_UNIT_TOPIC_LIST, in_steps(routes.unit_topics)),
        Row(Code.GET_HAS_UNIT_SUB_TOPIC_LIST, in_steps(routes.unit_sub_topics)),
        Row(Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, in_steps(routes.unit_sub_only_topics)),
        Row(Code.REGISTER_BROKER, asking_first(change(brokers.register))),
        Row(Code.UNREGISTER_BROKER, change(brokers.unregister)),
        Row(Code.BROKER_HEARTBEAT, brokers.heartbeat),
        Row(Code.QUERY_DATA_VERSION, brokers.query_data_version),
        Row(Code.REGISTER_TOPIC_IN_NAMESRV, change(brokers.register_topic)),
        Row(Code.DELETE_TOPIC_IN_NAMESRV, guard(access, change(brokers.delete_topic))),
        Row(Code.WIPE_WRITE_PERM_OF_BROKER, guard(access, change(brokers.wipe_write_perm))),
        Row(Code.ADD_WRITE_PERM_OF_BROKER, guard(access, change(brokers.add_write_perm))),
        Row(Code.PUT_KV_CONFIG, kv.put),
        Row(Code.GET_KV_CONFIG, kv.get),
        Row(Code.GET_KVLIST_BY_NAMESPACE, kv.list),
        Row(Code.DELETE_KV_CONFIG, guard(access, kv.delete)),
        Row(Code.UPDATE_NAMESRV_CONFIG, guard(access, settings.update)),
        Row(Code.GET_NAMESRV_CONFIG, settings.get),
    ]


def controller_settings(settings: Settings, access: AdminAccess) -> list[Row]:
    """The settings of the controller inside: they are those of the name server."""
    return [
        Row(Code.UPDATE_CONTROLLER_CONFIG, guard(access, settings.update)),
        Row(Code.GET_CONTROLLER_CONFIG, settings.get),
    ]
