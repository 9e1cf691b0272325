"""What befalls a group of processes: each kind begins, and mends what it has done at its end.

Owns        the kinds, by their names.
Must not know   what is measured meanwhile.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from tests.crash.group_processes import GroupProcesses, ReplicaProcess, in_a_thread

Kind = Callable[[GroupProcesses, ReplicaProcess], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def _kill(group: GroupProcesses, master: ReplicaProcess) -> AsyncIterator[None]:
    group.kill(master)
    yield
    await group.begin(master)


@asynccontextmanager
async def _kill_slave(group: GroupProcesses, master: ReplicaProcess) -> AsyncIterator[None]:
    async with _kill(group, random.choice(group.others(master))):
        yield


@asynccontextmanager
async def _kill_all(group: GroupProcesses, master: ReplicaProcess) -> AsyncIterator[None]:
    for broker in group.brokers:
        group.kill(broker)
    await asyncio.gather(*(group.begin(broker) for broker in group.brokers))
    yield


@asynccontextmanager
async def _pause(group: GroupProcesses, master: ReplicaProcess) -> AsyncIterator[None]:
    master.pause()
    yield
    master.resume()


@asynccontextmanager
async def _pause_slave(group: GroupProcesses, master: ReplicaProcess) -> AsyncIterator[None]:
    async with _pause(group, random.choice(group.others(master))):
        yield


@asynccontextmanager
async def _hand_over(group: GroupProcesses, master: ReplicaProcess) -> AsyncIterator[None]:
    master.ask_to_stop()
    yield
    await group.ended(master)
    await group.begin(master)


@asynccontextmanager
async def _pause_in_hand_over(group: GroupProcesses, master: ReplicaProcess) -> AsyncIterator[None]:
    master.ask_to_stop()
    await asyncio.sleep(random.uniform(0, 0.05))
    master.pause()
    yield
    master.resume()
    await group.ended(master)
    await group.begin(master)


# -- links -------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _cut_off(group: GroupProcesses, master: ReplicaProcess) -> AsyncIterator[None]:
    """Its clients reach it all the time."""
    group.cuts.cut([master.machine], group.doors)
    group.cuts.cut(group.doors, [master.machine])
    yield
    group.cuts.heal()


@asynccontextmanager
async def _cut_from_slaves(group: GroupProcesses, master: ReplicaProcess) -> AsyncIterator[None]:
    slaves = [each.machine for each in group.others(master)]
    group.cuts.cut([master.machine], slaves)
    group.cuts.cut(slaves, [master.machine])
    yield
    group.cuts.heal()


@asynccontextmanager
async def _cut_to_slaves(group: GroupProcesses, master: ReplicaProcess) -> AsyncIterator[None]:
    group.cuts.cut([master.machine], [each.machine for each in group.others(master)])
    yield
    group.cuts.heal()


@asynccontextmanager
async def _cut_from_one_slave(group: GroupProcesses, master: ReplicaProcess) -> AsyncIterator[None]:
    """What this slave reports does not arrive."""
    group.cuts.cut([random.choice(group.others(master)).machine], [master.machine])
    yield
    group.cuts.heal()


@asynccontextmanager
async def _cut_reports(group: GroupProcesses, master: ReplicaProcess) -> AsyncIterator[None]:
    """What the slaves report does not arrive."""
    group.cuts.cut([each.machine for each in group.others(master)], [master.machine])
    yield
    group.cuts.heal()


@asynccontextmanager
async def _cut_to_controllers(group: GroupProcesses, master: ReplicaProcess) -> AsyncIterator[None]:
    """Its heartbeats do not arrive; its slaves hear it."""
    group.cuts.cut([master.machine], [each.machine for each in group.controllers])
    yield
    group.cuts.heal()


@asynccontextmanager
async def _cut_from_controllers(group: GroupProcesses, master: ReplicaProcess) -> AsyncIterator[None]:
    """What the controllers say does not arrive."""
    group.cuts.cut([each.machine for each in group.controllers], [master.machine])
    yield
    group.cuts.heal()


@asynccontextmanager
async def _cut_controller_from_etcd(group: GroupProcesses, master: ReplicaProcess) -> AsyncIterator[None]:
    """One controller does not hear etcd; the master is killed then."""
    members = [machine for machine in group.doors if machine.startswith("127.0.3.")]
    group.cuts.cut(members, [group.controllers[0].machine])
    async with _kill(group, master):
        yield
        group.cuts.heal()


# -- controllers, etcd, disks ------------------------------------------------------------------------------------------


@asynccontextmanager
async def _kill_controller(group: GroupProcesses, master: ReplicaProcess) -> AsyncIterator[None]:
    """One of two, and then the master."""
    controller = random.choice(group.controllers)
    controller.kill()
    async with _kill(group, master):
        yield
    await in_a_thread(controller.start)


@asynccontextmanager
async def _kill_controllers(group: GroupProcesses, master: ReplicaProcess) -> AsyncIterator[None]:
    for controller in group.controllers:
        controller.kill()
    yield
    await asyncio.gather(*(in_a_thread(controller.start) for controller in group.controllers))


@asynccontextmanager
async def _kill_etcd_leader(group: GroupProcesses, master: ReplicaProcess) -> AsyncIterator[None]:
    """With the master: without a new leader of etcd nobody is elected."""
    await in_a_thread(group.etcd.kill_leader)
    async with _kill(group, master):
        yield
    await in_a_thread(group.etcd.mend)


@asynccontextmanager
async def _kill_etcd_majority(group: GroupProcesses, master: ReplicaProcess) -> AsyncIterator[None]:
    for member in random.sample(range(3), 2):
        group.etcd.kill(member)
    yield
    await in_a_thread(group.etcd.mend)


@asynccontextmanager
async def _lose_machine(group: GroupProcesses, master: ReplicaProcess) -> AsyncIterator[None]:
    """The master, a controller and the leader of etcd at once, and nobody is told: links are silent."""
    controller = group.controllers[0]
    group.cuts.cut([master.machine, controller.machine], group.doors)
    group.cuts.cut(group.doors, [master.machine, controller.machine])
    group.etcd.pause(group.etcd.leader() or 0)
    yield
    group.cuts.heal()
    await in_a_thread(group.etcd.mend)


@asynccontextmanager
async def _fill_slave(group: GroupProcesses, master: ReplicaProcess) -> AsyncIterator[None]:
    async with _fill(group, random.choice(group.others(master))):
        yield


@asynccontextmanager
async def _fill(group: GroupProcesses, master: ReplicaProcess) -> AsyncIterator[None]:
    disk = group.disk_of(master)
    disk.fill()
    yield
    disk.free()


KINDS: dict[str, Kind] = {
    "kill": _kill,
    "stop": _pause,
    "hand over": _hand_over,
    "kill a slave": _kill_slave,
    "stop a slave": _pause_slave,
    "cut off the master": _cut_off,
    "cut the master from its slaves": _cut_from_slaves,
    "cut one way to the slaves": _cut_to_slaves,
    "cut one way from the slaves": _cut_reports,
    "cut one way from a slave": _cut_from_one_slave,
    "cut one way to the controllers": _cut_to_controllers,
    "cut one way from the controllers": _cut_from_controllers,
    "cut a controller from etcd, kill": _cut_controller_from_etcd,
    "kill a controller, kill": _kill_controller,
    "kill both controllers": _kill_controllers,
    "kill etcd's leader, kill": _kill_etcd_leader,
    "kill etcd's majority": _kill_etcd_majority,
    "lose the master's machine": _lose_machine,
    "fill a slave's disk": _fill_slave,
    "fill the master's disk": _fill,
    "stop in a hand-over": _pause_in_hand_over,
    "kill all": _kill_all,
}
NEED_DISKS = frozenset({"fill a slave's disk", "fill the master's disk"})
