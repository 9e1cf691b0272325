"""Two controllers on one register: whose decision counts, with every fate of a swap."""

from __future__ import annotations

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import LinkError
from rocketlake.controller.decider import Decider
from rocketlake.controller.group import EMPTY, Group, from_json, group_key
from rocketlake.controller.history import SWITCHES_MAX, history_change, history_prefix, switch_from_json
from rocketlake.controller.questions import AlterSet, ApplyId, Elect, Heard
from rocketlake.controller.registers.memory import Fault, MemoryRegister, SharedValues
from rocketlake.protocol.response_code import ResponseCode as Code

ALIVE = {1: Heard(), 2: Heard()}


class Controllers:
    """Two deciders; their links can be cut one by one."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.shared = SharedValues()
        self.registers = [MemoryRegister(self.shared, self.clock) for _ in range(2)]
        self.one, self.two = (
            Decider(register, self.clock, name) for register, name in zip(self.registers, ("one", "two"), strict=True)
        )

    async def with_group(self) -> Group:
        """Brokers 1 and 2, both in the set, 1 is the master."""
        for broker_id in (1, 2):
            await self.one.ask("b", ApplyId("c", broker_id, f"h{broker_id}:1;7"), lambda _: ALIVE)
        await self.one.ask("b", Elect(asker=1), lambda _: ALIVE)
        return (await self.one.ask("b", AlterSet(1, 1, frozenset({1, 2}), 1), lambda _: ALIVE)).group


async def test_an_answer_is_what_was_recorded() -> None:
    each = Controllers()
    group = await each.with_group()
    assert (group.master, group.in_sync, group.by) == (1, {1, 2}, "one/4")
    value, revision = each.shared.values[group_key("b")]
    assert from_json(value) == group == each.one.groups["b"]
    assert revision == 4


async def test_old_knowledge_costs_a_round_and_gives_no_wrong_answer() -> None:
    """The second controller knows nothing of the group; it neither refuses its master nor overwrites the state."""
    each = Controllers()
    group = await each.with_group()
    asked = AlterSet(1, group.master_epoch, frozenset({1}), group.in_sync_epoch)
    decision = await each.two.ask("b", asked, lambda _: ALIVE)
    assert (decision.code, decision.group.in_sync, decision.group.by) == (Code.SUCCESS, {1}, "two/1")
    late = await each.one.ask("b", AlterSet(1, 1, frozenset({1}), group.in_sync_epoch), lambda _: ALIVE)
    assert late.code == Code.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED
    assert late.group == decision.group


async def test_two_elections_at_once_make_one_master() -> None:
    each = Controllers()
    await each.with_group()
    await each.two.fresh("b")
    without_master = {2: Heard()}
    first = await each.one.ask("b", Elect(), lambda _: without_master)
    second = await each.two.ask("b", Elect(), lambda group: without_master if group.master == 1 else ALIVE)
    assert (first.code, first.group.master, first.group.master_epoch) == (Code.SUCCESS, 2, 2)
    assert (second.code, second.group) == (Code.CONTROLLER_MASTER_STILL_EXIST, first.group)


@pytest.mark.parametrize("fault", [Fault.CONFLICT, Fault.MADE_UNKNOWN])
async def test_a_swap_that_was_made_or_can_be_made_again_is_answered(fault: Fault) -> None:
    each = Controllers()
    await each.with_group()
    each.registers[0].faults.append(fault)
    decision = await each.one.ask("b", Elect(), lambda _: {2: Heard()})
    assert (decision.group.master, decision.group.master_epoch) == (2, 2)


@pytest.mark.parametrize("fault", [Fault.LOST_UNKNOWN, Fault.LATE_UNKNOWN, Fault.REFUSED])
async def test_what_cannot_be_known_is_no_answer_and_can_be_asked_again(fault: Fault) -> None:
    each = Controllers()
    await each.with_group()
    each.registers[0].faults.append(fault)
    with pytest.raises(LinkError):
        await each.one.ask("b", Elect(), lambda _: {2: Heard()})
    if fault is Fault.LATE_UNKNOWN:
        each.shared.deliver_late()
    again = await each.one.ask("b", Elect(), lambda group: {2: Heard()})
    assert (again.group.master, again.group.master_epoch) == (2, 2)


async def test_a_change_of_another_controller_is_told_at_once_and_a_missed_one_within_a_second() -> None:
    each = Controllers()
    told: list[tuple[int, int | None, bool]] = []
    each.two.on_changed.append(lambda _, before, after, ours: told.append((before.master_epoch, after.master, ours)))
    await each.two.start()
    await each.clock.settle()
    await each.with_group()
    await each.clock.settle()
    assert each.two.groups == each.one.groups
    each.registers[1].misses_changes = True
    await each.one.ask("b", Elect(), lambda _: {2: Heard()})
    await each.clock.run_for(1100)
    assert told[-1] == (1, 2, False)
    each.registers[1].is_cut = True
    await each.clock.run_for(10_000)
    assert not each.two.health.is_green
    each.registers[1].is_cut = False
    await each.clock.run_for(10_000)
    assert each.two.health.is_green
    await each.two.stop()


async def test_a_broken_state_is_a_trouble_of_its_group_only() -> None:
    each = Controllers()
    await each.with_group()
    await each.registers[0].swap(group_key("bad"), 0, b"{")
    await each.two.start()
    await each.clock.settle()
    assert "b" in each.two.groups
    assert "bad" not in each.two.groups
    assert list(each.two.health.troubles) == ["group bad"]
    await each.two.stop()


async def test_switches_are_kept_beside_the_state_the_last_hundred() -> None:
    each = Controllers()
    await each.with_group()
    await each.one.ask("b", Elect(), lambda _: {2: Heard()})
    found = sorted((await each.registers[0].read(history_prefix("b"))).items())
    switches = [switch_from_json(value) for _, (value, _) in found]
    assert [(each.epoch, each.before, each.master, each.in_sync) for each in switches if each] == [
        (1, None, 1, []),
        (2, 1, 2, [1, 2]),
    ]
    assert switch_from_json(b"{") is None
    late = Group(master_epoch=SWITCHES_MAX + 5)
    changes = history_change("b", EMPTY, late, "why", each.clock.now_ms())
    assert changes is not None
    assert [key for key, value in changes.items() if value is None] == ["history/b/0000000005"]
    assert history_change("b", late, late, "why", each.clock.now_ms()) is None
