"""Heartbeats and membership.

Owns        the effects of a heartbeat, the answers about members.
Must not know   how a member is told of a change, offsets.

Rules: RocketMQ's ClientManageProcessor and ConsumerManageProcessor; docs/internals/clients.md.
"""

from __future__ import annotations

from collections.abc import Generator

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RemoteError, UsageError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.broker.clients.client_ids import ClientIds
from rocketlake.broker.clients.consumers import ConsumerTable
from rocketlake.broker.clients.producers import ProducerTable
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.groups.table import GroupTable
from rocketlake.broker.property_filter import record_test, unserved
from rocketlake.broker.topics.auto_create import AutoCreate
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.names import retry_topic
from rocketlake.model.subscription import Subscription
from rocketlake.model.topic import TOPIC_SYS_FLAG_UNIT_SUBSCRIPTION
from rocketlake.net.reply_steps import ReplySteps
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.bodies.client import GroupMembers
from rocketlake.protocol.bodies.heartbeat import ClientConfigCheck, ConsumerEntry, Heartbeat
from rocketlake.protocol.headers.client import GroupMembersHeader, HeartbeatReplyHeader, UnregisterClientHeader
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["Client"]

_log = get_logger(__name__)


class Client:
    """HEART_BEAT, UNREGISTER_CLIENT, GET_CONSUMER_LIST_BY_GROUP, CHECK_CLIENT_CONFIG."""

    def __init__(
        self,
        *,
        config: LiveConfig,
        consumers: ConsumerTable,
        producers: ProducerTable,
        groups: GroupTable,
        topics: TopicTable,
        auto_create: AutoCreate,
        client_ids: ClientIds,
        clock: Clock,
    ) -> None:
        self._config = config
        self._consumers = consumers
        self._producers = producers
        self._groups = groups
        self._topics = topics
        self._auto_create = auto_create
        self._client_ids = client_ids
        self._warnings = RareWarnings(_log, interval_seconds=60, clock=clock)

    def heartbeat(self, request: Request) -> ReplySteps:
        """Note the client in all its groups. The answer tells whether the broker wants its full subscriptions.

        A group that is one too many is refused; the client is noted in the others all the same. With users a client id
        of another user is refused.
        """
        heartbeat = self._read(request)
        self._client_ids.claim(request.user, heartbeat.client_id)
        command = request.command
        sub_changed = heartbeat.fingerprint == 0
        refused: UsageError | None = None
        for consumer in heartbeat.consumers:
            subscriptions = None if heartbeat.without_sub else (yield from _subscriptions(consumer))
            if request.asker.closed:  # it has been taken out of all groups
                break
            try:
                if self._note_consumer(request, heartbeat, consumer, subscriptions):
                    sub_changed = True
            except UsageError as error:
                refused = refused or error
            yield
        for producer in heartbeat.producers:
            if request.asker.closed:
                break
            try:
                self._producers.register(
                    producer.group_name, request.asker, heartbeat.client_id, command.language, command.version
                )
            except UsageError as error:
                refused = refused or error
            yield
        if refused is not None:
            raise refused
        return Reply(header=HeartbeatReplyHeader(supports_v2=True, sub_changed=sub_changed))

    def _read(self, request: Request) -> Heartbeat:
        try:
            return Heartbeat.decode(request.body)
        except UsageError as error:
            # Some clients hide the answer from their users, and would go on without a group for ever.
            self._warnings.warn(
                request.address.rpartition(":")[0],
                "heartbeat of a client in %s from %s cannot be read, it gets no messages: %s",
                request.command.language,
                request.address,
                error,
            )
            raise

    def unregister(self, request: Request) -> Reply:
        """UNREGISTER_CLIENT: take the client of this link out of the groups that the request names.

        The client id that the request names is not looked at: no link leaves for another one.
        """
        header = request.header(UnregisterClientHeader)
        if header.producer_group:
            self._producers.unregister(header.producer_group, request.asker)
        if header.consumer_group:
            self._consumers.unregister(header.consumer_group, request.asker)
        return Reply()

    def members(self, request: Request) -> Reply:
        """GET_CONSUMER_LIST_BY_GROUP: client ids of a group's consumers."""
        group = request.header(GroupMembersHeader).consumer_group
        client_ids = self._consumers.members(group)
        if not client_ids:
            raise RemoteError(f"no consumer for this group, {group}", code=ResponseCode.SYSTEM_ERROR)
        return Reply(body=GroupMembers(client_ids=client_ids).encode())

    def check_config(self, request: Request) -> Reply:
        """CHECK_CLIENT_CONFIG: succeeds if this broker can serve the subscription, as it can every one by tags."""
        subscription = ClientConfigCheck.decode(request.body).subscription.to_model()
        reason = unserved(subscription, enabled=self._config.now.property_filter_enabled)
        if reason:
            hint = "set enablePropertyFilter=true at the broker, or subscribe by tags"
            raise RemoteError(reason, code=ResponseCode.SYSTEM_ERROR, hint=hint)
        if not subscription.is_tag_type:
            try:
                record_test(subscription.expression)
            except UsageError as error:
                raise RemoteError(str(error), code=ResponseCode.SUBSCRIPTION_PARSE_FAILED) from None
        return Reply()

    def _note_consumer(
        self, request: Request, heartbeat: Heartbeat, consumer: ConsumerEntry, subscriptions: list[Subscription] | None
    ) -> bool:
        """True if the broker wants the full subscriptions: it knows others than the fingerprint stands for, or none."""
        group = self._groups.find_or_create(consumer.group_name)
        if group is None:
            return False
        self._make_retry_topic(consumer, group.retry_queues)
        self._consumers.register(
            consumer.group_name,
            request.asker,
            heartbeat.client_id,
            consumer.consume_type,
            consumer.message_model,
            consumer.consume_from_where,
            subscriptions,
            request.command.language,
            request.command.version,
            notify=group.notify_consumer_ids_changed_enable,
        )
        if heartbeat.fingerprint == 0:
            return False
        return self._consumers.take_fingerprint(consumer.group_name, heartbeat.fingerprint)

    def _make_retry_topic(self, consumer: ConsumerEntry, queues: int) -> None:
        name = retry_topic(consumer.group_name)
        if self._topics.get(name) is None:
            ordered = any(self._topics.is_ordered(entry.topic) for entry in consumer.subscriptions)
            sys_flag = TOPIC_SYS_FLAG_UNIT_SUBSCRIPTION if consumer.unit_mode else 0
            self._auto_create.for_group(name, queues, sys_flag, ordered=ordered)


def _subscriptions(consumer: ConsumerEntry) -> Generator[None, None, list[Subscription]]:
    subscriptions = []
    for entry in consumer.subscriptions:
        subscriptions.append(entry.to_model())
        yield
    return subscriptions
