"""The blocking twin of the client: the same names and arguments, for programs without an event loop.

Owns        the blocking twins. Arguments, types and docstrings are those of the async twin's methods; only `instance=`
            cannot be given.
Must not know   how messages are sent or consumed: every call runs the async twin on the shared thread (loop_thread.py)
                and waits.

Use from any thread. A client does not survive `fork()`: make it in the child.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from rocketlake.base.errors import UsageError
from rocketlake.client.consumer.consumer import Consumer as AsyncConsumer
from rocketlake.client.consumer.pull import PullConsumer as AsyncPullConsumer
from rocketlake.client.consumer.push import PushConsumer as AsyncPushConsumer
from rocketlake.client.loop_thread import LoopThread
from rocketlake.client.producer.producer import Producer as AsyncProducer
from rocketlake.client.producer.transaction import TransactionProducer as AsyncTransactionProducer
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue

__all__ = ["Consumer", "Producer", "PullConsumer", "PushConsumer", "TransactionProducer"]

P = ParamSpec("P")
T = TypeVar("T")


class _AsyncClient(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class _AsyncConsumer(_AsyncClient, Protocol):
    @property
    def assignment(self) -> list[MessageQueue]: ...

    @property
    def damaged(self) -> int: ...


A = TypeVar("A", bound=_AsyncClient)
C = TypeVar("C", bound=_AsyncConsumer)


class _Blocking(Generic[A]):
    """Start, stop, `with`, and the calls that run on the twin's loop."""

    def __init__(self, twin: A) -> None:
        self._twin = twin
        self._thread: LoopThread | None = None
        self._is_over = False

    def start(self) -> None:
        """Start the client."""
        if self._thread is not None:
            return
        self._thread = LoopThread.join()
        try:
            self._thread.run(self._twin.start())
        except BaseException:
            self._leave()
            raise

    def stop(self) -> None:
        """Stop the client; calls on their way are finished first."""
        if self._thread is not None:
            self._check_process()
            self._thread.refuse_own_thread()
            try:
                self._run(self._twin.stop())
            finally:
                self._is_over = True
                self._leave()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None:
            self._check_process()
            self._thread.refuse_own_thread()
            try:
                self._run(self._twin.__aexit__(kind, error, trace))
            finally:
                self._is_over = True
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
                what, hint = "is not running", "call start(), or use `with`"
                if self._is_over:
                    what, hint = "was stopped", "make a new one: one that was stopped does not start again"
                raise UsageError(f"{type(self).__name__} {what}", hint=hint)
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


