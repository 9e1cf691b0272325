"""The HA stream of a pair of Apache's brokers in controller mode, played to our ends; and their epoch file."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.net.memory_net import MemoryNet
from rocketlake.replication.auto_switch.layout import transfer
from rocketlake.replication.auto_switch.master_end import AutoSwitchLeader, LeaderSays
from rocketlake.replication.auto_switch.slave_end import AutoSwitchFollower
from rocketlake.replication.dialect import Agreement, Answer, Report
from rocketlake.replication.epochs import epoch_file
from rocketlake.replication.epochs.history import Epoch, EpochHistory
from rocketlake.replication.incoming import Incoming
from tests.epoch_group import Replica

GOLDEN = Path(__file__).parent / "auto_switch"
ABOUT = json.loads((GOLDEN / "about.json").read_text())
_HEAD = struct.Struct(">iiqiqq")


def recorded(name: str) -> bytes:
    return (GOLDEN / f"{name}.bin").read_bytes()


def chunks(data: bytes, seed: int) -> Iterator[bytes]:
    draw = random.Random(seed)
    while data:
        size = draw.choice((1, 7, 36, 300, 5000))
        yield data[:size]
        data = data[size:]


async def play(replica: Replica, stream: bytes, seed: int) -> list[bytes]:
    """Feed what the master sent to our slave's end, as its connection does; what it would have sent."""
    end = AutoSwitchFollower(replica.store, replica.epochs, replica.broker_id)
    sent = [end.hello(replica.end)]
    incoming = Incoming(replica.store, 1 << 20)
    for chunk in chunks(stream, seed):
        for event in end.feed(chunk):
            if isinstance(event, Agreement):
                incoming.append()
                sent.append(await event.settle())
                incoming = Incoming(replica.store, 1 << 20)
            else:
                incoming.expect(event.offset)
                incoming.add(event.data)
                end.appended(incoming.append(), event.confirm)
    return sent


def frames(stream: bytes) -> Iterator[tuple[int, ...]]:
    """The heads of the frames behind the answer to the handshake."""
    position = 20 + int.from_bytes(stream[4:8], "big")
    while position + _HEAD.size <= len(stream):
        head = _HEAD.unpack_from(stream, position)
        yield head
        position += _HEAD.size + head[1]


@pytest.mark.parametrize("seed", range(3))
async def test_our_slave_follows_apaches_masters_and_is_cut_back(seed: int) -> None:
    clock = ManualClock()
    replica = Replica(clock, MemoryNet(clock=clock).host("a"), 1, host="a", file_bytes=65536)
    await replica.start()
    await play(replica, recorded("join_master"), seed)
    assert (replica.end, replica.confirmed) == (ABOUT["first_alone_end"], 9290)  # it has what the first master had
    hello, report, *_epochs = await play(replica, recorded("return_master"), seed)
    assert hello == recorded("return_slave")[:16]
    assert report == recorded("return_slave")[16:28]
    assert (replica.end, replica.confirmed) == (ABOUT["log_end"], ABOUT["log_end"])
    assert epoch_file.encode(replica.epochs.history) == (GOLDEN / "slave_epochFileCheckpoint").read_bytes()
    await clock.settle()
    queues = [replica.store.max_offset("Epochs", queue_id) for queue_id in range(8)]
    assert sum(queues) == 20 + 10 + 5 + 5
    await replica.stop()


@pytest.mark.parametrize(("name", "epochs"), [("join", {1: 0}), ("return", {1: 0, 2: 9290})])
def test_our_master_says_what_apaches_said(name: str, epochs: dict[int, int]) -> None:
    told = EpochHistory(Epoch(number, start) for number, start in epochs.items())  # type: ignore[arg-type]
    stream, said = recorded(f"{name}_master"), recorded(f"{name}_slave")
    (end,) = struct.unpack_from(">q", stream, 8)
    confirm = 0
    master = AutoSwitchLeader(LeaderSays(lambda: told, lambda: end, lambda: confirm))  # type: ignore[arg-type, return-value]
    cuts = [0, 16, *range(28, len(said) + 1, 12)]
    heard = [event for start, stop in pairwise(cuts) for event in master.feed(said[start:stop])]
    answer = heard[0]
    assert isinstance(answer, Answer) and stream.startswith(answer.data)
    reports = [event.end for event in heard if isinstance(event, Report)]
    assert reports == [end for (end,) in struct.iter_unpack(">4xq", said[16:])]
    assert master.name == {"join": "2", "return": "1"}[name]
    for _state, size, offset, _epoch, _start, confirm in frames(stream):
        head = master.header(offset, size)  # type: ignore[arg-type]
        assert head in stream and head == transfer(size, offset, told.at(offset), confirm)  # type: ignore[arg-type]


def test_the_epoch_file_is_apaches_byte_for_byte() -> None:
    text = (GOLDEN / "epochFileCheckpoint").read_bytes()
    assert epoch_file.encode(epoch_file.decode(text)) == text
    assert epoch_file.decode(text).epochs == ((1, 0), (2, 9290))
