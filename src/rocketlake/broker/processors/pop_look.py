"""NOTIFICATION, PEEK_MESSAGE, POLLING_INFO: what a pop would get, without taking it.

Owns        how long a notification waits, the answers.
Must not know   the checks (rights/pop.py), how queues are read (pop/pop_reads.py).
"""

from __future__ import annotations

from functools import partial

from rocketlake.base.clock import Clock
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.held.wait_list import Waiter
from rocketlake.broker.held.waiting_pops import left_ms
from rocketlake.broker.pop.pop_hold import PopHold, key_of
from rocketlake.broker.pop.pop_reads import Pop, PopReads
from rocketlake.broker.rights.pop import PopRights
from rocketlake.net.dispatcher import run_handler
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.headers.pop import (
    NotificationHeader,
    NotificationReplyHeader,
    PeekHeader,
    PollingInfoHeader,
    PollingInfoReplyHeader,
    PopReplyHeader,
)
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["PopLook"]


class PopLook:
    """Looks for messages."""

    def __init__(
        self,
        *,
        config: LiveConfig,
        rights: PopRights,
        reads: PopReads,
        pops: PopHold,
        hold: PopHold,
        clock: Clock,
    ) -> None:
        """`pops`: the pops that wait; `hold`: where notifications wait."""
        self._config = config
        self._rights = rights
        self._reads = reads
        self._pops = pops
        self._hold = hold
        self._clock = clock

    def notify(self, request: Request) -> Reply | Held:
        """NOTIFICATION: say that there is a message, as soon as there is one."""
        header = request.header(NotificationHeader)
        if header.born_time <= 0:
            header.born_time = self._clock.now_ms()
        return self._look(request, header)

    def peek(self, request: Request) -> Reply:
        """PEEK_MESSAGE: the messages that a pop would get, whatever its filter is."""
        header = request.header(PeekHeader)
        right = self._rights.admit(header, header.max_msg_nums, None, None)
        now_ms = self._clock.now_ms()
        found = self._reads.peek(Pop(right, header.queue_id, max(1, header.max_msg_nums), 0, 0, now_ms, 0))
        answer = PopReplyHeader(pop_time=now_ms, invisible_time=0, revive_qid=0, rest_num=found.rest)
        if not found.count:
            return Reply(ResponseCode.PULL_NOT_FOUND, header=answer, remark="no message")
        return Reply(header=answer, body=found.body(), remark="FOUND")

    def polling_info(self, request: Request) -> Reply:
        """POLLING_INFO: how many pops wait at a queue."""
        header = request.header(PollingInfoHeader)
        self._rights.readable(header)
        return Reply(header=PollingInfoReplyHeader(polling_num=self._pops.count_at(key_of(header))))

    def _look(self, request: Request, header: NotificationHeader) -> Reply | Held:
        right = self._rights.admit(header, 1, header.exp, header.exp_type)
        now_ms = self._clock.now_ms()
        pop = Pop(right, header.queue_id, 1, 0, 0, now_ms, 0, header.order, header.attempt_id)
        found = self._reads.peek(pop, chosen=True)
        wait_ms = left_ms(request, header, self._clock)
        # What lies on disk only is a message as well: the pop that follows reads it.
        if found.count or found.cold or found.is_more or wait_ms <= 0 or self._hold.is_closed:
            return _answer(has_message=bool(found.count or found.cold or found.is_more))
        key = key_of(header)
        if (
            not self._hold.has_room(request.asker)
            or self._hold.count_at(key) >= self._config.now.held_pops_of_queue_max
        ):
            return _answer(has_message=False, is_full=True)
        if found.free_ms:
            wait_ms = max(1, min(wait_ms, found.free_ms - now_ms))
        self._hold.hold(Waiter(key, -1, right.match, request.asker, partial(self._again, request, header)), wait_ms)
        return HELD

    def _again(self, request: Request, header: NotificationHeader) -> None:
        reply = run_handler(lambda request: self._look(request, header), request)
        if isinstance(reply, Reply):
            request.answer(reply)


def _answer(*, has_message: bool, is_full: bool = False) -> Reply:
    return Reply(header=NotificationReplyHeader(has_msg=has_message, polling_full=is_full))
