"""The set of a master at work: what acks wait for, when a replica is proposed, what an unknown outcome leaves open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import RemoteError
from rocketlake.broker.membership.controllers import ControllerSilent
from rocketlake.broker.membership.in_step import InStep, Pace
from rocketlake.model.positions import PhysicalOffset
from rocketlake.replication.sync_state_set import SyncStateSet
from rocketlake.store.durability import Demands, Durability, Stage


class Bench:
    """A master whose controller is played by hand: `answers` are given in order, then it is silent."""

    def __init__(self, pace: Pace | None = None) -> None:
        self.clock = ManualClock()
        self.end = 1000
        self.durability = Durability(lambda: PhysicalOffset(self.end), self.clock)
        self.durability.demand(Demands({Stage.FLUSHED: 5000}))
        self.asked: list[tuple[int, set[int], int]] = []
        self.answers: list[Any] = []
        self.unheard: set[int] = set()
        """Who is not alive for the controller."""
        self.look_ups: list[None] = []
        self.registrations: list[None] = []
        self.in_step = InStep(
            self.durability,
            lambda: PhysicalOffset(self.end),
            self.clock,
            pace or Pace(3000, 1.0),
            alter=self.alter,
            look_up=lambda: self.look_ups.append(None),
            register_again=lambda: self.registrations.append(None),
        )

    async def alter(self, epoch: int, members: frozenset[int], set_epoch: int) -> tuple[frozenset[int], int]:
        self.asked.append((epoch, set(members), set_epoch))
        replicas = self.in_step.replicas
        if replicas is not None and self.unheard & members - replicas.recorded:
            raise RemoteError("a joiner is not alive", code=2006)
        answer = self.answers.pop(0) if self.answers else ControllerSilent("no answer")
        if isinstance(answer, Exception):
            raise answer
        assert answer == "recorded"
        return members, set_epoch + 1

    def lead(self, *recorded: int, copies_min: int = 2, is_resumed: bool = False) -> SyncStateSet:
        start = PhysicalOffset(1000)
        replicas = SyncStateSet(1, recorded, 7, start=start, copies_min=copies_min, is_resumed=is_resumed)
        self.in_step.lead(replicas, 3)
        return replicas

    @property
    def confirmed(self) -> int:
        return self.durability.confirmed.value

    async def turn(self, ms: int = 0) -> None:
        if ms:
            await self.clock.run_for(ms)
        self.in_step.look(PhysicalOffset(self.end))
        await self.clock.settle()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    await bench.in_step.start()
    yield bench
    await bench.in_step.stop()


async def test_a_replica_joins_in_the_turn_in_which_it_may_and_sends_are_acknowledged_when_that_is_recorded(
    bench: Bench,
) -> None:
    replicas = bench.lead(1)
    bench.answers = ["recorded"]
    bench.in_step.reported("2", PhysicalOffset(999))
    assert replicas.proposal is None
    bench.in_step.reported("2", PhysicalOffset(1000))
    assert (replicas.members, bench.in_step.is_short, bench.confirmed) == ({1, 2}, True, 0)
    await bench.clock.settle()
    assert bench.asked == [(3, {1, 2}, 7)]
    assert (bench.in_step.is_short, bench.confirmed) == (False, 1000)


async def test_acks_wait_for_the_set_and_for_the_disk_if_that_was_asked(bench: Bench) -> None:
    bench.lead(1, 2)
    assert bench.durability.demands == Demands({Stage.FLUSHED: 5000, Stage.CONFIRMED: 3000}, (Stage.CONFIRMED,))


async def test_a_proposal_without_an_answer_is_made_again_until_it_is_known(bench: Bench) -> None:
    replicas = bench.lead(1)
    bench.answers = [ControllerSilent("cut"), RemoteError("not alive", code=2006), "recorded"]
    bench.in_step.reported("2", PhysicalOffset(1000))
    await bench.turn()
    assert replicas.members == {1, 2}
    await bench.turn(100)
    assert (replicas.members, len(bench.registrations)) == ({1, 2}, 1)  # the first try may still be recorded
    await bench.turn(100)
    assert (replicas.recorded, [members for _, members, _ in bench.asked]) == ({1, 2}, [{1, 2}] * 3)


async def test_a_member_whose_connection_ends_leaves_when_that_is_recorded(bench: Bench) -> None:
    bench.lead(1, 2, 3)
    for name in ("2", "3"):
        bench.in_step.reported(name, PhysicalOffset(1000))
    bench.end = 1200
    bench.in_step.left("3")
    bench.in_step.reported("2", PhysicalOffset(1200))
    assert bench.confirmed == 1000
    bench.answers = ["recorded"]
    await bench.clock.settle()
    assert (bench.asked, bench.confirmed) == ([(3, {1, 2}, 7)], 1200)


async def test_a_member_that_holds_up_acks_leaves_after_a_while_and_an_idle_one_stays(bench: Bench) -> None:
    bench.lead(1, 2, 3)
    for name in ("2", "3"):
        bench.in_step.reported(name, PhysicalOffset(1000))
    await bench.turn(5000)
    assert bench.asked == []
    bench.end = 1200
    bench.in_step.reported("2", PhysicalOffset(1200))
    await bench.turn(900)
    assert bench.asked == []
    await bench.turn(200)
    assert bench.asked == [(3, {1, 2}, 7)]


async def test_a_new_connection_that_has_less_counts_with_what_it_has(bench: Bench) -> None:
    bench.lead(1, 2)
    bench.in_step.reported("2", PhysicalOffset(1000))
    bench.end = 1300
    bench.in_step.reported("2", PhysicalOffset(700))
    bench.in_step.reported("2", PhysicalOffset(1300))
    assert bench.confirmed == 1300


async def test_the_end_of_the_role_ends_all_acks(bench: Bench) -> None:
    heard: list[bool] = []
    bench.lead(1, 2)
    bench.durability.confirmed.wait(1000, heard.append, float("inf"))
    bench.in_step.end()
    bench.in_step.reported("2", PhysicalOffset(1000))
    await bench.turn()
    assert (heard, bench.confirmed, bench.durability.demands.reads) == ([False], 0, (Stage.CONFIRMED,))


async def test_a_set_of_one_waits_for_nobody_until_a_replica_is_near(bench: Bench) -> None:
    replicas = bench.lead(1, copies_min=1)
    assert bench.durability.demands == Demands({Stage.FLUSHED: 5000})
    assert bench.confirmed == 1000
    bench.end = 5 << 20
    bench.in_step.reported("2", PhysicalOffset(1000))
    assert not bench.durability.demands.reads
    bench.in_step.reported("2", PhysicalOffset((5 << 20) - 10))
    assert (bench.durability.demands.reads, bench.confirmed) == ((Stage.CONFIRMED,), 5 << 20)
    bench.end += 100  # sent meanwhile: its ack waits, so the replica need not have it
    bench.in_step.reported("2", PhysicalOffset(5 << 20))
    assert (replicas.members, bench.confirmed) == ({1, 2}, 5 << 20)
    bench.in_step.reported("2", PhysicalOffset(bench.end))
    assert bench.confirmed == bench.end


async def test_a_set_of_one_stops_waiting_for_a_replica_that_does_not_come(bench: Bench) -> None:
    bench.lead(1, copies_min=1)
    bench.in_step.reported("2", PhysicalOffset(990))
    bench.end = 1500
    await bench.turn(500)
    assert bench.confirmed == 1000
    await bench.turn(600)
    assert (bench.confirmed, bench.durability.demands.reads) == (1500, ())


async def test_apaches_way_to_count_copies_of_any_replica_is_honoured() -> None:
    bench = Bench(Pace(3000, 1.0, copies=2))
    bench.lead(1, 2, 3)
    assert bench.durability.demands == Demands({Stage.FLUSHED: 5000, Stage.REPLICATED: 3000}, (Stage.CONFIRMED,))
    bench.in_step.reported("3", PhysicalOffset(900))
    assert (bench.durability.replicated.value, bench.confirmed) == (900, 0)


async def test_of_those_copies_only_members_of_the_recorded_set_count() -> None:
    """A stranger may connect and say that it is broker 7."""
    bench = Bench(Pace(3000, 1.0, copies=2))
    bench.lead(1, 2)
    bench.in_step.reported("2", PhysicalOffset(800))
    bench.in_step.reported("7", PhysicalOffset(1000))
    assert bench.durability.replicated.value == 800
    bench.in_step.learn(3, frozenset({1, 2, 7}), 8)
    assert bench.durability.replicated.value == 1000


async def test_a_newer_set_from_elsewhere_is_taken_in_this_epoch_only(bench: Bench) -> None:
    replicas = bench.lead(1)
    bench.in_step.learn(4, frozenset({1, 2}), 9)
    bench.in_step.learn(3, frozenset({2, 3}), 9)
    assert replicas.recorded == {1}
    bench.in_step.learn(3, frozenset({1, 2}), 9)
    assert replicas.recorded == {1, 2}
    await asyncio.sleep(0)


async def test_a_registration_ends_a_try_without_an_answer_when_the_next_one_is_refused(bench: Bench) -> None:
    """The joiner may be dead: then each try is refused, and the first one would stay open for ever."""
    replicas = bench.lead(1, 2)
    bench.in_step.reported("2", PhysicalOffset(1000))
    bench.answers = [ControllerSilent("cut"), *(RemoteError("3 is not alive", code=2006) for _ in range(20))]
    bench.in_step.reported("3", PhysicalOffset(1000))
    await bench.turn()
    bench.in_step.left("3")
    for _ in range(5):
        await bench.turn(100)
    assert (len(bench.registrations), replicas.members) == (1, {1, 2, 3})
    bench.in_step.learn(3, frozenset({1, 2}), 8)
    assert (replicas.proposal, replicas.members) == (None, {1, 2})


async def test_joiners_come_one_by_one_when_one_of_them_is_refused(bench: Bench) -> None:
    """The controller does not hear the second one, which follows all the same."""
    replicas = bench.lead(1, 4)
    bench.unheard, bench.answers = {2}, ["recorded"] * 2
    for name in ("4", "2", "3"):
        bench.in_step.reported(name, PhysicalOffset(1000))
    for _ in range(3):
        await bench.turn(100)
    assert [members for _, members, _ in bench.asked[:3]] == [{1, 2, 4}, {1, 2, 4}, {1, 3, 4}]
    assert replicas.recorded == {1, 3, 4}
    bench.in_step.left("4")
    for _ in range(3):
        await bench.turn(100)
    assert replicas.recorded == {1, 3}


async def test_what_a_master_acknowledged_alone_between_two_tries_is_what_a_joiner_must_have(bench: Bench) -> None:
    replicas = bench.lead(1, copies_min=1)
    bench.answers = [RemoteError("2 is not alive yet", code=2006)]
    bench.in_step.reported("2", PhysicalOffset(1000))
    await bench.clock.settle()
    assert not bench.durability.demands.reads
    bench.end = 1200  # acknowledged at once
    await bench.clock.run_for(100)
    assert (replicas.members, bench.confirmed) == ({1}, 1200)


async def test_a_master_that_was_started_again_has_its_set_changed_though_all_are_there(bench: Bench) -> None:
    replicas = bench.lead(1, 2, 3, is_resumed=True)
    bench.answers = ["recorded"] * 2
    for name in ("2", "3"):
        bench.in_step.reported(name, PhysicalOffset(1000))
    assert (bench.in_step.is_short, bench.confirmed) == (True, 0)
    await bench.turn(250)
    assert ([members for _, members, _ in bench.asked], replicas.recorded) == ([{1, 2}, {1, 2, 3}], {1, 2, 3})
    assert (bench.in_step.trouble, bench.confirmed) == ("", 1000)


async def test_a_replica_that_hangs_leaves_and_a_well_one_that_lacks_the_newest_message_stays(bench: Bench) -> None:
    replicas = bench.lead(1, 2, 3)
    bench.answers = ["recorded"] * 10
    for name in ("2", "3"):
        bench.in_step.reported(name, PhysicalOffset(1000))
    for _ in range(10):
        bench.in_step.reported("2", PhysicalOffset(bench.end))
        bench.end += 100
        await bench.turn(250)
    assert ([members for _, members, _ in bench.asked], bench.confirmed) == ([{1, 2}], bench.end - 100)
    bench.in_step.reported("3", PhysicalOffset(bench.end))
    await bench.clock.settle()
    assert replicas.recorded == {1, 2, 3}


async def test_a_short_set_does_not_take_back_who_hangs_until_it_moves(bench: Bench) -> None:
    replicas = bench.lead(1, 2)
    bench.answers = ["recorded"] * 10
    bench.in_step.reported("2", PhysicalOffset(1000))
    bench.end = 1200
    for _ in range(10):
        await bench.turn(250)
        bench.in_step.reported("2", PhysicalOffset(1000))
    assert [members for _, members, _ in bench.asked] == [{1}]
    assert "1 of 2 replicas" in bench.in_step.trouble
    bench.in_step.reported("2", PhysicalOffset(1100))
    await bench.clock.settle()
    assert (replicas.recorded, bench.confirmed) == ({1, 2}, 1100)


async def test_acks_that_wait_for_a_member_whose_leave_is_not_recorded_are_a_trouble(bench: Bench) -> None:
    bench.lead(1, 2, 3)
    for name in ("2", "3"):
        bench.in_step.reported(name, PhysicalOffset(1000))
    bench.end = 1200
    bench.in_step.reported("2", PhysicalOffset(1200))
    await bench.turn(11_000)
    assert "wait for the replicas [3]" in bench.in_step.trouble


async def slowly(bench: Bench, seconds: int, slow: Sequence[str], fast: Sequence[str] = ()) -> list[bool]:
    """A message a second; `slow` replicas take ten bytes four times a second, `fast` ones all. Which ones were late."""
    late: list[bool] = []
    slow_end = 1000
    for _ in range(seconds):
        bench.end += 1000
        bench.durability.when_durable(
            PhysicalOffset(bench.end), {Stage.CONFIRMED: 3000}, lambda stages: late.append(bool(stages))
        )
        for name in fast:
            bench.in_step.reported(name, PhysicalOffset(bench.end))
        for _ in range(4):
            slow_end += 10
            for name in slow:
                bench.in_step.reported(name, PhysicalOffset(slow_end))
            await bench.turn(250)
    return late


async def test_a_member_that_is_slower_than_the_producers_leaves_before_a_send_is_answered_late(bench: Bench) -> None:
    replicas = bench.lead(1, 2, 3)
    bench.answers = ["recorded"] * 10
    async with bench.durability:
        late = await slowly(bench, 8, ["3"], ["2"])
    assert (late, bench.asked, replicas.recorded) == ([False] * 8, [(3, {1, 2}, 7)], {1, 2})
    assert (bench.in_step.trouble, bench.in_step.stalled_ms) == ("", 0)


@pytest.mark.parametrize("slow", [["3"], ["2", "3"]])
async def test_members_that_are_all_slow_stay_and_that_is_a_trouble(bench: Bench, slow: list[str]) -> None:
    members = {1, *map(int, slow)}
    replicas = bench.lead(*members)
    async with bench.durability:
        late = await slowly(bench, 6, slow)
    assert (any(late), bench.asked, replicas.recorded) == (True, [], members)
    assert "are slower than the producers" in bench.in_step.trouble
    assert bench.in_step.stalled_ms >= 4000


async def test_the_slowest_leaves_when_the_other_one_is_a_little_late_too(bench: Bench) -> None:
    """With the two that are left sends are answered in time: "2" is 2.5 s behind, and "3" more and more."""
    replicas = bench.lead(1, 2, 3)
    bench.answers = ["recorded"] * 10
    late: list[bool] = []
    async with bench.durability:
        for quarter in range(60):
            bench.end += 250
            bench.durability.when_durable(
                PhysicalOffset(bench.end), {Stage.CONFIRMED: 3000}, lambda stages: late.append(bool(stages))
            )
            bench.in_step.reported("2", PhysicalOffset(max(1000 + 11 * quarter, bench.end - 10 * 250)))
            bench.in_step.reported("3", PhysicalOffset(1000 + 10 * quarter))
            await bench.turn(250)
    assert (bench.asked, replicas.recorded) == ([(3, {1, 2}, 7)], {1, 2})
    assert not any(late[-30:])


async def test_a_replica_without_which_nothing_is_acknowledged_waits_a_second_at_most(bench: Bench) -> None:
    replicas = bench.lead(1, 2)
    bench.answers = ["recorded"] * 100
    for _ in range(10):
        bench.in_step.reported("2", PhysicalOffset(1000))
        await bench.turn(50)
        bench.in_step.left("2")
        await bench.turn(1000)
    assert replicas.set_epoch == 7 + 19
