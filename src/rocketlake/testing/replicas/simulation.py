"""Whole groups under faults, one for each seed: `python -m rocketlake.testing.replicas.simulation SEED` tells one.

Owns        the schedule of the faults, the healing, what must hold at the end.
Must not know   the rules of the parts.

Real are the decider, liveness, suspicion and elections of the controllers, and the set of replicas of a master. Stores
and sockets are modelled: a log is a list, a connection keeps its order.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import dataclass, field
from random import Random

from rocketlake.base.clock import ManualClock
from rocketlake.controller.registers.memory import Fault
from rocketlake.testing.replicas.broker import SimBroker
from rocketlake.testing.replicas.promises import Broken
from rocketlake.testing.replicas.rules import OURS, Rules
from rocketlake.testing.replicas.world import World
from rocketlake.testing.virtual_time import run_virtual

__all__ = ["Outcome", "run_group"]

_FAULTS_FROM, _FAULTS_UNTIL, _END = 2.0, 14.0, 24.0
_LONG = 4.0


@dataclass
class Outcome:
    """What a run came to."""

    problem: str = ""
    acked: int = 0
    epochs: int = 0
    longest_gap: float = 0.0
    events: list[str] = field(default_factory=list)


def run_group(seed: int, rules: Rules | None = None, only: str = "") -> Outcome:
    """Run one group, from the seed alone. `only`: a single fault of this name, which lasts for four seconds."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # faults are wanted here
    clock = ManualClock()
    try:
        return run_virtual(_run(seed, rules or OURS["two copies"], clock, only), clock)
    finally:
        logging.disable(before)


async def _run(seed: int, rules: Rules, clock: ManualClock, only: str) -> Outcome:
    world = World(seed, rules, clock)
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: _failed(world, context.get("exception")))
    await world.start()
    await clock.sleep(_FAULTS_FROM)
    faults = _Faults(world, Random(f"faults {seed}"), only)
    await faults.happen()
    await faults.heal()
    await clock.sleep(_END - clock.monotonic())
    world.clients.is_running = False
    await clock.sleep(2.0)
    await world.stop()
    try:
        _settled(world)
    except Broken as error:
        world.fail(error)
    told = world.clients
    return Outcome(
        problem=str(world.broken or ""),
        acked=len(told.told),
        epochs=world.group.master_epoch,
        longest_gap=told.longest_gap(_FAULTS_FROM, _END),
        events=world.events,
    )


def _failed(world: World, error: BaseException | None) -> None:
    world.fail(error if isinstance(error, Broken) else Broken(f"a call failed: {error!r}"))


def _settled(world: World) -> None:
    """All has healed: there is a master, it acknowledges, and its log agrees with what its clients were told."""
    group = world.group
    if group.master is None or len(group.in_sync) < world.rules.min_in_sync:
        raise Broken(f"all has healed, and the group does not acknowledge: {group}")
    if not any(moment > _END - 3.0 for moment in world.clients.told.values()):
        raise Broken(f"all has healed, and no send is acknowledged: {group}")
    log = world.brokers[group.master].log
    world.promises.holds_all(log, "the last master")
    world.clients.agree_with(log[: len(world.promises.acked)])


