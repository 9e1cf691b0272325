"""Runs of plain pops: answered as they are received, without a command and its fields.

Owns        when pops may be taken from a chunk, the one write of their check points, the bytes of the header of an
            answer.
Must not know   bytes of requests (plain_pop.pyx), the checks of a pop, how queues are read, how a pop waits.

processors/pop.py serves every other pop, gives the checks and the reading, and goes on with a pop that finds nothing.
Walk through it: docs/internals/hot_path.md.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RocketLakeError
from rocketlake.broker.hot.pops import plain_pop
from rocketlake.broker.pop.pop_reads import Pop
from rocketlake.broker.pop.popped import Popped
from rocketlake.broker.processors.pop import PopMessage, answer_of
from rocketlake.broker.rights.pop import PopRight
from rocketlake.broker.rights.refusal import Refused
from rocketlake.net.request import HELD, FrameAsker, Request
from rocketlake.protocol.command import Buffer, Codec, Command
from rocketlake.protocol.connection import Connection
from rocketlake.protocol.frame import PREFIX_BYTES, encode_command
from rocketlake.protocol.limits import WireLimits
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.results import GetStatus

__all__ = ["PopRuns"]

_RIGHTS_MAX: Final = 256
_PREFIX: Final = struct.Struct(">iI")
"""Bytes of the frame behind the first four, bytes of its header (JSON)."""
_SIZE_BYTES: Final = 4
_POPS_MAX: Final = 16
_BYTES_MAX: Final = 1 << 20
"""What is found for one run: only behind it can the link say that its peer is behind."""


class _Served(NamedTuple):
    """A pop of a run."""

    asked: plain_pop.PlainPop
    start: int
    """Where it starts in its chunk."""
    pop: Pop
    found: Popped


class PopRuns:
    """Serves runs of plain pops for the dispatcher (Dispatcher.serve_runs)."""

    def __init__(self, pop: PopMessage, wire: WireLimits, clock: Clock) -> None:
        self._pop = pop
        self._wire = wire
        self._clock = clock
        self._cut = plain_pop.PlainPopCutter(wire.frame_bytes, wire.header_bytes).cut
        self._rights: dict[object, PopRight] = {}
        self._header = _header_of_found()
        self._refused = b""
        """The chunk whose last run was not stored: the ordinary path serves its other pops."""

    def serve(self, link: FrameAsker, ready: bytes, position: int, turn_end: float) -> int:
        """Answer or hold the plain pops of `ready` from `position` on; returns where they end."""
        group = [] if ready is self._refused else self._find(link, ready, position, turn_end)
        if not group:
            return position
        if not self._hand_out(group):
            self._refused = ready
            return position
        for each in group:
            if each.found.count:
                self._pop.handed_out(each.asked, each.found)
                link.write_answers(self._answer(each))
            else:
                self._go_on(link, each, ready[each.start : each.asked.end])
        return group[-1].asked.end

    def _find(self, link: FrameAsker, ready: bytes, position: int, turn_end: float) -> list[_Served]:
        """Plain pops in a row and what they found; the last one may have found nothing."""
        group: list[_Served] = []
        size, is_last, reads = 0, False, self._pop.reads
        try:
            with reads.turn:
                while not is_last and link.writable and link.room_to_hold > 0 and self._clock.monotonic() < turn_end:
                    asked = self._cut(ready, position)
                    right = None if asked is None else self._admit(asked)
                    if asked is None or right is None or not self._is_plain(asked, right):
                        break
                    pop = self._pop.asked(asked, right)
                    found = reads.find(pop)
                    group.append(_Served(asked, position, pop, found))
                    position = asked.end
                    size += found.bytes
                    is_last = not found.count or size >= _BYTES_MAX or len(group) == _POPS_MAX
        except (RocketLakeError, OSError):
            pass  # the ordinary path meets the same error and tells the consumer
        except BaseException:
            reads.take_back([(each.pop, each.found) for each in group])
            raise
        return group

    def _hand_out(self, group: list[_Served]) -> bool:
        try:
            return self._pop.reads.hand_out([(each.pop, each.found) for each in group])
        except (RocketLakeError, OSError):
            return False

    def _is_plain(self, asked: plain_pop.PlainPop, right: PopRight) -> bool:
        pops = self._pop
        return (
            right.group.name not in pops.groups.unsaved
            and pops.is_ready()
            and not pops.quotas.is_any
            and pops.reads.can_hand_out_together(asked.invisible_time)
            and not pops.waiting.is_given_up(asked.born_time, asked.poll_time)
        )

    def _go_on(self, link: FrameAsker, served: _Served, frame: bytes) -> None:
        """Have a pop that found nothing wait, or answer it."""
        request = Request(Connection(limits=self._wire).cut(frame)[0], link, self._clock.monotonic())
        request.user = link.user
        reply = self._pop.found_nothing(request, served.pop, served.found)
        if reply is not HELD:
            link.answer(request, reply)
        elif not request.answered:
            request.counted = True
            link.held += 1

    def _answer(self, served: _Served) -> list[Buffer]:
        asked, _, pop, found = served
        starts, offsets = ";".join(found.starts), ";".join(found.offsets)
        marks = pop.pop_ms, pop.invisible_ms, pop.revive_queue
        head = (self._header % (*marks, found.rest, starts, offsets, asked.opaque)).encode()
        prefix = _PREFIX.pack(PREFIX_BYTES - _SIZE_BYTES + len(head) + found.bytes, len(head))
        return [prefix + head, *found.body()]

    def _admit(self, asked: plain_pop.PlainPop) -> PopRight | None:
        """The right of this kind of pop: an earlier one if in force, or a new one; None if the pop is refused."""
        rights, kind = self._pop.rights, asked.kind
        right = self._rights.get(kind)
        if right is not None and rights.is_in_force(right):
            return right
        try:
            right = rights.admit(asked, asked.max_msg_nums, asked.exp, asked.exp_type)
        except Refused:
            self._rights.pop(kind, None)
            return None
        if len(self._rights) >= _RIGHTS_MAX:
            self._rights.clear()
        self._rights[kind] = right
        return right


def _header_of_found() -> str:
    """The header of an answer of the ordinary path, as a format for what differs from answer to answer.

    That is: time of the pop, invisible time, revive queue, messages left, start offsets, offsets, opaque.
    """
    numbers = (1999999991, 1999999992, 1999999993, 1999999994, 1999999995)  # they occur nowhere else in it
    *marks, rest, opaque = numbers
    found = Popped(rest=rest, starts=["<starts>"], offsets=["<offsets>"])
    reply = answer_of(ResponseCode.SUCCESS, GetStatus.FOUND, (marks[0], marks[1], marks[2]), found)
    asked = Command(RequestCode.POP_MESSAGE, opaque=opaque, codec=Codec.JSON)
    header = bytes(encode_command(reply.to_command(asked))[0][PREFIX_BYTES:]).decode().replace("%", "%%")
    for number in numbers:
        header = header.replace(str(number), "%d")
    return header.replace("<starts>", "%s").replace("<offsets>", "%s")
