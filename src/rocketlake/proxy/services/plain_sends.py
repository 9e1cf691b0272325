"""Plain sends: one message that needs no protobuf object, to a broker whose link is ready. Served without a task.

Owns        when a send is plain, its request and its answer.
Must not know   the bytes of messages (convert/plain_messages.pyx), how brokers are asked (runs.py); any rule: what is
            not plain, or cannot be sent at once, goes the ordinary way (sends.py), which is the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from rocketlake.auth.action import Action, on_topic
from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError, RemoteError, RocketLakeError
from rocketlake.client.calls.send import Outgoing, SendStatus, result_of
from rocketlake.model.message_queue import MessageQueue
from rocketlake.net.gate.signing import Sign
from rocketlake.protocol.command import Command
from rocketlake.protocol.frame import encode_command
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.proxy.cluster import Cluster
from rocketlake.proxy.convert.limits import Limits
from rocketlake.proxy.convert.plain_answers import send_answer
from rocketlake.proxy.convert.plain_messages import PlainMessage, SendReader, frames
from rocketlake.proxy.convert.refusal import common_status, status_of
from rocketlake.proxy.http2.call import Call
from rocketlake.proxy.services.caller import Callers
from rocketlake.proxy.services.runs import PlainCall, Runs, Writes, serve
from rocketlake.proxy.services.sends import Sends, entry_of
from rocketlake.proxy.v2 import messages as v2

__all__ = ["PlainSends"]

_SEND_SECONDS: Final = 3.0
_FIXED_PARTS_MAX: Final = 10_000


@dataclass(slots=True)
class _Target:
    """Where the plain messages of one topic and type go in this turn."""

    topic: str
    queues: tuple[MessageQueue, ...]
    masters: dict[str, str] = field(default_factory=dict)
    """Addresses by broker name."""


class _Sent(PlainCall):
    """One send."""

    __slots__ = ("plain", "queue", "sends", "target")

    def __init__(
        self, sends: PlainSends, call: Call, request: bytes, plain: PlainMessage, target: _Target, queue: MessageQueue
    ) -> None:
        self.call = call
        self.request = request
        self.sends = sends
        self.plain = plain
        self.target = target
        self.queue = queue

    @property
    def outgoing(self) -> Outgoing:
        """The message as the ordinary way sends it."""
        plain = self.plain
        message_id, body = plain.message_id.decode(), bytes(plain.body)
        return Outgoing(self.target.topic, message_id, body, plain.properties, sys_flag=plain.sys_flag)

    def succeed(self, queue_offset: int, transaction_id: bytes, recall_handle: bytes) -> bool:
        """See PlainCall."""
        if queue_offset < 0:
            return False
        self.call.answer(send_answer(self.plain.message_id, queue_offset, transaction_id, recall_handle))
        return True

    def set_result(self, answer: Command) -> None:
        """See PlainCall."""
        self.sends.answered(self, answer)

    def set_exception(self, error: LinkError) -> None:
        """See PlainCall."""
        self.sends.failed(self, error)

    def give_up(self) -> None:
        """See PlainCall."""
        if not self.call.is_over:
            self.sends.ordinary(self.call, self.request)


class PlainSends:
    """Serves SendMessage."""

    def __init__(
        self,
        cluster: Cluster,
        callers: Callers,
        sends: Sends,
        limits: Callable[[], Limits],
        clock: Clock,
        *,
        ordinary: Callable[[Call, bytes], object],
        writes: Writes,
    ) -> None:
        """`ordinary`: serves a send that is not plain. `writes`: those of clients."""
        self.ordinary = ordinary
        self._cluster = cluster
        self._callers = callers
        self._sends = sends
        self._limits = limits
        self._clock = clock
        self._made_for = limits()
        self._reader = SendReader(self._made_for)
        self._runs = Runs(cluster.net, self._frames, writes, self._end_turn)
        self._fixed_parts: dict[tuple[str, str, int, int], bytes] = {}
        """What the requests of a kind to one queue have in common; see Sender.fixed_part."""
        self._in_turn = False
        self._now = self._until = 0.0
        self._now_ms = 0
        self._targets: dict[tuple[bytes, int], _Target] = {}
        """As of the first send of this turn, as are the times."""

    def serve(self, call: Call, message: bytes) -> None:
        """See Method."""
        serve(self._take, self.ordinary, call, message)

    def _take(self, call: Call, message: bytes) -> bool:
        """Put it into the run of its broker, if it is plain and allowed."""
        if not self._in_turn:
            self._begin_turn()
        plain = self._reader.read(message, call.link.address.encode(), self._now_ms)
        if plain is None or plain.type == v2.MessageType.TRANSACTION:
            return False
        target = self._targets.get((plain.topic, plain.type)) or self._find(plain)
        if target is None:
            return False
        if not self._callers.may_all(call):
            self._callers.of(call).need(on_topic(target.topic, Action.PUB))
        until, deadline = self._until, call.deadline
        if deadline is not None and deadline < until:
            until = deadline
            if until <= self._now:
                return False
        queue = self._sends.queue_of(plain.group.decode() if plain.group else "", target.queues)
        address = target.masters.get(queue.broker_name)
        if address is None:
            address = target.masters[queue.broker_name] = self._cluster.master(queue.broker_name)
        self._runs.add(address, _Sent(self, call, message, plain, target, queue), until)
        return True

    def _begin_turn(self) -> None:
        """Look at what may change between two turns of the loop."""
        self._runs.begin()
        self._in_turn = True
        limits = self._limits()
        if limits is not self._made_for:
            self._reader, self._made_for = SendReader(limits), limits
        self._now, self._now_ms = self._clock.monotonic(), self._clock.now_ms()
        self._until = self._now + _SEND_SECONDS

    def _end_turn(self) -> None:
        self._in_turn = False
        self._targets.clear()

    def _find(self, plain: PlainMessage) -> _Target | None:
        topic = plain.topic.decode("ascii")
        queues = self._cluster.known_queues(topic, plain.type)
        if not queues:
            return None
        target = self._targets[plain.topic, plain.type] = _Target(topic, queues)
        return target

    # -- requests ------------------------------------------------------------------------------------------------------

    def _frames(self, sent: list[_Sent], first: int) -> bytes:
        sign = self._cluster.net.sign
        if sign is not None:
            return b"".join([self._signed(each, first + number, sign) for number, each in enumerate(sent)])
        plain = [each.plain for each in sent]
        return frames(plain, [self._fixed(each) for each in sent], first, self._clock.now_ms())

    def _fixed(self, each: _Sent) -> bytes:
        queue = each.queue
        key = queue.topic, queue.broker_name, queue.queue_id, each.plain.sys_flag
        part = self._fixed_parts.get(key)
        if part is None:
            if len(self._fixed_parts) >= _FIXED_PARTS_MAX:
                self._fixed_parts.clear()
            part = self._fixed_parts[key] = self._sends.sender(each.target.topic).fixed_part(each.outgoing, queue)
        return part

    def _signed(self, each: _Sent, opaque: int, sign: Sign) -> bytes:
        born_ms = each.plain.born_ms if each.plain.born_ms >= 0 else self._clock.now_ms()
        command = self._sends.sender(each.target.topic).command(each.outgoing, each.queue, born_ms)
        command.opaque = opaque & 0x7FFFFFFF
        sign(command)
        return b"".join(encode_command(command))

    # -- answers -------------------------------------------------------------------------------------------------------

    def answered(self, each: _Sent, answer: Command) -> None:
        """An answer that is no plain success."""
        if answer.code == ResponseCode.GO_AWAY:  # not stored: the ordinary way asks on a new link
            each.give_up()
            return
        try:
            result = result_of(answer, each.outgoing, each.queue, "")
        except RocketLakeError as error:
            self.failed(each, error)
            return
        if result.status is SendStatus.OK:
            ids = result.transaction_id.encode(), result.recall_handle.encode()
            each.call.answer(send_answer(each.plain.message_id, result.queue_offset, *ids))
        else:
            _answer(each, entry_of(result))

    def failed(self, each: _Sent, error: RocketLakeError) -> None:
        """The broker has refused the message, or does not say what became of it."""
        if not isinstance(error, RemoteError):
            self._sends.doubt(each.target.topic)
        _answer(each, v2.SendResultEntry(status=status_of(error)))


def _answer(each: _Sent, entry: Any) -> None:
    each.call.refusal = v2.Code(entry.status.code).name
    each.call.answer(v2.SendMessageResponse(status=common_status([entry.status]), entries=[entry]).SerializeToString())
