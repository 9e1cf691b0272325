"""Runs of plain pulls, the pulls that consumers send nearly always: answered or held as they are received.

Owns        when pulls may be taken from a chunk; how a plain pull that was held is answered.
Must not know   bytes of frames (plain_pull.pyx), the checks of a pull, how records are found, how waiting works.

A run is plain pulls in a row, in one received chunk, that find records in memory, or come to the end of their queue and
wait there. processors/pull.py serves every other pull. Both ways are made of the same parts: the checks (rights/), the
waiting and the counting (reads/). A plain pull that was held is answered here if it then finds records in memory; if
not, processors/pull.py answers it.
Walk through it: docs/internals/hot_path.md.
"""

from __future__ import annotations

from functools import partial

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RocketLakeError
from rocketlake.broker.hot import plain_pull
from rocketlake.broker.processors.pull import Pull
from rocketlake.broker.reads.pull_answer import reply_of
from rocketlake.broker.reads.queue_reads import BYTES_MAX, MESSAGES_MAX
from rocketlake.broker.rights.read import INNER_TOPICS, Admission
from rocketlake.broker.rights.refusal import Refused
from rocketlake.model.positions import QueueOffset
from rocketlake.net.request import FrameAsker, Request
from rocketlake.protocol.command import Buffer, Codec, Command
from rocketlake.protocol.connection import Connection
from rocketlake.protocol.frame import PREFIX_BYTES, encode_command
from rocketlake.protocol.headers.pull import PULL_SUSPEND
from rocketlake.protocol.limits import WireLimits
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store import plain_fetch
from rocketlake.store.consume_queue.queue import ConsumeQueue
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import GetResult, GetStatus

__all__ = ["PullRuns"]

# Values that occur nowhere else in an answer of the ordinary path: they show where the values stand.
_NUMBERS = (1999999991, 1999999992, 1999999993, 1999999994, 1999999995)
_OPAQUE = 1999999996

_BYTES_MAX = 4 * 1024 * 1024
"""The ordinary path gives larger answers: it has the error for one that no frame can hold."""
_ADMISSIONS_MAX = 256


