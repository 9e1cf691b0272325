"""PULL_MESSAGE and LITE_PULL_MESSAGE: a consumer reads a queue.

Owns        the checks of a pull in RocketMQ's order, what the store's outcome means to the consumer, when a pull waits.
Must not know   how records are found, how waiting works.

A pull that finds nothing yet, and says that it may wait, is kept in PullHold. When it is woken, or its time is up, it
runs once more from the start (the group may be gone by then) and is answered, whatever it finds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from rocketlake.base.clock import Clock
from rocketlake.base.errors import UsageError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.broker.clients.consumers import BROADCASTING, ConsumerGroup, ConsumerTable
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.groups.table import READ_FORBIDDEN, GroupTable
from rocketlake.broker.long_polling.pull_hold import HeldPull, PullHold
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.property_filter import Arrivals, read_tested, record_test, unserved
from rocketlake.broker.stats import BrokerStats
from rocketlake.broker.topics.table import TopicTable
from rocketlake.filter.tag import TagTest, tag_matcher
from rocketlake.model.group import GroupConfig
from rocketlake.model.subscription import TAG, Subscription, parse_subscription
from rocketlake.model.topic import DELAY_TOPIC, HALF_TOPIC, OP_TOPIC, Perm, TopicConfig
from rocketlake.net.admin_access import check_admin_access
from rocketlake.net.dispatcher import run_handler
from rocketlake.net.request import HELD, Asker, Held, Reply, Request
from rocketlake.protocol.command import Buffer
from rocketlake.protocol.headers.pull import (
    PULL_COMMIT_OFFSET,
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    PullHeader,
    pull_reply_fields,
)
from rocketlake.protocol.request_code import RequestCode, request_name
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import GetResult, GetStatus

__all__ = ["BYTES_MAX", "MESSAGES_MAX", "Admission", "Pull", "reply_of"]

_log = get_logger(__name__)


class PlainPull(Protocol):
    """What the checks of a pull ask of one that hot/plain_pull.pyx has cut from a chunk."""

    @property
    def code(self) -> int: ...
    @property
    def consumer_group(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def queue_id(self) -> int: ...
    @property
    def queue_offset(self) -> int: ...
    @property
    def sys_flag(self) -> int: ...
    @property
    def commit_offset(self) -> int: ...
    @property
    def suspend_timeout_millis(self) -> int: ...
    @property
    def sub_version(self) -> int: ...
    @property
    def subscription(self) -> str | None: ...
    @property
    def expression_type(self) -> str | None: ...
    @property
    def max_msg_nums(self) -> int: ...
    @property
    def max_msg_bytes(self) -> int | None: ...


_Asked: TypeAlias = PullHeader | PlainPull

_CODE_OF = {
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
}
_EMPTY_QUEUE = (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE)
MESSAGES_MAX = 4096
"""Queue entries one pull may make the store look at; how many it gets is a setting of the store."""
BYTES_MAX = 128 * 1024 * 1024
_PIECE_BYTES_MIN = 8192
"""Pieces of an answer that are smaller on average are copied into one; see docs/decisions/0002 and 0008."""
_HOLD_MS_MAX = 24 * 3_600_000
_INNER_TOPICS = frozenset({HALF_TOPIC, OP_TOPIC, DELAY_TOPIC})
"""Messages that are not sent yet: read by this broker, and by whom the setting adminAccess lets."""

# Values of forbiddenType in the answer.
_BY_BROKER, _BY_GROUP, _BY_TOPIC, _BY_BROADCASTING, _BY_SUBSCRIPTION = "1", "2", "3", "4", "5"


@dataclass(frozen=True, slots=True)
class Admission:
    """What a pull was let in by, and which messages it gets."""

    config: BrokerConfig
    group: GroupConfig
    topic: TopicConfig
    members: ConsumerGroup | None
    """None if the subscription came with the pull."""
    message_model: str
    subscription: Subscription
    match: TagTest | None


class _Refused(Exception):
    """A check said no; `reply` says why."""

    def __init__(self, code: ResponseCode, remark: str, forbidden_type: str | None = None) -> None:
        super().__init__(remark)
        fields = None if forbidden_type is None else {"forbiddenType": forbidden_type}
        self.reply = Reply(code, remark=remark, fields=fields)


class Pull:
    """Reads for consumers."""

    def __init__(
        self,
        config: LiveConfig,
        store: MessageStore,
        topics: TopicTable,
        groups: GroupTable,
        consumers: ConsumerTable,
        offsets: OffsetTable,
        hold: PullHold,
        stats: BrokerStats,
        clock: Clock,
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._offsets = offsets
        self._hold = hold
        self._stats = stats
        self._clock = clock
        self._loading = 0
        self._warnings = RareWarnings(_log, clock=clock)

    def pull(self, request: Request) -> Reply | Held:
        """Serve both codes."""
        header = request.header(PullHeader)
        if header.topic in _INNER_TOPICS:
            what = f"{request_name(request.code)} of {header.topic}"
            check_admin_access(self._config.now.admin_access, request.asker.remote[0], what)
        return self._serve(request, header, first_pass=True)

    def _serve(self, request: Request, header: PullHeader, *, first_pass: bool) -> Reply | Held:
        try:
            group, topic = self._check_target(request.code, header)
            subscription = self._find_subscription(header, group)
        except _Refused as refused:
            return refused.reply
        may_hold = first_pass and not self._hold.is_closed
        result = self._read(header, subscription, wait=not may_hold)
        if result.status is GetStatus.NOT_IN_MEMORY:
            return self._load(request, header, result)
        # What a pull brings along that is answered with a reset is the offset the group was moved from.
        commits = first_pass and result.status is not GetStatus.OFFSET_RESET
        self._note_offsets(header, result.next_offset, commits=commits)
        code = _code_of(result.status, header.queue_offset)
        if code is ResponseCode.PULL_NOT_FOUND and may_hold and header.sys_flag & PULL_SUSPEND:
            return self._keep(request, header, subscription)
        if result.status is GetStatus.FOUND:
            self._stats.count_get(header.consumer_group, topic.name, result.count, result.bytes)
        return reply_of(code, result, topic.sys_flag, group.sys_flag)

    # -- for pull_runs.py ------------------------------------------------------------------------------------------

    def admit(self, pull: PlainPull) -> Admission | None:
        """The checks of a pull, good for its like (`PlainPull.kind`) too; None if it is refused, or wants no tags."""
        if pull.topic in _INNER_TOPICS:
            return None
        try:
            group, topic = self._check_target(pull.code, pull)
            subscription = self._find_subscription(pull, group)
        except _Refused:
            return None
        if not subscription.is_tag_type:
            return None  # if nothing matches, `pull` would test the same records again
        members = None if pull.sys_flag & PULL_SUBSCRIPTION else self._consumers.find(group.name)
        return Admission(
            self._config.now,
            group,
            topic,
            members,
            "" if members is None else members.message_model,
            subscription,
            tag_matcher(subscription),
        )

    def is_in_force(self, admission: Admission) -> bool:
        """Is everything still as it was when the pull was admitted? What changes is replaced as a whole."""
        group, topic, members = admission.group, admission.topic.name, admission.members
        return (
            self._config.now is admission.config
            and self._groups.find(group.name) is group
            and self._topics.get(topic) is admission.topic
            and (
                members is None
                or (
                    self._consumers.find(group.name) is members
                    and members.subscriptions.get(topic) is admission.subscription
                    and members.message_model == admission.message_model
                    and not self._groups.forbidden(group.name, topic) & READ_FORBIDDEN
                )
            )
        )

    def must_wait(self, pull: PlainPull) -> bool:
        """Is something else to be done first: to send the consumer elsewhere, or to stop?"""
        return self._hold.is_closed or self._offsets.has_reset(pull.consumer_group, pull.topic, pull.queue_id)

    def note_found(self, pull: PlainPull, next_offset: int, count: int, size: int) -> None:
        """A plain pull found messages, which are sent now."""
        self._offsets.commit_pull(pull.consumer_group, pull.topic, pull.queue_id, next_offset)
        self._stats.count_get(pull.consumer_group, pull.topic, count, size)

    def note_brought(self, pull: PlainPull) -> None:
        """Keep the offset that a plain pull brings along. Once, when it comes: later it may be an old one."""
        self._commit(pull)

    def hold_plain(self, pull: PlainPull, asker: Asker, admission: Admission, resume: Callable[[], None]) -> bool:
        """A plain pull is at the end of its queue and may wait: hold it. False, nothing done, if there is no room."""
        if self._hold.is_full:
            return False
        self._note_offsets(pull, pull.queue_offset, commits=True)
        self._hold_pull(pull, asker, admission.match, resume)
        return True

    def serve_again(self, request: Request) -> None:
        """Answer a pull that was held by `hold_plain`."""
        self._serve_again(request, request.header(PullHeader))

    # -- the checks ------------------------------------------------------------------------------------------------

    def _check_target(self, code: int, header: _Asked) -> tuple[GroupConfig, TopicConfig]:
        config = self._config.now
        if not Perm.is_readable(config.permission):
            raise _Refused(ResponseCode.NO_PERMISSION, "the broker pulling message is forbidden", _BY_BROKER)
        if code == RequestCode.LITE_PULL_MESSAGE and not config.lite_pull_enabled:
            raise _Refused(ResponseCode.NO_PERMISSION, "the broker for lite pull message is forbidden", _BY_BROKER)
        group = self._groups.find_or_create(header.consumer_group)
        if group is None:
            raise _Refused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{header.consumer_group}] does not exist",
            )
        if not group.consume_enable:
            raise _Refused(ResponseCode.NO_PERMISSION, f"subscription group no permission, {group.name}", _BY_GROUP)
        topic = self._topics.get(header.topic)
        if topic is None:
            raise _Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist, apply first please!")
        if not topic.is_readable:
            raise _Refused(
                ResponseCode.NO_PERMISSION, f"the topic[{topic.name}] pulling message is forbidden", _BY_TOPIC
            )
        if not 0 <= header.queue_id < topic.read_queues:
            raise _Refused(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{header.queue_id}] is illegal, topic:[{topic.name}] read queues:[{topic.read_queues}]",
            )
        return group, topic

    def _find_subscription(self, header: _Asked, group: GroupConfig) -> Subscription:
        if header.sys_flag & PULL_SUBSCRIPTION:
            subscription = self._parse_expression(header)
        else:
            subscription = self._known_subscription(header, group)
        if not subscription.is_tag_type:
            self._check_filter(subscription, in_request=bool(header.sys_flag & PULL_SUBSCRIPTION))
        return subscription

    def _check_filter(self, subscription: Subscription, *, in_request: bool) -> None:
        reason = unserved(subscription, enabled=self._config.now.property_filter_enabled)
        if reason:
            raise _Refused(ResponseCode.SYSTEM_ERROR, reason)
        try:
            record_test(subscription.expression)
        except UsageError as error:
            code, why = ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed"
            if not in_request:
                code, why = ResponseCode.FILTER_DATA_NOT_EXIST, "the broker's consumer filter data is not exist"
            raise _Refused(code, f"{why}: {error}") from None

    @staticmethod
    def _parse_expression(header: _Asked) -> Subscription:
        try:
            return parse_subscription(header.topic, header.subscription, header.expression_type or TAG)
        except UsageError as error:
            raise _Refused(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {error.what}"
            ) from None

    def _known_subscription(self, header: _Asked, group: GroupConfig) -> Subscription:
        members = self._consumers.find(group.name)
        if members is None:
            raise _Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's group info not exist, {group.name}")
        if members.message_model == BROADCASTING and not group.consume_broadcast_enable:
            raise _Refused(
                ResponseCode.NO_PERMISSION,
                f"the consumer group[{group.name}] can not consume by broadcast way",
                _BY_BROADCASTING,
            )
        if self._groups.forbidden(group.name, header.topic) & READ_FORBIDDEN:
            raise _Refused(
                ResponseCode.NO_PERMISSION,
                f"the consumer group[{group.name}] is forbidden for topic[{header.topic}]",
                _BY_SUBSCRIPTION,
            )
        subscription = members.subscriptions.get(header.topic)
        if subscription is None:
            raise _Refused(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's subscription not exist, group: {group.name}, topic: {header.topic}",
            )
        if subscription.version < header.sub_version:
            raise _Refused(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        return subscription

    def _read(self, header: _Asked, subscription: Subscription, *, wait: bool) -> GetResult:
        name, queue_id = header.topic, header.queue_id
        restart = self._offsets.take_reset(header.consumer_group, name, queue_id)
        if restart >= 0:
            return GetResult(
                GetStatus.OFFSET_RESET,
                next_offset=restart,
                min_offset=self._store.min_offset(name, queue_id),
                max_offset=self._store.max_offset(name, queue_id),
            )
        bytes_max = BYTES_MAX if header.max_msg_bytes is None else header.max_msg_bytes
        messages_max = max(1, min(header.max_msg_nums, MESSAGES_MAX))  # Go's PullConsumer asks for 0 and means 1
        if not subscription.is_tag_type:
            asked = (name, queue_id, header.queue_offset, messages_max, bytes_max)
            return read_tested(self._store, self._clock, asked, record_test(subscription.expression), wait=wait)
        return self._store.get(
            name,
            queue_id,
            header.queue_offset,
            messages_max,
            bytes_max,
            match=tag_matcher(subscription),
            wait=wait,
        )

    def _note_offsets(self, header: _Asked, next_offset: int, *, commits: bool) -> None:
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        self._offsets.commit_pull(group, topic, queue_id, next_offset)
        if commits:
            self._commit(header)

    def _commit(self, header: _Asked) -> None:
        """Keep the offset that the consumer brings along."""
        if header.sys_flag & PULL_COMMIT_OFFSET and header.commit_offset >= 0:
            name, queue_id = header.topic, header.queue_id
            end = self._store.max_offset(name, queue_id)
            if header.commit_offset <= end:
                self._offsets.commit(header.consumer_group, name, queue_id, header.commit_offset)
            else:  # nobody has consumed what was never there
                text = "group %s brings offset %d of queue %d of %s, which ends at %d: it is not kept"
                group = header.consumer_group
                self._warnings.warn(f"{group}/{name}", text, group, header.commit_offset, queue_id, name, end)

    def _load(self, request: Request, header: PullHeader, result: GetResult) -> Reply | Held:
        """Hold the request while a worker reads from disk what it asks for."""
        if self._loading + len(self._hold) >= self._config.now.held_pulls_max:
            return self._busy(request)
        self._commit(header)
        self._loading += 1

        def loaded(error: Exception | None) -> None:
            self._loading -= 1
            if error is not None:
                request.answer(Reply(ResponseCode.SYSTEM_ERROR, remark=f"the store cannot be read: {error}"))
            elif not request.asker.closed:
                # In turns: what one read brought into memory may have been waited for by a hundred.
                self._hold.resume_soon(lambda: self._serve_again(request, header))

        self._store.load(result.cold, loaded)
        return HELD

    def _serve_again(self, request: Request, header: PullHeader) -> None:
        """Answer a held request by what is there now; to a peer that does not read, that there is nothing.

        It holds many pulls perhaps, and all their records would wait in memory. Its next pull waits until it reads.
        """
        request.answer(_as_reply(run_handler(lambda again: self._answer_again(again, header), request)))

    def _answer_again(self, request: Request, header: PullHeader) -> Reply | Held:
        if not request.asker.writable:
            low = self._store.min_offset(header.topic, header.queue_id)
            high = self._store.max_offset(header.topic, header.queue_id)
            fields = pull_reply_fields(header.queue_offset, low, high, 0, 0)
            return Reply(ResponseCode.PULL_NOT_FOUND, fields=fields, remark="the link is full")
        return self._serve(request, header, first_pass=False)

    def _keep(self, request: Request, header: PullHeader, subscription: Subscription) -> Reply | Held:
        if self._hold.is_full:
            return self._busy(request)
        match = self._wake_test(header, subscription)
        self._hold_pull(header, request.asker, match, lambda: self._serve_again(request, header))
        return HELD

    def _busy(self, request: Request) -> Reply:
        remark = (
            f"[OVERLOAD]system busy, start flow control for a while: {self._loading + len(self._hold)} pulls wait"
            " (pullThreadPoolQueueCapacity)"
        )
        self._warnings.warn("held", "a pull of %s is refused: %s", request.address, remark)
        return Reply(ResponseCode.SYSTEM_BUSY, remark=remark)

    def _hold_pull(self, header: _Asked, asker: Asker, match: TagTest | None, resume: Callable[[], None]) -> None:
        hold_ms = self._config.now.short_polling_ms
        if self._config.now.long_polling_enabled:
            hold_ms = min(max(header.suspend_timeout_millis, 0), _HOLD_MS_MAX)
        held = HeldPull((header.topic, header.queue_id), header.queue_offset, match, asker, resume)
        self._hold.hold(held, hold_ms)

    def _wake_test(self, header: PullHeader, subscription: Subscription) -> TagTest | None:
        if subscription.is_tag_type:
            return tag_matcher(subscription)
        test = record_test(subscription.expression)
        return Arrivals(self._store, self._clock, header.topic, header.queue_id, header.queue_offset, test).is_wanted


def reply_of(code: int, result: GetResult, topic_sys_flag: int, group_sys_flag: int) -> Reply:
    """The answer to a pull that passed all checks."""
    fields = pull_reply_fields(result.next_offset, result.min_offset, result.max_offset, topic_sys_flag, group_sys_flag)
    return Reply(code, body=_body_of(result) or None, remark=result.status.name, fields=fields)


def _body_of(result: GetResult) -> list[Buffer]:
    """The records as the link shall write them: many small pieces cost more to hand over than to copy."""
    pieces = result.slices
    if len(pieces) > 1 and result.bytes < len(pieces) * _PIECE_BYTES_MIN:
        return [b"".join(pieces)]
    return [*pieces]


def _code_of(status: GetStatus, asked_offset: int) -> ResponseCode:
    if status is GetStatus.FOUND:  # the usual one first: an Enum hashes slowly
        return ResponseCode.SUCCESS
    if status in _EMPTY_QUEUE:
        return ResponseCode.PULL_OFFSET_MOVED if asked_offset != 0 else ResponseCode.PULL_NOT_FOUND
    return _CODE_OF[status]


def _as_reply(outcome: Reply | Held) -> Reply:
    assert isinstance(outcome, Reply), "a pull waits once"
    return outcome
