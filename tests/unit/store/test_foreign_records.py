"""A queue whose entries name records of other queues, or its own misplaced: the log is searched."""

from __future__ import annotations

import random

import pytest

from rocketlake.codec.record import decode_records
from rocketlake.store.consume_queue.entry import pack_entry
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage
from tests.unit.store.store_world import ROOT, World, bodies_of, put_ok

try:
    from rocketlake.store.plain_fetch import PlainFetch
except ImportError:  # ROCKETLAKE_PURE=1
    PlainFetch = None  # type: ignore[assignment,misc]

FILE_BYTES = 4000
BODIES = [b"%03d" % number * 20 for number in range(60)]
OTHERS = [b"not %03d" % number * 20 for number in range(60)]


async def filled(world: World) -> MessageStore:
    store = await world.started(consume_queue_file_bytes=FILE_BYTES, queue_flush_thorough_interval_ms=1000)
    for body, other in zip(BODIES, OTHERS, strict=True):
        put_ok(store, body)
        put_ok(store, other, topic="S")
    await world.clock.run_for(2000)
    return store


def overwrite(world: World, number: int, data: bytes, topic: str = "T") -> None:
    file = world.disk.open(ROOT / "consumequeue" / topic / "0" / f"{0:020d}")
    file.pwrite(data, number * 20)
    file.sync()


def entries(store: MessageStore, topic: str) -> list[tuple[int, int, int]]:
    return store.queue_entries(topic, 0, 0, 100)


async def test_records_of_another_topic_are_never_handed_out(world: World, caplog: pytest.LogCaptureFixture) -> None:
    store = await filled(world)
    for number in range(20, 40):  # as a page of another queue's file
        overwrite(world, number, pack_entry(*entries(store, "S")[number]))
    assert bodies_of(store) == BODIES
    assert "queue 0 of T: entries from offset" in caplog.text
    assert "lead to no record of this queue; 20 were found in the log again" in caplog.text
    assert "found in the log" in caplog.text
    await store.stop()
    assert bodies_of(await world.started(consume_queue_file_bytes=FILE_BYTES)) == BODIES


async def test_a_record_that_is_damaged_itself_is_passed_by(world: World, caplog: pytest.LogCaptureFixture) -> None:
    store = await filled(world)
    physical_offset = entries(store, "T")[30][0]
    mapped = store.log.list.find(physical_offset)
    assert mapped is not None
    world.disk.open(mapped.path).pwrite(b"\xff", physical_offset - mapped.start + 4)  # its magic
    assert bodies_of(store) == BODIES[:30] + BODIES[31:]
    assert "they are passed by, the next start looks for them" in caplog.text
    await store.stop()
    assert bodies_of(await world.started(consume_queue_file_bytes=FILE_BYTES)) == BODIES[:30] + BODIES[31:]


async def test_what_is_mended_is_mended_on_disk(world: World) -> None:
    store = await filled(world)
    before = entries(store, "T")
    overwrite(world, 30, bytes(20))
    overwrite(world, 59, pack_entry(1 << 50, 200, 0))
    bodies_of(store)
    assert entries(store, "T") == before


async def test_a_damaged_queue_is_mended_after_a_kill_too(world: World) -> None:
    store = await filled(world)
    overwrite(world, 30, pack_entry(*entries(store, "S")[30]))
    put_ok(store, b"more")
    await world.clock.run_for(3000)
    await world.killed()
    assert bodies_of(await world.started(consume_queue_file_bytes=FILE_BYTES)) == [*BODIES, b"more"]


@pytest.mark.parametrize(
    "entry",
    [
        pack_entry(1 << 50, 200, 0),
        pack_entry(-5, 200, 0),
        pack_entry(100, 0, 0),
        pack_entry(100, 0x7FFFFFF0, 0),
        pack_entry(100, 0x7FFFFFFF, 0),
        bytes(20),
    ],
)
async def test_an_entry_that_lies_hides_nothing(world: World, entry: bytes, caplog: pytest.LogCaptureFixture) -> None:
    store = await filled(world)
    overwrite(world, 30, entry)
    assert bodies_of(store) == BODIES
    assert "lead to no record of this queue" in caplog.text


