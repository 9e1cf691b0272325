"""Asks a producer for the end of a transaction.

Owns        which producer is asked, the question.
Must not know   when a producer is asked; its answer, which comes as an END_TRANSACTION.

Rule (RocketMQ's AbstractTransactionalMessageCheckListener): the connected producers of the group are asked in turn. The
question is one-way; its body is the half message, with the topic and the queue that the message is meant for.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.base.clock import Clock
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.broker.clients.producers import ProducerTable
from rocketlake.broker.clients.push import Push
from rocketlake.broker.delay.parking import real_target
from rocketlake.broker.transaction.half import producer_group
from rocketlake.codec import property_text
from rocketlake.codec.host import encode_host
from rocketlake.codec.record import encode_record
from rocketlake.model import property_names as names
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_id import offset_message_id
from rocketlake.model.topic import HALF_TOPIC
from rocketlake.protocol.headers.transaction import CheckTransactionHeader
from rocketlake.store.results import PutResult

__all__ = ["CheckBack"]

_log = get_logger(__name__)


class CheckBack:
    """Asks about half messages."""

    def __init__(self, producers: ProducerTable, push: Push, broker_name: Callable[[], str], clock: Clock) -> None:
        self._producers = producers
        self._push = push
        self._broker_name = broker_name
        self._warnings = RareWarnings(_log, clock=clock)

    def ask(self, half: StoredMessage, checked: int, put_back: PutResult) -> None:
        """Ask about a half message, for the `checked`th time; `put_back`: the place of its new copy."""
        group = producer_group(half)
        member = self._producers.any(group)
        if member is None:
            self._warnings.warn(
                "nobody", "no producer of group %s is connected: its transactions wait for an end", group
            )
            return
        header = CheckTransactionHeader(
            topic=HALF_TOPIC,
            tran_state_table_offset=put_back.queue_offset,
            commit_log_offset=put_back.physical_offset,
            msg_id=half.unique_key,
            transaction_id=half.unique_key,
            offset_msg_id=offset_message_id(*half.store_host, put_back.physical_offset),
            target_broker=self._broker_name(),
        )
        self._push.check_transaction(member.asker, header, _record(half, checked, put_back))


def _record(half: StoredMessage, checked: int, put_back: PutResult) -> bytearray:
    """The record of the new copy, with the topic and the queue that the message is meant for."""
    topic, queue_id = real_target(half.properties) or ("", 0)
    return encode_record(
        topic.encode(),
        half.body,
        property_text.encode_again({**half.properties, names.TRANSACTION_CHECK_TIMES: str(checked)}),
        queue_id=queue_id,
        flag=half.flag,
        queue_offset=put_back.queue_offset,
        physical_offset=put_back.physical_offset,
        sys_flag=half.sys_flag,
        born_ms=half.born_ms,
        born_host=encode_host(*half.born_host),
        store_ms=put_back.store_ms,
        store_host=encode_host(*half.store_host),
        reconsume_times=half.reconsume_times,
        prepared_transaction_offset=0,
        body_crc=half.body_crc,
    )
