"""Requests on their way: several at once, one for a queue, each tried again until its time is over.

Owns        the requests under way and waiting, the time of the next try, the error that ends a task.
Must not know   rows, how a request is made, how queues are chosen.

One request for a queue is under way at a time: no request overtakes one that is tried again, so rows keep their order
in their queue, and sequence numbers have no gaps.

Two threads: the task's thread hands requests in and waits for room, that of the event loop does the rest.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from rocketlake.base.errors import LinkError, RemoteError, RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.client.wire import SENT_TO_THE_SAME_QUEUE, STORED_UNSURELY, Outgoing, is_of_slave, refusal
from rocketlake.model.message_queue import MessageQueue
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.send import SendReplyHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.spark.sink.counts import Counts
from rocketlake.spark.sink.options import SinkOptions

__all__ = ["SendRequest", "Sending", "SinkCluster", "WriteFailed"]

_log = get_logger(__name__)

_WAITING_MAX_FACTOR = 3
"""Requests that are made or under way, as a multiple of option inFlight."""
_PAUSE_MAX_SECONDS = 5.0

_HINTS: dict[int, str] = {
    ResponseCode.MESSAGE_ILLEGAL: "if it is too long: the broker's maxMessageSize bounds a whole request; lower"
    " 'batchBytes', or 'maxMessageBytes'",
}


class WriteFailed(RocketLakeError):
    """A task could not hand in all of its rows."""


@dataclass(slots=True)
class SendRequest:
    """One request. `others`: queues that may take the request after a failure."""

    queue: MessageQueue
    outgoing: Outgoing
    messages: int
    others: tuple[MessageQueue, ...] = ()


class SinkCluster(Protocol):
    """The cluster as the sink sees it; all methods but `run_soon` are called on the loop's thread."""

    def run_soon(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        """Start this on the loop's thread."""

    async def queues(self, topic: str, *, must_exist: bool) -> tuple[MessageQueue, ...]:
        """Queues to write to. NoRoute for a topic without a broker; with `must_exist` also for one not made yet."""

    async def send(self, queue: MessageQueue, outgoing: Outgoing, timeout_ms: int) -> Command:
        """One try. Raises LinkError without an answer."""

    async def pause(self, queue: MessageQueue, seconds: float) -> None:
        """Wait before the next try, but not when the queue's broker has a new master."""

    async def sleep(self, seconds: float) -> None:
        """Wait on this cluster's clock."""

    def monotonic(self) -> float:
        """Seconds of this cluster's clock."""


@dataclass(slots=True)
class _Lane:
    """Requests for one queue, in order."""

    waiting: deque[SendRequest] = field(default_factory=deque)
    is_running: bool = False


class Sending:
    """All requests of one task."""

    def __init__(self, cluster: SinkCluster, options: SinkOptions, counts: Counts) -> None:
        """`counts`: its messages, requests and so on are counted here."""
        self._cluster = cluster
        self._options = options
        self._counts = counts
        self._lanes: dict[MessageQueue, _Lane] = {}
        self._slots = asyncio.Semaphore(options.in_flight)
        self._room = threading.Semaphore(options.in_flight * _WAITING_MAX_FACTOR)
        self._unfinished = 0
        self._all_done = threading.Condition()
        self._works: set[Future[None]] = set()
        self._error: BaseException | None = None
        self.stored: dict[MessageQueue, int] = {}
        """Messages of this task's batch that a queue holds, as the last answer to a replay said."""

    # -- on the task's thread ------------------------------------------------------------------------------------------

    def put(self, request: SendRequest) -> None:
        """Hand in a request; waits while too many are on their way. Raises the error of an earlier one."""
        self._room.acquire()
        self._raise_error()
        with self._all_done:
            self._unfinished += 1
            lane = self._lanes.setdefault(request.queue, _Lane())
            lane.waiting.append(request)
            starts = not lane.is_running
            lane.is_running = True
        if starts:
            work = self._cluster.run_soon(self._drain(lane))
            self._works.add(work)
            work.add_done_callback(self._works.discard)

    def finish(self) -> None:
        """Wait until all requests are answered. Raises the error of one that failed."""
        with self._all_done:
            self._all_done.wait_for(lambda: self._unfinished == 0 or self._error is not None)
        self._raise_error()

    def cancel(self) -> None:
        """Give up the requests on their way."""
        for work in list(self._works):
            work.cancel()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    # -- on the loop's thread ------------------------------------------------------------------------------------------

    async def _drain(self, lane: _Lane) -> None:
        """Send the requests of a lane, one after the other."""
        while True:
            with self._all_done:
                if not lane.waiting or self._error is not None:
                    lane.is_running = False
                    return
                request = lane.waiting.popleft()
            try:
                async with self._slots:
                    await self._send(request)
            except BaseException as error:
                self._fail(error)
                if not isinstance(error, Exception):
                    raise
            with self._all_done:
                self._unfinished -= 1
                self._all_done.notify_all()
            self._room.release()

    def _fail(self, error: BaseException) -> None:
        with self._all_done:
            if self._error is None:
                self._error = error
            self._all_done.notify_all()
        self._room.release()  # a task that waits for room must see the error

    async def _send(self, request: SendRequest) -> None:
        """Try until it is stored. Raises WriteFailed."""
        options, cluster = self._options, self._cluster
        deadline = cluster.monotonic() + options.delivery_timeout_ms / 1000
        pause = options.retry_interval_ms / 1000
        queue, tries = request.queue, 0
        while True:
            tries += 1
            left_ms = max(1, int((deadline - cluster.monotonic()) * 1000))
            try:
                answer = await cluster.send(queue, request.outgoing, min(options.send_timeout_ms, left_ms))
                if self._is_stored(answer, request):
                    return
                error: RocketLakeError = _refusal(answer, queue)
                may_pass = answer.code in SENT_TO_THE_SAME_QUEUE or answer.code in STORED_UNSURELY
            except LinkError as broken:
                error, may_pass = broken, True
            except RemoteError as refused:  # of the name server
                error, may_pass = refused, True
            if not may_pass or cluster.monotonic() + pause > deadline:
                raise self._failure(request, queue, tries, error) from error
            self._counts.retries += 1
            _log.warning("rocketmq sink: %d messages to %s, try %d: %s", request.messages, queue, tries, error)
            await cluster.pause(queue, pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _PAUSE_MAX_SECONDS)
            queue = _other(request, queue)

    def _is_stored(self, answer: Command, request: SendRequest) -> bool:
        """Count a request whose messages the broker has."""
        if is_of_slave(answer):
            return False
        if answer.code in STORED_UNSURELY and not self._options.effectively_once:
            # A second try would store the messages twice; how much the delay of a sync or copy matters is set at the
            # broker.
            self._counts.unsure += 1
        elif answer.code != ResponseCode.SUCCESS:
            return False
        counts = self._counts
        counts.messages += request.messages
        counts.requests += 1
        counts.bytes += len(request.outgoing.body)
        header = answer.header(SendReplyHeader)
        if header.known:
            counts.replayed += header.known
            self.stored[request.queue] = header.next_number or 0
        return True

    def _failure(self, request: SendRequest, queue: MessageQueue, tries: int, error: RocketLakeError) -> WriteFailed:
        counts, seconds = self._counts, self._options.delivery_timeout_ms / 1000
        return WriteFailed(
            f"{request.messages} messages to {queue} were not stored after {tries} tries: {error.what};"
            f" {counts.messages} others of this task are",
            where=error.where,
            hint=error.hint
            or f"look at the broker; 'deliveryTimeoutMs' lets the sink try for longer than {seconds:g} s",
        )


def _refusal(answer: Command, queue: MessageQueue) -> RocketLakeError:
    return refusal(answer, int(RequestCode.SEND_BATCH_MESSAGE), queue.broker_name, _HINTS)


def _other(request: SendRequest, queue: MessageQueue) -> MessageQueue:
    """The queue of the next try: at another broker if the request may change its queue."""
    elsewhere = [other for other in request.others if other.broker_name != queue.broker_name]
    return random.choice(elsewhere) if elsewhere else queue


Connect = Callable[[SinkOptions], SinkCluster]