@pytest.mark.parametrize("seed", range(40))
async def test_seeded_bit_flips_hide_nothing_from_a_reader(world: World, seed: int) -> None:
    rng = random.Random(seed)
    store = await filled(world)
    for _ in range(rng.randint(1, 4)):
        number = rng.randrange(60)
        data = bytearray(pack_entry(*entries(store, "T")[number]))
        data[rng.randrange(12)] ^= 1 << rng.randrange(8)
        overwrite(world, number, data)
    assert bodies_of(store) == BODIES
    await store.stop()
    assert bodies_of(await world.started(consume_queue_file_bytes=FILE_BYTES)) == BODIES


async def test_records_with_ipv6_hosts_and_long_topics_are_known_as_their_own(world: World) -> None:
    topic = "%RETRY%" + "g" * 200
    store = await world.started(commit_log_file_bytes=65536)
    for name in ("T", topic, "\u00e4\u00f6\u00fc" * 10):
        for born in (bytes(8), bytes(20)):
            for stored in (bytes(8), bytes(20)):
                flag = (16 if len(born) == 20 else 0) | (32 if len(stored) == 20 else 0)
                result = store.put(PutMessage(name, 7, b"x", born_host=born, store_host=stored, sys_flag=flag))
                assert result.status.is_stored, result
        answer = store.get(name, 7, 0, 32, 1 << 20)
        assert [message.topic for message in decode_records(b"".join(answer.slices))] == [name] * 4
    await store.stop()


EQUAL = [b"%04d" % number + b"." * 160 for number in range(40)]  # records of 256 bytes


async def equal_sized(world: World) -> MessageStore:
    store = await world.started(consume_queue_file_bytes=FILE_BYTES, queue_flush_thorough_interval_ms=1000)
    put_ok(store, *EQUAL)
    assert {size for _offset, size, _tag in entries(store, "T")} == {256}
    await world.clock.run_for(3000)
    return store


def numbers_of(store: MessageStore) -> list[tuple[int, bytes]]:
    """(queue offset, body) of each message handed out; no plain read hands out another one."""
    found: list[tuple[int, bytes]] = []
    for offset in range(store.max_offset("T", 0)):
        plain = plain_read(store, offset)
        records = b"".join(store.get("T", 0, offset, 1, 1 << 20).slices)
        assert plain in (b"", records)
        found += [(message.queue_offset, message.body) for message in decode_records(records)]
    return found


def plain_read(store: MessageStore, offset: int) -> bytes:
    """What the kernel finds there."""
    if PlainFetch is None:
        return b""
    plain, queue = PlainFetch(store.fetch), store.queues.find("T", 0)
    assert queue is not None
    plain.begin()
    records = b"".join(plain.framed(b"")) if plain.fetch(queue, offset, 1, 1 << 20, None) else b""
    plain.end()
    return records


@pytest.mark.parametrize("number", [0, 7, 20, 39])
@pytest.mark.parametrize("bit", range(8, 13))
async def test_an_entry_that_names_another_record_of_its_queue_is_mended(
    world: World, number: int, bit: int, caplog: pytest.LogCaptureFixture
) -> None:
    """One bit of it is wrong, and a record of the same size lies there."""
    store = await equal_sized(world)
    sound = entries(store, "T")
    place, size, tag = sound[number]
    overwrite(world, number, pack_entry(place ^ 1 << bit, size, tag))
    if place ^ 1 << bit not in {offset for offset, *_others in sound}:
        return  # no record begins there: test_an_entry_that_lies_hides_nothing
    assert plain_read(store, number) == b""
    assert bodies_of(store) == EQUAL
    assert "lead to records that say another queue offset; 1 were found in the log again" in caplog.text
    assert entries(store, "T") == sound
    assert numbers_of(store) == list(enumerate(EQUAL))