class _Faults:
    """The faults of one run."""

    def __init__(self, world: World, random: Random, only: str) -> None:
        self._world = world
        self._only = only
        self._random = random
        self._wires = world.wires
        self._lost: SimBroker | None = None
        """It is dead for good; the others have to do."""
        self._names = [*(each.name for each in world.brokers.values()), *(each.name for each in world.controllers)]

    async def happen(self) -> None:
        """They may overlap; every tenth run has none."""
        count = 0 if self._random.random() < 0.1 else self._random.randint(1, 10)
        kinds = {
            "kill": self._kill,
            "kill master": self._kill_master,
            "power": self._power,
            "power of master": self._power_of_master,
            "pause master": self._pause_master,
            "pause": self._pause,
            "cut one way": self._cut_one_way,
            "cut off": self._cut_off,
            "cut master from slaves": self._cut_master_from_slaves,
            "lose": self._lose,
            "slow": self._slow,
            "register": self._register,
            "slow register": self._slow_register,
            "controller": self._controller,
            "all": self._all,
            "joiner": self._joiner,
        }
        if self._world.rules.is_put_back:
            kinds["put back"] = self._put_back
            kinds["put back, one comes first"] = self._put_back_alone
        names = [self._only] if self._only else self._random.choices(tuple(kinds), k=count)
        under_way = []
        moments = sorted(self._random.uniform(_FAULTS_FROM, _FAULTS_UNTIL) for _ in names)
        for moment, name in zip(moments, names, strict=True):
            await self._world.clock.sleep(moment - self._world.clock.monotonic())
            self._world.note(f"fault: {name}")
            under_way.append(asyncio.ensure_future(kinds[name]()))
        for error in await asyncio.gather(*under_way, return_exceptions=True):
            if error is not None:
                _failed(self._world, error)

    async def heal(self) -> None:
        """All is well from now on."""
        self._wires.cuts.clear()
        self._wires.lost, self._wires.slow = 0.0, 1.0
        for controller in self._world.controllers:
            controller.register.faults.clear()
            controller.register.is_cut, controller.register.delay_seconds = False, 0.001
        self._world.note("healed")

    async def _while(self) -> None:
        seconds = self._random.choice((0.05, 0.5, 1.5, 4.0)) * self._random.uniform(0.5, 1.5)
        await self._world.clock.sleep(_LONG if self._only else seconds)

    def _broker(self) -> SimBroker:
        return self._world.brokers[self._random.choice(tuple(self._world.brokers))]

    def _master(self) -> SimBroker:
        return self._world.brokers[self._world.group.master or self._random.choice(tuple(self._world.brokers))]

    async def _kill(self, broker: SimBroker | None = None) -> None:
        broker = broker or self._broker()
        if broker.is_up:
            broker.stop()
            await self._while()
            broker.start()

    async def _kill_master(self) -> None:
        await self._kill(self._master())

    async def _power_of_master(self) -> None:
        await self._power(self._master())

    async def _power(self, broker: SimBroker | None = None) -> None:
        """One machine at a time, and not the last that holds all: only waiting for the disk would survive that."""
        world, broker = self._world, broker or self._broker()
        if world.rules.min_in_sync == 1 or any(each.lacks for each in world.brokers.values()):
            return
        if self._is_last_holder(broker):
            return
        if broker.is_up:
            broker.stop(power=True)
            await self._while()
            broker.start()

    def _is_last_holder(self, broker: SimBroker) -> bool:
        """True if no other machine that comes back holds all."""
        holders = [self._world.brokers[each] for each in self._world.group.electable]
        return all(each in (broker, self._lost) or each.lacks for each in holders)

    async def _all(self) -> None:
        """The whole group is killed, and its brokers come back one after the other, in any order."""
        brokers = [broker for broker in self._world.brokers.values() if broker.is_up]
        for broker in brokers:
            broker.stop()
        await self._while()
        for broker in self._random.sample(brokers, len(brokers)):
            broker.start()
            await self._world.clock.sleep(self._random.choice((0.0, 0.3, 1.5)))

    async def _joiner(self) -> None:
        """A replica dies while it joins, and the try that adds it has no answer; the first one is dead for good.

        Not the last that holds all: its group would wait for it.
        """
        world = self._world
        broker, master = self._broker(), self._master()
        if broker is master or not broker.is_up:
            return
        broker.stop()
        await world.clock.sleep(1.0)
        broker.start()
        for _ in range(300):
            own = master.set
            if own is not None and own.proposal is not None and broker.broker_id in own.proposal.members - own.recorded:
                for controller in world.controllers:
                    controller.register.faults.extend([Fault.LOST_UNKNOWN] * 2)
                break
            await world.clock.sleep(0.005)
        await world.clock.sleep(0.02)
        broker.stop()
        # After a register was put back all are waited for.
        if self._lost or world.rules.is_put_back or self._is_last_holder(broker):
            await self._while()
            broker.start()
        else:
            self._lost = broker

    async def _put_back(self, *, older_epoch: bool = False) -> None:
        """The controllers stop, and begin again on an older copy of the register.

        Not a second time before all members have met the first one: docs/internals/limits.md says what that costs.
        """
        world = self._world
        if world.is_put_back:
            return
        for controller in world.controllers:
            if controller.is_up:
                await controller.stop()
        world.put_back(self._random, older_epoch=older_epoch)
        await self._while()
        for controller in world.controllers:
            if not controller.is_up:
                await controller.start()

    async def _put_back_alone(self) -> None:
        """A broker misses one or two changes of the master, and is alone on a copy of before for a while."""
        first = self._master()
        others = [each for each in self._world.brokers.values() if each is not first]
        first.stop()
        await self._world.clock.sleep(self._random.choice((0.2, 1.0)))
        if self._random.random() < 0.5 and (second := self._master()) is not first:
            second.stop()
            await self._world.clock.sleep(0.5)
            second.start()
            await self._world.clock.sleep(self._random.choice((0.2, 1.0)))
        for broker in others:
            broker.stop()
        await self._put_back(older_epoch=True)
        for broker in (first, *others):
            if not broker.is_up:
                broker.start()
            await self._world.clock.sleep(self._random.choice((0.0, 1.5)) if broker is not first else 2.5)

    async def _pause(self, broker: SimBroker | None = None) -> None:
        broker = broker or self._broker()
        if not broker.is_paused:
            broker.pause()
            await self._while()
            broker.resume()

    async def _pause_master(self) -> None:
        await self._pause(self._master())

    async def _cut(self, cuts: set[tuple[str, str]]) -> None:
        self._wires.cuts |= cuts
        await self._while()
        self._wires.cuts -= cuts

    async def _cut_one_way(self) -> None:
        one, other = self._random.sample(self._names, 2)
        await self._cut({(one, other)})

    async def _cut_off(self) -> None:
        one = self._random.choice(self._names)
        await self._cut({pair for other in self._names for pair in ((one, other), (other, one))})

    async def _cut_master_from_slaves(self) -> None:
        one = self._master().name
        others = [each.name for each in self._world.brokers.values()]
        await self._cut({pair for other in others for pair in ((one, other), (other, one))})

    async def _lose(self) -> None:
        self._wires.lost = self._random.uniform(0.02, 0.3)
        await self._while()
        self._wires.lost = 0.0

    async def _slow(self) -> None:
        self._wires.slow = self._random.uniform(10, 300)
        await self._while()
        self._wires.slow = 1.0

    async def _register(self) -> None:
        """Some of the next swaps end in each way there is."""
        for controller in self._world.controllers:
            controller.register.faults.extend(self._random.choices([None, *Fault], k=3))
        await self._while()
        while self._world.shared.late:
            self._world.shared.deliver_late()

    async def _slow_register(self) -> None:
        """A controller that decides, waits, and comes back."""
        register = self._random.choice(self._world.controllers).register
        register.delay_seconds = self._random.uniform(0.01, 2.0)
        register.is_cut = self._random.random() < 0.3
        await self._while()
        register.delay_seconds, register.is_cut = 0.001, False

    async def _controller(self) -> None:
        controller = self._random.choice(self._world.controllers)
        if controller.is_up:
            await controller.stop()
            await self._while()
            await controller.start()


if __name__ == "__main__":
    outcome = run_group(int(sys.argv[1]))
    print(*outcome.events, outcome.problem, sep="\n")
