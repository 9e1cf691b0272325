"""Consumer groups, as administrators make, change, delete and read them; connected clients.

Owns        the checks of a group's settings, the answers about connections.
Must not know   offsets (but that a deletion forgets them), how settings are saved.

Source: docs/internals/admin.md.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable

from rocketlake.auth.action import Action, on_group
from rocketlake.base.errors import RemoteError, UsageError
from rocketlake.broker.clients.consumers import ConsumerTable
from rocketlake.broker.clients.disagreement import is_unequal
from rocketlake.broker.clients.member import Member
from rocketlake.broker.clients.producers import ProducerTable
from rocketlake.broker.clients.push import Push
from rocketlake.broker.groups.attributes import apply_changes
from rocketlake.broker.groups.table import READ_FORBIDDEN, GroupTable
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.replicas.kept import Kept
from rocketlake.broker.stats import BrokerStats
from rocketlake.model.group import GroupConfig
from rocketlake.model.message_id import parse_offset_message_id
from rocketlake.model.names import check_group, check_topic
from rocketlake.model.positions import PhysicalOffset
from rocketlake.model.subscription import Subscription
from rocketlake.net.gate.access_gate import AccessGate
from rocketlake.net.reply_steps import ReplySteps
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.bodies.body import to_json
from rocketlake.protocol.bodies.client import (
    AllProducers,
    ConnectionEntry,
    ConsumerConnection,
    ProducerConnection,
    ProducerEntry,
)
from rocketlake.protocol.bodies.data_version import DataVersionBody
from rocketlake.protocol.bodies.group import (
    GroupConfigList,
    GroupEntry,
    GroupForbidden,
    SubscriptionOfConsumer,
)
from rocketlake.protocol.bodies.group import GroupTable as GroupTableBody
from rocketlake.protocol.bodies.heartbeat import SubscriptionEntry
from rocketlake.protocol.bodies.long_text import encoding
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.admin_group import (
    AllGroupsHeader,
    AllGroupsReplyHeader,
    ConsumerConnectionsHeader,
    DeleteGroupHeader,
    GetGroupConfigHeader,
    GroupForbiddenHeader,
    ProducerConnectionsHeader,
    SubscriptionOfConsumerHeader,
)
from rocketlake.protocol.headers.client import ConsumeDirectlyHeader, RunningInfoHeader
from rocketlake.protocol.request_code import RequestCode, request_name
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.protocol.versions import RUNNING_INFO_SINCE, version_name

__all__ = ["AdminGroup"]

_PAGE_MAX = 2000
"""splitMetadataSize: most groups in one page of GET_ALL_SUBSCRIPTIONGROUP_CONFIG."""
_RETRY_QUEUES_MAX = 1024
_SETTINGS_MAX = 1000
_SETTINGS_BYTES_MAX = 64 * 1024
"""Of one group, as JSON: its line in subscriptionGroup.json is made in one go."""


class AdminGroup:
    """Settings of groups, connected consumers and producers."""

    def __init__(
        self,
        *,
        groups: GroupTable,
        offsets: OffsetTable,
        consumers: ConsumerTable,
        producers: ProducerTable,
        stats: BrokerStats,
        kept: Kept,
        push: Push,
        record: Callable[[PhysicalOffset], memoryview | None],
        broker_name: Callable[[], str],
        gate: AccessGate,
    ) -> None:
        """`record`: the message at a place in the log; `gate`: asked when rights are taken from a group."""
        self._groups = groups
        self._offsets = offsets
        self._consumers = consumers
        self._producers = producers
        self._stats = stats
        self._kept = kept
        self._push = push
        self._record = record
        self._broker_name = broker_name
        self._gate = gate

    def create(self, request: Request) -> ReplySteps:
        """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP."""
        return (yield from self._put(request, [GroupEntry.decode(request.body)]))

    def create_list(self, request: Request) -> ReplySteps:
        """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: all of them, or none if one is refused."""
        return (yield from self._put(request, (yield from GroupConfigList.decoding(request.body))))

    def delete(self, request: Request) -> ReplySteps:
        """DELETE_SUBSCRIPTIONGROUP; its offsets stay unless their removal is asked for."""
        header = request.header(DeleteGroupHeader)
        self._groups.delete(header.group_name)
        if header.clean_offset:
            yield from self._offsets.remove_group(header.group_name)
        yield from self._stats.forget_group(header.group_name)
        return self._answer_when_saved(request, Reply())

    def get(self, request: Request) -> Reply:
        """GET_SUBSCRIPTIONGROUP_CONFIG."""
        name = request.header(GetGroupConfigHeader).group
        group = self._groups.find(name)
        if group is None:
            raise RemoteError(f"No group in this broker. group: {name}", code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        return Reply(body=GroupEntry.from_model(group).encode())

    def all(self, request: Request) -> ReplySteps:
        """GET_ALL_SUBSCRIPTIONGROUP_CONFIG, in pages for peers that ask for them."""
        header = request.header(AllGroupsHeader)
        groups = list(self._groups.all().values())
        total = len(groups)
        if header.group_seq is not None:
            first = max(0, header.group_seq)
            groups = groups[first : first + min(header.max_group_num or _PAGE_MAX, _PAGE_MAX)]
        body = GroupTableBody(
            data_version=DataVersionBody.from_model(self._groups.data_version),
            groups={},
            forbidden=self._groups.forbidden_table(),
        )
        for group in groups:
            body.groups[group.name] = GroupEntry.from_model(group)
            yield
        return Reply(header=AllGroupsReplyHeader(total_group_num=total), body=(yield from encoding(body)))

    def forbid(self, request: Request) -> Reply | Held:
        """UPDATE_AND_GET_GROUP_FORBIDDEN: change, if the request asks for it, and tell whether the group may read."""
        header = request.header(GroupForbiddenHeader)
        changed = header.readable is not None
        if header.readable:
            self._groups.set_read_forbidden(header.group, header.topic, forbidden=False)
        elif changed:
            self._forbid(header.group, header.topic)
        readable = not self._groups.forbidden(header.group, header.topic) & READ_FORBIDDEN
        reply = Reply(body=GroupForbidden(group=header.group, topic=header.topic, readable=readable).encode())
        return self._answer_when_saved(request, reply) if changed else reply

    def _forbid(self, group: str, topic: str) -> None:
        """RemoteError for names that are none: with them nothing would be forbidden, and the table would grow."""
        if self._groups.find(group) is None:
            raise RemoteError(
                f"No group in this broker. group: {group}", code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
            )
        try:
            check_topic(topic)
            self._groups.set_read_forbidden(group, topic, forbidden=True)
        except UsageError as error:
            raise RemoteError(str(error), code=ResponseCode.INVALID_PARAMETER) from None

    def consumer_connections(self, request: Request) -> ReplySteps:
        """GET_CONSUMER_CONNECTION_LIST."""
        name = request.header(ConsumerConnectionsHeader).consumer_group
        group = self._consumers.find(name)
        if group is None:
            raise RemoteError(f"the consumer group[{name}] not online", code=ResponseCode.CONSUMER_NOT_ONLINE)
        body = ConsumerConnection(
            consume_type=group.consume_type, message_model=group.message_model, consume_from_where=group.from_where
        )
        wanted = list(group.subscriptions.values())
        members = list(group.members.values())
        shows_each = is_unequal(members)
        for member in members:
            connection = _connection(member)
            if shows_each:
                connection.subscription_set = yield from _entries((member.wants or {}).values())
            body.connections.append(connection)
            yield
        entries = yield from _entries(wanted)
        body.subscriptions = {entry.topic: entry for entry in entries}
        return Reply(body=(yield from encoding(body)))

    def producer_connections(self, request: Request) -> ReplySteps:
        """GET_PRODUCER_CONNECTION_LIST."""
        name = request.header(ProducerConnectionsHeader).producer_group
        members = self._producers.members(name)
        if not members:
            raise RemoteError(f"the producer group[{name}] not exist", code=ResponseCode.SYSTEM_ERROR)
        body = ProducerConnection()
        for member in members:
            body.connections.append(_connection(member))
            yield
        return Reply(body=(yield from encoding(body)))

    def all_producers(self, _request: Request) -> ReplySteps:
        """GET_ALL_PRODUCER_INFO."""
        body = AllProducers()
        for group in self._producers.groups():
            entries = body.groups[group] = []
            for member in self._producers.members(group):
                entries.append(_producer(member))
                yield
        return Reply(body=(yield from encoding(body)))

    def subscription(self, request: Request) -> Reply:
        """QUERY_SUBSCRIPTION_BY_CONSUMER: the subscription of a connected group to a topic."""
        header = request.header(SubscriptionOfConsumerHeader)
        found = self._consumers.subscription(header.group, header.topic or "")
        entry = None if found is None else to_json(SubscriptionEntry.from_model(found))
        body = SubscriptionOfConsumer(group=header.group, topic=header.topic, subscription_data=entry)
        return Reply(body=body.encode())

    def running_info(self, request: Request) -> Held:
        """GET_CONSUMER_RUNNING_INFO: the broker asks the client and passes its answer on."""
        header = request.header(RunningInfoHeader)
        member = self._consumers.member(header.consumer_group, header.client_id)
        if member is None:
            raise RemoteError(
                f"The Consumer <{header.consumer_group}> <{header.client_id}> not online",
                code=ResponseCode.SYSTEM_ERROR,
            )
        if member.version < RUNNING_INFO_SINCE:
            raise RemoteError(
                f"The Consumer <{header.client_id}> Version <{version_name(member.version)}> too low to finish, "
                "please upgrade it to V3_1_8_SNAPSHOT",
                code=ResponseCode.SYSTEM_ERROR,
            )
        return self._push.pass_on(request, member.asker, Command.request(RequestCode.GET_CONSUMER_RUNNING_INFO, header))

    def consume_directly(self, request: Request) -> Held:
        """CONSUME_MESSAGE_DIRECTLY: one stored message handed to a consumer, whose result is the answer."""
        header = request.header(ConsumeDirectlyHeader)
        member = self._consumers.member(header.consumer_group, header.client_id or "")
        if member is None:
            raise RemoteError(
                f"The Consumer <{header.consumer_group}> <{header.client_id}> not online",
                code=ResponseCode.SYSTEM_ERROR,
            )
        try:
            _, _, offset = parse_offset_message_id(header.msg_id or "")
        except UsageError as error:
            raise RemoteError(str(error), code=ResponseCode.INVALID_PARAMETER) from None
        record = self._record(PhysicalOffset(offset))
        if record is None:
            raise RemoteError(
                f"there is no message {header.msg_id}",
                code=ResponseCode.SYSTEM_ERROR,
                hint="give the offset id of a message that this broker still has",
            )
        header.broker_name = self._broker_name()
        command = Command.request(RequestCode.CONSUME_MESSAGE_DIRECTLY, header, bytes(record))
        return self._push.pass_on(request, member.asker, command)

    def _put(self, request: Request, entries: list[GroupEntry]) -> ReplySteps:
        groups: list[GroupConfig] = []
        entries.reverse()
        while entries:  # their memory is freed in steps, too
            entry = entries.pop()
            _check_size(entry)
            entry.attributes = self._changed_attributes(entry)
            groups.append(entry.to_model())
            _check(groups[-1])
            self._check_losses(request, groups[-1])
            yield
        self._groups.check_room(*[group.name for group in groups])
        for group in groups:
            self._groups.put(group)
            yield
        return self._answer_when_saved(request, Reply())

    def _changed_attributes(self, entry: GroupEntry) -> dict[str, str]:
        known = self._groups.find(entry.group_name)
        try:
            return apply_changes(None if known is None else known.attributes, entry.attributes)
        except UsageError as error:
            raise RemoteError(
                f"group {entry.group_name}: {error.what}", code=ResponseCode.INVALID_PARAMETER, hint=error.hint
            ) from None

    def _check_losses(self, request: Request, group: GroupConfig) -> None:
        """Taking a group's right to read, or its retries, needs the right to delete it."""
        known = self._groups.find(group.name)
        if known is not None and (
            (known.consume_enable and not group.consume_enable)
            or (known.consume_broadcast_enable and not group.consume_broadcast_enable)
            or group.retry_queues < known.retry_queues
            or group.retry_max_times < known.retry_max_times
        ):
            what = f"{request_name(request.code)} that takes rights or retries from group {group.name}"
            self._gate.check_admin(request, what, on_group(group.name, Action.UPDATE))

    def _answer_when_saved(self, request: Request, reply: Reply) -> Held:
        def kept(problem: str) -> None:
            request.answer(Reply(ResponseCode.SYSTEM_ERROR, remark=problem) if problem else reply)

        self._kept.when_kept(kept)
        return HELD


