"""The transaction producer: consumers see a message only if the caller's own transaction is committed.

Owns        the steps of a transaction, answering brokers that ask about one.
Must not know   how a message is sent (producer.py), how a broker keeps it until then.

Rule (RocketMQ's TransactionMQProducer): the message goes to a broker as a half message, which no consumer sees. Then
the local function runs, and the end that it returns goes to the same broker, one-way. If that request is lost, the end
is UNKNOWN or this program dies, the broker asks any producer of the group, and its check function answers. A message
may be committed twice when an end crosses a question.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar, cast

import msgspec

from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError, RocketLakeError, UsageError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.base.service import stop_each
from rocketlake.base.settings.arguments import listed
from rocketlake.client.calls.send import SendResult, SendStatus
from rocketlake.client.calls.transaction import TransactionEnd, end_of_check, end_of_send
from rocketlake.client.config import ClientConfig, ProducerConfig
from rocketlake.client.hooks import EndEvent, Hooks, run_hooks
from rocketlake.client.instance import ClientInstance
from rocketlake.client.member import Answer
from rocketlake.client.producer.message_check import as_now
from rocketlake.client.producer.producer import Producer
from rocketlake.client.producer.queue_choice import Selector
from rocketlake.client.user_functions import check_function, is_async, is_for_caller
from rocketlake.model import property_names as names
from rocketlake.model.message import Message, StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.names import check_topic
from rocketlake.protocol.headers.transaction import CheckTransactionHeader

__all__ = ["TransactionEnd", "TransactionProducer", "TransactionResult"]

log = get_logger(__name__)
_END_PAUSE_SECONDS = 0.2
M = TypeVar("M", bound=Message)
End = TransactionEnd | None
Decide = Callable[[M], End | Awaitable[End]]
"""Tells how the transaction of a message ended; None means UNKNOWN."""


class TransactionResult(msgspec.Struct, frozen=True):
    """Where the half message was stored, and how its transaction ended. `error`: of the local function."""

    sent: SendResult
    end: TransactionEnd
    error: Exception | None = None


class TransactionProducer(Producer):
    """A producer that sends messages in transactions too: `TransactionProducer("my_group", check=find_out)`."""

    def __init__(
        self,
        group: str,
        *,
        check: Decide[StoredMessage],
        topics: Sequence[str] = (),
        namesrv: str | None = None,
        config: ProducerConfig | None = None,
        client_config: ClientConfig | None = None,
        instance: ClientInstance | None = None,
        hooks: Hooks | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`check` tells how a transaction ended when a broker asks; it may be one that another process began.

        Functions are `async def` and run on the loop, or plain and run on one of `transaction_threads` threads. Brokers
        of `topics` may ask as soon as the producer runs, others after its first message to them.
        """
        super().__init__(
            group,
            namesrv=namesrv,
            config=config,
            client_config=client_config,
            instance=instance,
            hooks=hooks,
            clock=clock,
        )
        check_function("check", check, takes="(message)")
        self._check_function = check
        self._topics = listed("topics", topics, str, hint='give topics=["orders"]')
        for topic in self._topics:
            check_topic(topic)
        self._checks: set[asyncio.Task[None]] = set()
        self._warnings = RareWarnings(log, clock=self._clock)
        self._pool = ThreadPoolExecutor(self.config.transaction_threads, thread_name_prefix="rocketlake-transaction")
        self._checked_by = self._take_question

    async def start(self) -> None:
        """Get ready to send and to be asked. Raises NoRoute for one of `topics` that no broker serves."""
        await super().start()
        try:
            for topic in self._topics:
                await self._queues(topic)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Wait for sends on their way, and for check functions up to `drain_ms`; tell the brokers, close the links."""
        await stop_each(
            self._finish_checks, super().stop, partial(self._pool.shutdown, wait=False, cancel_futures=True)
        )

    async def _finish_checks(self) -> None:
        if self.is_running and (checks := tuple(self._checks)):
            await asyncio.wait(checks, timeout=self.config.drain_ms / 1000)

    def send_in_transaction(
        self,
        message: Message,
        local: Decide[Message],
        *,
        timeout_ms: int | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: str | int | None = None,
    ) -> Coroutine[Any, Any, TransactionResult]:
        """Send a half message, run `local`, end the transaction as `local` says. Other arguments: see `send`.

        `local` gets a copy of the message whose `unique_key` names the transaction. When it raises, the end is UNKNOWN
        and the broker asks later. When the message is stored less safely than the broker's settings ask, `local` does
        not run and the transaction is rolled back. Raises the errors of `send`; after most of them nothing is stored.
        """
        check_function("local", local, takes="(message)")
        half = as_now(message)
        if half.is_delayed:
            hint = "leave delay_level, deliver_at and delay away"
            raise UsageError("a message of a transaction cannot be delayed", hint=hint)
        half.properties |= {names.TRANSACTION_PREPARED: "true", names.PRODUCER_GROUP: self.group}
        return self._in_transaction(half, local, partial(self._send, half, timeout_ms, queue, selector, key))

    async def _in_transaction(
        self, half: Message, local: Decide[Message], send: Callable[[], Awaitable[SendResult]]
    ) -> TransactionResult:
        sent = await send()
        end, error = TransactionEnd.ROLLBACK, None
        if sent.status is SendStatus.OK:
            half.unique_key = sent.message_id
            half.properties[names.TRANSACTION_ID] = sent.transaction_id or sent.message_id
            end, error = await self._decide(local, half)
        await self._tell(half, sent, end, error)
        return TransactionResult(sent, end, error)

    async def _decide(self, function: Decide[Any], message: Message) -> tuple[TransactionEnd, Exception | None]:
        """The end that the user's function returns; UNKNOWN and the error if it raises."""
        try:
            if is_async(function):
                answer = await cast("Awaitable[End]", function(message))
            else:
                loop = asyncio.get_running_loop()
                plain = cast("Callable[[Message], End]", function)
                answer = await loop.run_in_executor(self._pool, contextvars.copy_context().run, plain, message)
            if answer is not None and not isinstance(answer, TransactionEnd):
                raise TypeError(f"a transaction ends with TransactionEnd or None, not {type(answer).__name__}")
        except Exception as error:
            log.exception("the transaction of message %s of group %s is not known", message.unique_key, self.group)
            return TransactionEnd.UNKNOWN, error
        return answer or TransactionEnd.UNKNOWN, None

    async def _tell(self, half: Message, sent: SendResult, end: TransactionEnd, error: Exception | None) -> None:
        """Tell the broker's master the end, also a new master; a broker that is not reached asks later."""
        limit_ms = self.config.send_timeout_ms
        until = self._clock.monotonic() + limit_ms / 1000
        instance, queue = self.instance, sent.queue
        while True:
            try:
                address = await instance.master(queue.broker_name, queue.topic)
                await instance.net.invoke_oneway(address, end_of_send(self.group, sent, end, _remark(error)), limit_ms)
            except RocketLakeError as problem:
                has_replicas = instance.routes.has_replicas(queue.broker_name)
                if not (isinstance(problem, LinkError) and has_replicas and self._clock.monotonic() < until):
                    log.warning("the end %s of transaction %s was not sent: %s", end.name, sent.message_id, problem)
                    return
                await instance.after_break(queue, _END_PAUSE_SECONDS)
            else:
                if self.hooks.after_end:
                    event = EndEvent(self.group, half, sent.message_id, address, end, False, sent.region, sent.trace_on)
                    run_hooks(self.hooks.after_end, event)
                return

    def _take_question(self, question: CheckTransactionHeader, message: StoredMessage, answer: Answer) -> None:
        if len(self._checks) >= self.config.pending_checks_max:
            self._warnings.warn("full", "group %s: too many questions about transactions, some are dropped", self.group)
            return
        task = self.spawn("check", self._answer(question, message, answer))
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    async def _answer(self, question: CheckTransactionHeader, message: StoredMessage, answer: Answer) -> None:
        error: BaseException | None
        try:
            end, error = await self._decide(self._check_function, message)
        except BaseException as problem:
            if is_for_caller(problem):
                raise
            # The function waited for something that was cancelled, or called `sys.exit()`: the end is UNKNOWN.
            log.exception("the transaction of message %s of group %s is not known", message.unique_key, self.group)
            end, error = TransactionEnd.UNKNOWN, problem
        answer(end_of_check(self.group, question, message, end, _remark(error)))
        if self.hooks.after_end:
            address = "{}:{}".format(*message.store_host)
            run_hooks(self.hooks.after_end, EndEvent(self.group, message, message.message_id, address, end, True))


def _remark(error: BaseException | None) -> str | None:
    return None if error is None else f"{type(error).__name__}: {error}"
