"""The AutoSwitch stream between our own replicas: masters change, logs are cut, old masters come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import HandWorker, InlineWorker
from rocketlake.model.positions import PhysicalOffset
from rocketlake.net.network import Network
from rocketlake.replication.epochs.history import Epoch, EpochHistory
from rocketlake.store.results import PutMessage, PutStatus
from tests.epoch_group import PORT, EpochGroup, Replica
from tests.unit.store.store_world import bodies_of as all_bodies


@pytest.fixture
async def group() -> AsyncIterator[EpochGroup]:
    group = EpochGroup()
    await group.start()
    yield group
    await group.stop()


def history(*entries: tuple[int, int]) -> EpochHistory:
    return EpochHistory(Epoch(*entry) for entry in entries)  # type: ignore[arg-type]


def bodies_of(replica: Replica) -> list[bytes]:
    return all_bodies(replica.store)


def numbered(name: bytes, count: int) -> list[bytes]:
    return [name + b"%d" % number + bytes(number % 5 * 300) for number in range(count)]


async def test_slaves_have_the_log_the_epoch_and_what_is_confirmed(group: EpochGroup) -> None:
    a, b, c = group.replicas
    await group.elect(a, 1, b, c)
    assert b.epochs.history == c.epochs.history == history((1, 0))  # of a master without a message
    bodies = numbered(b"a", 40)
    a.put(*bodies)
    await group.clock.run_for(1000)
    assert b.log == c.log == a.log
    assert (a.reports.ends, a.confirmed) == ({"2": a.end, "3": a.end}, a.end)
    assert (b.confirmed, c.confirmed) == (a.end, a.end)
    assert bodies_of(a) == bodies_of(b) == bodies_of(c) == bodies


async def test_nothing_is_put_between_the_masters_records(group: EpochGroup) -> None:
    """It would count as one of the master's epoch, and nobody could tell."""
    a, b, _c = group.replicas
    await group.elect(a, 1, b)
    a.put(b"one")
    await group.clock.run_for(1000)
    refused = b.store.put(PutMessage("T", 0, b"two"))
    assert (refused.status, b.end) == (PutStatus.SERVICE_NOT_AVAILABLE, a.end)
    await b.lead(2)
    b.put(b"three")
    assert b.end > a.end


async def test_readers_see_no_more_than_all_have(group: EpochGroup) -> None:
    a, b, c = group.replicas
    await group.elect(a, 1, b, c)
    a.put(b"one")
    await group.clock.run_for(1000)
    seen = a.end
    group.net.partition("a", "c")
    a.put(b"two")
    await group.clock.run_for(1000)
    assert (b.end > seen, a.confirmed, b.confirmed, c.end) == (True, seen, seen, seen)
    assert bodies_of(a) == bodies_of(b) == [b"one"]
    group.net.heal()
    await group.clock.run_for(25_000)
    assert bodies_of(a) == bodies_of(b) == bodies_of(c) == [b"one", b"two"]


async def test_an_old_master_that_comes_back_loses_what_nobody_else_has(group: EpochGroup) -> None:
    a, b, c = group.replicas
    await group.elect(a, 1, b, c)
    a.put(*numbered(b"a", 9))
    await group.clock.run_for(1000)
    common = a.end
    group.net.partition("a", "b")
    group.net.partition("a", "c")
    a.put(*numbered(b"lost", 12))
    await group.elect(b, 2, c)
    b.put(*numbered(b"b", 3))
    group.net.heal()
    assert a.end > common
    await a.follow(f"b:{PORT}")
    await group.clock.run_for(1000)
    assert a.log == b.log == c.log
    assert a.epochs.history == b.epochs.history == c.epochs.history == history((1, 0), (2, common))
    assert bodies_of(a) == numbered(b"a", 9) + numbered(b"b", 3)


async def test_epochs_without_bytes_and_a_master_that_stays_one(group: EpochGroup) -> None:
    a, b, c = group.replicas
    await group.elect(a, 1, b)
    a.put(*numbered(b"a", 3))
    await group.clock.run_for(1000)
    first = a.end
    for epoch, (master, slave) in enumerate([(b, a), (a, b), (b, a)], start=2):
        await group.elect(master, epoch, slave)
        await group.clock.run_for(1000)
    assert (a.epochs.history.last, b.epochs.history.last) == ((4, first), (4, first))
    b.put(b"four")
    await b.lead(7)
    b.put(b"seven")
    await c.follow(f"b:{PORT}")
    await group.clock.run_for(2000)
    assert a.log == b.log == c.log
    seven = b.epochs.history.epochs[-1]
    assert (a.epochs.history.number_at(first), a.epochs.history.last) == (4, seven)
    assert c.epochs.history == history((1, 0), (4, first), seven)  # bytes have those epochs only


