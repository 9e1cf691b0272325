"""Failed messages: handed back to their broker, to come again later or to end in the dead letters.

Owns        the send-back request, and the fallback: a copy sent to %RETRY%group.
Must not know   the messages in hand.

Rule: the broker delays by level 3 + number of retries (10 s, 30 s, 1 m ... 2 h) and moves the message to %DLQ%group
after the limit. When that fails (the message's broker is gone), a copy goes to the retry topic on any broker.
"""

from __future__ import annotations

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.client.calls import send as calls
from rocketlake.client.calls.send import Outgoing
from rocketlake.client.errors import NoRoute
from rocketlake.client.instance import ClientInstance
from rocketlake.codec import property_text
from rocketlake.codec.record_layout import PROPERTIES_BYTES_MAX
from rocketlake.model import property_names as names
from rocketlake.model.message import Message, StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.names import INNER_PRODUCER_GROUP, retry_topic

log = get_logger(__name__)
SEND_BACK_TIMEOUT_MS = 5000
FIRST_DELAY_LEVEL = 3


class SendBack:
    """Send-back for one group."""

    def __init__(self, instance: ClientInstance, group: str, *, reconsume_limit: int, clock: Clock) -> None:
        self._instance = instance
        self._group = group
        self._limit = reconsume_limit
        self._clock = clock

    async def __call__(self, message: StoredMessage, delay_level: int) -> bool:
        """True when the message is safe at a broker again."""
        try:
            address = await self._instance.master(message.broker_name, message.topic)
            await calls.send_back(
                self._instance.net,
                address,
                message,
                group=self._group,
                delay_level=delay_level,
                reconsume_limit=self._limit,
                timeout_ms=SEND_BACK_TIMEOUT_MS,
            )
        except RocketLakeError as error:
            log.warning("message %s could not be sent back (%s); sending a copy", message.message_id, error)
            return await self.resend(message, self._limit)
        return True

    async def resend(self, message: StoredMessage, limit: int) -> bool:
        """Send a copy to the retry topic; the broker turns it into a dead letter when its retries are used up."""
        try:
            # Encoded once. The copy keeps the unique key, so that an operator can follow the message by its id.
            copy = calls.prepare(retry_copy(message, self._group, limit), message.message_id)
            queues = await self._instance.queues_to_publish(copy.topic)
        except RocketLakeError as error:
            log.warning("message %s stays here, no copy of it can be sent: %s", message.message_id, error)
            return False
        for queue in queues:
            try:
                await self._send_copy(copy, queue)
            except RocketLakeError as error:
                log.warning(
                    "a copy of message %s was not taken by %s: %s", message.message_id, queue.broker_name, error
                )
            else:
                return True
        return False

    async def to_dead_letters(self, message: StoredMessage) -> None:
        """Put a copy into the dead letters at once. Raises the error of the last broker tried."""
        # A broker makes a retry with more tries than its limit a dead letter.
        copy = calls.prepare(retry_copy(message, self._group, 0), message.message_id)
        failure: RocketLakeError | None = None
        for queue in await self._instance.queues_to_publish(copy.topic):
            try:
                return await self._send_copy(copy, queue)
            except RocketLakeError as error:
                failure = error
        raise failure or NoRoute(copy.topic, self._instance.name_servers.addresses)

    async def _send_copy(self, copy: Outgoing, queue: MessageQueue) -> None:
        await calls.send(
            self._instance.net,
            await self._instance.master(queue.broker_name, copy.topic),
            copy,
            queue,
            calls.Sender(INNER_PRODUCER_GROUP),
            born_ms=self._clock.now_ms(),
            timeout_ms=SEND_BACK_TIMEOUT_MS,
        )


def retry_copy(message: StoredMessage, group: str, limit: int) -> Message:
    """The copy of a failed message that goes to %RETRY%group."""
    properties = dict(message.properties)
    properties.pop(names.TRANSACTION_PREPARED, None)
    properties[names.ORIGIN_MESSAGE_ID] = properties.get(names.ORIGIN_MESSAGE_ID) or message.message_id
    properties[names.RETRY_TOPIC] = properties.get(names.RETRY_TOPIC) or message.topic
    properties[names.RECONSUME_TIME] = str(message.reconsume_times + 1)
    properties[names.MAX_RECONSUME_TIMES] = str(limit)
    properties[names.DELAY] = str(FIRST_DELAY_LEVEL + message.reconsume_times)
    if len(property_text.encode(properties)) > PROPERTIES_BYTES_MAX:
        properties.pop(names.LAST_ERROR, None)
    return Message.with_properties(retry_topic(group), message.body, properties, flag=message.flag)