def _check(group: GroupConfig) -> None:
    try:
        check_group(group.name)
    except UsageError as error:
        raise RemoteError(str(error), code=ResponseCode.INVALID_PARAMETER) from None
    if not 0 <= group.retry_queues <= _RETRY_QUEUES_MAX:
        raise RemoteError(
            f"group {group.name} with {group.retry_queues} retry queues, allowed: 0 to {_RETRY_QUEUES_MAX}",
            code=ResponseCode.INVALID_PARAMETER,
            hint="leave retryQueueNums at 1, or give another allowed number",
        )


def _check_size(entry: GroupEntry) -> None:
    """Refuse settings whose line in the file would take long to make."""
    count = len(entry.attributes) + len(entry.subscription_data_set or ())
    size = 0 if count > _SETTINGS_MAX else len(entry.encode())
    if count > _SETTINGS_MAX or size > _SETTINGS_BYTES_MAX:
        raise RemoteError(
            f"group {entry.group_name} with {count} attributes and subscriptions of {size} bytes, allowed:"
            f" {_SETTINGS_MAX} of {_SETTINGS_BYTES_MAX} bytes",
            code=ResponseCode.INVALID_PARAMETER,
            hint="remove attributes or subscriptions of the group",
        )


def _entries(wanted: Iterable[Subscription]) -> Generator[None, None, list[SubscriptionEntry]]:
    entries = []
    for subscription in list(wanted):
        entries.append(SubscriptionEntry.from_model(subscription))
        yield
    return entries


def _producer(member: Member) -> ProducerEntry:
    return ProducerEntry(
        client_id=member.client_id,
        remote_ip=member.asker.address,
        language=member.language,
        version=member.version,
        last_update_timestamp=member.heard_ms,
    )


def _connection(member: Member) -> ConnectionEntry:
    return ConnectionEntry(
        client_id=member.client_id, client_addr=member.asker.address, language=member.language, version=member.version
    )
