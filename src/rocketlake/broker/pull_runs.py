"""Runs of plain pulls: what consumers over a backlog send nearly always, answered as they are received.

Owns        when pulls may be taken from a chunk.
Must not know   bytes of frames (plain_pull.pyx), the checks of a pull, how records are found.

A run is plain pulls in a row, in one received chunk, that find records in memory. Every other one is left to
processors/pull.py, which also does the checks, the reading and the counting of those in a run.
Walk through it: docs/internals/hot_path.md.
"""

from __future__ import annotations

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RocketLakeError
from rocketlake.broker import plain_pull
from rocketlake.broker.processors.pull import BYTES_MAX, MESSAGES_MAX, Admission, Pull, reply_of
from rocketlake.net.link import Link
from rocketlake.protocol.command import Buffer, Codec, Command
from rocketlake.protocol.frame import PREFIX_BYTES, encode_command
from rocketlake.protocol.limits import WireLimits
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store import plain_fetch
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import GetResult, GetStatus

__all__ = ["PullRuns"]

# Values that stand out, to find their places in an answer of the ordinary path.
_NUMBERS = (1999999991, 1999999992, 1999999993, 1999999994, 1999999995)
_OPAQUE = 1999999996

_BYTES_MAX = 4 * 1024 * 1024
"""Larger answers are left to the ordinary path: it knows what to say if no frame can hold one."""
_ADMISSIONS_MAX = 256


class PullRuns:
    """Serves runs of plain pulls for the dispatcher (Dispatcher.serve_runs)."""

    def __init__(self, pull: Pull, store: MessageStore, wire: WireLimits, clock: Clock) -> None:
        self._clock = clock
        self._pull = pull
        self._find_queue = store.queues.find
        self._fetch = plain_fetch.PlainFetch(store.fetch)
        self._cut = plain_pull.PlainPullCutter(wire.frame_bytes, wire.header_bytes).cut
        self._head = _found_answer().head
        self._admissions: dict[object, Admission] = {}
        self._kind: object = None
        self._admission: Admission | None = None

    def serve(self, link: Link, ready: bytes, position: int, turn_end: float) -> int:
        """Answer the plain pulls of `ready` from `position` on; returns where they end.

        Flow control: no pull is too old, as those that waited in line would not be in the ordinary path.
        """
        clock, cut = self._clock.monotonic, self._cut
        if clock() >= turn_end or not link.writable or (pull := cut(ready, position)) is None:
            return position
        # What is looked up from here on holds until the end: nothing else runs meanwhile.
        self._kind = self._admission = None
        self._fetch.begin()
        try:
            while pull is not None and (answer := self._answer(pull)) is not None:
                link.write_answers(answer)
                position = pull.end
                pull = cut(ready, position) if clock() < turn_end and link.writable else None
        except (RocketLakeError, OSError):
            pass  # the ordinary path says it to the consumer
        finally:
            self._fetch.end()
        return position

    def _answer(self, pull: plain_pull.PlainPull) -> list[Buffer] | None:
        """The answer to a pull that finds records in memory, noted and counted; None, nothing done, for any other."""
        queue = self._find_queue(pull.topic, pull.queue_id)
        if queue is None or pull.queue_offset >= queue.max_offset:
            return None  # the usual pull of a consumer that keeps up: not even looked at twice
        admission = self._admit(pull)
        if admission is None or self._pull.must_wait(pull):
            return None
        if not 0 <= pull.queue_id < admission.topic.read_queues or pull.max_msg_nums < 1:
            return None  # what the checks say of each single pull
        fetch = self._fetch
        bytes_max = BYTES_MAX if pull.max_msg_bytes is None else pull.max_msg_bytes
        messages_max = min(pull.max_msg_nums, MESSAGES_MAX)
        if not fetch.fetch(queue, pull.queue_offset, messages_max, bytes_max, admission.match):
            return None
        next_offset, size = fetch.next_offset, fetch.size
        if size > _BYTES_MAX:
            return None
        self._pull.note_found(pull, next_offset, fetch.count, size)
        topic, group = admission.topic, admission.group
        head = self._head(pull, next_offset, fetch.min_offset, fetch.max_offset, topic.sys_flag, group.sys_flag, size)
        return fetch.framed(head)

    def _admit(self, pull: plain_pull.PlainPull) -> Admission | None:
        """What lets the pull in: as the last one of this turn, as one before if that is in force, or the checks."""
        kind = pull.kind
        if kind == self._kind:
            return self._admission
        admission = self._admissions.get(kind)
        if admission is None or not self._pull.is_in_force(admission):
            admission = self._pull.admit(pull)
            if admission is None:
                self._admissions.pop(kind, None)
                return None
            if len(self._admissions) >= _ADMISSIONS_MAX:
                self._admissions.clear()
            self._admissions[kind] = admission
        self._kind, self._admission = kind, admission
        return admission


def _found_answer() -> plain_pull.FoundAnswer:
    """An answer of the ordinary path, cut at the values that differ from answer to answer."""
    next_offset, low, high, topic_flag, group_flag = _NUMBERS
    result = GetResult(GetStatus.FOUND, next_offset=next_offset, min_offset=low, max_offset=high)

    def header(codec: Codec) -> bytes:
        asked = Command(RequestCode.PULL_MESSAGE, opaque=_OPAQUE, codec=codec)
        reply = reply_of(ResponseCode.SUCCESS, result, topic_flag, group_flag)
        return bytes(encode_command(reply.to_command(asked))[0][PREFIX_BYTES:])

    json = _parts(header(Codec.JSON), [str(value).encode() for value in (*_NUMBERS, _OPAQUE)])
    binary = header(Codec.ROCKETMQ)
    digits = [str(value).encode() for value in _NUMBERS]
    start, rest = _parts(binary, [_OPAQUE.to_bytes(4, "big")])
    first, *others = _parts(rest, [len(text).to_bytes(4, "big") + text for text in digits])
    fields_at = 17 + len(GetStatus.FOUND.name) + 4 - len(start) - 4  # behind the remark and the length
    return plain_pull.FoundAnswer(json, (start, first[: fields_at - 4], first[fields_at:], *others))


def _parts(text: bytes, values: list[bytes]) -> tuple[bytes, ...]:
    """The text between these values, which come in this order."""
    parts = []
    for value in values:
        part, _, text = text.partition(value)
        parts.append(part)
    return (*parts, text)
