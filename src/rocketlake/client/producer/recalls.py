"""Takes back messages that wait for their time.

Owns        which broker is asked, when it is asked again.
Must not know   bytes of a request (calls/recall.py).

Rule: only the broker that holds the message can take it back, at the address of its present master. A recall may be
repeated: a second one does nothing. So one without an answer, or with that of a slave, is repeated until the time is
over.
"""

from __future__ import annotations

from rocketlake.base.errors import LinkError, UsageError
from rocketlake.base.settings.arguments import check_kind
from rocketlake.client.calls.answer import is_of_slave
from rocketlake.client.calls.recall import recall_request, recalled
from rocketlake.client.instance import ClientInstance
from rocketlake.client.producer.attempts import Deadline
from rocketlake.model.message_id import RecallHandle
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.names import is_dead_letter_topic, is_retry_topic

__all__ = ["recall"]

_PAUSE_SECONDS = 0.2


async def recall(instance: ClientInstance, group: str, topic: str, text: str, deadline: Deadline) -> str:
    """The id of the message that was taken back. Raises UsageError, RemoteError, LinkError."""
    if not text:
        hint = "give a message delay= or deliver_at=: one that is delivered at once or at a delay level has none"
        raise UsageError("the message has no recall handle", where=f"recall from topic {topic!r}", hint=hint)
    check_kind("a recall handle", text, str, hint="give the recall_handle of the send's result")
    handle = RecallHandle.of_text(text)
    if handle.topic != topic or is_retry_topic(topic) or is_dead_letter_topic(topic):
        raise UsageError(
            f"the recall handle is of topic {handle.topic!r}, not of {topic!r}",
            hint="give the topic to which the message was sent",
        )
    queue = MessageQueue(topic, handle.broker_name, 0)
    while True:
        try:
            address = await instance.master(queue.broker_name, topic)
            left_ms = max(1.0, (deadline.until - instance.clock.monotonic()) * 1000)
            answer = await instance.invoke_at_master(address, queue, recall_request(group, handle, text), left_ms)
        except LinkError:
            if instance.is_closed or instance.clock.monotonic() + _PAUSE_SECONDS > deadline.until:
                raise
        else:
            if not is_of_slave(answer) or instance.clock.monotonic() + _PAUSE_SECONDS > deadline.until:
                return recalled(answer, address)
        await instance.after_break(queue, _PAUSE_SECONDS)
