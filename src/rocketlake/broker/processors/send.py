"""SEND_MESSAGE, SEND_MESSAGE_V2, SEND_BATCH_MESSAGE: a producer hands in messages.

Owns        the checks of a send in RocketMQ's order, the properties the broker adds, the answer.
Must not know   how a message is stored or delayed, who reads it.

Departures from RocketMQ 5.3: a message of a batch keeps its own UNIQ_KEY; Apache adds that of the batch behind it, so
that all of them look like one message. A batch cannot be a half message, and a half message cannot be delayed; Apache
takes both and loses what was asked for. A body that does not begin as its compression flag says is refused; Apache
stores it, and its consumers drop it together with what stands behind it in an answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RemoteError, UsageError
from rocketlake.broker.clients.queue_locks import QueueLocks
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.delay.parking import delay_level
from rocketlake.broker.groups.table import GroupTable
from rocketlake.broker.intake.intake import Intake
from rocketlake.broker.intake.large_batches import LARGE, LargeBatches
from rocketlake.broker.intake.put_answer import CODE_OF, put_failure
from rocketlake.broker.intake.sequenced_puts import (
    NOTHING_KNOWN,
    Known,
    SequencedPuts,
    refuse_inner_mark,
    refuse_inner_marks,
)
from rocketlake.broker.topics.auto_create import AutoCreate
from rocketlake.broker.topics.table import TopicTable
from rocketlake.broker.transaction.half import is_half, park_half
from rocketlake.codec import property_text
from rocketlake.codec.compression import fault_at_start
from rocketlake.codec.host import encode_host
from rocketlake.codec.record_batch import batch_entries, decode_batch, has_more
from rocketlake.codec.record_layout import RecordError
from rocketlake.model import property_names as names
from rocketlake.model import sys_flag
from rocketlake.model.message_id import UniqueKeyMaker, offset_message_id, offset_message_ids
from rocketlake.model.names import (
    TOPIC_CHARS_MAX,
    check_topic,
    dead_letter_topic,
    group_of_retry_topic,
    is_dead_letter_topic,
    is_retry_topic,
    is_sendable_topic,
)
from rocketlake.model.topic import (
    TOPIC_SYS_FLAG_UNIT,
    TOPIC_SYS_FLAG_UNIT_SUBSCRIPTION,
    Perm,
    TopicConfig,
    TopicFilterType,
)
from rocketlake.net.in_turns import InTurns
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.headers.send import SendHeader, SendReplyHeader, read_send_header
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.protocol.versions import MAX_RECONSUME_SINCE
from rocketlake.store.large_batch import LargeBatch
from rocketlake.store.results import PutMessage, PutResult, PutStatus

__all__ = ["Send"]

_NUMBERED_MAX = 4096
_NO_ID = "0" * 32
"""Where nothing was stored: a field must not be empty."""


class Send:
    """Takes messages of producers, and of consumers that put a message into their retry topic themselves."""

    def __init__(
        self,
        *,
        config: LiveConfig,
        intake: Intake,
        sequenced: SequencedPuts,
        topics: TopicTable,
        auto_create: AutoCreate,
        groups: GroupTable,
        queue_locks: QueueLocks,
        large: LargeBatches,
        unique_keys: UniqueKeyMaker,
        clock: Clock,
        store_address: Callable[[], tuple[str, int]],
    ) -> None:
        """`store_address`: (IP, port) under which clients find this broker; it becomes part of message ids."""
        self._config = config
        self._intake = intake
        self._sequenced = sequenced
        self._topics = topics
        self._auto_create = auto_create
        self._groups = groups
        self._queue_locks = queue_locks
        self._large = large
        self._unique_keys = unique_keys
        self._clock = clock
        self._store_address = store_address

    def send(self, request: Request) -> Reply | Held:
        """Serve any code of the family."""
        header = read_send_header(request.command)
        self._check_broker(header)
        _check_name(header.topic)
        topic = self._topics.get(header.topic) or self._create(header)
        if header.batch or request.code == RequestCode.SEND_BATCH_MESSAGE:
            return self._auto_create.once_saved(
                topic.name, request, lambda request: self._store_batch(request, header, self._still(topic))
            )
        target = self._dead_letters_if_spent(request, header) if is_retry_topic(topic.name) else None
        return self._auto_create.once_saved(
            (target or topic).name,
            request,
            lambda request: self._store_one(request, header, self._still(topic), target),
        )

    def _still(self, topic: TopicConfig) -> TopicConfig:
        """The topic as it is now: while a request waited for its topic to be saved, the topic may have been deleted."""
        now = self._topics.get(topic.name)
        if now is None:
            raise _deleted(topic.name)
        return now

    # -- what send_runs.py needs to do the same for many --------------------------------------------------------------

    def plain_topic(self, name: str) -> TopicConfig | None:
        """The topic, when a send to it needs nothing but the store; None otherwise."""
        topic = self._topics.get(name)
        if topic is None or is_retry_topic(name) or topic.cleanup_policy == "COMPACTION":
            return None
        try:
            _check_name(name)
        except RemoteError:
            return None
        return topic if self._auto_create.is_saved(name) else None

    @property
    def is_early(self) -> bool:
        """True until the time at which this broker begins to take messages."""
        return self._clock.now_ms() < self._config.now.start_accept_send_ms

    def added_properties(self) -> dict[str, str]:
        """What the broker adds to the properties of each message."""
        properties: dict[str, str] = {}
        self._add_properties(properties)
        return properties

    def _check_broker(self, header: SendHeader) -> None:
        config = self._config.now
        if config.start_accept_send_ms and self.is_early:
            raise RemoteError(
                f"broker unable to service, until {config.start_accept_send_ms}", code=ResponseCode.SYSTEM_ERROR
            )
        if not Perm.is_writeable(config.permission) and self._topics.is_ordered(header.topic):
            raise RemoteError(
                f"the broker[{config.broker_name}] sending message is forbidden",
                code=ResponseCode.NO_PERMISSION,
                hint="set brokerPermission to 6 or 2, which hold the write bit",
            )

    def _check_transactions(self) -> None:
        config = self._config.now
        if config.reject_transactions:
            raise RemoteError(
                f"the broker[{config.broker_name}] sending transaction message is forbidden",
                code=ResponseCode.NO_PERMISSION,
                hint="set rejectTransactionMessage=false at the broker",
            )

    def _create(self, header: SendHeader) -> TopicConfig:
        name = header.topic
        flag = 0
        if header.unit_mode:
            flag = TOPIC_SYS_FLAG_UNIT_SUBSCRIPTION if is_retry_topic(name) else TOPIC_SYS_FLAG_UNIT
        topic = self._auto_create.from_template(name, header.default_topic, header.default_topic_queue_nums, flag)
        if topic is None and is_retry_topic(name):
            topic = self._auto_create.for_group(name, 1, flag)
        if topic is None:
            raise RemoteError(
                f"topic[{name}] not exist, apply first please!",
                code=ResponseCode.TOPIC_NOT_EXIST,
                hint="create the topic, or let producers create it with autoCreateTopicEnable=true",
            )
        return topic

    def _dead_letters_if_spent(self, request: Request, header: SendHeader) -> TopicConfig | None:
        """The dead-letter topic for a retry that was tried too often, or belongs to an ordered group; else None."""
        group_name = group_of_retry_topic(header.topic)
        group = self._groups.find_or_create(group_name)
        if group is None:
            raise RemoteError(
                f"subscription group not exist, {group_name}",
                code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                hint="create the group, or set autoCreateSubscriptionGroup=true",
            )
        times_max = group.retry_max_times
        if header.max_reconsume_times is not None and request.command.version >= MAX_RECONSUME_SINCE:
            times_max = header.max_reconsume_times
        if (header.reconsume_times or 0) <= times_max and not self._queue_locks.any_held(group_name):
            return None
        return self._auto_create.for_group(dead_letter_topic(group_name), 1)

    def _store_one(
        self, request: Request, header: SendHeader, topic: TopicConfig, dead_letters: TopicConfig | None
    ) -> Reply | Held:
        message, properties = self._read_message(request, header, topic)
        queue_id = message.queue_id
        is_back = is_retry_topic(topic.name) or (message.reconsume_times > 0 and delay_level(properties) > 0)
        if is_back:
            # A consumer brings it back; what is left of its transaction's marks means nothing any more.
            message.sys_flag &= ~sys_flag.TRANSACTION_MASK
        elif not message.body and not is_dead_letter_topic(topic.name):
            # As Apache's broker of 5.x: at such a message the ordered consumers of Java's 4.9 client stop for ever.
            raise RemoteError(
                "the message has an empty body", code=ResponseCode.MESSAGE_ILLEGAL, hint="send at least one byte"
            )
        _check_compression(message.body, header.sys_flag)
        if dead_letters is not None:
            message.topic, message.queue_id = dead_letters.name, 0
            properties[names.DELAY] = "-1"
        if topic.cleanup_policy == "COMPACTION" and not properties.get(names.KEYS, "").strip():
            raise RemoteError("Required message key is missing", code=ResponseCode.MESSAGE_ILLEGAL)
        unique_key = properties.get(names.UNIQUE_KEY)
        if not unique_key:
            unique_key = properties[names.UNIQUE_KEY] = self._unique_keys.make()
        self._add_properties(properties)
        properties.pop(names.PRODUCER_SEQUENCE, None)  # a copy; single messages take no part in the check
        if not is_back and is_half(message, properties):
            self._check_transactions()
            park_half(message, properties, header.producer_group)
        result = self._intake.put(message, properties)
        return self._answer_when_durable(request, result, properties, queue_id, unique_key)

    def _store_batch(self, request: Request, header: SendHeader, topic: TopicConfig) -> Reply | Held:
        message, properties = self._read_message(request, header, topic)
        if len(header.topic.encode()) > TOPIC_CHARS_MAX:
            raise RemoteError(f"message topic length too long {len(header.topic)}", code=ResponseCode.MESSAGE_ILLEGAL)
        if is_retry_topic(header.topic):
            raise RemoteError(
                f"batch request does not support retry group {header.topic}", code=ResponseCode.MESSAGE_ILLEGAL
            )
        if is_half(message, properties):
            raise RemoteError("a batch cannot be part of a transaction", code=ResponseCode.MESSAGE_ILLEGAL)
        unique_key = properties.pop(names.UNIQUE_KEY, None)
        self._add_properties(properties)
        if names.PRODUCER_SEQUENCE not in properties:
            if has_more(message.body, LARGE):
                return self._large.serve(
                    request, lambda request: self._store_large(request, message, properties, unique_key)
                )
            _check_batch_compression(message.body, header.sys_flag)
            refuse_inner_marks(message.body)
            result = self._intake.put_batch(message, properties)
            return self._answer_when_durable(request, result, properties, message.queue_id, unique_key)
        if header.queue_id < 0:
            raise RemoteError(
                "a batch with a producer sequence names no queue",
                code=ResponseCode.MESSAGE_ILLEGAL,
                hint="send it to one queue: numbers are counted by queue",
            )
        if has_more(message.body, _NUMBERED_MAX):
            raise RemoteError(
                f"a batch with a producer sequence and more than {_NUMBERED_MAX} messages",
                code=ResponseCode.MESSAGE_ILLEGAL,
                hint="send smaller ones: their numbers are looked at in one go",
            )
        _check_batch_compression(message.body, header.sys_flag)

        def put(request: Request) -> Reply | Held:
            result, known = self._sequenced.put_batch(message, properties)
            return self._answer_when_durable(request, result, properties, message.queue_id, unique_key, known)

        return self._sequenced.once_kept(request, put)

    def _store_large(
        self, request: Request, message: PutMessage, properties: dict[str, str], unique_key: str | None
    ) -> InTurns:
        """`_store_batch` for thousands of messages: nothing of it is stored before all of them are ready."""
        self._intake.prepare_batch(message, properties)
        batch = LargeBatch(message)
        try:
            for entry in batch_entries(message.body):
                _check_compression(entry[1], message.sys_flag)
                refuse_inner_mark(entry[2])
                refused = batch.add(entry)
                if refused is not None:
                    return put_failure(refused.status, refused)
                yield
        except RecordError as error:
            raise RemoteError(f"the batch is broken: {error}", code=ResponseCode.MESSAGE_ILLEGAL) from None
        if request.asker.closed:
            return Reply()  # nobody hears it, and the sender will send it again
        topic = self._topics.get(message.topic)
        if topic is None:
            raise _deleted(message.topic)
        _choose_queue(message.queue_id, topic)
        result = self._intake.put_large(batch)
        if result.status.is_stored:
            result.offsets = yield from batch.offsets(result.physical_offset)
        return self._answer_when_durable(request, result, properties, message.queue_id, unique_key)

    def _read_message(
        self, request: Request, header: SendHeader, topic: TopicConfig
    ) -> tuple[PutMessage, dict[str, str]]:
        message = PutMessage(
            header.topic,
            _choose_queue(header.queue_id, topic),
            request.body,
            flag=header.flag,
            sys_flag=header.sys_flag,
            born_ms=header.born_timestamp,
            born_host=encode_host(*request.asker.remote),
            store_host=self.store_host,
            reconsume_times=max(0, header.reconsume_times or 0),
        )
        if topic.filter_type is TopicFilterType.MULTI_TAG:
            message.sys_flag |= sys_flag.MULTI_TAGS
        return message, property_text.decode((header.properties or "").encode())

    def _add_properties(self, properties: dict[str, str]) -> None:
        config = self._config.now
        properties.pop(names.POP_CK, None)
        properties[names.MESSAGE_REGION] = config.region_id
        properties[names.CLUSTER] = config.cluster_name
        properties[names.TRACE_SWITCH] = "true" if config.trace_on else "false"

    def _answer_when_durable(
        self,
        request: Request,
        result: PutResult,
        properties: dict[str, str],
        queue_id: int,
        unique_key: str | None,
        known: Known = NOTHING_KNOWN,
    ) -> Reply | Held:
        if self._intake.acks_at_once or not result.status.is_stored:
            return self.answer(result.status, result, queue_id, unique_key, known)
        self._intake.when_durable(
            result,
            properties,
            lambda status: request.answer(self.answer(status, result, queue_id, unique_key, known)),
        )
        return HELD

    def answer(
        self,
        status: PutStatus,
        result: PutResult,
        queue_id: int,
        unique_key: str | None,
        known: Known = NOTHING_KNOWN,
    ) -> Reply:
        """The answer to a send that ended with this status; `known`: what of it was stored before."""
        if not status.is_stored:
            return put_failure(status, result)
        config = self._config.now
        if result.offsets:
            message_ids = self._message_ids(result.offsets)
        else:
            message_ids = self._message_id(result.physical_offset) if result.count else _NO_ID
        header = SendReplyHeader(
            msg_id=message_ids,
            queue_id=queue_id,
            queue_offset=result.queue_offset,
            transaction_id=unique_key,
            region=config.region_id,
            trace_on=config.trace_on,
            known=known.messages or None,
            next_number=known.next_number if known.messages else None,
        )
        if status is PutStatus.OK:
            return Reply(ResponseCode.SUCCESS, header)
        return Reply(CODE_OF[status], header, remark=status.name)

    def _message_id(self, offset: int) -> str:
        host, port = self._address
        return offset_message_id(host, port, offset)

    def _message_ids(self, offsets: Sequence[int]) -> str:
        return offset_message_ids(*self._address, offsets)

    @cached_property
    def _address(self) -> tuple[str, int]:
        """The store address; it is known, and for good, when the first message comes."""
        return self._store_address()

    @cached_property
    def store_host(self) -> bytes:
        """This broker's address as records carry it."""
        return encode_host(*self._address)


