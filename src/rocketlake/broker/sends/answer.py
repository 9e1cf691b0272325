"""The answer to a send.

Owns        the message ids, the fields, and whether the answer waits for the disk.
Must not know   what the message was, how long the disk takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from rocketlake.broker.config import LiveConfig
from rocketlake.broker.intake.intake import Intake
from rocketlake.broker.intake.put_answer import CODE_OF, put_failure
from rocketlake.broker.intake.sequenced_puts import NOTHING_KNOWN, Known
from rocketlake.model import property_names as names
from rocketlake.model.message_id import RecallHandle, offset_message_id, offset_message_ids
from rocketlake.model.names import is_retry_topic
from rocketlake.model.topic import TIMER_TOPIC
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.headers.send import SendReplyHeader
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.results import PutMessage, PutResult, PutStatus

__all__ = ["SendAnswers"]

_NO_ID = "0" * 32
"""Where nothing was stored: a field must not be empty."""


class SendAnswers:
    """Answers sends."""

    def __init__(self, config: LiveConfig, intake: Intake, store_address: Callable[[], tuple[str, int]]) -> None:
        """`store_address`: (IP, port) under which clients find this broker; it becomes part of message ids."""
        self._config = config
        self._intake = intake
        self._store_address = store_address

    def when_durable(
        self,
        request: Request,
        result: PutResult,
        properties: dict[str, str],
        queue_id: int,
        unique_key: str | None,
        known: Known = NOTHING_KNOWN,
        *,
        recall_handle: str | None = None,
    ) -> Reply | Held:
        """The answer to a send that was put: now if nothing waits for the disk, else when the message is safe."""

        def answer(status: PutStatus) -> Reply:
            return self.answer(status, result, queue_id, unique_key, known, recall_handle=recall_handle)

        if self._intake.acks_at_once or not result.status.is_stored:
            return answer(result.status)
        self._intake.when_durable(result, properties, lambda status: request.answer(answer(status)))
        return HELD

    def answer(
        self,
        status: PutStatus,
        result: PutResult,
        queue_id: int,
        unique_key: str | None,
        known: Known = NOTHING_KNOWN,
        *,
        recall_handle: str | None = None,
    ) -> Reply:
        """The answer to a send that ended with this status; `known`: messages of it that were stored before."""
        if not status.is_stored:
            return put_failure(status, result)
        config = self._config.now
        if result.offsets:
            message_ids = offset_message_ids(*self._address, result.offsets)
        else:
            message_ids = offset_message_id(*self._address, result.physical_offset) if result.count else _NO_ID
        header = SendReplyHeader(
            msg_id=message_ids,
            queue_id=queue_id,
            queue_offset=result.queue_offset,
            transaction_id=unique_key,
            recall_handle=recall_handle,
            region=config.region_id,
            trace_on=config.trace_on,
            known=known.messages or None,
            next_number=known.next_number if known.messages else None,
        )
        if status is PutStatus.OK:
            return Reply(ResponseCode.SUCCESS, header)
        return Reply(CODE_OF[status], header, remark=status.name)

    def recall_handle(self, message: PutMessage, properties: Mapping[str, str], unique_key: str) -> str | None:
        """By what the producer may take the message back: only one that waits for its time, and for no retry."""
        target = properties.get(names.REAL_TOPIC, "")
        if message.topic != TIMER_TOPIC or is_retry_topic(target) or " " in unique_key:
            return None
        due_ms = int(properties[names.TIMER_OUT_MS]) + 1
        return RecallHandle(target, self._config.now.broker_name, str(due_ms), unique_key).to_text()

    @cached_property
    def _address(self) -> tuple[str, int]:
        """The store address; it is known, and for good, when the first message comes."""
        return self._store_address()
