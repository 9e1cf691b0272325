"""The blocking twin of the client: the same names and arguments, for programs without an event loop.

Owns        one background thread with an event loop, shared by all blocking clients and ended with the last of them.
Must not know   how anything is sent or consumed: every call runs the async twin and waits.

Use from any thread. A client does not survive `fork()`: make it in the child.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from rocketlake.base.errors import UsageError
from rocketlake.client.calls.send import SendResult
from rocketlake.client.config import ClientConfig, ConsumerConfig, FirstOffset, ProducerConfig
from rocketlake.client.consumer import consumer as async_consumer
from rocketlake.client.consumer import pull as async_pull
from rocketlake.client.consumer import push as async_push
from rocketlake.client.consumer.allocate import Allocate, averagely
from rocketlake.client.consumer.listener import Listener
from rocketlake.client.hooks import Hooks
from rocketlake.client.producer import producer as async_producer
from rocketlake.client.producer.producer import Callback
from rocketlake.client.producer.queue_choice import Selector
from rocketlake.model.message import Message, StoredMessage
from rocketlake.model.message_queue import MessageQueue

__all__ = ["Consumer", "Producer", "PullConsumer", "PushConsumer"]

T = TypeVar("T")


class _LoopThread:
    """A thread that runs an event loop while somebody uses it."""

    _shared: ClassVar[_LoopThread | None] = None
    _guard: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.users = 0
        self.pid = os.getpid()
        self.thread = threading.Thread(target=self._run, name="rocketlake-client", daemon=True)
        self.thread.start()

    @classmethod
    def join(cls) -> _LoopThread:
        """The shared thread, started if need be."""
        with cls._guard:
            if cls._shared is None or cls._shared.pid != os.getpid():
                cls._shared = _LoopThread()
            cls._shared.users += 1
            return cls._shared

    def leave(self) -> None:
        """End the thread when nobody uses it any more."""
        with self._guard:
            self.users -= 1
            if self.users:
                return
            if _LoopThread._shared is self:
                _LoopThread._shared = None
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run on the loop, wait here."""
        if threading.current_thread() is self.thread:
            coroutine.close()
            raise UsageError("a blocking call inside an async listener", hint="use the async client there")
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C while waiting: what was begun must not go on behind the caller's back.
            future.cancel()
            raise

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
        finally:
            self.loop.close()