@pytest.mark.parametrize("number", [0, 20, 39])
async def test_an_entry_that_names_a_record_of_the_deleted_topic_of_this_name_is_mended(
    world: World, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    """That record says the same topic, queue and queue offset: one wrong bit may lead there."""
    store = await equal_sized(world)
    dead = entries(store, "T")
    store.delete_topics(["T"])
    anew = [body.replace(b".", b"-") for body in EQUAL]
    put_ok(store, *anew)
    await world.clock.run_for(3000)
    sound = entries(store, "T")
    overwrite(world, number, pack_entry(*dead[number]))
    assert plain_read(store, number) == b""
    assert bodies_of(store) == anew
    assert "lead to no record of this queue; 1 were found in the log again" in caplog.text
    assert entries(store, "T") == sound
    assert numbers_of(store) == list(enumerate(anew))


async def test_a_neighbour_that_a_filter_refuses_hides_no_record(world: World) -> None:
    store = await equal_sized(world)
    place, size, tag = entries(store, "T")[20]
    overwrite(world, 20, pack_entry(place ^ 256, size, tag))
    answer = store.get("T", 0, 15, 20, 1 << 20, match_record=lambda record: EQUAL[20][:8] in bytes(record))
    assert [message.body for message in decode_records(b"".join(answer.slices))] == [EQUAL[20]]


@pytest.mark.parametrize("step", [1, -1, 3])
async def test_a_queue_out_of_step_with_its_records_is_handed_out_as_it_is(
    world: World, step: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Each record says another queue offset than its entry has, and no entry leads to a record of its own offset."""
    store = await equal_sized(world)
    sound = entries(store, "T")
    for number, (place, _size, _tag) in enumerate(sound):
        write_number(world, store, place, max(0, number + step))
    expected = [(max(0, number + step), body) for number, body in enumerate(EQUAL)]
    for _ in range(2):
        assert numbers_of(store) == expected
        assert bodies_of(store) == EQUAL
    assert entries(store, "T") == sound
    assert "lead to records that say another queue offset; they are handed out as they are" in caplog.text
    await store.stop()
    caplog.clear()
    store = await world.started(consume_queue_file_bytes=FILE_BYTES)
    assert "built again" not in caplog.text
    assert numbers_of(store) == expected


@pytest.mark.parametrize("said", [21, 19, 5, 39, 40, 1 << 40, -1, -(1 << 63), (1 << 63) - 1])
async def test_a_record_whose_own_number_is_damaged_is_handed_out_as_it_is(world: World, said: int) -> None:
    store = await equal_sized(world)
    sound = entries(store, "T")
    write_number(world, store, sound[20][0], said)
    for _ in range(2):
        assert numbers_of(store) == [(said if number == 20 else number, body) for number, body in enumerate(EQUAL)]
        assert bodies_of(store) == EQUAL
    assert entries(store, "T") == sound


async def test_another_record_is_handed_out_where_the_right_one_is_lost(world: World) -> None:
    """An entry names a neighbour, and in the log is no record of its offset any more."""
    store = await equal_sized(world)
    sound = entries(store, "T")
    write_number(world, store, sound[20][0], 1 << 40)
    overwrite(world, 20, pack_entry(sound[21][0], 256, 0))
    assert bodies_of(store) == [*EQUAL[:20], EQUAL[21], *EQUAL[21:]]


def write_number(world: World, store: MessageStore, place: int, number: int) -> None:
    """Have the record at `place` of the log say another queue offset."""
    mapped = store.log.list.find(place)
    assert mapped is not None
    world.disk.open(mapped.path).pwrite(number.to_bytes(8, "big", signed=True), place - mapped.start + 20)
