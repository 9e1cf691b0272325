"""AutoSwitch frames, for any cut of the byte stream: what is said, what is refused, which epoch bytes belong to."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import ProtocolError, RocketLakeError, StoreError
from rocketlake.net.memory_net import MemoryNet
from rocketlake.replication.auto_switch.layout import answer
from rocketlake.replication.auto_switch.master_end import AutoSwitchLeader, LeaderSays
from rocketlake.replication.auto_switch.slave_end import AutoSwitchFollower
from rocketlake.replication.dialect import Agreement, Answer, LogRange, Report
from rocketlake.replication.epochs.history import Epoch, EpochHistory
from tests.epoch_group import Replica

LOG = LogRange(100, 300, 450)  # type: ignore[arg-type]
HELLO = struct.pack(">ihhq", 1, 0, 0, 7)


def history(entries: dict[int, int]) -> EpochHistory:
    return EpochHistory(Epoch(number, start) for number, start in entries.items())  # type: ignore[arg-type]


def leader(entries: dict[int, int] | None = None) -> AutoSwitchLeader:
    told = history({1: 0, 3: 400} if entries is None else entries)
    return AutoSwitchLeader(LeaderSays(lambda: told, lambda: 450, lambda: 420))  # type: ignore[arg-type, return-value]


def report(end: int) -> bytes:
    return struct.pack(">iq", 2, end)


def chunks(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return (data[start:end] for start, end in pairwise(edges))


# -- the master's end --------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 500), min_size=1, max_size=8), st.lists(st.integers(0, 500), max_size=12))
def test_a_handshake_is_answered_once_and_reports_are_heard(ends: list[int], cuts: list[int]) -> None:
    master = leader()
    said = HELLO + HELLO + b"".join(report(end) for end in ends)  # Apache's slave says hello again while it waits
    heard = [event for chunk in chunks(said, cuts) for event in master.feed(chunk)]
    expected = struct.pack(">iiqiiqiq", 1, 24, 450, 3, 1, 0, 3, 400)
    assert [event for event in heard if isinstance(event, Answer)] == [Answer(expected)]
    assert (master.name, master.counts, heard[-1]) == ("7", True, Report(ends[-1]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "said",
    [
        report(5),  # before a handshake
        HELLO + report(-1),
        HELLO + report(5) + HELLO,
        HELLO + struct.pack(">ihhq", 1, 0, 0, 8),
        struct.pack(">ihhq", 1, 7, 0, 8),
        struct.pack(">ihhq", 1, 0, 0, -8),
        struct.pack(">iq", 0, 1),
        struct.pack(">qq", 1 << 40, 5),  # a slave that is not in controller mode
    ],
)
def test_what_no_slave_says_ends_the_connection(said: bytes) -> None:
    with pytest.raises(ProtocolError):
        list(leader().feed(said))


@given(st.binary(max_size=200))
def test_random_bytes_of_a_slave_are_refused_or_waited_for(data: bytes) -> None:
    try:
        events = list(leader().feed(data))
    except RocketLakeError:
        return
    assert all(isinstance(event, Answer) for event in events)


def test_an_empty_slave_starts_at_the_first_file_or_at_the_last_if_it_asks_so() -> None:
    master = leader()
    assert [master.start(end, LOG) for end in (0, 120)] == [100, 120]  # type: ignore[arg-type]
    list(master.feed(struct.pack(">ihhq", 1, 1, 1, 7)))
    assert (master.start(0, LOG), master.counts) == (300, False)  # type: ignore[arg-type]
    assert leader({3: 400}).start(120, LOG) is None  # type: ignore[arg-type]
    assert leader({}).start(0, LOG) is None  # type: ignore[arg-type]


def test_a_frame_has_the_epoch_of_its_bytes_and_ends_with_it() -> None:
    master = leader()
    assert [master.frame_end(offset) for offset in (100, 399, 400)] == [400, 400, None]  # type: ignore[arg-type]
    assert master.header(399, 1) == struct.pack(">iiqiqq", 2, 1, 399, 1, 0, 420)  # type: ignore[arg-type]
    assert master.header(450, 0) == struct.pack(">iiqiqq", 2, 0, 450, 3, 400, 420)  # type: ignore[arg-type]


def test_the_answer_has_the_newest_thousand_epochs() -> None:
    told = answer(9999, history({number: number for number in range(1, 1501)}))  # type: ignore[arg-type]
    assert (len(told), told[20:32]) == (20 + 12_000, struct.pack(">iq", 501, 501))


# -- the slave's end ---------------------------------------------------------------------------------------------------


def said(*frames: tuple[int, bytes, int, int], confirm: int = 0, end: int = 10_000) -> bytes:
    """An answer with epochs 1 at 0 and 3 at 400, and frames (offset, bytes, epoch, its start)."""
    stream = answer(end, history({1: 0, 3: 400}))  # type: ignore[arg-type]
    for offset, data, epoch, start in frames:
        stream += struct.pack(">iiqiqq", 2, len(data), offset, epoch, start, confirm) + data
    return stream


async def heard(stream: bytes, cuts: list[int], replica: Replica) -> list[tuple[int, bytes, int]]:
    """Pieces, each with the epoch that was on disk before it."""
    end = AutoSwitchFollower(replica.store, replica.epochs, 2)
    pieces: list[tuple[int, bytes, int]] = []
    for chunk in chunks(stream, cuts):
        for event in end.feed(chunk):
            if isinstance(event, Agreement):
                await event.settle()
            else:
                last = replica.epochs.history.last
                pieces.append((event.offset, event.data, -1 if last is None else last.number))
    return pieces


@pytest.fixture
async def replica() -> AsyncIterator[Replica]:
    clock = ManualClock()
    replica = Replica(clock, MemoryNet(clock=clock).host("b"), 2, host="b")
    await replica.start()
    yield replica
    await replica.stop()


@pytest.mark.parametrize("cuts", [[], [1, 5, 19, 21, 44, 60, 81, 100, 140], list(range(400))])
async def test_each_byte_has_the_epoch_of_the_masters_history(replica: Replica, cuts: list[int]) -> None:
    # Apache's master heads the last bytes of an epoch with the next one, and may head a heartbeat with its first.
    stream = said((0, b"", 1, 0), (0, b"a" * 390, 1, 0), (390, b"b" * 10, 3, 400), (400, b"c" * 5, 3, 400))
    stream += said((405, b"d", 3, 400), (406, b"", 1, 0), (406, b"ef", 6, 407))[44:]
    pieces = await heard(stream, cuts, replica)
    epochs: dict[int, int] = {}
    for offset, data, epoch in pieces:
        epochs |= dict.fromkeys(range(offset, offset + len(data)), epoch)
    assert [epochs[offset] for offset in (0, 389, 390, 399, 400, 405, 406, 407)] == [1, 1, 1, 1, 3, 3, 3, 6]
    assert b"".join(data for _offset, data, _epoch in pieces) == b"a" * 390 + b"b" * 10 + b"c" * 5 + b"def"
    assert replica.epochs.history == history({1: 0, 3: 400, 6: 407})


@pytest.mark.parametrize(
    "stream",
    [
        struct.pack(">iiqiqq", 2, 0, 0, 1, 0, 0),  # no answer before
        said()[:20] + struct.pack(">iq", 3, 0) + struct.pack(">iq", 1, 0),
        struct.pack(">iiqi", 1, 13, 0, 1),
        struct.pack(">iiqi", 1, 1 << 30, 0, 1),
        struct.pack(">iiqi", 1, 12, -5, 1),
        said() + said(),  # two answers
        said((0, b"a", 7, 500)),  # an epoch that begins behind its bytes
        said((500, b"a", 7, 450)),  # one whose first bytes came before it, as those of another
        said((500, b"", 7, 450)),
        said((-1, b"a", 3, 400)),
        said((0, b"a", 3, -1)),
        said() + struct.pack(">iiqiqq", 2, -4, 0, 1, 0, 0),
        b"HTTP/1.1 400 Bad Request",
    ],
)
async def test_what_no_master_says_ends_the_connection(replica: Replica, stream: bytes) -> None:
    with pytest.raises(ProtocolError):
        await heard(stream, [], replica)


@given(st.binary(max_size=200), st.booleans())
async def test_random_bytes_of_a_master_are_refused_or_waited_for(data: bytes, is_answered: bool) -> None:
    clock = ManualClock()
    replica = Replica(clock, MemoryNet(clock=clock).host("b"), 2, host="b")
    try:
        pieces = await heard(said() * is_answered + data, [], replica)
    except RocketLakeError:
        return
    assert sum(len(piece) for _offset, piece, _epoch in pieces) <= len(data)


async def test_a_master_without_a_file_sends_heartbeats_from_nowhere(replica: Replica) -> None:
    assert await heard(said((-1, b"", 1, 0)), [], replica) == []


async def test_a_master_that_was_deposed_is_refused(replica: Replica) -> None:
    end = AutoSwitchFollower(replica.store, replica.epochs, 2, least_epoch=lambda: 4)
    (agreement,) = end.feed(said())
    assert isinstance(agreement, Agreement)
    with pytest.raises(ProtocolError, match="its newest epoch is 3, this replica has heard of 4"):
        await agreement.settle()


async def test_an_epoch_that_no_controller_has_named_is_not_noted(replica: Replica) -> None:
    """It would be told to the controller, and stop its elections; any program at the HA address can say one."""
    end = AutoSwitchFollower(replica.store, replica.epochs, 2, most_epoch=lambda: 2)
    (agreement,) = end.feed(said())
    assert isinstance(agreement, Agreement)
    with pytest.raises(ProtocolError, match="it is in epoch 3, and the controller has named 2"):
        await agreement.settle()
    end = AutoSwitchFollower(replica.store, replica.epochs, 2, most_epoch=lambda: 3)
    with pytest.raises(ProtocolError, match="it is in epoch 2000000000"):
        list(end.feed(said((0, b"x", 2_000_000_000, 0))))
    assert replica.epochs.history.last is None


async def test_bytes_of_no_known_epoch_are_not_followed(replica: Replica) -> None:
    replica.put(b"of a broker that was in no group")
    end = AutoSwitchFollower(replica.store, replica.epochs, 2)
    (agreement,) = end.feed(said())
    assert isinstance(agreement, Agreement)
    with pytest.raises(StoreError, match="nothing says up to where the log agrees"):
        await agreement.settle()
