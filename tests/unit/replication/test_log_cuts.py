"""The log cut into frames by a leader, and put together again by a follower, whatever the cuts."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest

from rocketlake.base.disk.faulty import Fault
from rocketlake.base.errors import ProtocolError, StoreError
from rocketlake.replication.incoming import Incoming
from rocketlake.replication.outgoing import Outgoing
from rocketlake.store.disk_wait import NotInMemory
from rocketlake.store.dispatch_scan import END, scan
from rocketlake.store.message_store import MessageStore
from tests.unit.store.store_world import World, bodies_of, put_ok

FILE_BYTES = 4096


@pytest.fixture
async def worlds() -> AsyncIterator[tuple[World, World]]:
    """The disk of a master and that of a slave."""
    worlds = World(), World()
    yield worlds
    for world in worlds:
        await world.killed()


def fill(store: MessageStore, seed: int = 1) -> None:
    sizes = random.Random(seed)
    put_ok(store, *[b"%d" % number + bytes(sizes.choice([1, 60, 400, 1500, 3800])) for number in range(60)])


def frames(store: MessageStore, batch_bytes: int, start: int = 0) -> list[tuple[int, bytes]]:
    outgoing, found, at = Outgoing(store, batch_bytes), [], start
    while body := outgoing.cut(at):  # type: ignore[arg-type]
        found.append((at, bytes(body)))
        at += len(body)
    assert at == store.max_physical_offset
    return found


@pytest.mark.parametrize("batch_bytes", [300, 1000, 5000])
async def test_frames_hold_whole_records_unless_one_is_larger_and_stay_in_one_file(
    worlds: tuple[World, World], batch_bytes: int
) -> None:
    master = await worlds[0].started()
    fill(master)
    found = frames(master, batch_bytes)
    log = b"".join(body for _offset, body in found)
    starts = record_starts(master)
    for offset, body in found:
        assert len(body) <= batch_bytes
        assert offset // FILE_BYTES == (offset + len(body) - 1) // FILE_BYTES
    cuts = {offset for offset, _body in found}
    larger = [(start, end) for start, end in starts if end - start > batch_bytes]
    assert all(start in cuts for start, _end in larger), "a large record begins a frame"
    inside = {cut for cut in cuts for start, end in starts if start < cut < end}
    assert inside == {cut for cut in inside if any(start < cut < end for start, end in larger)}
    assert len(log) == master.max_physical_offset > 10 * FILE_BYTES


def record_starts(store: MessageStore) -> list[tuple[int, int]]:
    found = []
    for start, view in store.log_views(0):  # type: ignore[arg-type]
        entries, _taken, _status = scan(view, start, False, ())
        found += [(entry.physical_offset, entry.physical_offset + entry.size) for entry in entries]
    return found  # type: ignore[return-value]


async def test_a_slave_that_begins_inside_a_record_gets_the_same_bytes(worlds: tuple[World, World]) -> None:
    master = await worlds[0].started()
    fill(master)
    log = b"".join(body for _offset, body in frames(master, 1000))
    for start in (1, 777, FILE_BYTES - 1, FILE_BYTES + 5):
        assert b"".join(body for _offset, body in frames(master, 1000, start)) == log[start:]


async def test_what_is_not_in_memory_is_named_not_waited_for(worlds: tuple[World, World]) -> None:
    master = await worlds[0].started()
    fill(master)
    worlds[0].files.plan.add(Fault("is_resident", "commitlog", error=None))
    with pytest.raises(NotInMemory):
        Outgoing(master, 1000).cut(0)  # type: ignore[arg-type]


async def test_bytes_that_are_gone_are_an_error(worlds: tuple[World, World]) -> None:
    master = await worlds[0].started()
    fill(master)
    with pytest.raises(StoreError, match="are gone"):
        Outgoing(master, 1000).cut(master.max_physical_offset + FILE_BYTES)


@pytest.mark.parametrize("seed", range(6))
async def test_any_cut_of_the_stream_gives_the_same_log(worlds: tuple[World, World], seed: int) -> None:
    master, slave = await worlds[0].started(), await worlds[1].started()
    fill(master, seed)
    log = b"".join(body for _offset, body in frames(master, 1000))
    cuts, at = random.Random(seed), 0
    incoming = Incoming(slave, 64 * 1024)
    while at < len(log):
        size = cuts.choice([1, 7, 90, 1000, 3000, 9000])
        incoming.expect(at)  # type: ignore[arg-type]
        incoming.add(log[at : at + size])
        at = min(at + size, len(log))
        end = incoming.append()
        assert end <= at == incoming.position
        assert end == slave.max_physical_offset
    assert slave.max_physical_offset == master.max_physical_offset
    assert [bytes(view) for _o, view in slave.log_views(0)] == [bytes(view) for _o, view in master.log_views(0)]  # type: ignore[arg-type]
    await worlds[1].clock.settle()  # the rest is dispatched in the next turns
    assert bodies_of(slave) == bodies_of(master)


async def test_what_does_not_go_on_where_the_log_ends_is_refused(worlds: tuple[World, World]) -> None:
    slave = await worlds[1].started()
    incoming = Incoming(slave, 1000)
    with pytest.raises(StoreError, match="same mappedFileSizeCommitLog"):
        incoming.expect(100)  # type: ignore[arg-type]
    incoming.expect(2 * FILE_BYTES)  # type: ignore[arg-type]
    incoming.add(b"\0\0\0\x60")
    with pytest.raises(ProtocolError, match=f"own log goes on at {2 * FILE_BYTES + 4}"):
        incoming.expect(2 * FILE_BYTES)  # type: ignore[arg-type]


async def test_a_file_of_another_length_is_found_at_its_end_at_the_latest(worlds: tuple[World, World]) -> None:
    master, slave = await worlds[0].started(commit_log_file_bytes=6000), await worlds[1].started()
    fill(master)
    incoming = Incoming(slave, 64 * 1024)
    with pytest.raises(StoreError, match="mappedFileSizeCommitLog"):
        for offset, body in frames(master, 1000):
            incoming.expect(offset)  # type: ignore[arg-type]
            incoming.add(body)
            incoming.append()
    assert 0 < slave.max_physical_offset <= FILE_BYTES


async def test_damage_on_the_way_is_refused_and_a_record_without_end_too(worlds: tuple[World, World]) -> None:
    master, slave = await worlds[0].started(), await worlds[1].started()
    put_ok(master, b"whole", b"damaged")
    log = bytearray(b"".join(body for _offset, body in frames(master, 1000)))
    log[-3] ^= 1
    (entry, _last), _taken, status = scan(memoryview(bytes(log)), 0, False, ())  # type: ignore[arg-type]
    assert status == END
    body_at = log.index(b"damaged")
    log[body_at] ^= 1
    incoming = Incoming(slave, 200)
    incoming.add(bytes(log))
    with pytest.raises(StoreError, match="no whole, sound record"):
        incoming.append()
    assert slave.max_physical_offset == 0
    endless = Incoming(slave, 200)
    endless.add((3000).to_bytes(4, "big") + bytes(log[4:100]) + bytes(300))
    with pytest.raises(StoreError, match="set maxMessageSize"):
        endless.append()
    assert entry.size < 200
