from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from rocketlake.base.disk.faulty import Fault
from rocketlake.base.worker import HandWorker, InlineWorker, Worker
from rocketlake.codec.record import decode_records
from rocketlake.store.config import StoreConfig
from rocketlake.store.message_store import MessageStore
from rocketlake.store.residency import BATCH_BYTES, BLOCK_BYTES
from rocketlake.store.results import GetResult, GetStatus
from tests.unit.store.store_world import ROOT, World, message, put_ok

LARGE = BLOCK_BYTES // 2 - 200
"""Of such bodies two and a bit fill a block."""


class Old:
    """A store whose log can be told to lie on disk only, and whose reads wait to be run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.reads = HandWorker()
        self.ended: list[Exception | None] = []
        self.store: MessageStore

    async def start(self) -> None:
        def workers(name: str) -> Worker:
            return self.reads if name == "store-reads" else InlineWorker(name)

        config = StoreConfig(
            commit_log_file_bytes=8 * BLOCK_BYTES, transfer_bytes_max_memory=1 << 24, index_slots=10, index_entries=100
        )
        self.store = MessageStore(ROOT, config, files=self.world.files, clock=self.world.clock, workers=workers)
        self.world.opened.append(self.store)
        await self.store.start()

    def cool(self, folder: str, *, after: int = 0, times: int = -1) -> None:
        """From now on (after so many looks) the files of this folder count as not in memory."""
        call = "is_resident" if folder == "commitlog" else "pread_now"
        self.world.files.plan.add(Fault(call, folder, after=after, times=times, error=None))

    def warm(self) -> None:
        self.world.files.plan.clear()

    def looks(self) -> int:
        return sum(1 for call, _path in self.world.files.plan.calls if call == "is_resident")

    def get(self, offset: int = 0, *, wait: bool = False, **limits: Any) -> GetResult:
        return self.store.get("T", 0, offset, limits.pop("count", 32), 1 << 24, wait=wait, **limits)

    def load(self, result: GetResult) -> None:
        self.store.load(result.cold, self.ended.append)

    def load_block(self, number: int) -> None:
        """Ask for one block of the first file of the log."""
        path = self.store.log.list.first.path
        self.store.load([(path, number * BLOCK_BYTES, BLOCK_BYTES)], self.ended.append)


@pytest.fixture
async def old(world: World) -> Old:
    old = Old(world)
    await old.start()
    return old


def bodies(result: GetResult) -> list[bytes]:
    return [found.body for found in decode_records(b"".join(result.slices))]


async def test_a_reader_that_must_not_wait_is_told_what_to_load(old: Old) -> None:
    put_ok(old.store, b"one", b"two")
    old.cool("commitlog")
    cold = old.get()
    assert (cold.status, cold.count, cold.slices, cold.next_offset) == (GetStatus.NOT_IN_MEMORY, 0, [], 0)
    ((path, position, size),) = cold.cold
    assert (path.parent.name, position, size) == ("commitlog", 0, old.store.max_physical_offset)
    old.load(cold)
    assert old.ended == []
    old.reads.run_one()
    assert old.ended == [None]
    assert ("pread", path) in old.world.files.plan.calls
    old.warm()
    assert bodies(old.get()) == [b"one", b"two"]


async def test_a_part_that_comes_into_memory_while_it_is_looked_at_is_named_all_the_same(old: Old) -> None:
    """The kernel reads ahead. Without a part to load, the answer would send the reader to the queue's next file."""
    put_ok(old.store, b"one")
    old.cool("commitlog", times=1)
    cold = old.get()
    assert (cold.status, cold.next_offset, len(cold.cold)) == (GetStatus.NOT_IN_MEMORY, 0, 1)
    assert bodies(old.get()) == [b"one"]


async def test_a_reader_that_may_wait_asks_nobody(old: Old) -> None:
    put_ok(old.store, b"one")
    old.cool("commitlog")
    old.cool("consumequeue")
    assert bodies(old.get(wait=True)) == [b"one"]
    assert old.looks() == 0


async def test_a_part_of_a_file_that_was_cut_meanwhile_is_an_error(old: Old) -> None:
    """To look at it through the mapping would kill the process."""
    put_ok(old.store, *(bytes([number]) * LARGE for number in range(6)))
    old.cool("commitlog")
    cold = old.get()
    old.world.disk.open(cold.cold[0][0]).truncate(1000)
    old.load(cold)
    while not old.ended:
        old.reads.run_one()
    assert "was cut to 1000 bytes" in str(old.ended[0])