class _AsyncTwin(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


A = TypeVar("A", bound=_AsyncTwin)


class _Blocking(Generic[A]):
    """start, stop, `with`, and running the twin's calls."""

    def __init__(self, twin: A) -> None:
        self._twin = twin
        self._thread: _LoopThread | None = None

    def start(self) -> None:
        """Start the client."""
        if self._thread is not None:
            return
        self._thread = _LoopThread.join()
        try:
            self._thread.run(self._twin.start())
        except BaseException:
            self._leave()
            raise

    def stop(self) -> None:
        """Stop the client; what is on its way is finished first."""
        if self._thread is not None:
            self._check_process()
            try:
                self._run(self._twin.stop())
            finally:
                self._leave()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None:
            self._check_process()
            try:
                self._run(self._twin.__aexit__(kind, error, trace))
            finally:
                self._leave()

    def _leave(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.leave()

    def _check_process(self) -> None:
        if self._thread is not None and self._thread.pid != os.getpid():
            raise UsageError(
                "this client was made before fork() and cannot work in the child",
                hint="make a client of its own in each process",
            )

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            self._check_process()
            if self._thread is None:
                raise UsageError(f"{type(self).__name__} is not running", hint="call start(), or use `with`")
        except UsageError:
            coroutine.close()
            raise
        return self._thread.run(coroutine)

    def _call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run a plain function of the twin on its loop (before start: here)."""
        if self._thread is None:
            return function(*args, **kwargs)

        async def call() -> T:
            return function(*args, **kwargs)

        return self._run(call())


class Producer(_Blocking[async_producer.Producer]):
    """Blocking twin of rocketlake.Producer: `with Producer("group", namesrv=...) as producer: producer.send(...)`."""

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | None = None,
        config: ProducerConfig | None = None,
        client_config: ClientConfig | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        super().__init__(
            async_producer.Producer(group, namesrv=namesrv, config=config, client_config=client_config, hooks=hooks)
        )

    def send(
        self,
        message: Message,
        *,
        timeout_ms: int | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: str | int | None = None,
    ) -> SendResult:
        """Send and wait until the broker has it; see the async twin."""
        return self._run(self._twin.send(message, timeout_ms=timeout_ms, queue=queue, selector=selector, key=key))

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: str | int | None = None,
    ) -> None:
        """Send without waiting for an answer."""
        self._run(self._twin.send_oneway(message, queue=queue, selector=selector, key=key))

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
        """Send in the background; `callback(result, error)` runs on the client's thread and must not block."""
        self._call(
            self._twin.send_nowait,
            message,
            callback,
            timeout_ms=timeout_ms,
            queue=queue,
            selector=selector,
            key=key,
        )

    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        timeout_ms: int | None = None,
        queue: MessageQueue | None = None,
        key: str | int | None = None,
    ) -> list[SendResult]:
        """Send messages of one topic in few requests; one result per message."""
        return self._run(self._twin.send_batch(messages, timeout_ms=timeout_ms, queue=queue, key=key))

    def flush(self) -> None:
        """Wait until every `send_nowait` so far has its result."""
        self._run(self._twin.flush())

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues a message of this topic may go to."""
        return self._run(self._twin.queues(topic))


class PushConsumer(_Blocking[async_push.PushConsumer]):
    """Blocking twin of rocketlake.PushConsumer; plain listeners run on worker threads."""

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | None = None,
        listener: Listener,
        orderly: bool = False,
        broadcasting: bool = False,
        from_where: FirstOffset | str = FirstOffset.LAST,
        timestamp_ms: int | None = None,
        allocate: Allocate = averagely,
        config: ConsumerConfig | None = None,
        client_config: ClientConfig | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        super().__init__(
            async_push.PushConsumer(
                group,
                namesrv=namesrv,
                listener=listener,
                orderly=orderly,
                broadcasting=broadcasting,
                from_where=from_where,
                timestamp_ms=timestamp_ms,
                allocate=allocate,
                config=config,
                client_config=client_config,
                hooks=hooks,
            )
        )

    def subscribe(self, topic: str, expression: str = "*") -> None:
        """Read a topic, filtered by tags."""
        self._call(self._twin.subscribe, topic, expression)

    def unsubscribe(self, topic: str) -> None:
        """Stop reading a topic."""
        self._call(self._twin.unsubscribe, topic)

    def suspend(self) -> None:
        """Stop pulling for a while."""
        self._call(self._twin.suspend)

    def resume(self) -> None:
        """Go on after `suspend`."""
        self._call(self._twin.resume)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues this member reads now."""
        return self._call(lambda: self._twin.assignment)


class PullConsumer(_Blocking[async_pull.PullConsumer]):
    """Blocking twin of rocketlake.PullConsumer."""

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | None = None,
        auto_commit: bool = True,
        from_where: FirstOffset | str = FirstOffset.LAST,
        timestamp_ms: int | None = None,
        allocate: Allocate = averagely,
        config: ConsumerConfig | None = None,
        client_config: ClientConfig | None = None,
    ) -> None:
        super().__init__(
            async_pull.PullConsumer(
                group,
                namesrv=namesrv,
                auto_commit=auto_commit,
                from_where=from_where,
                timestamp_ms=timestamp_ms,
                allocate=allocate,
                config=config,
                client_config=client_config,
            )
        )

    def subscribe(self, topic: str, expression: str = "*") -> None:
        """Share the topic's queues with the other members of the group."""
        self._call(self._twin.subscribe, topic, expression)

    def unsubscribe(self, topic: str) -> None:
        """Stop reading a topic."""
        self._call(self._twin.unsubscribe, topic)

    def assign(self, queues: Collection[MessageQueue], expression: str = "*") -> None:
        """Read exactly these queues, whatever other members do."""
        self._call(self._twin.assign, queues, expression)

    def fetch_queues(self, topic: str) -> list[MessageQueue]:
        """All queues of the topic that can be read."""
        return self._run(self._twin.fetch_queues(topic))

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues read now."""
        return self._call(lambda: self._twin.assignment)

    def poll(self, timeout_ms: float = async_pull.POLL_TIMEOUT_MS, max_messages: int = 32) -> list[StoredMessage]:
        """The next messages, [] when none came in time."""
        return self._run(self._twin.poll(timeout_ms, max_messages))

    def position(self, queue: MessageQueue) -> int:
        """The offset of the next message that poll hands out of this queue."""
        return self._run(self._twin.position(queue))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at this offset."""
        self._run(self._twin.seek(queue, offset))

    def seek_to_begin(self, *queues: MessageQueue) -> None:
        """Go on at the oldest message kept, in these queues or in all that are read."""
        self._run(self._twin.seek_to_begin(*queues))

    def seek_to_end(self, *queues: MessageQueue) -> None:
        """Go on at the next message to come, in these queues or in all that are read."""
        self._run(self._twin.seek_to_end(*queues))

    def offsets_for_time(self, queues: Sequence[MessageQueue], timestamp_ms: int) -> dict[MessageQueue, int]:
        """For each queue the first offset stored at or after this time."""
        return self._run(self._twin.offsets_for_time(queues, timestamp_ms))

    def begin_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message kept."""
        return self._run(self._twin.begin_offset(queue))

    def end_offset(self, queue: MessageQueue) -> int:
        """The offset the next message will get."""
        return self._run(self._twin.end_offset(queue))

    def pause(self, queues: Collection[MessageQueue]) -> None:
        """Hand out nothing of these queues until `resume`."""
        self._call(self._twin.pause, queues)

    def resume(self, queues: Collection[MessageQueue]) -> None:
        """Go on after `pause`."""
        self._call(self._twin.resume, queues)

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit now: all that polls handed out, or these offsets."""
        self._run(self._twin.commit(offsets))

    def committed(self, queue: MessageQueue) -> int:
        """The group's offset at the broker; -1 when it never committed."""
        return self._run(self._twin.committed(queue))


