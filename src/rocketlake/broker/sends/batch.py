"""A send of a batch: small, numbered by its producer, or of thousands of messages.

Owns        the checks of a batch in RocketMQ's order, which of the three ways it goes.
Must not know   how a batch is stored, how numbers are compared, how large batches stand in line.

Departures from RocketMQ 5.3: a message of a batch keeps its own UNIQ_KEY; Apache adds the UNIQ_KEY of the batch behind
it, so that all of them look like one message. A batch cannot be a half message; Apache takes it and loses the mark.
"""

from __future__ import annotations

from rocketlake.base.errors import RemoteError
from rocketlake.broker.intake.intake import Intake
from rocketlake.broker.intake.large_batches import LARGE, LargeBatches
from rocketlake.broker.intake.put_answer import put_failure
from rocketlake.broker.intake.sequenced_puts import SequencedPuts, refuse_inner_mark, refuse_inner_marks
from rocketlake.broker.sends.answer import SendAnswers
from rocketlake.broker.sends.incoming import Incoming, choose_queue, stored_flag
from rocketlake.broker.transaction.half import is_half
from rocketlake.codec.record_batch import batch_entries, decode_batch, has_more
from rocketlake.codec.record_layout import RecordError
from rocketlake.model import property_names as names
from rocketlake.model import sys_flag
from rocketlake.model.lite import is_lite_topic
from rocketlake.model.names import TOPIC_CHARS_MAX, is_retry_topic
from rocketlake.net.reply_steps import ReplySteps
from rocketlake.net.request import Held, Reply, Request
from rocketlake.protocol.headers.send import SendHeader
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.large_batch import LargeBatch
from rocketlake.store.results import PutMessage

__all__ = ["BatchSends"]

_NUMBERED_MAX = 4096


class BatchSends:
    """Puts batches."""

    def __init__(
        self,
        incoming: Incoming,
        intake: Intake,
        sequenced: SequencedPuts,
        large: LargeBatches,
        answers: SendAnswers,
    ) -> None:
        self._incoming = incoming
        self._intake = intake
        self._sequenced = sequenced
        self._large = large
        self._answers = answers

    def put(self, request: Request, header: SendHeader) -> Reply | Held:
        """Put the messages of the request, all or none."""
        topic = self._incoming.topic(header.topic)
        message, properties = self._incoming.read(header, request.body, request.asker.remote, topic)
        if len(header.topic.encode()) > TOPIC_CHARS_MAX:
            raise _illegal(f"message topic length too long {len(header.topic)}")
        if is_retry_topic(header.topic):
            raise _illegal(f"batch request does not support retry group {header.topic}")
        if is_half(message, properties):
            raise _illegal("a batch cannot be part of a transaction")
        if is_lite_topic(topic):
            raise _illegal(f"topic {topic.name} has lite topics and takes no batches: send its messages one by one")
        unique_key = properties.pop(names.UNIQUE_KEY, None)
        self._incoming.add_properties(properties)
        if names.PRODUCER_SEQUENCE in properties:
            _check_numbered(header, message)
            return self._sequenced.once_kept(
                request, lambda request: self._put_numbered(request, message, properties, unique_key)
            )
        if has_more(message.body, LARGE):
            return self._large.serve(request, lambda request: self._put_large(request, message, properties, unique_key))
        message.sys_flag = _stored_flag(message)
        refuse_inner_marks(message.body)
        result = self._intake.put_batch(message, properties)
        return self._answers.when_durable(request, result, properties, message.queue_id, unique_key)

    def _put_numbered(
        self, request: Request, message: PutMessage, properties: dict[str, str], unique_key: str | None
    ) -> Reply | Held:
        result, known = self._sequenced.put_batch(message, properties)
        return self._answers.when_durable(request, result, properties, message.queue_id, unique_key, known)

    def _put_large(
        self, request: Request, message: PutMessage, properties: dict[str, str], unique_key: str | None
    ) -> ReplySteps:
        """The same in turns. Nothing is stored before every message is ready."""
        self._intake.prepare_batch(message, properties)
        batch = LargeBatch(message)
        try:
            for entry in batch_entries(message.body):
                if stored_flag(entry[1], message.sys_flag) != message.sys_flag:
                    raise _not_compressed()
                refuse_inner_mark(entry[2])
                refused = batch.add(entry)
                if refused is not None:
                    return put_failure(refused.status, refused)
                yield
        except RecordError as error:
            raise _illegal(f"the batch is broken: {error}") from None
        if request.asker.closed:
            return Reply()  # no answer arrives any more, and the sender sends the batch again
        choose_queue(message.queue_id, self._incoming.topic(message.topic))
        result = self._intake.put_large(batch)
        if result.status.is_stored:
            result.offsets = yield from batch.offsets(result.physical_offset)
        return self._answers.when_durable(request, result, properties, message.queue_id, unique_key)


def _check_numbered(header: SendHeader, message: PutMessage) -> None:
    if header.queue_id < 0:
        raise _illegal(
            "a batch with a producer sequence names no queue", hint="send it to one queue: numbers are counted by queue"
        )
    if has_more(message.body, _NUMBERED_MAX):
        raise _illegal(
            f"a batch with a producer sequence and more than {_NUMBERED_MAX} messages",
            hint="send smaller ones: their numbers are looked at in one go",
        )
    message.sys_flag = _stored_flag(message)


def _stored_flag(message: PutMessage) -> int:
    """The flag of a batch is that of each message in it: all are compressed as it says, or none is."""
    if not message.sys_flag & sys_flag.COMPRESSED:
        return message.sys_flag
    try:
        entries = decode_batch(message.body)
    except RecordError:
        return message.sys_flag  # the intake refuses the batch, and says where it is broken
    flags = {stored_flag(entry, message.sys_flag) for _flag, entry, _properties in entries}
    if len(flags) > 1:
        raise _not_compressed()
    return flags.pop() if flags else message.sys_flag


def _not_compressed() -> RemoteError:
    return _illegal(
        "a message of the batch is not compressed as the system flag of the batch says",
        hint="compress all of its messages or none, or leave the flag away",
    )


def _illegal(what: str, hint: str = "") -> RemoteError:
    return RemoteError(what, code=ResponseCode.MESSAGE_ILLEGAL, hint=hint)