class PullRuns:
    """Serves runs of plain pulls for the dispatcher (Dispatcher.serve_runs)."""

    def __init__(self, pull: Pull, store: MessageStore, wire: WireLimits, clock: Clock) -> None:
        self._clock = clock
        self._rights = pull.rights
        self._has_reset = pull.reads.has_reset
        self._progress = pull.progress
        self._waiting = pull.waiting
        self._serve_again = pull.serve_again
        self._replicas = pull.replicas
        self._quotas = pull.quotas
        self._stays = True
        """No consumer is sent to another replica: true of this call of `serve`."""
        self._wire = wire
        self._find_queue = store.queues.find
        self._fetch = plain_fetch.PlainFetch(store.fetch)
        self._cut = plain_pull.PlainPullCutter(wire.frame_bytes, wire.header_bytes).cut
        self._head = _found_answer().head
        self._admissions: dict[object, Admission] = {}
        self._kind: object = None
        self._admission: Admission | None = None

    def serve(self, link: FrameAsker, ready: bytes, position: int, turn_end: float) -> int:
        """Answer or hold the plain pulls of `ready` from `position` on; returns where they end.

        No age check: the age of a request counts from the turn that takes it up, here as in the ordinary path.
        """
        clock, cut = self._clock.monotonic, self._cut
        if clock() >= turn_end or not link.writable or (pull := cut(ready, position)) is None:
            return position
        # A lookup holds until the end of this call: no other code of the loop runs meanwhile.
        self._kind = self._admission = None
        self._stays = self._replicas.is_plain
        self._fetch.begin()
        try:
            while pull is not None and self._serve(link, pull, ready, position):
                position = pull.end
                if clock() >= turn_end or not link.writable or link.room_to_hold <= 0:
                    break
                pull = cut(ready, position)
        except (RocketLakeError, OSError):
            pass  # the ordinary path meets the same error and tells the consumer
        finally:
            self._fetch.end()
        return position

    def _serve(self, link: FrameAsker, pull: plain_pull.PlainPull, ready: bytes, position: int) -> bool:
        """Answer or hold the pull at `position`; False, nothing done, if it is for the ordinary path."""
        queue = self._find_queue(pull.topic, pull.queue_id)
        if queue is None:
            return False
        end = queue.max_offset
        at_end = pull.queue_offset == end
        if end == 0 or pull.queue_offset > end or (at_end and not pull.sys_flag & PULL_SUSPEND):
            return False
        admission = self._admit(pull, link)
        if admission is None or not self._is_plain(pull, admission):
            return False
        quotas = self._quotas
        if quotas.is_any and quotas.pause_out(link.user, pull.topic):
            return False
        if at_end:
            # Of the chunk only these bytes are kept: it may hold hundreds of others.
            frame = ready[position : pull.end]
            resume = partial(self._resume, link, pull, admission, frame)
            # Noted first: an error behind the hold would have the pull served a second time, in the ordinary way.
            self._progress.note_at_end(pull)
            if not self._waiting.hold_plain(pull, link, admission, resume):
                return False
            link.held += 1
            if quotas.is_any:
                quotas.spend_out(link.user, pull.topic, 1, 0)
            return True
        answer = self._find(queue, pull, admission)
        if answer is None:
            return False
        self._progress.keep_brought(pull)
        if quotas.is_any:
            quotas.spend_out(link.user, pull.topic, 1, self._fetch.size)
        link.write_answers(answer)
        return True

    def _resume(self, link: FrameAsker, pull: plain_pull.PlainPull, admission: Admission, frame: bytes) -> None:
        """Answer a pull that was held: by records in memory, or in the ordinary way."""
        answer = None
        if link.writable:
            self._stays = self._replicas.is_plain
            self._fetch.begin()
            try:
                answer = self._find_again(pull, admission)
            except (RocketLakeError, OSError):
                pass
            finally:
                self._fetch.end()
        if answer is not None:
            link.held -= 1
            if self._quotas.is_any:
                self._quotas.spend_out(link.user, pull.topic, 0, self._fetch.size)
            link.write_answers(answer)
            return
        request = Request(Connection(limits=self._wire).cut(frame)[0], link, self._clock.monotonic())
        request.counted = True
        self._serve_again(request)

    def _find_again(self, pull: plain_pull.PlainPull, admission: Admission) -> list[Buffer] | None:
        queue = self._find_queue(pull.topic, pull.queue_id)
        if queue is None or not (self._rights.is_in_force(admission) and self._is_plain(pull, admission)):
            return None
        return self._find(queue, pull, admission)

    def _is_plain(self, pull: plain_pull.PlainPull, admission: Admission) -> bool:
        """False while the broker stops, or if the queue is none or has an offset reset pending: `Pull` answers then."""
        return (
            0 <= pull.queue_id < admission.topic.read_queues
            and not self._waiting.is_closed
            and not self._has_reset(pull)
        )

    def _find(self, queue: ConsumeQueue, pull: plain_pull.PlainPull, admission: Admission) -> list[Buffer] | None:
        """The answer to a pull that finds records in memory, noted and counted; None, nothing done, for any other."""
        fetch = self._fetch
        bytes_max = BYTES_MAX if pull.max_msg_bytes is None else pull.max_msg_bytes
        messages_max = max(1, min(pull.max_msg_nums, MESSAGES_MAX))
        if not fetch.fetch(queue, pull.queue_offset, messages_max, bytes_max, admission.match):
            return None
        next_offset, size = fetch.next_offset, fetch.size
        if size > _BYTES_MAX:
            return None
        topic, group = admission.topic, admission.group
        head = self._head(pull, next_offset, fetch.min_offset, fetch.max_offset, topic.sys_flag, group.sys_flag, size)
        answer = fetch.framed(head)
        if not self._stays and (group.broker_id or self._replicas.is_far_behind(_records(answer, len(head)))):
            return None
        self._progress.note_found(pull, next_offset, fetch.count, size)
        return answer

    def _admit(self, pull: plain_pull.PlainPull, link: FrameAsker) -> Admission | None:
        """The admission of this kind of pull: of this turn's last one, of an earlier one if in force, or a new one."""
        kind = pull.kind
        if kind == self._kind:
            return self._admission
        admission = self._admissions.get(kind)
        if admission is None or not self._rights.is_in_force(admission):
            admission = self._check(pull, link)
            if admission is None:
                self._admissions.pop(kind, None)
                return None
            if len(self._admissions) >= _ADMISSIONS_MAX:
                self._admissions.clear()
            self._admissions[kind] = admission
        self._kind, self._admission = kind, admission
        return admission

    def _check(self, pull: plain_pull.PlainPull, link: FrameAsker) -> Admission | None:
        """The checks; None if the pull is refused, or is no pull of its kind only."""
        if pull.topic in INNER_TOPICS:
            return None  # for administrators, whom the gate tells
        try:
            admission = self._rights.admit(pull.code, pull)
        except Refused:
            return None
        # SQL92: if nothing matches, `Pull` would test the same records again.
        return admission if admission.subscription.is_tag_type else None


def _records(answer: list[Buffer], head_bytes: int) -> Buffer:
    """The first records in the buffers of an answer: behind its head, or in a buffer of their own."""
    return memoryview(answer[0])[head_bytes:] if len(answer) == 1 else answer[1]


def _found_answer() -> plain_pull.FoundAnswer:
    """An answer of the ordinary path, cut at the values that differ from answer to answer."""
    next_offset, low, high = map(QueueOffset, _NUMBERS[:3])
    topic_flag, group_flag = _NUMBERS[3:]
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
