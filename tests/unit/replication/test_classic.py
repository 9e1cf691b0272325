"""Classic frames, for any cut of the byte stream."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketlake.base.errors import ProtocolError
from rocketlake.replication.classic import FRAME_BYTES_MAX, ClassicFollower, ClassicLeader
from rocketlake.replication.dialect import LogRange, Piece, Report

LOG = LogRange(100, 300, 450)  # type: ignore[arg-type]


def chunks(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return (data[start:end] for start, end in pairwise(edges))


@given(st.lists(st.binary(max_size=60), max_size=12), st.lists(st.integers(0, 2000), max_size=20))
def test_pieces_are_the_bytes_of_the_frames_in_order(bodies: list[bytes], cuts: list[int]) -> None:
    leader, follower = ClassicLeader("h"), ClassicFollower()
    stream, heartbeats, at = b"", 0, 1000
    for body in bodies:
        stream += leader.header(at, len(body)) + body  # type: ignore[arg-type]
        at += len(body)
        heartbeats += not body
    pieces = [piece for chunk in chunks(stream, cuts) for piece in follower.feed(chunk)]
    assert all(isinstance(piece, Piece) for piece in pieces)
    expected = 1000
    for piece in pieces:
        assert isinstance(piece, Piece) and piece.offset == expected
        expected += len(piece.data)
    assert b"".join(piece.data for piece in pieces if isinstance(piece, Piece)) == b"".join(bodies)
    assert sum(isinstance(piece, Piece) and not piece.data for piece in pieces) == heartbeats


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=20), st.lists(st.integers(0, 2000), max_size=20))
def test_the_last_whole_report_counts(ends: list[int], cuts: list[int]) -> None:
    leader, follower = ClassicLeader("h"), ClassicFollower()
    stream = b"".join(follower.report(end) for end in ends)  # type: ignore[arg-type]
    reports = [report for chunk in chunks(stream, cuts) for report in leader.feed(chunk)]
    assert reports[-1] == Report(ends[-1])  # type: ignore[arg-type]
    assert [report.end for report in reports if isinstance(report, Report) and report.end not in ends] == []


@pytest.mark.parametrize("header", [(-1, 5), (5, -1), (0, FRAME_BYTES_MAX), (0x474554202F204854, 0x54502F31)])
def test_what_no_master_sends_is_refused(header: tuple[int, int]) -> None:
    offset, size = header
    data = offset.to_bytes(8, "big", signed=True) + size.to_bytes(4, "big", signed=True)
    with pytest.raises(ProtocolError, match="none of a master"):
        list(ClassicFollower().feed(data))


def test_a_negative_report_is_refused() -> None:
    with pytest.raises(ProtocolError, match="reports -1"):
        list(ClassicLeader("h").feed(b"\xff" * 8))


def test_an_empty_slave_gets_all_or_the_last_file_and_another_one_goes_on() -> None:
    assert [ClassicLeader("h", from_last_file=last).start(0, LOG) for last in (False, True)] == [100, 300]  # type: ignore[arg-type]
    assert ClassicLeader("h", from_last_file=True).start(208, LOG) == 208  # type: ignore[arg-type]


def test_an_empty_slave_asks_for_the_log_from_a_place_of_its_own() -> None:
    assert ClassicFollower(300).hello(0) == (300).to_bytes(8, "big")  # type: ignore[arg-type]
    assert ClassicFollower(300).hello(450) == (450).to_bytes(8, "big")  # type: ignore[arg-type]


@given(st.binary(min_size=1, max_size=60), st.lists(st.integers(0, 2000), max_size=20))
def test_the_first_byte_of_a_log_is_known_because_no_report_can_ask_for_it(log: bytes, cuts: list[int]) -> None:
    leader, follower = ClassicLeader("h"), ClassicFollower(0)
    assert follower.hello(0) == (1).to_bytes(8, "big")  # type: ignore[arg-type]
    log = b"\0" + log
    stream = leader.header(1, 0) + leader.header(1, len(log) - 1) + log[1:]  # type: ignore[arg-type]
    pieces = [piece for chunk in chunks(stream, cuts) for piece in follower.feed(chunk)]
    assert b"".join(piece.data for piece in pieces if isinstance(piece, Piece)) == log
    assert [piece.offset for piece in pieces if isinstance(piece, Piece)][:2] == [0, 1]
