"""A send of one message.

Owns        the checks of the message in RocketMQ's order, what marks it keeps.
Must not know   batches, how the message is stored, delayed or parked.

Departure from RocketMQ 5.3: a half message cannot be delayed; Apache takes it and loses the delay.
"""

from __future__ import annotations

from rocketlake.base.errors import RemoteError
from rocketlake.broker.delay.parking import TIMER_NAMES, delay_level
from rocketlake.broker.intake.intake import Intake
from rocketlake.broker.lite.light_queues import LightQueues
from rocketlake.broker.rights.send import SendRights
from rocketlake.broker.sends.answer import SendAnswers
from rocketlake.broker.sends.copy_room import HALF_ROOM_BYTES, fit_dead_letter
from rocketlake.broker.sends.incoming import Incoming, place_by_priority, stored_flag
from rocketlake.broker.transaction.half import is_half, park_half
from rocketlake.model import property_names as names
from rocketlake.model import sys_flag
from rocketlake.model.message_id import UniqueKeyMaker
from rocketlake.model.names import is_dead_letter_topic, is_retry_topic
from rocketlake.model.topic import TopicConfig
from rocketlake.net.request import Held, Reply, Request
from rocketlake.protocol.headers.send import SendHeader
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["SingleSends"]


class SingleSends:
    """Puts single messages. Its parts are public: runs of plain sends (hot/send_runs.py) are made of the same."""

    def __init__(
        self,
        rights: SendRights,
        incoming: Incoming,
        intake: Intake,
        answers: SendAnswers,
        unique_keys: UniqueKeyMaker,
        light: LightQueues,
    ) -> None:
        self.rights = rights
        self.incoming = incoming
        self.intake = intake
        self.answers = answers
        self._unique_keys = unique_keys
        self._light = light

    def put(self, request: Request, header: SendHeader, dead_letters: TopicConfig | None) -> Reply | Held:
        """Put the message of the request; into `dead_letters` if it was tried too often."""
        topic = self.incoming.topic(header.topic)
        message, properties = self.incoming.read(header, request.body, request.asker.remote, topic)
        is_back = is_retry_topic(topic.name) or (message.reconsume_times > 0 and delay_level(properties) > 0)
        if not is_back:
            place_by_priority(message, properties, topic)
        light = None if is_back else self._light.place(message, properties, topic)
        queue_id = message.queue_id
        if is_back:
            # A consumer brings it back. The marks of its transaction mean nothing any more, and its time is over. This
            # copy is all that is left behind the answer. So that waits, though each retry of Apache's has WAIT=false.
            message.sys_flag &= ~sys_flag.TRANSACTION_MASK
            for name in (names.WAIT, *TIMER_NAMES):
                properties.pop(name, None)
        elif not message.body and not is_dead_letter_topic(topic.name):
            # As Apache's broker of 5.x: at such a message the ordered consumers of Java's 4.9 client stop for ever.
            raise RemoteError(
                "the message has an empty body", code=ResponseCode.MESSAGE_ILLEGAL, hint="send at least one byte"
            )
        message.sys_flag = stored_flag(message.body, message.sys_flag)
        if dead_letters is not None:
            message.topic, message.queue_id = dead_letters.name, 0
            properties[names.DELAY] = "-1"
        if topic.cleanup_policy == "COMPACTION" and not properties.get(names.KEYS, "").strip():
            raise RemoteError("Required message key is missing", code=ResponseCode.MESSAGE_ILLEGAL)
        unique_key = properties.get(names.UNIQUE_KEY)
        if not unique_key:
            unique_key = properties[names.UNIQUE_KEY] = self._unique_keys.make()
        self.incoming.add_properties(properties)
        properties.pop(names.PRODUCER_SEQUENCE, None)  # a copy; single messages take no part in the check
        if dead_letters is not None:
            fit_dead_letter(properties)
        room_bytes = 0
        if not is_back and is_half(message, properties):
            self.rights.check_transactions()
            park_half(message, properties, header.producer_group)
            room_bytes = HALF_ROOM_BYTES
        result = self.intake.put(message, properties, room_bytes=room_bytes)
        if light is not None and result.status.is_stored:
            self._light.stored(light, queue_id, result)
        handle = self.answers.recall_handle(message, properties, unique_key)
        return self.answers.when_durable(request, result, properties, queue_id, unique_key, recall_handle=handle)