def _deleted(name: str) -> RemoteError:
    return RemoteError(f"topic[{name}] was deleted before the message was stored", code=ResponseCode.TOPIC_NOT_EXIST)


@lru_cache(maxsize=4096)  # remembers names that pass; a refusal is worked out every time
def _check_name(topic: str) -> None:
    try:
        check_topic(topic)
    except UsageError as error:
        raise RemoteError(error.what, code=ResponseCode.INVALID_PARAMETER, hint=error.hint) from None
    if not is_sendable_topic(topic):
        raise RemoteError(f"Sending message to topic[{topic}] is forbidden.", code=ResponseCode.NO_PERMISSION)


def _check_compression(body: bytes | bytearray | memoryview, flag: int) -> None:
    """Refuse a body that no consumer could unpack, as far as its first bytes tell: it would be read by nobody."""
    if fault := fault_at_start(body, flag):
        raise RemoteError(
            fault, code=ResponseCode.MESSAGE_ILLEGAL, hint="compress the body as the flag says, or leave the flag away"
        )


def _check_batch_compression(body: bytes | bytearray | memoryview, flag: int) -> None:
    """The flag of a batch is that of each message in it."""
    if not flag & sys_flag.COMPRESSED:
        return
    try:
        entries = decode_batch(body)
    except RecordError:
        return  # refused for that
    for _flag, entry, _properties in entries:
        _check_compression(entry, flag)


def _choose_queue(queue_id: int, topic: TopicConfig) -> int:
    if queue_id >= max(topic.write_queues, topic.read_queues):
        raise RemoteError(
            f"request queueId[{queue_id}] is illegal, topic {topic.name} has {topic.write_queues} write queues",
            code=ResponseCode.INVALID_PARAMETER,
        )
    if queue_id >= 0:
        return queue_id
    if topic.write_queues == 0:
        raise RemoteError(f"topic {topic.name} has no write queue", code=ResponseCode.INVALID_PARAMETER)
    return random.randrange(topic.write_queues)
