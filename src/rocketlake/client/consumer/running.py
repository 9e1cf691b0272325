"""One listener call: the same for listeners side by side and in order.

Owns        the first topic of retried messages, hooks around the call, the rule that an exception means "later".
Must not know   how the answer is used.

Rule: any exception of a listener means "later", except the cancellation of the worker: no listener ends a worker.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from rocketlake.base.clock import Clock
from rocketlake.base.logs import get_logger
from rocketlake.client.consumer.listener import ConsumeResult, ListenerCall
from rocketlake.client.consumer.process_queue import ProcessQueue
from rocketlake.client.hooks import ConsumeEvent, Hooks, around, run_hooks
from rocketlake.client.user_functions import is_for_caller
from rocketlake.model import names
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.pop import popped_topic

log = get_logger(__name__)
Queues = Callable[[], Collection[ProcessQueue]]


class NotConsumed(Exception):
    """Raised by a listener that did not look at its messages; they stay in hand."""


async def is_safe(sent: Awaitable[bool], message: StoredMessage) -> bool:
    """True when a broker has the failed message again; false after any error on the way."""
    try:
        return await sent
    except Exception:
        log.exception("message %s could not be sent back, it stays in hand and comes again here", message.message_id)
        return False


def restore_topic(message: StoredMessage, group: str) -> None:
    """Give a message that comes from %RETRY%group, or again after it was popped, its first topic back."""
    if message.topic == names.retry_topic(group) and message.retry_topic:
        message.topic = message.retry_topic
    message.topic = popped_topic(message.topic, group)


async def consume(
    call: ListenerCall,
    group: str,
    queue: MessageQueue,
    batch: list[StoredMessage],
    hooks: Hooks,
    clock: Clock,
) -> ConsumeResult | None:
    """Run the listener; an exception is logged with its messages and means "later". None: NotConsumed."""
    if batch[0].topic.startswith(names.RETRY_PREFIX):
        for message in batch:
            restore_topic(message, group)
    if not (hooks.before_consume or hooks.after_consume or hooks.around_consume):
        return await _run(call, group, queue, batch, None, clock)
    event = ConsumeEvent(group, list(batch), queue)
    run_hooks(hooks.before_consume, event)
    begun = clock.monotonic()
    with around(hooks.around_consume, event):
        answer = await _run(call, group, queue, batch, event, clock)
        if answer is None:
            return None
        event.latency_ms = (clock.monotonic() - begun) * 1000
        event.done = answer.count_done(len(batch))
        event.is_success = event.done == len(batch)
    run_hooks(hooks.after_consume, event)
    return answer


async def _run(
    call: ListenerCall,
    group: str,
    queue: MessageQueue,
    batch: list[StoredMessage],
    event: ConsumeEvent | None,
    clock: Clock,
) -> ConsumeResult | None:
    begun = clock.monotonic()
    try:
        # A copy: the listener may change the list.
        answer = call.result(await call.begin(list(batch)))
    except NotConsumed:
        return None
    except BaseException as error:
        if is_for_caller(error):
            raise
        ids = ", ".join(message.message_id for message in batch)
        log.exception("listener of group %s failed on %s of %s; it comes again later", group, ids, queue)
        if event is not None:
            event.error = error
        answer = ConsumeResult.failed(error)
    done = count = len(batch)
    if answer.done >= 0:
        done = answer.count_done(count)
    call.rates.consumed(queue.topic, clock.monotonic() - begun, count, done)
    return answer
