"""The attempts of one send: which broker is tried next, when a new master is waited for, when it is given up.

Owns        the loop of attempts, their shared time, the order of repeated sends to one queue.
Must not know   which messages are refused (message_check.py), bytes of a request (calls/send.py), how a new master is
            found (masters.py).

Rule: a send has 1 + `retries` attempts within one time limit. When the refusal may not hold elsewhere
(calls/answer.py), or the link broke, the next attempt goes to another broker; a message may then be stored twice
(at-least-once). A send to a queue that the caller chose goes to that queue only: order would not survive a detour.

While another broker may take the message an attempt gets a share of the time only: a silent broker costs a share, not
the send. A half message has all its time: stored at two brokers, it would be two transactions.

A broker that is lost comes back, or one of its replicas becomes the master. Sends to it that got no answer, or that of
a slave, are repeated until their time is over (without an answer only if `retries` allows repeats), in the order of
queue_order.py when the caller chose the queue. In the same time a topic without a route is waited for.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from rocketlake.base.errors import LinkError, RemoteError
from rocketlake.client.calls import send as calls
from rocketlake.client.calls.answer import SENT_TO_ANOTHER_BROKER, is_of_slave
from rocketlake.client.calls.send import Outgoing, Sender, SendResult, SendStatus
from rocketlake.client.config import ProducerConfig
from rocketlake.client.errors import SendFailed
from rocketlake.client.hooks import Hooks, SendEvent, run_hooks
from rocketlake.client.instance import ClientInstance
from rocketlake.client.producer.fault_latency import FaultLatency
from rocketlake.client.producer.queue_choice import QueueChoice
from rocketlake.client.producer.queue_order import QueueOrder, Turn
from rocketlake.model.message import Message
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.property_names import TRANSACTION_PREPARED

__all__ = ["Attempts", "Deadline"]

_PAUSE_SECONDS = 0.2
"""So long a repeat waits for a new master before it tries the known one again."""
_SHARE_MS_MIN = 500
"""Less is no time for a broker whose disk is slow: the message would be stored twice."""
_LATE = "sent again it would come behind a later message of its queue"
_NOBODY: frozenset[str] = frozenset()


class Deadline(msgspec.Struct, frozen=True, gc=False):
    """All attempts of one send end before `until` (monotonic seconds), `limit_ms` after it began."""

    until: float
    limit_ms: int


@dataclass(slots=True)
class _Send:
    """One send. Hooks see `messages`, brokers get `outgoing`."""

    outgoing: Outgoing
    fixed: MessageQueue | None
    deadline: Deadline
    messages: Sequence[Message]
    turn: Turn | None
    tries: int
    attempts: list[tuple[str, BaseException]] = field(default_factory=list)
    not_ok: SendResult | None = None
    address: str | None = None
    """The master that was asked last."""
    born_ms: int = -1
    """Of the first attempt: a broker knows a half message that came twice by it, too."""

    def note(self, broker_name: str, error: RemoteError | LinkError) -> None:
        """An attempt has failed. Repeats at one broker are named once, by the last of them."""
        if self.tries > 0:
            self.attempts = [each for each in self.attempts if each[0] != broker_name]
        self.attempts.append((broker_name, error))


class Attempts:
    """The attempts of all sends of one producer."""

    def __init__(
        self,
        sender: Sender,
        instance: ClientInstance,
        config: ProducerConfig,
        hooks: Hooks,
        *,
        faults: FaultLatency,
        choice: QueueChoice,
        queues: Callable[[str, float], Awaitable[tuple[MessageQueue, ...]]],
    ) -> None:
        """`queues`: the queues of a topic that take messages, waited for until a time; it raises NoRoute."""
        self._sender = sender
        self._instance = instance
        self._clock = instance.clock
        self._config = config
        self._hooks = hooks
        self._faults = faults
        self._choice = choice
        self._queues = queues
        self._orders: dict[MessageQueue, QueueOrder] = {}

    async def send(
        self, outgoing: Outgoing, fixed: MessageQueue | None, deadline: Deadline, messages: Sequence[Message]
    ) -> SendResult:
        """Send it to `fixed`, or to any queue. Raises NoRoute, SendFailed, RemoteError."""
        if fixed is None:
            return await self._repeat(_Send(outgoing, None, deadline, messages, None, 1 + self._config.retries))
        order = self._orders.get(fixed)
        if order is None:
            order = self._orders[fixed] = QueueOrder()
        turn = order.enter()
        try:
            return await self._repeat(_Send(outgoing, fixed, deadline, messages, turn, 1))
        finally:
            turn.leave()

    async def _repeat(self, send: _Send) -> SendResult:
        while send.tries > 0 and not (send.attempts and self._instance.is_closed):
            queue = send.fixed or await self._choose(send)
            if send.turn is not None or send.attempts:  # most sends have nothing to wait for
                await self._wait(send, queue)
            if send.turn is not None and send.turn.is_late:
                send.note(queue.broker_name, LinkError(_LATE, where=send.address or ""))
                break
            left_ms = int((send.deadline.until - self._clock.monotonic()) * 1000)
            if left_ms <= 0:
                break
            if send.tries > 1 and send.fixed is None:
                left_ms = self._share_ms(send, left_ms)
            send.tries -= 1
            try:
                result = await self._attempt(send, queue, left_ms)
            except (RemoteError, LinkError) as error:
                self._look_at(send, queue.broker_name, error)
            else:
                if result.status is SendStatus.FLUSH_SLAVE_TIMEOUT and await self._is_replaced(send, queue):
                    send.not_ok = result
                    what = "another master came before the replicas had the message"
                    self._look_at(send, queue.broker_name, LinkError(what, where=send.address or ""))
                    continue
                if send.turn is not None:
                    send.turn.stored()
                if result.status is SendStatus.OK or not self._config.retry_when_not_stored_ok:
                    return result
                send.not_ok = result
        if send.not_ok is not None:
            return send.not_ok
        timed_out = self._clock.monotonic() >= send.deadline.until - 0.001  # less is no time for an attempt
        last = send.attempts[-1][1] if send.attempts else None
        raise SendFailed(
            send.outgoing.topic,
            send.attempts,
            timeout_ms=send.deadline.limit_ms,
            timed_out=timed_out,
            is_stopped=self._instance.is_closed,
        ) from last

    def _share_ms(self, send: _Send, left_ms: int) -> int:
        """The time of one attempt, out of what is left for all."""
        asked, queues = self._config.attempt_timeout_ms, self._instance.known_queues(send.outgoing.topic)
        has_others = queues and queues[0].broker_name != queues[-1].broker_name  # they are sorted
        if asked < 0 or not has_others or TRANSACTION_PREPARED in send.messages[0].properties:
            return left_ms
        return min(left_ms, asked or max(_SHARE_MS_MIN, left_ms // send.tries))

    async def _choose(self, send: _Send) -> MessageQueue:
        instance, topic = self._instance, send.outgoing.topic
        queues = instance.known_queues(topic) or await self._queues(topic, send.deadline.until)
        avoid = frozenset(broker for broker, _ in send.attempts) if send.attempts else _NOBODY
        if instance.masters.in_doubt:
            avoid |= {name for name in instance.masters.in_doubt if instance.routes.master(name) is None}
        return self._choice.choose(topic, queues, avoid=avoid, now=self._clock.monotonic())

    async def _wait(self, send: _Send, queue: MessageQueue) -> None:
        """Behind the sends before it; then for a new master, or for a broker that may be restarting."""
        left = send.deadline.until - self._clock.monotonic()
        if any(broker == queue.broker_name for broker, _ in send.attempts):
            pause = _PAUSE_SECONDS * random.uniform(0.5, 1.0)
            await self._instance.masters.wait(queue.broker_name, send.address, max(0.0, min(left, pause)))
            left = send.deadline.until - self._clock.monotonic()
        if send.turn is not None:
            await send.turn.wait(left, self._clock)

    def _look_at(self, send: _Send, broker_name: str, error: RemoteError | LinkError) -> None:
        """Note the failure of an attempt; grant one more when a master is gone. Raises a refusal that is final."""
        turn, of_slave = send.turn, isinstance(error, RemoteError) and is_of_slave(error)
        if isinstance(error, RemoteError) and not of_slave:
            if error.code not in SENT_TO_ANOTHER_BROKER or send.fixed is not None:
                raise error
        elif of_slave or self._config.retries > 0:
            if turn is not None and turn.is_late:
                raise error
            if turn is not None:
                turn.failed()
            send.tries += 1
        send.note(broker_name, error)

    async def _is_replaced(self, send: _Send, queue: MessageQueue) -> bool:
        """A master that loses its role says of what it stored last that no replica has it: the new one may lack it."""
        instance, name = self._instance, queue.broker_name
        if not instance.routes.has_replicas(name) or self._config.retries == 0:
            return False
        until = min(send.deadline.until, self._clock.monotonic() + _PAUSE_SECONDS)
        while (left := until - self._clock.monotonic()) > 0:
            instance.masters.doubt(name, queue.topic, send.address)  # again: it may answer older sends meanwhile
            await instance.masters.wait(name, send.address, left)
            if instance.routes.master(name) not in (None, send.address):
                return True
        return False

    async def _attempt(self, send: _Send, queue: MessageQueue, timeout_ms: int) -> SendResult:
        """One request to one broker, with hooks around it; FaultLatency learns its latency or failure."""
        instance, begun = self._instance, self._clock.monotonic()
        send.address = instance.routes.master(queue.broker_name)
        address = send.address or await instance.master(queue.broker_name, send.outgoing.topic)
        event = None
        if self._hooks.before_send or self._hooks.after_send:
            event = SendEvent(self._sender.group, send.messages, queue, address)
            run_hooks(self._hooks.before_send, event)
        if send.born_ms < 0:
            send.born_ms = self._clock.now_ms()
        try:
            command = self._sender.command(send.outgoing, queue, send.born_ms)
            answer = await instance.invoke_at_master(address, queue, command, timeout_ms)
            result = calls.result_of(answer, send.outgoing, queue, address)
        except (RemoteError, LinkError) as error:
            if event is not None:
                event.error = error
            self._faults.failed(queue.broker_name, self._clock.monotonic())
            raise
        else:
            if self._faults.enabled:
                now = self._clock.monotonic()
                self._faults.sent(queue.broker_name, (now - begun) * 1000, now)
            if event is not None:
                event.result = result
            return result
        finally:
            if event is not None:
                event.latency_ms = (self._clock.monotonic() - begun) * 1000
                run_hooks(self._hooks.after_send, event)
