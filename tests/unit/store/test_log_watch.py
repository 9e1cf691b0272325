"""Files of the log that a hand removes or cuts under a store that runs: noticed, said, and no message is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.disk.faulty import Fault
from rocketlake.base.errors import StoreError
from rocketlake.codec.record import decode_records
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutStatus
from tests.unit.store.store_world import ROOT, World, bodies_of, message, put_ok

LOG = ROOT / "commitlog"
BODIES = [b"%03d" % number * 60 for number in range(60)]


def cut(world: World, path: Path, length: int) -> None:
    world.disk.open(path).truncate(length)


def bodies_at_each(store: MessageStore) -> list[bytes]:
    """What a consumer gets that goes on behind each hole."""
    found: list[bytes] = []
    for offset in range(len(BODIES)):
        answer = store.get("T", 0, offset, 1, 1 << 20)
        found += [message.body for message in decode_records(b"".join(answer.slices))]
    return found


def kept_without(store: MessageStore, start: int, end: int) -> list[bytes]:
    """The bodies of records that have no byte of the log from `start` to `end`."""
    entries = [store.queue_entries("T", 0, offset, 1)[0] for offset in range(len(BODIES))]
    places = [(place, place + size) for place, size, _code in entries]
    return [body for body, (first, behind) in zip(BODIES, places, strict=True) if behind <= start or first >= end]


async def test_a_removed_file_ends_the_puts_and_turns_the_health_red(world: World) -> None:
    store = await world.started(flush_disk_type="SYNC_FLUSH")
    put_ok(store, *BODIES)
    for name in world.disk.list_dir(LOG):
        world.disk.remove(LOG / name)
    await world.clock.run_for(2100)
    refused = store.put(message(b"lost"))
    assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert f"removed or moved away while the broker runs, and 3 others are lost, too ({LOG / f'{0:020d}'})" in (
        refused.reason
    )
    assert "/fd before the broker stops" in refused.reason
    assert store.health.troubles["store/writes"].reason == refused.reason
    assert bodies_of(store) == BODIES  # still open


async def test_a_moved_file_is_as_good_as_removed(world: World) -> None:
    store = await world.started()
    put_ok(store, *BODIES)
    world.disk.rename(LOG / f"{4096:020d}", ROOT / "elsewhere")
    await world.clock.run_for(1100)
    assert f"{4096:020d}" in store.put(message(b"lost")).reason
    await store.stop()
    assert world.disk.exists(ROOT / "abort")
    world.disk.rename(ROOT / "elsewhere", LOG / f"{4096:020d}")
    store = await world.started()
    assert bodies_of(store) == BODIES
    put_ok(store, b"next")


async def test_readers_do_not_come_behind_the_end_of_a_file_that_was_cut(world: World) -> None:
    store = await world.started()
    put_ok(store, *BODIES)
    cut(world, LOG / f"{4096:020d}", 1000)
    await world.clock.run_for(1100)
    mapped = store.log.list.files[1]
    assert len(mapped.view) == mapped.readable == 1000
    assert mapped.read(900, 101) is None
    reason = store.put(message(b"lost")).reason
    assert f"was cut to 1000 bytes while the broker runs ({LOG / f'{4096:020d}'})" in reason
    assert f"truncate -s 4096 {LOG / f'{4096:020d}'}" in reason
    assert bodies_at_each(store) == kept_without(store, 4096 + 1000, 8192)


async def test_what_the_store_itself_does_to_its_files_is_no_loss(world: World) -> None:
    store = await world.started()
    put_ok(store, *BODIES)
    world.files.plan.add(Fault("pwrite", "commitlog", times=1))
    assert not store.put(message(b"one")).status.is_stored  # the file is cut and lengthened again
    for mapped in store.log.list.drop_first(1):
        mapped.remove()
    await store.cut(store.queue_entries("T", 0, 50, 1)[0][0])
    await world.clock.run_for(2100)
    assert store.not_writable_reason == ""
    put_ok(store, b"next")


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("at", [1, 3])
async def test_the_cure_that_the_next_start_names_gives_up_only_what_was_cut(
    world: World, at: int, clean: bool
) -> None:
    store = await world.started()
    put_ok(store, *BODIES)
    await world.clock.run_for(12_000)  # all of the log is known to be safe
    start = store.log.list.files[at].start
    kept = kept_without(store, start + 1000, start + 4096)
    if clean:
        await store.stop()
    await world.killed()
    path = LOG / f"{start:020d}"
    cut(world, path, 1000)
    with pytest.raises(StoreError, match=f"file is 1000 bytes long.*`truncate -s 4096 {path}` gives up") as refused:
        await world.started()
    assert "start with the file size" not in str(refused.value)
    await world.killed()
    cut(world, path, 4096)
    store = await world.started()
    assert bodies_at_each(store) == kept
    put_ok(store, b"next")


async def test_an_emptied_log_is_said(world: World, caplog: pytest.LogCaptureFixture) -> None:
    store = await world.started()
    end = put_ok(store, *BODIES)[-1].next_offset
    await store.stop()
    for name in world.disk.list_dir(LOG):
        world.disk.remove(LOG / name)
    store = await world.started()
    assert f"the log has no file, but it was safe up to {end}: its messages are lost" in caplog.text
    assert bodies_of(store) == []
