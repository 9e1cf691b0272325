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
from rocketlake.broker.processors.pull import Pull, body_of, reply_of
from rocketlake.net.link import Link
from rocketlake.protocol.command import Codec, Command
from rocketlake.protocol.frame import PREFIX_BYTES, encode_command
from rocketlake.protocol.limits import WireLimits
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.results import GetResult, GetStatus

__all__ = ["PullRuns"]

# Values that stand out, to find their places in an answer of the ordinary path.
_NUMBERS = (1999999991, 1999999992, 1999999993, 1999999994, 1999999995)
_OPAQUE = 1999999996


class PullRuns:
    """Serves runs of plain pulls for the dispatcher (Dispatcher.serve_runs)."""

    def __init__(self, pull: Pull, wire: WireLimits, clock: Clock) -> None:
        self._clock = clock
        self._pull = pull
        self._cut = plain_pull.PlainPullCutter(wire.frame_bytes, wire.header_bytes).cut
        self._head = _found_answer().head

    def serve(self, link: Link, ready: bytes, position: int, turn_end: float) -> int:
        """Answer the plain pulls of `ready` from `position` on; returns where they end.

        Flow control: no pull is too old, as those that waited in line would not be in the ordinary path.
        """
        while self._clock.monotonic() < turn_end and link.writable:
            pull = self._cut(ready, position)
            if pull is None:
                break
            try:
                found = self._pull.find_now(pull)
            except (RocketLakeError, OSError):
                break  # the ordinary path says it to the consumer
            if found is None:
                break
            result, topic, group = found
            head = self._head(
                pull,
                result.next_offset,
                result.min_offset,
                result.max_offset,
                topic.sys_flag,
                group.sys_flag,
                result.bytes,
            )
            link.write_answers([head, *body_of(result)])
            position = pull.end
        return position


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