async def test_queue_entries_that_are_on_disk_are_loaded_first(old: Old) -> None:
    put_ok(old.store, b"one", b"two")
    old.store.queues.flush()
    old.cool("consumequeue")
    cold = old.get(1)
    assert cold.status is GetStatus.NOT_IN_MEMORY
    (part,) = cold.cold
    assert (part[0].parent.parent.name, part[1]) == ("T", 0)
    old.warm()
    assert bodies(old.get(1)) == [b"two"]


async def test_an_answer_ends_where_the_disk_would_have_to_be_waited_for(old: Old) -> None:
    put_ok(old.store, *(bytes([number]) * LARGE for number in range(6)))
    old.cool("commitlog", after=2)  # into the first block, and into the first two
    found = old.get()
    assert (found.status, found.count, found.next_offset, found.cold) == (GetStatus.FOUND, 4, 4, [])
    rest = old.get(found.next_offset)
    assert rest.status is GetStatus.NOT_IN_MEMORY
    old.warm()
    assert bodies(old.get(4)) == [bytes([number]) * LARGE for number in range(4, 6)]


async def test_the_search_for_a_lost_entry_is_done_in_pieces_that_a_worker_brings(old: Old) -> None:
    log_file = old.store.config.commit_log_file_bytes
    put_ok(old.store, b"first")
    put_ok(old.store, *(bytes([number]) * LARGE for number in range(20)), topic="S")
    put_ok(old.store, b"lost")
    put_ok(old.store, *(bytes([number]) * LARGE for number in range(20)), topic="S")
    put_ok(old.store, b"last")
    old.store.queues.flush()
    queue = old.store.queues.find("T", 0)
    assert queue is not None
    queue.files[0].file.pwrite(bytes(20), 20)
    old.cool("commitlog")
    loaded: set[tuple[int, int]] = set()
    answers: list[list[bytes]] = []
    while sum(map(len, answers)) < 3:
        answer = old.get(sum(map(len, answers)))
        if answer.status is GetStatus.FOUND:
            answers.append(bodies(answer))
            continue
        assert answer.status is GetStatus.NOT_IN_MEMORY
        assert sum(size for _path, _position, size in answer.cold) <= BATCH_BYTES + BLOCK_BYTES
        for path, position, size in answer.cold:
            block = (int(path.name) + position) // BLOCK_BYTES
            loaded |= {(int(path.name) // log_file, block + number) for number in range(-(-size // BLOCK_BYTES))}
        old.load(answer)
        old.reads.run_all()
    assert [body for found in answers for body in found] == [b"first", b"lost", b"last"]
    assert {block for _file, block in loaded} == set(range(-(-old.store.max_physical_offset // BLOCK_BYTES)))
    assert queue.entry(1) is not None


async def test_all_that_one_answer_may_hold_is_loaded_at_once(old: Old) -> None:
    put_ok(old.store, *(bytes([number]) * LARGE for number in range(12)))
    old.cool("commitlog")
    blocks = [(position // BLOCK_BYTES, -(-size // BLOCK_BYTES)) for _path, position, size in old.get().cold]
    assert blocks[0] == (0, 1)
    assert max(first + count for first, count in blocks) == 6
    tag = old.store.put(message(b"x" * LARGE, properties=b"TAGS\x01A\x02"))
    only_tagged = old.get(match=lambda code: code != 0).cold
    assert [position // BLOCK_BYTES for _path, position, _size in only_tagged] == [tag.physical_offset // BLOCK_BYTES]


async def test_a_block_found_in_memory_is_sure_for_a_second(old: Old) -> None:
    put_ok(old.store, *(b"x" * 1000 for _ in range(100)))
    for offset in range(0, 96, 32):
        assert old.get(offset).count == 32
    assert old.looks() == 1
    old.cool("commitlog")
    assert old.get().count == 32
    old.world.clock.advance(1001)
    assert old.get().status is GetStatus.NOT_IN_MEMORY


async def test_a_block_that_many_want_is_read_once(old: Old) -> None:
    put_ok(old.store, b"one", b"two")
    old.cool("commitlog")
    first, second = old.get(0), old.get(1)
    assert first.cold == second.cold
    old.load(first)
    old.load(second)
    old.reads.run_all()
    assert old.ended == [None, None]
    reads = [path for call, path in old.world.files.plan.calls if call == "pread" and path.parent.name == "commitlog"]
    assert len(reads) == 1


async def test_a_reader_of_many_parts_waits_for_the_last_of_them(old: Old) -> None:
    put_ok(old.store, *(bytes([number]) * LARGE for number in range(16)))
    old.cool("commitlog")
    all_parts, last = old.get(), old.get(14)
    assert last.cold[-1] in all_parts.cold
    assert sum(size for _path, _position, size in all_parts.cold) > 2 * BATCH_BYTES
    old.load(last)
    old.store.load(all_parts.cold, lambda _error: old.ended.append(OSError("all")))
    ended = []
    while old.reads.pending:
        old.reads.run_one()
        ended.append(len(old.ended))
    assert len(ended) > 2 and ended == [1] * (len(ended) - 1) + [2]
    assert old.ended[0] is None


async def test_what_many_ask_for_meanwhile_is_read_in_one_go_and_neighbours_at_once(old: Old) -> None:
    put_ok(old.store, *(bytes([number]) * LARGE for number in range(12)))
    old.cool("commitlog")
    old.load_block(0)
    for number in (4, 2, 3):
        old.load_block(number)
    old.reads.run_one()
    assert old.ended == [None]
    old.world.files.plan.calls.clear()
    assert len(old.reads.pending) == 1
    old.reads.run_one()
    assert old.ended == [None] * 4
    assert [call for call, _path in old.world.files.plan.calls].count("pread") == 1


async def test_one_part_that_cannot_be_read_fails_nobody_else(old: Old) -> None:
    put_ok(old.store, *(bytes([number]) * LARGE for number in range(12)))
    old.cool("commitlog")
    for number in (0, 2, 5):
        old.load_block(number)
    old.reads.run_one()
    old.world.files.plan.add(Fault("pread", "commitlog", times=1))
    old.reads.run_one()
    first, failed, other = old.ended
    assert isinstance(failed, OSError)
    assert (first, other) == (None, None)


async def test_a_file_that_cannot_be_opened_fails_only_who_reads_it(old: Old) -> None:
    put_ok(old.store, *(bytes([number]) * LARGE for number in range(20)))
    old.cool("commitlog")
    old.load_block(0)
    broken, sound = old.store.log.list.first.path, old.store.log.list.last.path
    old.store.load([(broken, 5 * BLOCK_BYTES, BLOCK_BYTES)], old.ended.append)
    old.store.load([(sound, 0, BLOCK_BYTES)], old.ended.append)
    old.reads.run_one()
    old.world.files.plan.add(Fault("open", broken.name, times=1))
    old.reads.run_one()
    _first, failed, other = old.ended
    assert (isinstance(failed, OSError), other) == (True, None)


async def test_the_disk_rests_between_reads_if_it_is_told_to(old: Old) -> None:
    put_ok(old.store, *(bytes([number]) * LARGE for number in range(12)))
    old.cool("commitlog")
    old.store.residency.rest = lambda: 0.5
    old.load_block(0)
    old.load_block(5)
    old.reads.run_one()
    await old.world.clock.run_for(400)
    assert (old.ended, len(old.reads.pending)) == ([None], 0)
    await old.world.clock.run_for(200)
    old.reads.run_one()
    assert old.ended == [None, None]


async def test_a_store_that_stops_reads_no_more(old: Old) -> None:
    put_ok(old.store, *(bytes([number]) * LARGE for number in range(12)))
    old.cool("commitlog")
    old.load_block(0)
    old.load_block(5)
    await old.store.residency.stop()
    old.reads.run_all()
    assert old.ended == [None]  # the one that was being read
    old.load_block(2)
    assert not old.reads.pending


async def test_a_mistake_of_one_reader_ends_no_reading(old: Old) -> None:
    put_ok(old.store, *(bytes([number]) * LARGE for number in range(12)))
    old.cool("commitlog")
    path = old.store.log.list.first.path

    def fail(_error: Exception | None) -> None:
        raise RuntimeError("a mistake")

    old.store.load([(path, 0, BLOCK_BYTES)], fail)
    old.load_block(2)
    old.reads.run_one()
    old.reads.run_all()
    assert old.ended == [None]


async def test_while_a_part_is_read_nobody_asks_the_kernel_for_it(old: Old) -> None:
    put_ok(old.store, b"one")
    old.cool("commitlog")
    old.load(old.get())
    old.warm()
    looks = old.looks()
    assert old.get().status is GetStatus.NOT_IN_MEMORY
    assert old.looks() == looks
    old.reads.run_one()
    assert bodies(old.get()) == [b"one"]


async def test_a_disk_that_cannot_read_says_so_and_is_asked_again(old: Old) -> None:
    put_ok(old.store, b"one")
    old.cool("commitlog")
    old.world.files.plan.add(Fault("pread", "commitlog", times=1))
    cold = old.get()
    for _ in range(2):
        old.load(cold)
        old.reads.run_one()
    failed, again = old.ended
    assert isinstance(failed, OSError) and failed.errno == errno.EIO
    assert again is None


async def test_a_file_that_expires_meanwhile_is_no_error(old: Old) -> None:
    put_ok(old.store, b"one")
    old.cool("commitlog")
    cold = old.get()
    old.world.disk.remove(cold.cold[0][0])
    old.load(cold)
    old.reads.run_one()
    assert old.ended == [None]


@pytest.mark.parametrize("spoil", [lambda code: code == 1, lambda code: code == 0])
async def test_a_filter_is_obeyed_before_and_after_loading(old: Old, spoil: Callable[[int], bool]) -> None:
    put_ok(old.store, b"one", b"two")
    expected = old.get(match=spoil, wait=True)
    old.cool("commitlog")
    cold = old.get(match=spoil)
    if cold.status is GetStatus.NOT_IN_MEMORY:
        old.warm()
        cold = old.get(match=spoil)
    assert (cold.status, bodies(cold), cold.next_offset) == (expected.status, bodies(expected), expected.next_offset)


def damaged(old: Old, *lost: int) -> None:
    """A queue whose entries 1 to 3 lie far before entry 4 in the log; the entries `lost` are zeros."""
    put_ok(old.store, b"0", b"1")
    put_ok(old.store, *(bytes([number]) * LARGE for number in range(20)), topic="S")
    put_ok(old.store, b"2", b"3")
    put_ok(old.store, *(bytes([number]) * LARGE for number in range(20)), topic="S")
    put_ok(old.store, b"4")
    old.store.queues.flush()
    queue = old.store.queues.find("T", 0)
    assert queue is not None
    for offset in lost:
        queue.files[0].file.pwrite(bytes(20), 20 * offset)
    old.cool("commitlog")


async def test_a_search_that_a_reader_of_fewer_entries_began_gives_none_of_the_others_up(old: Old) -> None:
    damaged(old, 1, 3)
    cold = [GetResult(GetStatus.NOT_IN_MEMORY)]
    while cold:
        cold = [got for got in (old.get(1), old.get(1, count=1)) if got.status is GetStatus.NOT_IN_MEMORY]
        for got in cold:
            old.load(got)
        old.reads.run_all()
    assert bodies(old.get(1, wait=True)) == [b"1", b"2", b"3", b"4"]


async def test_readers_that_come_while_a_piece_of_a_search_is_read_do_not_end_it(old: Old) -> None:
    damaged(old, 1)
    while (cold := old.get(1)).status is GetStatus.NOT_IN_MEMORY:
        for _ in range(300):
            assert old.get(1).status is GetStatus.NOT_IN_MEMORY
        old.load(cold)
        old.reads.run_all()
    assert bodies(cold)[:1] == [b"1"]


async def test_a_read_that_must_not_wait_is_told_what_to_load_inside_work_that_must_not_wait_either(old: Old) -> None:
    """The test of a held pull with a filter runs inside the delivery of a delayed message that arrives at its queue."""
    put_ok(old.store, *(bytes([number]) * LARGE for number in range(40)))
    old.store.queues.flush()
    old.store.log.list.drop_first(1)
    old.cool("consumequeue")
    with old.store.disk_wait.none():
        assert old.get(39).status is GetStatus.NOT_IN_MEMORY
        assert not old.store.disk_wait.is_allowed
    assert old.store.disk_wait.is_allowed
