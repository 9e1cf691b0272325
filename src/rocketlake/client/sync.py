"""The blocking twin of the client: the same names and arguments, for programs without an event loop.

Owns        the blocking twins. Arguments, types and docstrings are those of the async twin's methods; only `instance=`
            cannot be given.
Must not know   how messages are sent or consumed: every call runs the async twin on the shared thread and waits
                (loop_thread.py).

Use from any thread. A client does not survive `fork()`: make it in the child.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeVar

from rocketlake.client.consumer.consumer import Consumer as AsyncConsumer
from rocketlake.client.consumer.pops.lite import LiteSimpleConsumer as AsyncLiteSimpleConsumer
from rocketlake.client.consumer.pops.simple import SimpleConsumer as AsyncSimpleConsumer
from rocketlake.client.consumer.pull import PullConsumer as AsyncPullConsumer
from rocketlake.client.consumer.push import PushConsumer as AsyncPushConsumer
from rocketlake.client.loop_thread import AsyncClient, Blocking, on_loop, takes_what, waiting
from rocketlake.client.producer.producer import Producer as AsyncProducer
from rocketlake.client.producer.transaction import TransactionProducer as AsyncTransactionProducer
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue

__all__ = [
    "Consumer",
    "LiteSimpleConsumer",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "SimpleConsumer",
    "TransactionProducer",
]


class _AsyncConsumer(AsyncClient, Protocol):
    @property
    def assignment(self) -> list[MessageQueue]: ...

    @property
    def damaged(self) -> int: ...


C = TypeVar("C", bound=_AsyncConsumer)


class _BlockingConsumer(Blocking[C]):
    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues this member reads now."""
        return self._call(lambda: self._twin.assignment)

    @property
    def damaged(self) -> int:
        """Messages that could not be read."""
        return self._twin.damaged


class Producer(Blocking[AsyncProducer]):
    """Blocking twin of rocketlake.Producer: `with Producer("group", namesrv=...) as producer: producer.send(...)`.

    The callback of `send_nowait` runs on the client's thread and must not block.
    """

    @takes_what(AsyncProducer)
    def __init__(self) -> None: ...

    send = waiting(AsyncProducer.send)
    request = waiting(AsyncProducer.request)
    recall = waiting(AsyncProducer.recall)
    replier = on_loop(AsyncProducer.replier)
    send_oneway = waiting(AsyncProducer.send_oneway)
    send_nowait = on_loop(AsyncProducer.send_nowait)
    send_batch = waiting(AsyncProducer.send_batch)
    flush = waiting(AsyncProducer.flush)
    queues = waiting(AsyncProducer.queues)


class TransactionProducer(Blocking[AsyncTransactionProducer]):
    """Blocking twin of rocketlake.TransactionProducer; plain functions run on worker threads."""

    @takes_what(AsyncTransactionProducer)
    def __init__(self) -> None: ...

    send_in_transaction = waiting(AsyncTransactionProducer.send_in_transaction)
    send = waiting(AsyncTransactionProducer.send)
    request = waiting(AsyncTransactionProducer.request)
    recall = waiting(AsyncTransactionProducer.recall)
    replier = on_loop(AsyncTransactionProducer.replier)
    send_oneway = waiting(AsyncTransactionProducer.send_oneway)
    send_nowait = on_loop(AsyncTransactionProducer.send_nowait)
    send_batch = waiting(AsyncTransactionProducer.send_batch)
    flush = waiting(AsyncTransactionProducer.flush)
    queues = waiting(AsyncTransactionProducer.queues)


class PushConsumer(_BlockingConsumer[AsyncPushConsumer]):
    """Blocking twin of rocketlake.PushConsumer; plain listeners run on worker threads."""

    @takes_what(AsyncPushConsumer)
    def __init__(self) -> None: ...

    subscribe = on_loop(AsyncPushConsumer.subscribe)
    unsubscribe = on_loop(AsyncPushConsumer.unsubscribe)
    suspend = on_loop(AsyncPushConsumer.suspend)
    resume = on_loop(AsyncPushConsumer.resume)


class PullConsumer(_BlockingConsumer[AsyncPullConsumer]):
    """Blocking twin of rocketlake.PullConsumer."""

    @takes_what(AsyncPullConsumer)
    def __init__(self) -> None: ...

    subscribe = on_loop(AsyncPullConsumer.subscribe)
    unsubscribe = on_loop(AsyncPullConsumer.unsubscribe)
    assign = on_loop(AsyncPullConsumer.assign)
    fetch_queues = waiting(AsyncPullConsumer.fetch_queues)
    poll = waiting(AsyncPullConsumer.poll)
    position = waiting(AsyncPullConsumer.position)
    seek = waiting(AsyncPullConsumer.seek)
    seek_to_begin = waiting(AsyncPullConsumer.seek_to_begin)
    seek_to_end = waiting(AsyncPullConsumer.seek_to_end)
    offsets_for_time = waiting(AsyncPullConsumer.offsets_for_time)
    begin_offset = waiting(AsyncPullConsumer.begin_offset)
    end_offset = waiting(AsyncPullConsumer.end_offset)
    pause = on_loop(AsyncPullConsumer.pause)
    resume = on_loop(AsyncPullConsumer.resume)
    commit = waiting(AsyncPullConsumer.commit)
    committed = waiting(AsyncPullConsumer.committed)


class SimpleConsumer(Blocking[AsyncSimpleConsumer]):
    """Blocking twin of rocketlake.SimpleConsumer. A renewal goes on in the background while you work."""

    @takes_what(AsyncSimpleConsumer)
    def __init__(self) -> None: ...

    subscribe = on_loop(AsyncSimpleConsumer.subscribe)
    unsubscribe = on_loop(AsyncSimpleConsumer.unsubscribe)
    receive = waiting(AsyncSimpleConsumer.receive)
    ack = waiting(AsyncSimpleConsumer.ack)
    change_invisible = waiting(AsyncSimpleConsumer.change_invisible)

    @property
    def damaged(self) -> int:
        """Messages that could not be read."""
        return self._twin.damaged


class LiteSimpleConsumer(Blocking[AsyncLiteSimpleConsumer]):
    """Blocking twin of rocketlake.LiteSimpleConsumer."""

    @takes_what(AsyncLiteSimpleConsumer)
    def __init__(self) -> None: ...

    subscribe_lite = waiting(AsyncLiteSimpleConsumer.subscribe_lite)
    unsubscribe_lite = waiting(AsyncLiteSimpleConsumer.unsubscribe_lite)
    receive = waiting(AsyncLiteSimpleConsumer.receive)
    ack = waiting(AsyncLiteSimpleConsumer.ack)
    change_invisible = waiting(AsyncLiteSimpleConsumer.change_invisible)

    @property
    def lite_topics(self) -> frozenset[str]:
        """What it subscribes to."""
        return self._call(lambda: self._twin.lite_topics)

    @property
    def damaged(self) -> int:
        """Messages that could not be read."""
        return self._twin.damaged


class Consumer(_BlockingConsumer[AsyncConsumer]):
    """Blocking twin of rocketlake.Consumer: `with Consumer("group", "topic") as c: for message in c: ...`."""

    @takes_what(AsyncConsumer)
    def __init__(self) -> None: ...

    receive = waiting(AsyncConsumer.receive)
    later = on_loop(AsyncConsumer.later)

    def __iter__(self) -> Iterator[StoredMessage]:
        return self

    def __next__(self) -> StoredMessage:
        message = self.receive()
        if message is None:
            raise StopIteration
        return message
