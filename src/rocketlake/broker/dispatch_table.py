"""Which handler serves which request: one row for each request code.

Owns        code -> handler, the lane whose limits count, what the request must be allowed to do (Needs).
Must not know   the work of the handlers.

The columns: request code; handler; lane (its oldest age and how many may wait are settings, see flow_control.py);
needs: a user with policies must be allowed all of them, on any one of the actions (net/gate/needs.py).
Codes that are not here are answered REQUEST_CODE_NOT_SUPPORTED. Each function gives the rows of one wing, or of one
part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from inspect import isgeneratorfunction
from typing import cast

from rocketlake.auth.action import Action, Kind
from rocketlake.base.clock import Clock
from rocketlake.broker.cold_requests import ColdRequests
from rocketlake.broker.flow_control import Lane
from rocketlake.broker.membership.epoch_answer import EpochAnswer
from rocketlake.broker.membership.notices import Notices
from rocketlake.broker.processors.ack import Ack
from rocketlake.broker.processors.admin_broker import AdminBroker
from rocketlake.broker.processors.admin_group import AdminGroup
from rocketlake.broker.processors.admin_offset import AdminOffset
from rocketlake.broker.processors.admin_position import AdminPosition
from rocketlake.broker.processors.admin_store import AdminStore
from rocketlake.broker.processors.admin_topic import AdminTopic
from rocketlake.broker.processors.assignment import Assignment
from rocketlake.broker.processors.change_role import ChangeRole
from rocketlake.broker.processors.client import Client
from rocketlake.broker.processors.half_list import HalfList
from rocketlake.broker.processors.lite_admin import LiteAdmin
from rocketlake.broker.processors.lite_subscription import LiteSubscriptions
from rocketlake.broker.processors.lock import Lock
from rocketlake.broker.processors.offset import Offset
from rocketlake.broker.processors.pop import PopMessage
from rocketlake.broker.processors.pop_lite import PopLite
from rocketlake.broker.processors.pop_look import PopLook
from rocketlake.broker.processors.pull import Pull
from rocketlake.broker.processors.query import Query
from rocketlake.broker.processors.recall import Recall
from rocketlake.broker.processors.replicas import ReplicaTalk
from rocketlake.broker.processors.reply import SendReply
from rocketlake.broker.processors.send import Send
from rocketlake.broker.processors.send_back import SendBack
from rocketlake.broker.processors.waiting import Waiting
from rocketlake.broker.replicas.editions import Editions
from rocketlake.broker.replicas.known_lives import KnownLives
from rocketlake.broker.rights import body_needs
from rocketlake.net import dispatcher
from rocketlake.net.gate import needs as on
from rocketlake.net.gate.needs import ANYBODY, Needs, taking
from rocketlake.net.reply_steps import ReplySteps, in_steps
from rocketlake.net.request import Handler, Request
from rocketlake.net.turns import Turns
from rocketlake.protocol.request_code import RequestCode as Code

__all__ = [
    "Row",
    "client_rows",
    "delay_rows",
    "dispatcher_rows",
    "group_rows",
    "lite_rows",
    "membership_rows",
    "offset_rows",
    "pop_rows",
    "reading_rows",
    "replica_rows",
    "sending_rows",
    "server_rows",
    "takeover_rows",
    "topic_rows",
    "transaction_rows",
]


PUB, SUB, CREATE, UPDATE, DELETE, GET, LIST = (
    Action.PUB,
    Action.SUB,
    Action.CREATE,
    Action.UPDATE,
    Action.DELETE,
    Action.GET,
    Action.LIST,
)
_READS = on.topic(SUB) & on.group(SUB)
_COMMITS = replace(on.topic(SUB, UPDATE) & on.group(SUB, UPDATE), inner=True)
"""Consumers commit all the time."""
_SMALL = 32 * 1024
"""Bytes of a body that is decoded in one go. No client sends a larger body with these codes."""


class Cold(Enum):
    """Whether a request may need old messages, which a worker must read from disk first (cold_requests.py)."""

    NEVER = "never"
    """No, or the request waits elsewhere: pulls in reads/waiting_pulls.py, steps in `ColdRequests.read`, ends of
    transactions in order (wings/transactions.py)."""
    ANY_ORDER = "any order"


@dataclass(frozen=True, slots=True)
class Row:
    """One request code."""

    code: Code
    handler: Handler | Callable[[Request], ReplySteps]
    lane: Lane
    needs: Needs
    body_bytes_max: int | None = None
    """A lower limit than for other requests, because the body is decoded in one go."""
    cold: Cold = Cold.NEVER


def sending_rows(send: Send, send_back: SendBack, reply: SendReply) -> Iterator[Row]:
    """Sends of producers, messages that consumers hand back, and their answers to messages that ask."""
    yield Row(Code.SEND_MESSAGE, send.send, Lane.SEND, on.topic(PUB))
    yield Row(Code.SEND_MESSAGE_V2, send.send, Lane.SEND, on.topic(PUB, field="b"))
    yield Row(Code.SEND_BATCH_MESSAGE, send.send, Lane.SEND, on.topic(PUB, field="b"))
    yield Row(Code.SEND_REPLY_MESSAGE, reply.send, Lane.SEND, on.topic(PUB))
    yield Row(Code.SEND_REPLY_MESSAGE_V2, reply.send, Lane.SEND, on.topic(PUB, field="b"))
    yield Row(
        Code.CONSUMER_SEND_MSG_BACK, send_back.send_back, Lane.SEND, on.group(SUB, field="group"), cold=Cold.ANY_ORDER
    )


def delay_rows(recall: Recall, waiting: Waiting) -> Iterator[Row]:
    """Messages that wait for their time."""
    yield Row(Code.RECALL_MESSAGE, recall.recall, Lane.SEND, on.topic(PUB))
    yield Row(Code.GET_WAITING_MESSAGES, waiting.messages, Lane.ADMIN, on.cluster(GET))
    yield Row(Code.GET_TIMER_METRICS, waiting.metrics, Lane.ADMIN, on.every(Kind.TOPIC, LIST))


def transaction_rows(end: Handler, resume: Handler, halves: HalfList) -> Iterator[Row]:
    """Ends of transactions, and transactions without an end."""
    yield Row(Code.END_TRANSACTION, end, Lane.QUICK, on.optional_topic(PUB))
    yield Row(Code.RESUME_CHECK_HALF_MESSAGE, resume, Lane.ADMIN, taking(on.topic(UPDATE)), cold=Cold.ANY_ORDER)
    yield Row(Code.GET_HALF_MESSAGES, halves.halves, Lane.ADMIN, on.cluster(GET))


def reading_rows(pull: Pull, query: Query, offset: Offset) -> Iterator[Row]:
    """Messages and offsets that are read."""
    yield Row(Code.PULL_MESSAGE, pull.pull, Lane.PULL, _READS)
    yield Row(Code.LITE_PULL_MESSAGE, pull.pull, Lane.PULL, _READS)
    yield Row(Code.QUERY_MESSAGE, query.by_key, Lane.ADMIN, on.topic(SUB, GET), cold=Cold.ANY_ORDER)
    yield Row(Code.VIEW_MESSAGE_BY_ID, query.by_offset, Lane.ADMIN, on.optional_topic(SUB, GET), cold=Cold.ANY_ORDER)

    yield Row(
        Code.QUERY_CONSUMER_OFFSET,
        offset.query,
        Lane.QUICK,
        on.topic(SUB, GET) & on.group(SUB, GET),
        cold=Cold.ANY_ORDER,
    )
    yield Row(Code.UPDATE_CONSUMER_OFFSET, offset.update, Lane.QUICK, _COMMITS)
    yield Row(Code.SEARCH_OFFSET_BY_TIMESTAMP, offset.by_time, Lane.ADMIN, on.topic(SUB, GET), cold=Cold.ANY_ORDER)
    yield Row(Code.GET_MAX_OFFSET, offset.maximum, Lane.QUICK, on.topic(SUB, GET))
    yield Row(Code.GET_MIN_OFFSET, offset.minimum, Lane.QUICK, on.topic(SUB, GET), cold=Cold.ANY_ORDER)
    yield Row(
        Code.GET_EARLIEST_MSG_STORETIME, offset.earliest_time, Lane.QUICK, on.topic(SUB, GET), cold=Cold.ANY_ORDER
    )


def pop_rows(pop: PopMessage, ack: Ack, look: PopLook) -> Iterator[Row]:
    """Messages that are handed out for a while, and what consumers say of them."""
    yield Row(Code.POP_MESSAGE, pop.pop, Lane.PULL, _READS)
    yield Row(Code.ACK_MESSAGE, ack.ack, Lane.QUICK, body_needs.POPPED, cold=Cold.ANY_ORDER)
    yield Row(Code.BATCH_ACK_MESSAGE, ack.batch, Lane.QUICK, body_needs.BATCH_ACK, _SMALL, cold=Cold.ANY_ORDER)
    yield Row(Code.CHANGE_MESSAGE_INVISIBLETIME, ack.change, Lane.QUICK, body_needs.POPPED, cold=Cold.ANY_ORDER)
    yield Row(Code.NOTIFICATION, look.notify, Lane.PULL, _READS)
    yield Row(Code.PEEK_MESSAGE, look.peek, Lane.PULL, _READS)
    yield Row(Code.POLLING_INFO, look.polling_info, Lane.QUICK, on.topic(GET) & on.group(GET))


def lite_rows(pop: PopLite, subscriptions: LiteSubscriptions, admin: LiteAdmin) -> Iterator[Row]:
    """Messages of lite topics, and who subscribes to them."""
    yield Row(Code.POP_LITE_MESSAGE, pop.pop, Lane.PULL, _READS)
    yield Row(Code.LITE_SUBSCRIPTION_CTL, subscriptions.change, Lane.QUICK, body_needs.LITE_SUBSCRIPTIONS)
    yield Row(Code.GET_BROKER_LITE_INFO, admin.broker, Lane.ADMIN, on.cluster(GET))
    yield Row(Code.GET_PARENT_TOPIC_INFO, admin.parent, Lane.ADMIN, on.topic(GET))
    yield Row(Code.GET_LITE_TOPIC_INFO, admin.topic, Lane.ADMIN, on.topic(GET, field="parentTopic"))
    on_client = on.topic(GET, field="parentTopic") & on.group(GET, field="group")
    yield Row(Code.GET_LITE_CLIENT_INFO, admin.client, Lane.ADMIN, on_client)
    yield Row(Code.GET_LITE_GROUP_INFO, admin.group, Lane.ADMIN, on.group(GET, field="group"))
    yield Row(Code.TRIGGER_LITE_DISPATCH, admin.dispatch, Lane.ADMIN, on.group(UPDATE, field="group"))


def client_rows(client: Client, lock: Lock, assignment: Assignment) -> Iterator[Row]:
    """Heartbeats, groups, queue locks and shares of queues."""
    yield Row(Code.HEART_BEAT, client.heartbeat, Lane.HEARTBEAT, body_needs.HEARTBEAT)
    yield Row(Code.UNREGISTER_CLIENT, client.unregister, Lane.QUICK, body_needs.UNREGISTER)
    yield Row(Code.GET_CONSUMER_LIST_BY_GROUP, client.members, Lane.QUICK, on.group(SUB, GET))
    yield Row(Code.CHECK_CLIENT_CONFIG, client.check_config, Lane.QUICK, body_needs.CHECK_CONFIG, _SMALL)
    yield Row(Code.LOCK_BATCH_MQ, lock.lock, Lane.QUICK, body_needs.LOCK)
    yield Row(Code.UNLOCK_BATCH_MQ, lock.unlock, Lane.QUICK, body_needs.LOCK)
    yield Row(Code.QUERY_ASSIGNMENT, assignment.query, Lane.QUICK, body_needs.ASSIGNMENT, _SMALL)
    yield Row(Code.SET_MESSAGE_REQUEST_MODE, assignment.set_mode, Lane.ADMIN, body_needs.REQUEST_MODE, _SMALL)


def replica_rows(editions: Editions, talk: ReplicaTalk, *, under_controller: bool) -> Iterator[Row]:
    """What replicas ask and tell; the tables themselves are answers to administrators, too."""
    if not under_controller:  # membership_rows has it else
        yield Row(Code.EXCHANGE_BROKER_HA_INFO, talk.exchange, Lane.QUICK, on.members())
    yield Row(Code.GET_BROKER_HA_STATUS, talk.ha_status, Lane.ADMIN, on.cluster(GET))
    yield Row(Code.NOTIFY_MIN_BROKER_ID_CHANGE, talk.lowest_id_changed, Lane.QUICK, ANYBODY)
    yield Row(Code.GET_PRODUCER_SEQUENCES, talk.producer_sequences, Lane.ADMIN, on.cluster(GET))
    yield Row(Code.GET_DELETED_TOPICS, talk.deleted_topics, Lane.ADMIN, on.cluster(GET))
    yield Row(Code.GET_NEWER_TABLES, editions.newer, Lane.QUICK, on.cluster(GET))


def topic_rows(topic: AdminTopic) -> Iterator[Row]:
    """Topics, for administrators."""
    yield Row(Code.UPDATE_AND_CREATE_TOPIC, topic.create, Lane.ADMIN, on.topic(CREATE))
    yield Row(Code.UPDATE_AND_CREATE_TOPIC_LIST, topic.create_list, Lane.ADMIN, body_needs.CREATE_TOPICS)
    yield Row(Code.DELETE_TOPIC_IN_BROKER, topic.delete, Lane.ADMIN, taking(on.topic(DELETE)))
    yield Row(Code.GET_TOPIC_CONFIG, topic.get, Lane.ADMIN, on.topic(GET))
    yield Row(Code.GET_ALL_TOPIC_CONFIG, topic.all, Lane.ADMIN, on.every(Kind.TOPIC, LIST))
    yield Row(Code.GET_TOPIC_STATS_INFO, topic.stats, Lane.ADMIN, on.topic(GET))
    yield Row(Code.QUERY_TOPIC_CONSUME_BY_WHO, topic.consumers, Lane.ADMIN, on.topic(GET))
    yield Row(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, topic.system_topics, Lane.ADMIN, on.every(Kind.TOPIC, LIST))


def group_rows(group: AdminGroup) -> Iterator[Row]:
    """Consumer groups and their members, for administrators."""
    yield Row(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group.create, Lane.ADMIN, body_needs.CREATE_GROUP, 2 * _SMALL)
    yield Row(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, group.create_list, Lane.ADMIN, body_needs.CREATE_GROUPS)
    yield Row(Code.DELETE_SUBSCRIPTIONGROUP, group.delete, Lane.ADMIN, taking(on.group(DELETE, field="groupName")))
    yield Row(Code.GET_SUBSCRIPTIONGROUP_CONFIG, group.get, Lane.ADMIN, on.group(GET, field="group"))
    yield Row(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, group.all, Lane.ADMIN, on.every(Kind.GROUP, LIST))
    yield Row(
        Code.UPDATE_AND_GET_GROUP_FORBIDDEN,
        group.forbid,
        Lane.ADMIN,
        taking(on.group(UPDATE, field="group") & on.topic(UPDATE)),
    )
    yield Row(Code.GET_CONSUMER_CONNECTION_LIST, group.consumer_connections, Lane.ADMIN, on.group(GET))
    yield Row(Code.GET_PRODUCER_CONNECTION_LIST, group.producer_connections, Lane.ADMIN, on.cluster(GET))
    yield Row(Code.GET_ALL_PRODUCER_INFO, group.all_producers, Lane.ADMIN, on.cluster(GET))
    yield Row(
        Code.QUERY_SUBSCRIPTION_BY_CONSUMER,
        group.subscription,
        Lane.ADMIN,
        on.group(GET, field="group") & on.optional_topic(GET),
    )
    yield Row(Code.GET_CONSUMER_RUNNING_INFO, group.running_info, Lane.ADMIN, on.group(GET))
    yield Row(
        Code.CONSUME_MESSAGE_DIRECTLY, group.consume_directly, Lane.ADMIN, taking(on.group(SUB)), cold=Cold.ANY_ORDER
    )


def offset_rows(offset: AdminOffset, position: AdminPosition) -> Iterator[Row]:
    """Offsets of groups, for administrators."""
    yield Row(Code.GET_ALL_CONSUMER_OFFSET, offset.all, Lane.ADMIN, on.cluster(GET))
    yield Row(Code.GET_CONSUME_STATS, offset.consume_stats, Lane.ADMIN, on.group(GET) & on.optional_topic(GET))
    yield Row(Code.GET_BROKER_CONSUME_STATS, offset.broker_consume_stats, Lane.ADMIN, on.cluster(GET))
    yield Row(
        Code.INVOKE_BROKER_TO_RESET_OFFSET,
        offset.reset,
        Lane.ADMIN,
        taking(on.group(UPDATE, field="group") & on.topic(UPDATE)),
    )
    yield Row(
        Code.CLONE_GROUP_OFFSET,
        offset.clone,
        Lane.ADMIN,
        taking(on.group(SUB, field="srcGroup") & on.group(UPDATE, field="destGroup") & on.optional_topic(UPDATE)),
    )
    yield Row(Code.QUERY_TOPICS_BY_CONSUMER, offset.topics_of_consumer, Lane.ADMIN, on.group(GET, field="group"))
    yield Row(Code.QUERY_CONSUME_TIME_SPAN, offset.time_span, Lane.ADMIN, on.group(GET, field="group") & on.topic(GET))
    yield Row(
        Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        position.client_offsets,
        Lane.ADMIN,
        on.group(GET, field="group") & on.topic(GET),
    )
    yield Row(
        Code.QUERY_CORRECTION_OFFSET,
        position.correction,
        Lane.ADMIN,
        on.group(GET, field="compareGroup") & on.topic(GET),
    )


def server_rows(broker: AdminBroker, store: AdminStore) -> Iterator[Row]:
    """Settings, figures and files of the broker, for administrators."""
    yield Row(Code.UPDATE_BROKER_CONFIG, broker.update_config, Lane.ADMIN, taking(on.cluster(UPDATE)), _SMALL)
    yield Row(Code.GET_BROKER_CONFIG, broker.get_config, Lane.ADMIN, on.cluster(GET))
    yield Row(Code.GET_BROKER_RUNTIME_INFO, broker.runtime_info, Lane.ADMIN, on.cluster(GET), cold=Cold.ANY_ORDER)
    yield Row(Code.GET_ALL_DELAY_OFFSET, broker.delay_offsets, Lane.ADMIN, on.cluster(GET))
    yield Row(Code.GET_TIMER_CHECK_POINT, broker.timer_checkpoint, Lane.ADMIN, on.cluster(GET))
    yield Row(Code.GET_ALL_MESSAGE_REQUEST_MODE, broker.request_modes, Lane.ADMIN, on.every(Kind.TOPIC, LIST))
    yield Row(Code.VIEW_BROKER_STATS_DATA, broker.stats, Lane.ADMIN, on.cluster(GET))
    yield Row(Code.QUERY_CONSUME_QUEUE, store.queue_contents, Lane.ADMIN, on.topic(GET), cold=Cold.ANY_ORDER)
    yield Row(Code.DELETE_EXPIRED_COMMITLOG, store.delete_expired, Lane.ADMIN, taking(on.cluster(UPDATE)))
    yield Row(Code.CLEAN_EXPIRED_CONSUMEQUEUE, store.clean_queues, Lane.ADMIN, taking(on.cluster(UPDATE)))
    yield Row(Code.CLEAN_UNUSED_TOPIC, store.clean_topics, Lane.ADMIN, taking(on.cluster(UPDATE)))


def takeover_rows(change: ChangeRole) -> Iterator[Row]:
    """A planned change of role, of a broker without a controller."""
    yield Row(Code.CHANGE_ROLE, change.change, Lane.ADMIN, taking(on.cluster(UPDATE)), _SMALL)


def membership_rows(notices: Notices, epochs: EpochAnswer, lives: KnownLives) -> Iterator[Row]:
    """The word of a controller and of other members about roles; the history of this broker's log."""
    yield Row(Code.NOTIFY_BROKER_ROLE_CHANGED, notices.role_changed, Lane.ADMIN, on.members())
    yield Row(Code.EXCHANGE_BROKER_HA_INFO, notices.exchange_ha, Lane.ADMIN, on.members())
    yield Row(Code.GET_BROKER_EPOCH_CACHE, epochs.epochs, Lane.ADMIN, on.cluster(GET))
    yield Row(Code.CHECK_LIFE, lives.check, Lane.QUICK, on.cluster(GET))
    yield Row(Code.GET_RECORD_MARK, epochs.record_mark, Lane.QUICK, on.cluster(GET), cold=Cold.ANY_ORDER)


def dispatcher_rows(
    rows: Iterable[Row],
    body_bytes_max: int,
    turns: Turns,
    clock: Clock,
    cold_requests: ColdRequests,
) -> Iterator[dispatcher.Row]:
    """The rows as the dispatcher takes them.

    A handler that is a generator is served in turns. `body_bytes_max`: the limit of requests that are no sends.
    """
    for row in rows:
        handler = row.handler
        if isgeneratorfunction(handler):
            handler = in_steps(handler, turns, clock, finishes=not row.needs.only_reads)
        if row.cold is Cold.ANY_ORDER:
            handler = cold_requests.handler(cast(Handler, handler))
        limit = None if row.lane is Lane.SEND else min(body_bytes_max, row.body_bytes_max or body_bytes_max)
        yield dispatcher.Row(row.code, cast(Handler, handler), row.needs, row.lane.value, limit)