def _takes_what(make: Callable[P, A]) -> Callable[[Callable[..., None]], Callable[Concatenate[_Blocking[A], P], None]]:
    """Makes an `__init__` that takes the arguments of the async client and holds the client made with them."""

    def decorate(_: Callable[..., None]) -> Callable[Concatenate[_Blocking[A], P], None]:
        @functools.wraps(make.__init__)  # for help(): the arguments and their defaults
        def init(self: _Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> None:
            if kwargs.get("instance") is not None:
                raise UsageError("a blocking client has an instance of its own", hint="leave out instance=")
            _Blocking.__init__(self, make(*args, **kwargs))

        return init

    return decorate


def _waiting(method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[_Blocking[A], P], T]:
    """The twin of an async method: runs it on the loop and waits for its result."""

    @functools.wraps(method)
    def call(self: _Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(method(self._twin, *args, **kwargs))

    return call


def _on_loop(method: Callable[Concatenate[A, P], T]) -> Callable[Concatenate[_Blocking[A], P], T]:
    """The twin of a plain method: calls it on the loop, where all state of a client is touched."""

    @functools.wraps(method)
    def call(self: _Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._call(method, self._twin, *args, **kwargs)

    return call


class _BlockingConsumer(_Blocking[C]):
    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues this member reads now."""
        return self._call(lambda: self._twin.assignment)

    @property
    def damaged(self) -> int:
        """Messages that could not be read."""
        return self._twin.damaged


class Producer(_Blocking[AsyncProducer]):
    """Blocking twin of rocketlake.Producer: `with Producer("group", namesrv=...) as producer: producer.send(...)`.

    The callback of `send_nowait` runs on the client's thread and must not block.
    """

    @_takes_what(AsyncProducer)
    def __init__(self) -> None: ...

    send = _waiting(AsyncProducer.send)
    request = _waiting(AsyncProducer.request)
    recall = _waiting(AsyncProducer.recall)
    replier = _on_loop(AsyncProducer.replier)
    send_oneway = _waiting(AsyncProducer.send_oneway)
    send_nowait = _on_loop(AsyncProducer.send_nowait)
    send_batch = _waiting(AsyncProducer.send_batch)
    flush = _waiting(AsyncProducer.flush)
    queues = _waiting(AsyncProducer.queues)


class TransactionProducer(_Blocking[AsyncTransactionProducer]):
    """Blocking twin of rocketlake.TransactionProducer; plain functions run on worker threads."""

    @_takes_what(AsyncTransactionProducer)
    def __init__(self) -> None: ...

    send_in_transaction = _waiting(AsyncTransactionProducer.send_in_transaction)
    send = _waiting(AsyncTransactionProducer.send)
    request = _waiting(AsyncTransactionProducer.request)
    recall = _waiting(AsyncTransactionProducer.recall)
    replier = _on_loop(AsyncTransactionProducer.replier)
    send_oneway = _waiting(AsyncTransactionProducer.send_oneway)
    send_nowait = _on_loop(AsyncTransactionProducer.send_nowait)
    send_batch = _waiting(AsyncTransactionProducer.send_batch)
    flush = _waiting(AsyncTransactionProducer.flush)
    queues = _waiting(AsyncTransactionProducer.queues)


class PushConsumer(_BlockingConsumer[AsyncPushConsumer]):
    """Blocking twin of rocketlake.PushConsumer; plain listeners run on worker threads."""

    @_takes_what(AsyncPushConsumer)
    def __init__(self) -> None: ...

    subscribe = _on_loop(AsyncPushConsumer.subscribe)
    unsubscribe = _on_loop(AsyncPushConsumer.unsubscribe)
    suspend = _on_loop(AsyncPushConsumer.suspend)
    resume = _on_loop(AsyncPushConsumer.resume)


class PullConsumer(_BlockingConsumer[AsyncPullConsumer]):
    """Blocking twin of rocketlake.PullConsumer."""

    @_takes_what(AsyncPullConsumer)
    def __init__(self) -> None: ...

    subscribe = _on_loop(AsyncPullConsumer.subscribe)
    unsubscribe = _on_loop(AsyncPullConsumer.unsubscribe)
    assign = _on_loop(AsyncPullConsumer.assign)
    fetch_queues = _waiting(AsyncPullConsumer.fetch_queues)
    poll = _waiting(AsyncPullConsumer.poll)
    position = _waiting(AsyncPullConsumer.position)
    seek = _waiting(AsyncPullConsumer.seek)
    seek_to_begin = _waiting(AsyncPullConsumer.seek_to_begin)
    seek_to_end = _waiting(AsyncPullConsumer.seek_to_end)
    offsets_for_time = _waiting(AsyncPullConsumer.offsets_for_time)
    begin_offset = _waiting(AsyncPullConsumer.begin_offset)
    end_offset = _waiting(AsyncPullConsumer.end_offset)
    pause = _on_loop(AsyncPullConsumer.pause)
    resume = _on_loop(AsyncPullConsumer.resume)
    commit = _waiting(AsyncPullConsumer.commit)
    committed = _waiting(AsyncPullConsumer.committed)


class Consumer(_BlockingConsumer[AsyncConsumer]):
    """Blocking twin of rocketlake.Consumer: `with Consumer("group", "topic") as c: for message in c: ...`."""

    @_takes_what(AsyncConsumer)
    def __init__(self) -> None: ...

    receive = _waiting(AsyncConsumer.receive)
    later = _on_loop(AsyncConsumer.later)

    def __iter__(self) -> Iterator[StoredMessage]:
        return self

    def __next__(self) -> StoredMessage:
        message = self.receive()
        if message is None:
            raise StopIteration
        return message