async def test_a_deposed_master_is_not_followed(group: EpochGroup) -> None:
    a, b, c = group.replicas
    await group.elect(a, 1, c)
    a.put(*numbered(b"a", 5))
    await group.clock.run_for(1000)
    await b.follow(f"a:{PORT}")
    await group.clock.run_for(1000)
    await group.elect(b, 2, c)
    b.put(b"two")
    await group.clock.run_for(1000)
    kept = c.log
    await c.follow(f"a:{PORT}")  # an old address
    a.leader.lead()
    await group.clock.run_for(3000)
    assert (c.log, c.follower.status().is_connected) == (kept, False)
    assert a.reports.ends["3"] < c.end  # of its own time


async def test_a_slave_that_may_not_be_cut_says_so_and_follows_nobody(group: EpochGroup) -> None:
    a, b, _c = group.replicas
    await group.elect(a, 1, b)
    a.put(*numbered(b"a", 5))
    await group.clock.run_for(1000)
    await a.leader.stop()
    stranger = group.replicas[2]
    await group.elect(stranger, 5)
    stranger.put(*numbered(b"x", 9))
    await b.follower.stop()
    before = b.log
    await b.follow(f"c:{PORT}")
    await group.clock.run_for(15_000)
    assert b.log == before
    (reason,) = b.follower.health.troubles.values()
    assert "is confirmed" in str(reason) and "Cure: empty the store of this replica" in str(reason)


async def test_a_learner_follows_and_is_not_counted(group: EpochGroup) -> None:
    a, b, c = group.replicas
    c.is_learner = True
    await group.elect(a, 1, b, c)
    a.put(b"one")
    await group.clock.run_for(1000)
    assert (c.log, set(a.reports.ends)) == (a.log, {"2"})


async def test_a_replica_that_was_away_while_old_files_went_is_told_what_it_lacks(group: EpochGroup) -> None:
    a, b, _c = group.replicas
    await group.elect(a, 1, b)
    a.put(b"one")
    await group.clock.run_for(1000)
    await b.follower.stop()
    a.put(*numbered(b"a", 30))
    first = a.store.log.list.files[0]
    del a.store.log.list.files[0]  # as if it had expired
    await b.follow(f"a:{PORT}")
    await group.clock.run_for(3000)
    assert (b.end < first.end, b.follower.status().is_connected) == (True, False)


@pytest.mark.parametrize("master_dies", [False, True])
async def test_a_follower_that_stops_in_the_middle_of_a_truncation_waits_for_its_end(master_dies: bool) -> None:
    group, queues = EpochGroup(2), HandWorker()
    a, old = group.replicas
    b = group.replicas[1] = Replica(
        group.clock,
        group.net.host("b"),
        2,
        host="b",
        workers=lambda name: queues if name == "store-queues" else InlineWorker(name),
    )
    del old
    await group.start()
    await b.lead(1)
    b.put(*numbered(b"lost", 5))
    await group.elect(a, 2)
    a.put(b"kept")
    queues.run_all()
    await b.follow(f"a:{PORT}")
    await group.clock.run_for(20)
    assert (b.end, b.store.writable, len(queues.pending)) == (0, False, 1)  # the log is cut, its queues not synced
    assert b.follower.health.is_green
    await group.clock.run_for(10_000)
    (trouble,) = b.follower.health.troubles.values()
    assert "the log is being cut" in trouble.reason
    if master_dies:  # the connection ends by itself, the truncation goes on
        a.leader.follow()
        await group.clock.run_for(20)
    stopping = asyncio.create_task(b.follower.stop())
    await group.clock.run_for(20)
    assert not stopping.done()
    queues.run_all()
    await stopping
    assert (b.store.not_writable_reason, b.epochs.history) == ("", EpochHistory())
    await b.lead(3)
    b.put(b"new")
    await group.stop()


