"""A simulated group: brokers, controllers, their register, clients and wires, all on one virtual time.

Owns        the parts, the moments at which the promises are compared.
Must not know   which faults are played (simulation.py).

The world knows its parts by their types. They take it as Any: the other way round would be a circle of imports.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random

from rocketlake.base.clock import ManualClock
from rocketlake.controller.group import EMPTY, Group, from_json, group_key
from rocketlake.controller.questions import ApplyId
from rocketlake.controller.registers.memory import SharedValues
from rocketlake.controller.registers.register import Swap, Swapped
from rocketlake.testing.replicas.broker import SimBroker
from rocketlake.testing.replicas.clients import Clients
from rocketlake.testing.replicas.controllers import NAME, SimController
from rocketlake.testing.replicas.promises import Broken, Entry, Promises
from rocketlake.testing.replicas.rules import Rules
from rocketlake.testing.replicas.wires import Process, Wires

__all__ = ["World"]

_KEY = group_key(NAME)


class _Values(SharedValues):
    """The register, which sees each change."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.copies: list[bytes] = []
        """All values that the key of the group had, from the first set of several replicas on."""
        self._world = world

    def swap(self, key: str, revision: int, value: bytes, also: Mapping[str, bytes | None] | None = None) -> Swap:
        before = self._world.group
        if not self._world.rules.swaps_compare:
            revision = self.values.get(key, (b"", 0))[1]
        outcome = super().swap(key, revision, value, also)
        if isinstance(outcome, Swapped):
            self._world.recorded(before)
            if self.copies or len(self._world.group.in_sync) > 1:  # all have registered
                self.copies.append(value)
        return outcome

    def put_back(self, copy: bytes) -> None:
        """The key has an older value again."""
        super().swap(_KEY, self.values[_KEY][1], copy)


class World:
    """One run."""

    def __init__(self, seed: int, rules: Rules, clock: ManualClock) -> None:
        self.random = Random(seed)
        self.rules = rules
        self.clock = clock
        self.promises = Promises()
        self.shared = _Values(self)
        self.wires = Wires(self.random)
        self.brokers = {each: SimBroker(self, each) for each in (1, 2, 3)}
        self.controllers = [SimController(self, each) for each in (1, 2)]
        self.clients = Clients(self)
        self.events: list[str] = []
        self.broken: Broken | None = None
        self._group = EMPTY
        self.is_put_back = False
        """True while the register names sets of another time, and no member has told so."""

    @property
    def group(self) -> Group:
        """As it is recorded."""
        return self._group

    def now(self) -> float:
        """Virtual seconds."""
        return self.clock.monotonic()

    def named(self, address: str) -> SimBroker:
        """The broker with this address."""
        return next(broker for broker in self.brokers.values() if broker.name == address)

    def note(self, text: str) -> None:
        """One line for the reader of a failed run."""
        self.events.append(f"{self.now():7.3f} {text}")

    def every(self, process: Process, seconds: float, call: Callable[[], object]) -> None:
        """A timer of this life of the process; its first time is drawn."""
        life = process.life

        def tick() -> None:
            if process.life == life and process.is_up:
                if not process.is_paused:
                    self._guarded(call)
                asyncio.get_running_loop().call_later(seconds, tick)

        asyncio.get_running_loop().call_later(self.random.uniform(0, seconds), tick)

    def _guarded(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Broken as error:
            self.fail(error)

    def fail(self, error: Broken) -> None:
        """The first broken promise of the run."""
        if self.broken is None:
            self.broken = error
            self.note(f"BROKEN: {error}")

    async def start(self) -> None:
        """Three brokers with their ids; one of them asks to be the master."""
        for controller in self.controllers:
            await controller.start()
        for each, broker in self.brokers.items():
            await self.controllers[0].decider.ask(NAME, ApplyId("c", each, broker.name), lambda _group: {})
            broker.start()
        await self.clients.start()

    async def stop(self) -> None:
        """The end of the run."""
        await self.clients.stop()
        for controller in self.controllers:
            if controller.is_up:
                await controller.stop()

    # -- promises ------------------------------------------------------------------------------------------------------

    def recorded(self, before: Group) -> None:
        """The register has changed."""
        self._group = after = from_json(self.shared.values[_KEY][0])
        self.note(
            f"recorded: master {after.master} epoch {after.master_epoch} set {sorted(after.in_sync)}"
            f" eligible {sorted(after.eligible)} doubtful {sorted(after.doubtful)}"
        )
        self.is_put_back &= after.doubtful != after.members.keys()
        if not self.is_put_back:
            self._guarded(lambda: self.promises.recorded(before, after))
        self.check()

    def put_back(self, random: Random, *, older_epoch: bool = False) -> None:
        """The register is as it was some changes ago; `older_epoch`: at the end of an epoch before this one.

        While the whole group is down, nobody knows that a set within an epoch is old: docs/internals/limits.md.
        """
        copies = self.shared.copies
        if older_epoch:
            epochs = [from_json(copy).master_epoch for copy in copies]
            copies = [copy for copy, epoch, later in zip(copies, epochs, epochs[1:], strict=False) if epoch < later]
        self.note("an older copy of the register is put back")
        self.is_put_back = True
        self.promises.epochs.clear()  # some are given again before a member tells what it knows
        self.shared.put_back(random.choice(copies[-12:] or self.shared.copies[-1:]))
        self._group = from_json(self.shared.values[_KEY][0])

    def leads(self, broker: SimBroker) -> None:
        """A broker becomes the master."""
        if not broker.lacks and broker.epoch == self.group.master_epoch and not self.is_put_back:
            self.promises.holds_all(broker.log, f"{broker.broker_id} is the master of epoch {broker.epoch}")

    def acknowledge(self, log: list[Entry], confirmed: int) -> None:
        """A master confirms."""
        if confirmed > len(self.promises.acked):
            self.promises.acknowledge(log, confirmed)
            self.check()

    def check(self) -> None:
        """Each replica that may be elected holds all that was acknowledged."""
        if self.is_put_back:
            return
        logs = {each: broker.log for each, broker in self.brokers.items() if not broker.lacks}
        self._guarded(lambda: self.promises.electable(self.group, logs))
