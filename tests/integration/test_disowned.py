"""Members whose process the register does not know: another broker has the id, or the register is older."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from rocketlake.broker.membership.standing import State
from rocketlake.controller.group import from_json, group_key, to_json
from rocketlake.controller.questions import Register
from rocketlake.controller.registers.register import Swapped
from rocketlake.protocol.response_code import ResponseCode
from tests.replica_group import NAMESRV, ReplicaGroup

OK = ResponseCode.SUCCESS
NEW = "10.0.0.99"


async def give_id_away(group: ReplicaGroup, old: str, master: str) -> None:
    """`replicas move`: broker 2 runs on a copy of its disk at NEW, which does not reach the master."""
    copy = group.files[old].killed()
    group.net.cut_way(old, NAMESRV)
    await group.clock.run_for(3000)
    assert group.namesrv._controlling is not None
    controller = group.namesrv._controlling.controller
    question = Register(2, f"{NEW}:10911", min_in_sync=2)
    await group.run_through(
        asyncio.ensure_future(
            controller.decider.ask("b", question, lambda known: controller.liveness.alive("b", known.members.keys()))
        )
    )
    group.boots += 1
    group.boot(copy)
    group.files[NEW], group.hosts = copy, [*group.hosts, NEW]
    group.brokers[NEW] = group.new_broker(NEW)
    group.net.partition(master, NEW)
    await group.brokers[NEW].start()
    await group.until(lambda: group.state(NEW) is State.SLAVE)


async def test_a_member_whose_id_another_broker_has_follows_nobody() -> None:
    """Its acks would count for the broker that has the id now, which may be elected without these messages."""
    group = ReplicaGroup(2)
    await group.start()
    master, old = group.hosts
    assert group.master == master and await group.send(b"a") == OK
    await give_id_away(group, old, master)
    group.net.heal()
    group.net.partition(master, NEW)
    await group.until(lambda: "identity" in group.brokers[old].health.troubles)
    follower = group.brokers[old].replicas.follower
    for _ in range(8):  # name servers and the master go on to tell where the log is
        assert not follower.status().is_connected
        await group.clock.run_for(500)
    end = group.brokers[old].store.max_physical_offset
    assert await group.send(b"b", master) != OK
    assert group.brokers[old].store.max_physical_offset == end
    group.net.heal()
    await group.until(lambda: group.brokers[NEW].replicas.follower.status().is_connected)
    assert await group.send_until_taken(b"c") < 5000
    await group.until(lambda: group.bodies(NEW) == group.bodies(master) == [b"a", b"c"])
    await group.stop()


async def test_a_process_whose_id_another_one_has_counts_for_nothing_although_no_controller_reaches_it() -> None:
    """Both say the same id to the master, which goes by the marks of their lives."""
    group = ReplicaGroup(2)
    await group.start()
    master, old = group.hosts
    assert await group.send(b"a") == OK
    await give_id_away(group, old, master)
    assert group.net.is_cut(old, NAMESRV) and group.state(old) is State.SLAVE
    await group.clock.run_for(3000)
    end = group.brokers[old].store.max_physical_offset
    assert await group.send(b"b", master) != OK  # the broker with the id has nothing of it
    assert group.in_step == {1} and group.brokers[old].store.max_physical_offset == end
    await group.clock.run_for(10_000)
    assert "another process has the id 2" in group.brokers[old].health.troubles["replication/follower"].reason
    group.net.heal()
    group.net.cut_way(old, NAMESRV)
    await group.until(lambda: group.in_step == {1, 2})
    assert await group.send_until_taken(b"c") < 5000
    await group.until(lambda: group.bodies(NEW) == group.bodies(master))
    # "b" was refused at once or not answered in time, by then.
    assert [each for each in group.bodies(NEW) if each != b"b"] == [b"a", b"c"]
    assert group.brokers[old].store.max_physical_offset == end
    await group.stop()


async def test_a_member_whose_life_the_register_does_not_know_registers_again() -> None:
    """The register was written before lives, or put back to a moment between an id and its first registration."""
    group = ReplicaGroup(2)
    await group.start()
    assert group.namesrv._controlling is not None
    decider = group.namesrv._controlling.controller.decider
    key = group_key("b")
    value, revision = (await decider._register.read(key))[key]
    recorded = from_json(value)
    life = recorded.members[2].life
    members = {**recorded.members, 2: replace(recorded.members[2], life="")}
    assert life and isinstance(
        await decider._register.swap(key, revision, to_json(replace(recorded, members=members))), Swapped
    )
    await group.until(lambda: decider.groups["b"].members[2].life == "", 20_000)
    await group.until(lambda: decider.groups["b"].members[2].life == life, 20_000)
    await group.until(lambda: group.in_step == {1, 2})
    await group.stop()
