"""Elections by a controller itself: which brokers it counts as living."""

from __future__ import annotations

from typing import cast

from rocketlake.base.clock import ManualClock
from rocketlake.controller.decider import Decider
from rocketlake.controller.group import Group, Member, group_key, to_json
from rocketlake.controller.questions import AlterSet, Heard
from rocketlake.controller.registers.memory import MemoryRegister, SharedValues
from rocketlake.controller.watch.elections import Elections
from rocketlake.controller.watch.liveness import Beat, BrokerKey, Liveness
from rocketlake.controller.watch.probes import Door, Probes
from rocketlake.net.link import Link


class Refusing:
    """Nobody listens; a log is as it was told."""

    async def knock(self, _address: str) -> Door:
        return Door.REFUSED

    async def log_of(self, _address: str, known: Heard) -> Heard:
        return known


async def test_a_member_in_no_set_that_knows_a_newer_epoch_keeps_all_others_from_the_lead() -> None:
    """The register was put back: 3 leads in epoch 9, and is in no set of the old record."""
    clock, values = ManualClock(), SharedValues()
    members = {each: Member(address=f"10.0.0.{each}:1", life=f"w{each}") for each in (1, 2, 3)}
    sets = {"in_sync": frozenset({1, 2}), "in_sync_epoch": 9}
    values.swap(group_key("b"), 0, to_json(Group(next_id=4, members=members, master=1, master_epoch=5, **sets)))
    decider = Decider(MemoryRegister(values, clock), clock, "x")
    await decider.start()
    await clock.run_for(100)
    liveness = Liveness(clock, 1.0)
    elections = Elections(decider, liveness, cast(Probes, Refusing()), clock, lambda: False)
    await elections.start()
    liveness.refused(BrokerKey("b", 1))
    for each, known in ((3, 9), (2, 5)):
        beat = Beat(Heard(epoch=known, end_offset=100, known_epoch=known), limit_ms=60_000)
        liveness.hear(BrokerKey("b", each), cast(Link, object()), beat)
    await clock.run_for(300)
    await elections.stop()
    await decider.stop()
    assert decider.groups["b"].master is None


async def test_a_master_whose_replicas_are_slow_to_connect_is_not_replaced_by_one_that_is_cut_off() -> None:
    """1 is cut off from 2 and 3, and has the longest log. Replicas need three seconds to connect to another."""
    clock, values = ManualClock(), SharedValues()
    members = {each: Member(address=f"10.0.0.{each}:1", min_in_sync=2) for each in (1, 2, 3)}
    sets = {"in_sync": frozenset({1}), "in_sync_epoch": 9, "eligible": frozenset({2, 3}), "min_in_sync": 2}
    values.swap(group_key("b"), 0, to_json(Group(next_id=4, members=members, master=1, master_epoch=5, **sets)))
    decider = Decider(MemoryRegister(values, clock), clock, "x")
    await decider.start()
    await clock.run_for(100)
    liveness = Liveness(clock, 1.0)
    elections = Elections(decider, liveness, cast(Probes, Refusing()), clock, lambda: False)
    await elections.start()
    links = {each: cast(Link, object()) for each in members}

    async def stands(waits_ms: int) -> int | None:
        """The master, after its replicas have not heard it, and it has waited for them, for so long."""
        for each, link in links.items():
            leads = each == decider.groups["b"].master
            waits = {"ack_stalled_ms": waits_ms} if leads else {"ha_silent_ms": waits_ms}
            liveness.hear(BrokerKey("b", each), link, Beat(Heard(epoch=5, end_offset=100 - each), **waits))
        await clock.run_for(300)
        return decider.groups["b"].master

    async def has_copies(others: frozenset[int]) -> None:
        group = decider.groups["b"]
        asked = AlterSet(group.master or 0, group.master_epoch, others | {group.master or 0}, group.in_sync_epoch)
        assert (await decider.ask("b", asked, lambda group: liveness.alive("b", group.members.keys()))).why

    found = [await stands(waits_ms) for waits_ms in (1900, 2000, 3900, 4000, 7900)]
    assert found == [1, 2, 2, 3, 3]
    await has_copies(frozenset({2}))
    assert await stands(7900) == 3  # what is heard is older than the set
    assert await stands(0) == 3
    await has_copies(frozenset())
    found = [await stands(waits_ms) for waits_ms in (1900, 2000)]
    assert found == [3, 2]
    await elections.stop()
    await decider.stop()
