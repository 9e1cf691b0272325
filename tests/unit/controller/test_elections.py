"""Elections by a controller itself: which brokers it counts as living."""

from __future__ import annotations

from typing import cast

from rocketlake.base.clock import ManualClock
from rocketlake.controller.decider import Decider
from rocketlake.controller.group import Group, Member, group_key, to_json
from rocketlake.controller.questions import Heard
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