class Consumer(_Blocking[async_consumer.Consumer]):
    """Blocking twin of rocketlake.Consumer: `with Consumer("group", "topic") as c: for message in c: ...`."""

    def __init__(
        self,
        group: str,
        topic: str | None = None,
        expression: str = "*",
        *,
        topics: Mapping[str, str] | None = None,
        namesrv: str | None = None,
        orderly: bool = False,
        broadcasting: bool = False,
        from_where: FirstOffset | str = FirstOffset.LAST,
        timestamp_ms: int | None = None,
        allocate: Allocate = averagely,
        config: ConsumerConfig | None = None,
        client_config: ClientConfig | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        super().__init__(
            async_consumer.Consumer(
                group,
                topic,
                expression,
                topics=topics,
                namesrv=namesrv,
                orderly=orderly,
                broadcasting=broadcasting,
                from_where=from_where,
                timestamp_ms=timestamp_ms,
                allocate=allocate,
                config=config,
                client_config=client_config,
                hooks=hooks,
            )
        )

    def receive(self, timeout_ms: float | None = None) -> StoredMessage | None:
        """The next message, None when none came in time; acknowledges the one before."""
        return self._run(self._twin.receive(timeout_ms))

    def later(self, *, delay_level: int | None = None, suspend_ms: int | None = None) -> None:
        """The message in your hands is not consumed: it comes again."""
        self._call(self._twin.later, delay_level=delay_level, suspend_ms=suspend_ms)

    def __iter__(self) -> Iterator[StoredMessage]:
        return self

    def __next__(self) -> StoredMessage:
        message = self.receive()
        if message is None:
            raise StopIteration
        return message

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues this member reads now."""
        return self._call(lambda: self._twin.assignment)
