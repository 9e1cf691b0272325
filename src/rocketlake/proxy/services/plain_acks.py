"""Plain acknowledgements: of one message, to a broker whose link is ready. Served without a task.

Owns        when an acknowledgement is plain, its request and its answer.
Must not know   how brokers are asked (runs.py); any rule: what is not plain, and what a broker does not say SUCCESS to,
            goes the ordinary way (acks.py), which is the truth. An acknowledgement may be repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rocketlake.auth.action import Action, on_group, on_topic
from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError
from rocketlake.net.gate.signing import Sign
from rocketlake.protocol.command import Command
from rocketlake.protocol.frame import encode_command
from rocketlake.proxy.cluster import ASK_MS, Cluster
from rocketlake.proxy.convert.names import group_named, topic_named
from rocketlake.proxy.convert.plain_answers import ack_answer, read_acks
from rocketlake.proxy.convert.receipts import Receipt
from rocketlake.proxy.http2.call import Call
from rocketlake.proxy.services.caller import Callers
from rocketlake.proxy.services.received import ack_frame, ack_request
from rocketlake.proxy.services.renewals import Renewals
from rocketlake.proxy.services.runs import PlainCall, Runs, Writes, serve

__all__ = ["PlainAcks"]

_ASK_SECONDS: Final = ASK_MS / 1000


class _Acked(PlainCall):
    """One acknowledgement."""

    __slots__ = ("acks", "asked", "entry", "handle")

    def __init__(
        self,
        acks: PlainAcks,
        call: Call,
        request: bytes,
        entry: tuple[bytes, bytes],
        handle: str,
        asked: tuple[str, str, Receipt],
    ) -> None:
        """`entry`: message id and handle, as they came. `asked`: topic, group, and the receipt that counts."""
        super().__init__(call, request)
        self.acks = acks
        self.entry = entry
        self.handle = handle
        self.asked = asked

    def succeed(self, queue_offset: int, transaction_id: bytes, recall_handle: bytes) -> bool:
        """See PlainCall."""
        self.acks.renewals.finish(self.handle, is_done=True)
        self.call.answer(ack_answer([self.entry]))
        return True

    def set_result(self, answer: Command) -> None:
        """See PlainCall."""
        self.give_up()

    def set_exception(self, error: LinkError) -> None:
        """See PlainCall."""
        self.give_up()

    def give_up(self) -> None:
        """See PlainCall."""
        self.acks.renewals.finish(self.handle, is_done=False)
        if not self.call.is_over:
            self.acks.ordinary(self.call, self.request)


class PlainAcks:
    """Serves AckMessage."""

    def __init__(
        self,
        cluster: Cluster,
        callers: Callers,
        renewals: Renewals,
        clock: Clock,
        *,
        ordinary: Callable[[Call, bytes], object],
        writes: Writes,
    ) -> None:
        """`ordinary`: serves an acknowledgement that is not plain. `writes`: those of clients."""
        self.renewals = renewals
        self.ordinary = ordinary
        self._cluster = cluster
        self._callers = callers
        self._clock = clock
        self._runs = Runs(cluster.net, self._frames, writes)

    def serve(self, call: Call, message: bytes) -> None:
        """See Method."""
        serve(self._take, self.ordinary, call, message)

    def _take(self, call: Call, message: bytes) -> bool:
        """Put it into the run of its broker, if it is plain and allowed."""
        read = read_acks(message)
        if read is None or len(read[2]) != 1:
            return False
        group, topic = group_named(read[0].decode("ascii")), topic_named(read[1].decode("ascii"))
        if not self._callers.may_all(call):
            self._callers.of(call).need(on_group(group, Action.SUB), on_topic(topic, Action.SUB))
        now = self._clock.monotonic()
        until = now + _ASK_SECONDS if call.deadline is None else min(call.deadline, now + _ASK_SECONDS)
        handle = read[2][0][1].decode("ascii")
        if until <= now or not self.renewals.is_free(handle):
            return False
        receipt = self.renewals.receipt(handle)
        if receipt.lite:
            return False
        address = self._cluster.master(receipt.handle.broker_name)
        acked = _Acked(self, call, message, read[2][0], handle, (topic, group, receipt))
        self.renewals.begin(handle)
        self._runs.add(address, acked, until)
        return True

    def _frames(self, calls: list[_Acked], first: int) -> bytes:
        sign = self._cluster.net.sign
        opaques = [first + number & 0x7FFFFFFF for number in range(len(calls))]
        if sign is None:
            return b"".join([ack_frame(*each.asked, opaque) for each, opaque in zip(calls, opaques, strict=True)])
        return b"".join([_signed(each, opaque, sign) for each, opaque in zip(calls, opaques, strict=True)])


def _signed(each: _Acked, opaque: int, sign: Sign) -> bytes:
    asked = ack_request(*each.asked)
    asked.opaque = opaque
    sign(asked)
    return b"".join(encode_command(asked))
