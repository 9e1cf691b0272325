"""Acks, reads and dispatch wait for the stages that the role asks for; the role changes while the store runs."""

from __future__ import annotations

from collections.abc import Sequence

from rocketlake.base.clock import ManualClock
from rocketlake.store.durability import Demands, Durability, Stage
from rocketlake.store.results import PutStatus
from tests.unit.store.store_world import ROOT, World, bodies_of, message, put_ok

TWO_COPIES = Demands({Stage.REPLICATED: 3000}, reads=(Stage.CONFIRMED,))


class Log:
    """Stages of a log that ends at 1000, and what its acks were told."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.durability = Durability(lambda: 1000, self.clock)
        self.told: list[tuple[str, list[Stage]]] = []

    def ack(self, name: str, target: int, asked: dict[Stage, int]) -> None:
        def told(late: Sequence[Stage]) -> None:
            self.told.append((name, sorted(late, key=lambda stage: stage.value)))

        self.durability.when_durable(target, asked, told)


def test_an_ack_waits_for_the_lowest_stage_that_was_asked() -> None:
    log = Log()
    log.ack("nobody asks", 10, {})
    log.ack("both", 10, {Stage.FLUSHED: 1, Stage.REPLICATED: 1})
    log.ack("disk", 10, {Stage.FLUSHED: 1})
    assert log.told == [("nobody asks", [])]
    log.durability.advance(Stage.FLUSHED, 10)
    assert log.told[1:] == [("disk", [])]
    log.durability.advance(Stage.REPLICATED, 9)
    assert len(log.told) == 2
    log.durability.advance(Stage.REPLICATED, 10)
    assert log.told[2:] == [("both", [])]


def test_readers_see_up_to_the_lowest_stage_that_the_role_asks_of_reads() -> None:
    log = Log()
    durability = log.durability
    assert (durability.readable_end, durability.dispatches_at_once) == (1000, True)
    durability.demand(Demands(reads=(Stage.FLUSHED, Stage.CONFIRMED)))
    durability.advance(Stage.FLUSHED, 700)
    assert (durability.readable_end, durability.dispatches_at_once) == (0, False)
    durability.advance(Stage.CONFIRMED, 600)
    assert durability.readable_end == 600
    durability.advance(Stage.CONFIRMED, 2000)  # of the master, on a replica that is behind
    assert durability.readable_end == 700
    durability.demand(Demands())
    assert durability.readable_end == 1000


def test_readers_hear_of_a_stage_before_the_acks_and_only_of_one_that_they_wait_for() -> None:
    log = Log()
    log.durability.on_readable = lambda: log.told.append(("readers", []))
    log.ack("ack", 10, {Stage.FLUSHED: 1})
    log.durability.advance(Stage.FLUSHED, 10)
    assert log.told == [("ack", [])]
    log.durability.demand(Demands(reads=(Stage.FLUSHED,)))  # a change of the role may make more readable, too
    log.ack("ack", 20, {Stage.FLUSHED: 1})
    log.durability.advance(Stage.FLUSHED, 20)
    assert log.told[1:] == [("readers", []), ("readers", []), ("ack", [])]


async def test_each_stage_has_its_own_timeout_and_the_late_ones_are_named() -> None:
    log = Log()
    async with log.durability:
        log.ack("both", 10, {Stage.FLUSHED: 5000, Stage.REPLICATED: 3000})
        log.ack("replica", 10, {Stage.REPLICATED: 3000})
        await log.clock.run_for(1500)
        log.ack("shorter", 10, {Stage.REPLICATED: 1200})  # the role has changed in between
        await log.clock.run_for(1200)
        assert log.told == [("shorter", [Stage.REPLICATED])]
        await log.clock.run_for(300)
        assert log.told[1:] == [("replica", [Stage.REPLICATED])]
        await log.clock.run_for(1999)
        assert len(log.told) == 2
        await log.clock.run_for(1)
        assert log.told[2:] == [("both", [Stage.FLUSHED, Stage.REPLICATED])]


def test_a_stage_that_has_failed_is_late_at_once_and_others_are_waited_for() -> None:
    log = Log()
    log.ack("before", 10, {Stage.FLUSHED: 1})
    log.durability.fail(Stage.FLUSHED)
    log.ack("behind", 10, {Stage.FLUSHED: 1})
    log.ack("both", 10, {Stage.FLUSHED: 1, Stage.REPLICATED: 1})
    assert log.told == [("before", [Stage.FLUSHED]), ("behind", [Stage.FLUSHED])]
    log.durability.advance(Stage.REPLICATED, 10)
    assert log.told[2:] == [("both", [Stage.FLUSHED])]


def test_no_ack_of_a_message_that_was_cut_ever_comes() -> None:
    log = Log()
    log.durability.advance(Stage.REPLICATED, 100)
    log.ack("kept", 120, {Stage.FLUSHED: 1})
    log.ack("cut", 121, {Stage.FLUSHED: 1})
    log.durability.set_back(120)
    assert log.told == [("cut", [Stage.FLUSHED])]
    assert log.durability.replicated.value == 100
    log.durability.advance(Stage.FLUSHED, 200)  # other bytes than those that were cut
    assert log.told[1:] == [("kept", [])]
    log.durability.set_back(50)
    assert (log.durability.replicated.value, log.durability.flushed.value) == (50, 50)


# -- in a store --------------------------------------------------------------------------------------------------------


async def test_acks_reads_and_dispatch_of_a_store_wait_for_the_replicas(world: World) -> None:
    told: list[PutStatus] = []
    store = await world.started()
    arrived: list[int] = []
    store.on_arrival = lambda _topic, _queue_id, max_offset, _tag_code, _store_ms: arrived.append(max_offset)
    (alone,) = put_ok(store, b"alone")
    store.when_durable(alone, wait=True, done=told.append)
    store.durability.advance(Stage.CONFIRMED, alone.next_offset)
    store.durability.demand(TWO_COPIES)
    (result,) = put_ok(store, b"two copies")
    store.when_durable(result, wait=True, done=told.append)
    store.when_durable(result, wait=False, done=told.append)
    assert (told, bodies_of(store), arrived) == ([PutStatus.OK] * 2, [b"alone"], [1])
    store.durability.advance(Stage.REPLICATED, result.next_offset)
    assert (len(told), bodies_of(store)) == (3, [b"alone"])
    store.durability.advance(Stage.CONFIRMED, result.next_offset)
    assert (told, bodies_of(store), arrived) == ([PutStatus.OK] * 3, [b"alone", b"two copies"], [1, 2])


async def test_a_role_that_asks_for_nothing_any_more_makes_readable_what_has_waited(world: World) -> None:
    told: list[PutStatus] = []
    store = await world.started()
    store.durability.demand(TWO_COPIES)
    (first,) = put_ok(store, b"waits")
    store.when_durable(first, wait=True, done=told.append)
    assert bodies_of(store) == []
    store.durability.demand(Demands())
    (second,) = put_ok(store, b"at once")
    store.when_durable(second, wait=True, done=told.append)
    assert (told, bodies_of(store)) == ([PutStatus.OK], [b"waits", b"at once"])
    await world.clock.run_for(3000)
    assert told == [PutStatus.OK, PutStatus.FLUSH_SLAVE_TIMEOUT]  # it keeps what was asked of it


async def test_a_late_replica_is_told_apart_from_a_late_disk(world: World) -> None:
    told: list[PutStatus] = []
    store = await world.started(hold_sync=True, flush_disk_type="SYNC_FLUSH")
    store.durability.demand(Demands({Stage.FLUSHED: 2000, Stage.REPLICATED: 1000}))
    for reached in ((), (Stage.FLUSHED,), (Stage.REPLICATED,)):
        result = store.put(message())
        store.when_durable(result, wait=True, done=told.append)
        for stage in reached:
            store.durability.advance(stage, result.next_offset)
        await world.clock.run_for(2000)
    assert told == [
        PutStatus.FLUSH_SLAVE_TIMEOUT,
        PutStatus.FLUSH_SLAVE_TIMEOUT,
        PutStatus.FLUSH_DISK_TIMEOUT,
    ]


async def test_a_stop_dispatches_what_no_role_has_confirmed(world: World) -> None:
    store = await world.started()
    store.durability.demand(TWO_COPIES)
    put_ok(store, b"not confirmed")
    await store.stop()
    assert not world.disk.exists(ROOT / "abort")
    assert bodies_of(await world.started()) == [b"not confirmed"]
