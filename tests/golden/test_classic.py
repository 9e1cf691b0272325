"""The classic HA stream of pairs of Apache's brokers, 5.3.3 and 5.5.0, played to our ends: the same bytes both ways."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.codec.record import decode_records
from rocketlake.net.memory_net import MemoryNet
from rocketlake.replication.classic import ClassicFollower, ClassicLeader
from rocketlake.replication.dialect import LogRange, Piece, Report
from rocketlake.replication.incoming import Incoming
from rocketlake.store.durability import Demands
from tests.epoch_group import Replica

GOLDEN = Path(__file__).parent / "classic"
RELEASES = sorted(path.name for path in GOLDEN.iterdir())
CONNECTIONS = (1, 2)
MESSAGES = 20 + 60 + 5 + 5
_HEAD = struct.Struct(">qi")

pytestmark = pytest.mark.parametrize("release", RELEASES)


def recorded(release: str, number: int, side: str) -> bytes:
    return (GOLDEN / release / f"{number}_{side}.bin").read_bytes()


def about(release: str) -> dict[str, int]:
    return dict(json.loads((GOLDEN / release / "about.json").read_text()))


def reports(release: str, number: int) -> list[int]:
    return [end for (end,) in struct.iter_unpack(">q", recorded(release, number, "slave"))]


def frames(stream: bytes) -> Iterator[tuple[int, bytes]]:
    """Offset and body of each frame; nothing is left over."""
    position = 0
    while position < len(stream):
        offset, size = _HEAD.unpack_from(stream, position)
        position += _HEAD.size + size
        yield offset, stream[position - size : position]
    assert position == len(stream)


@pytest.fixture
async def replica(release: str) -> AsyncIterator[Replica]:
    clock = ManualClock()
    replica = Replica(clock, MemoryNet(clock=clock).host("a"), 1, host="a", file_bytes=about(release)["file_bytes"])
    replica.store.durability.demand(Demands())
    await replica.start()
    yield replica
    await replica.stop()


def play(replica: Replica, chunks: Iterator[bytes]) -> list[bytes]:
    """Feed what the master sent to our slave's end, as its connection does; what it would have said."""
    end, incoming = ClassicFollower(), Incoming(replica.store, 1 << 20)
    said = [end.hello(replica.end)]
    for chunk in chunks:
        before = replica.end
        for piece in end.feed(chunk):
            assert isinstance(piece, Piece)
            incoming.expect(piece.offset)
            incoming.add(piece.data)
        if incoming.append() > before:
            said.append(end.report(replica.end))
    return said


def cut(data: bytes, seed: int) -> Iterator[bytes]:
    draw = random.Random(seed)
    while data:
        size = draw.choice((1, 7, 12, 300, 5000))
        yield data[:size]
        data = data[size:]


@pytest.mark.parametrize("seed", range(3))
async def test_our_slave_has_each_byte_of_apaches_master(release: str, replica: Replica, seed: int) -> None:
    for number in CONNECTIONS:
        play(replica, cut(recorded(release, number, "master"), seed))
    assert replica.end == about(release)["log_end"]
    sent = {offset: body for number in CONNECTIONS for offset, body in frames(recorded(release, number, "master"))}
    assert replica.log.startswith(b"".join(body for _offset, body in sorted(sent.items())))
    assert isinstance(replica.clock, ManualClock)
    await replica.clock.settle()
    slices = [part for queue in range(8) for part in replica.store.get("Pair", queue, 0, 1000, 1 << 30).slices]
    assert len(list(decode_records(b"".join(slices)))) == MESSAGES


async def test_our_slave_says_what_apaches_slave_said(release: str, replica: Replica) -> None:
    """Frame by frame: Apache's slave reports after each; in between it repeats its last word, as ours does by time."""
    for number in CONNECTIONS:
        stream = recorded(release, number, "master")
        said = play(replica, (_HEAD.pack(offset, len(body)) + body for offset, body in frames(stream)))
        heard = recorded(release, number, "slave")
        assert b"".join(said) == b"".join(struct.pack(">q", end) for end in dict.fromkeys(reports(release, number)))
        assert heard.startswith(said[0])


@pytest.mark.parametrize("number", CONNECTIONS)
def test_our_master_writes_the_frames_of_apaches_master(release: str, number: int) -> None:
    leader = ClassicLeader("host", from_last_file=True)
    said = recorded(release, number, "slave")
    heard = [event for at in range(0, len(said), 8) for event in leader.feed(said[at : at + 8])]
    assert heard == [Report(end) for end in reports(release, number)]  # type: ignore[arg-type]

    stream = recorded(release, number, "master")
    first = next(frames(stream))[0]
    last_file = first - first % about(release)["file_bytes"]
    log = LogRange(0, last_file, about(release)["log_end"])  # type: ignore[arg-type]
    assert leader.start(reports(release, number)[0], log) == first  # type: ignore[arg-type]
    written = b"".join(leader.header(offset, len(body)) + body for offset, body in frames(stream))  # type: ignore[arg-type]
    assert written == stream


def test_the_recording_has_all_that_matters(release: str) -> None:
    """Bytes over the end of a file, heartbeats with the next offset, and a slave that comes back where it was."""
    first, second = (list(frames(recorded(release, number, "master"))) for number in CONNECTIONS)
    file_bytes = about(release)["file_bytes"]
    assert len({offset // file_bytes for offset, body in first if body}) > 1
    assert all(offset // file_bytes == (offset + len(body) - 1) // file_bytes for offset, body in first if body)
    for stream in (first, second):
        ends = [offset + len(body) for offset, body in stream]
        assert [offset for offset, _body in stream[1:]] == ends[:-1]
        assert stream[-1][1] == b""
    assert reports(release, 2)[0] == second[0][0] == max(reports(release, 1))
