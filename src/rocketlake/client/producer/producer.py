"""The producer: send one message, many, one-way or with a callback; retries on another broker.

Owns        the kinds of sends, their messages made ready, sends in the background.
Must not know   consumers, bytes of a request (calls/send.py), which messages are refused (message_check.py), which
            broker is tried next (attempts.py).

Rule: a message is taken as it is when a send is called. Its caller may fill it anew at once: while the send runs in
the background, or before its coroutine begins (`asyncio.create_task(producer.send(message))`). So the sends are plain
functions that take the message and return a coroutine.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError, RocketLakeError, UsageError
from rocketlake.base.service import Service, stop_each
from rocketlake.base.settings.arguments import check_number, listed
from rocketlake.base.settings.forms import AsyncForms
from rocketlake.client.calls import send as calls
from rocketlake.client.calls.send import Outgoing, Sender, SendResult
from rocketlake.client.config import ClientConfig, ProducerConfig
from rocketlake.client.errors import BatchFailed, NoReply, NoRoute, NotRunning, TooManySends
from rocketlake.client.hooks import NO_HOOKS, Hooks, Sending, around
from rocketlake.client.instance import ClientInstance, check_settings, client_settings
from rocketlake.client.member import TransactionCheck
from rocketlake.client.producer.accumulator import Accumulator
from rocketlake.client.producer.attempts import Attempts, Deadline
from rocketlake.client.producer.batch import check_batch, results_of_batch, split
from rocketlake.client.producer.fault_latency import FaultLatency
from rocketlake.client.producer.gathering import Callback, tell_callback
from rocketlake.client.producer.message_check import MessageCheck, as_now
from rocketlake.client.producer.queue_choice import QueueChoice, Selector, by_key, by_lite_topic
from rocketlake.client.producer.recalls import recall
from rocketlake.client.producer.replier import Replier, ReplyFunction
from rocketlake.client.producer.requests import Requests
from rocketlake.client.trace.tracing import traced
from rocketlake.client.user_functions import check_function, is_for_caller
from rocketlake.model import names, property_names, sys_flag
from rocketlake.model.message import Message, StoredMessage
from rocketlake.model.message_id import UniqueKeyMaker
from rocketlake.model.message_queue import MessageQueue
from rocketlake.net.local_address import local_address

COMPRESSION_TYPES = {
    "zlib": sys_flag.ZLIB,
    "lz4": sys_flag.LZ4,
    "zstd": sys_flag.ZSTD,
}


class Producer(AsyncForms, Service):
    """Sends messages of one group: `async with Producer("my_group", namesrv="127.0.0.1:9876") as producer:`."""

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | None = None,
        config: ProducerConfig | None = None,
        client_config: ClientConfig | None = None,
        instance: ClientInstance | None = None,
        hooks: Hooks | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(f"producer {group}")
        names.check_group(group)
        check_settings(config, ProducerConfig, client_config=client_config, instance=instance, hooks=hooks)
        self.group = group
        self.config = config or ProducerConfig()
        if self.config.compression not in COMPRESSION_TYPES:
            raise UsageError(f"compression {self.config.compression!r} is not known", hint="use zlib, lz4 or zstd")
        self._compression_type = COMPRESSION_TYPES[self.config.compression]
        self._sender = Sender(group, self.config.template_topic, self.config.new_topic_queues)
        self._own_instance = instance is None
        self.instance = instance or ClientInstance(client_settings(client_config, namesrv), clock=clock)
        self.hooks, self._trace = traced(self.instance, group, "PRODUCE", hooks or Hooks())
        self._clock = self.instance.clock
        faults = FaultLatency(enabled=self.config.avoid_slow_brokers)
        self._choice = QueueChoice(faults)
        self._attempts = Attempts(
            self._sender,
            self.instance,
            self.config,
            self.hooks,
            faults=faults,
            choice=self._choice,
            queues=self._queues,
        )
        self._messages = MessageCheck(self.config)
        self._sends: set[asyncio.Future[Any]] = set()
        self._requests = Requests(self.instance, self)
        self._repliers: list[Replier] = []
        self._checked_by: TransactionCheck | None = None
        keys = UniqueKeyMaker(local_address(), os.getpid(), self._clock.now_ms, instance=random.getrandbits(32))
        self._make_key = keys.make
        self._batches: Accumulator | None = None
        self._send: Callable[..., Coroutine[Any, Any, SendResult]] = self._send_alone
        if self.config.auto_batch:
            self._batches = Accumulator(
                f"{self.name}/batches",
                self.config,
                self._attempts,
                self._clock,
                keys=keys,
                prepare=self._prepare,
            )
            self._send = self._send_gathered

    # life

    async def start(self) -> None:
        """Get ready to send. Nothing is sent to a broker before the first message."""
        if self.is_running:
            return
        self.instance.check_open("Producer", self.group)
        self.instance.add_producer(self.group, self._checked_by)
        self.instance.reply_takers.append(self._requests.take)
        await super().start()
        if self._trace is not None:
            await self._trace.start()
        if self._batches is not None:
            await self._batches.start()
        if self._own_instance:
            await self.instance.start()

    async def stop(self) -> None:
        """Wait for sends on their way, tell the brokers, close the links. Open requests end with NotRunning."""
        if not self.is_running:
            return
        await stop_each(
            self.flush,
            self._end,
            *([self._batches.stop] if self._batches else []),
            partial(self._requests.end, NotRunning("Producer", self.group, is_over=True)),
            partial(self.instance.reply_takers.remove, self._requests.take),
            *[each.close for each in self._repliers],
            partial(self.instance.remove_producer, self.group),
            *([self._trace.stop] if self._trace else []),
            super().stop,
            *([self.instance.stop] if self._own_instance else []),
        )

    def _end(self) -> None:
        self.is_running = False

    # sending

    def send(
        self,
        message: Message,
        *,
        timeout_ms: int | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: str | int | None = None,
    ) -> Coroutine[Any, Any, SendResult]:
        """Send the message, as it is at this call, and wait until a broker has stored it.

        The message goes to `queue`, to the queue that `selector` returns, or to the queue that `key` hashes to (equal
        keys keep their order); without these, to the broker of its lite topic, or to the topic's queues in turn. With
        `auto_batch` it waits for others to share a request, and for room (accumulator.py). Raises NoRoute, SendFailed
        (no attempt worked), RemoteError (the broker refuses the message), UsageError.
        """
        return self._send(as_now(message), timeout_ms, queue, selector, key)

    async def _send_alone(
        self,
        message: Message,
        timeout_ms: int | None,
        queue: MessageQueue | None,
        selector: Selector | None,
        key: str | int | None,
    ) -> SendResult:
        self._check(message)
        return await self._send_until(self._deadline(timeout_ms), message, queue, selector, key)

    async def _send_gathered(
        self,
        message: Message,
        timeout_ms: int | None,
        queue: MessageQueue | None,
        selector: Selector | None,
        key: str | int | None,
    ) -> SendResult:
        """Through a background batch. `around_send` is for this message, the hooks of attempts are for its batch."""
        assert self._batches is not None
        gathering = self._batches.gathering
        self._check(message)
        limit_ms = self._limit_ms(timeout_ms)
        if not self.hooks.around_send and _is_free(message, queue, selector, key):
            return await gathering.send(message, None, limit_ms)
        with self._around((message,)) as sending:
            queue = await self._fixed_queue(message, self._deadline(timeout_ms), queue, selector, key)
            self._must_run()  # it may have been stopped while the route was looked for
            result = await gathering.send(message, queue, limit_ms)
            if sending is not None:
                sending.results = (result,)
            return result

    async def _send_until(
        self,
        deadline: Deadline,
        message: Message,
        queue: MessageQueue | None,
        selector: Selector | None,
        key: str | int | None,
    ) -> SendResult:
        if self.hooks.around_send:
            with around(self.hooks.around_send, Sending(self.group, (message,))) as sending:
                queue = await self._fixed_queue(message, deadline, queue, selector, key)
                result = await self._attempts.send(self._prepare(message), queue, deadline, (message,))
                sending.results = (result,)
                return result
        if not _is_free(message, queue, selector, key):
            queue = await self._fixed_queue(message, deadline, queue, selector, key)
        return await self._attempts.send(self._prepare(message), queue, deadline, (message,))

    def request(
        self,
        message: Message,
        *,
        timeout_ms: int | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: str | int | None = None,
    ) -> Coroutine[Any, Any, StoredMessage]:
        """Send the message, as it is at this call, and wait for the answer of a consumer (`replier`).

        `timeout_ms` is for both ways; the other arguments and errors are those of `send`. Raises NoReply when the
        message is stored and no answer comes in time, NotRunning when the producer is stopped meanwhile.
        """
        return self._request(as_now(message), timeout_ms, queue, selector, key)

    async def _request(
        self,
        message: Message,
        timeout_ms: int | None,
        queue: MessageQueue | None,
        selector: Selector | None,
        key: str | int | None,
    ) -> StoredMessage:
        self._check(message)
        deadline = self._deadline(timeout_ms)
        if not self.instance.known_queues(message.topic):
            await self._queues(message.topic, deadline.until)
        await self.instance.expect_replies(message.topic, deadline.until - self._clock.monotonic())
        self._must_run()
        with self._requests.open() as request:
            message.properties |= {
                property_names.CORRELATION_ID: request.id,
                property_names.REPLY_TO_CLIENT: self.instance.client_id,
                property_names.TTL: str(deadline.limit_ms),
            }
            sent = self._send_until(deadline, message, queue, selector, key)
            # In the background: the answer may come before the broker's word, which may not come at all.
            sending = self.spawn("request", _report(sent, partial(self._requests.sent, request)))
            if not await self._clock.wait(request.answer, deadline.until - self._clock.monotonic()):
                await asyncio.wait((sending,))  # it ends by now, and may know why the message is not stored
            if request.answer.done():
                return request.answer.result()
            raise NoReply(message.topic, request.sent, timeout_ms=deadline.limit_ms)

    def replier(self, function: ReplyFunction, *, threads: int = 20) -> Replier:
        """A listener that sends what `function(message)` returns to the producer that asked, with this producer.

        `PushConsumer("group", listener=producer.replier(quote))`. The function, `async def` or a plain one on one of
        `threads` threads, returns the body of the answer or a Message (see `reply_to`); None: no answer.
        """
        check_function("function", function, takes="(message)")
        self._repliers.append(Replier(function, self.send, threads=threads, clock=self._clock))
        return self._repliers[-1]

    async def recall(self, topic: str, handle: str, *, timeout_ms: int | None = None) -> str:
        """Take back a message that waits for its time: `handle` is the `recall_handle` of its SendResult.

        Returns its id: it will not be delivered. It may be called twice. Raises RemoteError (too late; the broker does
        not recall), LinkError, UsageError (no handle, or one of another topic).
        """
        self._must_run()
        return await recall(self.instance, self.group, topic, handle, self._deadline(timeout_ms))

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: str | int | None = None,
    ) -> Coroutine[Any, Any, None]:
        """Send without waiting for an answer: fast, but a broker that refuses the message does not say so."""
        return self._send_oneway(as_now(message), queue, selector, key)

    async def _send_oneway(
        self, message: Message, queue: MessageQueue | None, selector: Selector | None, key: str | int | None
    ) -> None:
        self._check(message)
        with self._around((message,)):
            await self._write_oneway(message, queue, selector, key)

    async def _write_oneway(
        self, message: Message, queue: MessageQueue | None, selector: Selector | None, key: str | int | None
    ) -> None:
        deadline = self._deadline(None)
        target = await self._fixed_queue(message, deadline, queue, selector, key)
        if target is None:
            queues = self.instance.known_queues(message.topic) or await self._queues(message.topic, deadline.until)
            target = self._choice.choose(message.topic, queues, now=self._clock.monotonic())
        address = await self.instance.master(target.broker_name, message.topic)
        await calls.send_oneway(
            self.instance.net,
            address,
            self._prepare(message),
            target,
            self._sender,
            born_ms=self._clock.now_ms(),
        )

    def send_nowait(
        self,
        message: Message,
        callback: Callback | None = None,
        *,
        timeout_ms: int | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: str | int | None = None,
    ) -> None:
        """Send in the background, as the message is at this call; `flush()` waits for all such sends.

        `callback(result, error)` is called on the loop. Raises TooManySends when `pending_sends_max` are on their way.
        """
        if callback is not None:
            check_function("callback", callback, takes="(result, error)")
        taken = as_now(message)
        self._check(taken)
        batches, is_free = self._batches, _is_free(taken, queue, selector, key)
        on_their_way = len(self._sends) + (batches.in_background if batches is not None else 0)
        if on_their_way >= self.config.pending_sends_max:
            raise TooManySends(self.config.pending_sends_max)
        if batches is not None and is_free and not self.hooks.around_send:
            batches.send_nowait(taken, self._limit_ms(timeout_ms), callback)
            return
        sent = self._send(taken, timeout_ms, queue, selector, key)
        sending = self.spawn("send", _report(sent, callback))
        self._sends.add(sending)
        sending.add_done_callback(self._sends.discard)

    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        timeout_ms: int | None = None,
        queue: MessageQueue | None = None,
        key: str | int | None = None,
    ) -> Coroutine[Any, Any, list[SendResult]]:
        """Send messages of one topic in few requests, in order; one result per message.

        Parts of at most `batch_bytes_max` go out one after the other, each with its own time limit; a larger message
        goes alone, as `send` would send it. Raises BatchFailed: its `sent` holds the results of the parts that were
        stored before the error. UsageError: nothing was sent.
        """
        hint = 'give a list: [Message("topic", b"one"), Message("topic", b"two")]'
        given: list[Any] = listed("messages", messages, object, hint=hint)
        return self._send_batch([as_now(message) for message in given], timeout_ms, queue, key)

    async def _send_batch(
        self, messages: list[Message], timeout_ms: int | None, queue: MessageQueue | None, key: str | int | None
    ) -> list[SendResult]:
        check_batch(messages)
        for message in messages:
            self._check(message)
        results: list[SendResult] = []
        with self._around(messages) as sending:
            if sending is not None:
                sending.results = results
            await self._send_parts(messages, results, timeout_ms, queue, key)
        return results

    async def _send_parts(
        self,
        messages: list[Message],
        results: list[SendResult],
        timeout_ms: int | None,
        queue: MessageQueue | None,
        key: str | int | None,
    ) -> None:
        """Add the results of one part after the other."""
        fixed = await self._fixed_queue(messages[0], self._deadline(timeout_ms), queue, None, key)
        limit = min(self.config.batch_bytes_max, self.config.message_bytes_max)
        for part in list(split(messages, self._make_key, self._prepare, bytes_max=limit)):
            own = messages[len(results) : len(results) + len(part.message_ids)]
            try:
                first = await self._attempts.send(part.outgoing, fixed, self._deadline(timeout_ms), own)
            except RocketLakeError as error:
                raise BatchFailed(messages[0].topic, results, len(messages), error) from error
            results += results_of_batch(first, part.message_ids)

    async def flush(self) -> None:
        """Wait until every `send_nowait` so far has its result. Background batches go out at once."""
        with self._batches.hurried() if self._batches is not None else nullcontext():
            while self._sends:
                await asyncio.wait(tuple(self._sends))
        if self._batches is not None:
            await self._batches.flush()

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues a message of this topic may go to. Raises NoRoute."""
        self._must_run()
        names.check_topic(topic)
        return await self._queues(topic)

    # inside

    def _must_run(self) -> None:
        if not self.is_running:
            raise NotRunning("Producer", self.group, is_over=self.instance.is_closed)

    def _check(self, message: Message) -> None:
        if not self.is_running:
            self._must_run()
        self._messages.check(message)

    def _around(self, messages: Sequence[Message]) -> AbstractContextManager[Sending | None]:
        """Before the messages are encoded: a hook may put properties on them."""
        if not self.hooks.around_send:
            return NO_HOOKS
        return around(self.hooks.around_send, Sending(self.group, messages))

    def _limit_ms(self, timeout_ms: int | None) -> int:
        if timeout_ms is None:
            return self.config.send_timeout_ms
        check_number("timeout_ms", timeout_ms, kind=float)
        return timeout_ms

    def _deadline(self, timeout_ms: int | None) -> Deadline:
        limit_ms = self._limit_ms(timeout_ms)
        return Deadline(self._clock.monotonic() + limit_ms / 1000, limit_ms)

    def _prepare(self, message: Message) -> Outgoing:
        config = self.config
        return calls.prepare(
            message,
            self._make_key(),
            compress_over=config.compress_over_bytes,
            compression_type=self._compression_type,
            compression_level=config.compression_level,
        )

    async def _queues(self, topic: str, until: float = 0.0) -> tuple[MessageQueue, ...]:
        sender = self._sender
        try:
            return await self.instance.queues_to_publish(
                topic, template=sender.template_topic, new_queues=sender.new_topic_queues, until=until
            )
        except (LinkError, NoRoute):
            self.instance.check_open("Producer", self.group)
            raise

    async def _fixed_queue(
        self,
        message: Message,
        deadline: Deadline,
        queue: MessageQueue | None,
        selector: Selector | None,
        key: str | int | None,
    ) -> MessageQueue | None:
        """The queue that the caller chose in one of three ways, or the lite topic of the message; None: any."""
        if (queue is not None) + (selector is not None) + (key is not None) > 1:
            raise UsageError(
                "queue, selector and key say different things about the queue",
                where=f"send to topic {message.topic!r}",
                hint="give one of them",
            )
        if queue is not None:
            return _of_topic(message, queue, hint="choose one of `await producer.queues(topic)`")
        if key is not None:
            selector = by_key(key)
        if selector is None and message.lite_topic is not None:
            selector = by_lite_topic
        if selector is None:
            return None
        check_function("selector", selector, takes="(queues, message)")
        chosen = selector(await self._queues(message.topic, deadline.until), message)
        return _of_topic(message, chosen, hint="let the selector return one of the queues that it is given")


def _is_free(message: Message, queue: MessageQueue | None, selector: Selector | None, key: str | int | None) -> bool:
    """May the message go to any queue?"""
    return queue is None and selector is None and key is None and property_names.LITE_TOPIC not in message.properties


def _of_topic(message: Message, queue: MessageQueue, *, hint: str) -> MessageQueue:
    if not isinstance(queue, MessageQueue) or queue.topic != message.topic:
        raise UsageError(f"queue {queue} is not of topic {message.topic!r}", hint=hint)
    return queue


async def _report(sent: Coroutine[Any, Any, SendResult], callback: Callback | None) -> None:
    """Tell the callback how a background send ended; without one, the log learns of a failure."""
    result: SendResult | None = None
    error: BaseException | None = None
    try:
        result = await sent
    except BaseException as problem:
        if is_for_caller(problem):
            raise
        error = problem  # an error of the client, or one that the user's selector raised
    tell_callback(callback, result, error)
