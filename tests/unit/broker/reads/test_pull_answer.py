"""The answer to a pull: code, fields and body of each outcome of the store."""

from __future__ import annotations

import pytest

from rocketlake.broker.reads.pull_answer import code_of, nothing_to_read, refusal_of, reply_of
from rocketlake.broker.rights.refusal import Refused
from rocketlake.protocol.response_code import ResponseCode as Code
from rocketlake.store.results import PIECE_BYTES_MIN, GetResult, GetStatus

CODES = {
    GetStatus.FOUND: Code.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: Code.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: Code.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: Code.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: Code.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: Code.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: Code.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_RESET: Code.PULL_OFFSET_MOVED,
}
EMPTY = (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE)


def test_each_outcome_has_a_code_and_an_empty_queue_moves_only_those_beyond_its_start() -> None:
    for status, code in CODES.items():
        assert [code_of(status, offset) for offset in (0, 7)] == [code, code], status
    for status in EMPTY:
        assert [code_of(status, offset) for offset in (0, 7)] == [Code.PULL_NOT_FOUND, Code.PULL_OFFSET_MOVED], status
    assert {*CODES, *EMPTY} == {*GetStatus} - {GetStatus.NOT_IN_MEMORY}, "that one waits, and is not answered"


def test_the_answer_tells_the_ends_of_the_queue_and_the_flags() -> None:
    reply = reply_of(Code.PULL_NOT_FOUND, GetResult(GetStatus.OFFSET_OVERFLOW_ONE, [], 9, 2, 9), 4, 5)
    assert (reply.code, reply.remark, reply.body) == (Code.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", None)
    fields = reply.fields or {}
    named = ("nextBeginOffset", "minOffset", "maxOffset", "topicSysFlag", "groupSysFlag")
    assert [fields[name] for name in named] == ["9", "2", "9", "4", "5"]


@pytest.mark.parametrize(
    ("sizes", "pieces"),
    [((10,), 1), ((10, 20), 1), ((PIECE_BYTES_MIN, PIECE_BYTES_MIN), 2), ((1, 4 * PIECE_BYTES_MIN), 2)],
)
def test_many_small_pieces_are_sent_as_one_and_large_ones_as_they_are(sizes: tuple[int, ...], pieces: int) -> None:
    slices = [memoryview(bytes([number]) * size) for number, size in enumerate(sizes)]
    found = GetResult(GetStatus.FOUND, slices, bytes=sum(sizes), count=len(sizes))
    body = reply_of(Code.SUCCESS, found, 0, 0).body
    assert isinstance(body, list) and len(body) == pieces
    assert b"".join(body) == b"".join(slices)


@pytest.mark.parametrize(("number", "fields"), [(None, None), ("3", {"forbiddenType": "3"})])
def test_a_refusal_has_the_reason_number_if_there_is_one(number: str | None, fields: dict[str, str] | None) -> None:
    reply = refusal_of(Refused("no", code=Code.NO_PERMISSION, forbidden_type=number))
    assert (reply.code, reply.remark, reply.fields) == (Code.NO_PERMISSION, "no", fields)


def test_where_nothing_is_read_the_consumer_is_sent_to_the_same_offset_again() -> None:
    reply = nothing_to_read(7, (2, 9), "the link is full")
    fields = reply.fields or {}
    assert (reply.code, reply.remark) == (Code.PULL_NOT_FOUND, "the link is full")
    assert [fields[name] for name in ("nextBeginOffset", "minOffset", "maxOffset")] == ["7", "2", "9"]