async def test_bytes_of_an_old_master_that_wait_for_a_log_file_are_not_appended_under_the_new_one() -> None:
    group, files = EpochGroup(3), HandWorker()
    a, _, c = group.replicas

    def worker(name: str) -> HandWorker | InlineWorker:
        return files if name == "store-files" else InlineWorker(name)

    b = group.replicas[1] = Replica(group.clock, group.net.host("b"), 2, host="b", workers=worker)

    async def run(milliseconds: int) -> None:
        for _ in range(milliseconds // 5):
            files.run_all()
            await group.clock.run_for(5)

    starting = asyncio.ensure_future(group.start())
    while not starting.done():
        await run(5)
    await a.lead(1)
    for replica in (b, c):
        await replica.follow(f"a:{PORT}")
    await run(200)
    while not b.store.log.is_late:  # its first file is full, the second one is not made yet
        a.put(b"x" * 100)
        await group.clock.run_for(20)
    group.net.partition("a", "c")
    a.put(b"of the old master")
    await group.clock.run_for(20)
    await c.lead(2)
    b.least_epoch, b.master = 2, f"c:{PORT}"
    b.follower.master_changed()
    await group.clock.run_for(100)
    await run(30)
    c.put(b"of the new one")
    await run(3000)
    assert b.log == c.log
    assert b"of the old master" not in b.log and b"of the new one" in b.log
    await run(10)
    await group.stop()


@pytest.mark.parametrize(("file_bytes", "what"), [(8192, "does not end with its file"), (2048, "goes beyond its file")])
async def test_a_slave_whose_log_files_have_another_length_is_red(file_bytes: int, what: str) -> None:
    group = EpochGroup(2)
    a = group.replicas[0]
    b = group.replicas[1] = Replica(group.clock, group.net.host("b"), 2, host="b", file_bytes=file_bytes)
    await group.start()
    await group.elect(a, 1, b)
    a.put(b"in the first file")
    await group.clock.run_for(2000)
    assert (b.end, b.follower.health.is_green) == (a.end, True)
    a.put(*[b"x" * 500 for _ in range(20)])
    await group.clock.run_for(9000)
    assert b.follower.health.is_green
    await group.clock.run_for(3000)
    (trouble,) = b.follower.health.troubles.values()
    assert what in trouble.reason and "mappedFileSizeCommitLog" in trouble.reason
    await group.stop()


class Deaf:
    """A network on which no connection to host "a" comes about."""

    def __init__(self, network: Network) -> None:
        self.listen = network.listen
        self._connect = network.connect

    async def connect(self, make_link: Callable[[], asyncio.Protocol], host: str, port: int) -> asyncio.Protocol:
        if host == "a":
            await asyncio.Event().wait()
        return await self._connect(make_link, host, port)


async def test_a_slave_that_tries_to_reach_a_dead_master_follows_the_new_one_at_once() -> None:
    group = EpochGroup(3)
    c = group.replicas[2]
    b = group.replicas[1] = Replica(group.clock, Deaf(group.net.host("b")), 2, host="b")
    await group.start()
    await b.follow(f"a:{PORT}")
    await group.clock.run_for(1000)
    await group.elect(c, 2)
    c.put(b"one")
    b.master = f"c:{PORT}"
    b.follower.master_changed()
    await group.clock.run_for(200)
    assert (b.end, b.follower.status().is_connected) == (c.end, True)
    b.master = f"a:{PORT}"
    b.follower.master_changed()
    await group.clock.run_for(16_000)
    (trouble,) = b.follower.health.troubles.values()
    assert trouble.reason == f"the stream from a:{PORT} ended: no connection within 5 s"


async def test_a_slave_with_write_buffers_has_after_a_kill_what_it_reported() -> None:
    group = EpochGroup(2)
    a = group.replicas[0]
    never = {"commit_interval_ms": 60_000, "commit_thorough_interval_ms": 60_000, "commit_wakes_on_put": False}
    b = group.replicas[1] = Replica(group.clock, group.net.host("b"), 2, host="b", write_pool_enabled=True, **never)
    await group.start()
    await group.elect(a, 1, b)
    a.put(*numbered(b"a", 30))
    await group.clock.run_for(1000)
    assert (a.reports.ends["2"], bodies_of(b)) == (a.end, numbered(b"a", 30))
    assert isinstance(b.files, MemoryFiles)
    again = Replica(group.clock, group.net.host("b2"), 2, host="b2", files=b.files.killed())
    await again.start()
    assert again.end == a.end
    await again.stop()
    await group.stop()


async def test_a_slave_that_reports_what_is_flushed_does_so_from_its_first_report_on() -> None:
    group = EpochGroup(2)
    a = group.replicas[0]
    b = group.replicas[1] = Replica(
        group.clock, group.net.host("b"), 2, host="b", reports_flushed=True, flush_least_pages=0
    )
    await group.start()
    await group.elect(a, 1, b)
    a.put(b"flushed")
    await group.clock.run_for(2000)
    flushed = a.end
    a.put(b"not yet")
    await group.clock.run_for(20)
    await b.follow(f"a:{PORT}")
    await group.clock.run_for(20)
    assert (b.end, b.store.flushed_offset, a.reports.ends["2"]) == (a.end, flushed, flushed)
    await group.clock.run_for(2000)
    assert a.reports.ends["2"] == a.end
    await group.stop()


async def one_epoch_with_two_masters(group: EpochGroup, bodies: list[bytes]) -> None:
    """A register that was put back gives epoch 2 twice; the logs of "a" and "b" have equal lengths."""
    a, b, c = group.replicas
    await group.elect(a, 1, b, c)
    a.put(*bodies)
    await group.clock.run_for(1000)
    for master in (a, b):
        await master.lead(2)
        master.put(*numbered(master.host.encode(), 7))
    assert (a.end, a.epochs.history) == (b.end, b.epochs.history)
    assert a.log != b.log


@pytest.mark.parametrize("count", [0, 9])
async def test_an_epoch_that_was_given_twice_is_found_out_by_its_records(group: EpochGroup, count: int) -> None:
    """Also much later: behind a forced election, on a register that has forgotten the masters of then."""
    a, b, c = group.replicas
    before = numbered(b"common", count)
    await one_epoch_with_two_masters(group, before)
    await group.elect(b, 7, c)
    b.put(b"later")
    await a.follow(f"b:{PORT}")
    await group.clock.run_for(1000)
    assert a.log == b.log == c.log
    assert bodies_of(a) == [*before, *numbered(b"b", 7), b"later"]


async def test_what_was_confirmed_in_an_epoch_that_was_given_twice_is_not_thrown_away(
    group: EpochGroup, caplog: pytest.LogCaptureFixture
) -> None:
    a, b, c = group.replicas
    await one_epoch_with_two_masters(group, numbered(b"common", 3))
    a.reports.ends.clear()  # "b" counts no more
    await c.follow(f"a:{PORT}")
    await group.clock.run_for(1000)
    assert a.confirmed == c.confirmed == a.end
    log = c.log
    with caplog.at_level("INFO"):
        await group.elect(b, 3, c)
        await group.clock.run_for(500)
    assert c.log == log
    assert "epoch 2 has other records in the log of the master" in caplog.text


async def test_a_damaged_record_that_marks_a_file_is_no_sign_of_another_master(group: EpochGroup) -> None:
    a, b, c = group.replicas
    await group.elect(a, 1, b, c)
    a.put(*numbered(b"m", 60))
    await group.clock.run_for(1000)
    newest = PhysicalOffset((a.confirmed - 1) // 4096 * 4096)
    assert c.confirmed == a.end > newest > 0
    ask = c.masters_mark
    assert ask is not None

    async def mark(offset: PhysicalOffset) -> str:
        return "as it was written" if offset == newest else await ask(offset)

    c.masters_mark = mark
    await c.store.note_damage(newest)
    await c.follow(f"a:{PORT}")
    a.put(b"later")
    await group.clock.run_for(1000)
    assert (c.log, c.store.damaged_from) == (a.log, None)


@pytest.mark.parametrize("admits", [True, False])
async def test_a_slave_reports_nothing_before_it_has_cut_its_log(group: EpochGroup, admits: bool) -> None:
    """What it has of an old master would count as records of the new one at the same places.

    Nor before the master has said that it counts these reports.
    """
    a, b, c = group.replicas
    await group.elect(a, 1, b, c)
    a.put(*numbered(b"a", 3))
    await group.clock.run_for(1000)
    common = a.end
    group.net.partition("a", "b")
    group.net.partition("a", "c")
    a.put(b"lost")
    await group.elect(b, 2, c)
    b.put(*numbered(b"b", 3))
    group.net.heal()
    is_asked, goes_on, ask = asyncio.Event(), asyncio.Event(), a.masters_mark
    assert ask is not None

    async def wait() -> None:
        is_asked.set()
        await goes_on.wait()

    async def mark(offset: PhysicalOffset) -> str:
        await wait()
        return await ask(offset)

    a.masters_mark, a.admission = (mark, None) if admits else (ask, wait)
    await a.follow(f"b:{PORT}")
    await group.clock.run_for(3000)  # longer than between two reports
    told, end = dict(b.reports.ends), a.end
    goes_on.set()
    assert is_asked.is_set() and end > common and "1" not in told
    await group.clock.run_for(1000)
    assert b.reports.ends["1"] == b.end and a.log == b.log


async def test_a_master_that_was_replaced_while_marks_came_cuts_nothing(group: EpochGroup) -> None:
    a = group.replicas[0]
    await one_epoch_with_two_masters(group, numbered(b"common", 3))
    ask, log = a.masters_mark, a.log
    assert ask is not None

    async def mark(offset: PhysicalOffset) -> str:
        a.least_epoch = 3  # the controller has named another one meanwhile
        return await ask(offset)

    a.masters_mark = mark
    await a.follow(f"b:{PORT}")
    await group.clock.run_for(1000)
    assert a.log == log
