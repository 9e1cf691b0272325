"""A random walk of one group: its logs, its master's set of replicas, its controllers, with the real rules of both.

Owns        the replicas, controllers and messages of the model; its steps; what is compared after each step.
Must not know   time, tasks, stores, the network.

There is no time here, so no rule can lean on it: a message may come any number of steps later, or never, and any broker
may be suspected at any moment. Compared is what a client was told: an acknowledged record is in the log of each replica
that may be elected, and of each master.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from random import Random

from rocketlake.controller.group import EMPTY, Group, from_json, to_json
from rocketlake.controller.questions import AlterSet, ApplyId, Elect, Heard, Question, Register
from rocketlake.controller.registers.memory import SharedValues
from rocketlake.controller.registers.register import ABSENT, Swapped
from rocketlake.model.positions import PhysicalOffset
from rocketlake.protocol.response_code import ResponseCode as Code
from rocketlake.replication.sync_state_set import Follower, Proposal, ReportRefused, SyncStateSet
from rocketlake.testing.replicas.promises import Broken, Entry, Promises
from rocketlake.testing.replicas.rules import Rules

__all__ = ["Model"]

_KEY = "group"
_IDS = (1, 2, 3)


class Replica:
    """One broker: the log lives on; all else is forgotten in a crash."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.log: list[Entry] = []
        self.on_disk = 0
        """Entries that a power cut leaves."""
        self.boot = 1
        self.life = 1
        """Starts of its process."""
        self.known: tuple[int, int] | None = None
        """The newest epoch with a master that it has heard of, and that master."""
        self.is_up = True
        self.lacks = False
        """True from a power cut until it is registered: the controllers cannot know yet."""
        self.stop()

    def stop(self) -> None:
        """Forget all but the log, and what it knew of masters."""
        self.life += 1
        self.is_registered = False
        self.epoch = 0
        self.master: int | None = None
        self.set: SyncStateSet | None = None
        self.link: Follower | None = None
        """As a slave: our connection to the master; None before the handshake."""
        self.confirmed = 0
        """The highest confirm offset that it knows of, of any master."""


class Controller:
    """One controller: what it believes of the group and of the brokers may be old."""

    def __init__(self) -> None:
        self.group: Group = EMPTY
        self.revision = ABSENT
        self.heard: dict[int, Heard] = {}


class Model:
    """One group, from one seed."""

    def __init__(self, seed: int, rules: Rules, *, is_mild: bool = False) -> None:
        """`is_mild`: faults heal quickly: more is acknowledged, fewer masters."""
        self.random = Random(seed)
        self.rules = rules
        self.is_mild = is_mild
        self.replicas = {each: Replica(each) for each in _IDS}
        self.controllers = (Controller(), Controller())
        self.register = SharedValues()
        self.messages: list[Callable[[], object]] = []
        self.cuts: set[tuple[int, int]] = set()
        """Pairs of brokers, smaller id first; 0 and -1 stand for the controllers."""
        self.promises = Promises()
        self.elections = 0
        self._number = 0
        self._is_calm = True
        for each in _IDS:
            self._ask(0, ApplyId("c", each, f"b{each}"), lambda _code, _group: None)
        for each in _IDS:
            self._start(self.replicas[each], 0)
        self._ask(0, Elect(1), lambda _code, group: self._learn(self.replicas[1], group))
        self._is_calm = False

    @property
    def group(self) -> Group:
        """As it is recorded."""
        value = self.register.values.get(_KEY)
        return EMPTY if value is None else from_json(value[0])

    def run(self, steps: int) -> None:
        """Raises Broken at the first step after which a promise does not hold."""
        moves = (
            (1, self._cut_or_heal),
            (0.5, self._crash_or_start),
            (0.3, self._lose_power),
            (4, self._beat),
            (9, self._poll),
            (12, self._append),
            (1, self._flush),
            (32, self._copy),
            (24, self._deliver),
            (10, self._acknowledge),
            (6, self._propose),
            (2, self._propose_again),
            (0.6, self._suspect),
        )
        calls = [move for _weight, move in moves]
        for move in self.random.choices(calls, [weight for weight, _move in moves], k=steps):
            move(self.replicas[self.random.choice(_IDS)])

    # -- faults --------------------------------------------------------------------------------------------------------

    def _cut_or_heal(self, _replica: Replica) -> None:
        if self.is_mild and self.cuts:
            self.cuts.clear()
        elif not self.is_mild or self.random.random() < 0.3:
            self.cuts ^= {tuple(sorted(self.random.sample((-1, 0, *_IDS), 2)))}  # type: ignore[arg-type]

    def _crash_or_start(self, replica: Replica) -> None:
        down = [each for each in self.replicas.values() if not each.is_up]
        if self.is_mild and down:
            replica = self.random.choice(down)
        if not replica.is_up:
            replica.is_up = True
        else:
            replica.is_up = self.random.random() < 0.5
            replica.stop()
            self._unlink(replica)

    def _lose_power(self, replica: Replica) -> None:
        """Unless it is the last that holds all: then records are lost by any rule that does not wait for the disk."""
        if self.rules.min_in_sync == 1:
            return  # one copy may be one in memory
        group = self.group
        others = [each for each in group.electable - {replica.broker_id} if not self.replicas[each].lacks]
        if replica.on_disk == len(replica.log) or (replica.broker_id in group.electable and not others):
            return
        if any(each.lacks for each in self.replicas.values()):
            return  # one machine at a time is what is promised
        kept = self.random.randint(replica.on_disk, len(replica.log))
        del replica.log[kept:]
        replica.on_disk = kept
        replica.boot += 1
        replica.lacks = True
        replica.is_up = self.random.random() < 0.5
        replica.stop()
        self._unlink(replica)

    def _unlink(self, replica: Replica) -> None:
        for other in self.replicas.values():
            if other.master == replica.broker_id:
                other.link = None

    def _reaches(self, one: int, other: int) -> bool:
        return (min(one, other), max(one, other)) not in self.cuts

    # -- controllers ---------------------------------------------------------------------------------------------------

    def _beat(self, replica: Replica) -> None:
        for place, controller in enumerate(self.controllers):
            if replica.is_up and replica.is_registered and self._reaches(-place, replica.broker_id):
                epoch = replica.log[-1][0] if replica.log else 0
                known = max(epoch, replica.epoch) if self.rules.tells_life else -1
                heard = Heard(epoch, len(replica.log), boot_id=str(replica.boot), known_epoch=known)
                controller.heard[replica.broker_id] = heard

    def _suspect(self, _replica: Replica) -> None:
        """A controller believes, often wrongly, that the master is gone."""
        controller = self.random.choice(self.controllers)
        gone = {each for each in controller.heard if self.random.random() < 0.2} | {controller.group.master}
        self._decide(controller, Elect(), {each: of for each, of in controller.heard.items() if each not in gone})

    def _ask(self, place: int, question: Question, answer: Callable[[Code, Group], None]) -> None:
        controller = self.controllers[place]
        outcome = self._decide(controller, question, {**controller.heard})
        if outcome is not None:
            answer(*outcome)

    def _decide(self, controller: Controller, question: Question, alive: dict[int, Heard]) -> tuple[Code, Group] | None:
        """As the decider does: what is known may be old, so only a swap or a fresh look decides. None: no answer."""
        for _try in range(5):
            decision = self.rules.decide(controller.group, question, alive)
            if not decision.why:
                if self.register.values.get(_KEY, (b"", ABSENT))[1] == controller.revision:
                    return decision.code, decision.group
                self._look(controller)
                continue
            fate = 1.0 if self._is_calm else self.random.random()
            swap = partial(self._swap, to_json(decision.group), controller.revision)
            if fate < 0.05:
                self.messages.append(swap)
                return None
            outcome = swap()
            if fate < 0.1:
                return None
            self._look(controller)
            if outcome:
                return decision.code, decision.group
        return None

    def _swap(self, value: bytes, revision: int) -> bool:
        before = self.group
        if not self.rules.swaps_compare:
            revision = self.register.values.get(_KEY, (b"", ABSENT))[1]
        if not isinstance(self.register.swap(_KEY, revision, value), Swapped):
            return False
        group = self.group
        self.promises.recorded(before, group)
        self.elections += group.master_epoch > before.master_epoch
        self._check()
        return True

    def _look(self, controller: Controller) -> None:
        value = self.register.values.get(_KEY)
        if value is not None:
            controller.group, controller.revision = from_json(value[0]), value[1]

    # -- brokers -------------------------------------------------------------------------------------------------------

    def _start(self, replica: Replica, place: int) -> None:
        broker_id = replica.broker_id
        boot, life = str(replica.boot), replica.life

        def registered(code: Code, group: Group) -> None:
            if code == Code.SUCCESS and replica.is_up and replica.life == life:
                replica.is_registered = True
                replica.lacks = False
                self._learn(replica, group, is_start=True)

        question = Register(broker_id, f"b{broker_id}", boot_id=boot, min_in_sync=self.rules.min_in_sync)
        if self.rules.tells_life:
            question = dataclasses.replace(
                question,
                life=str(life),
                lives_before=frozenset(map(str, range(life))),
                known_epoch=replica.known[0] if replica.known else -1,
                known_master=replica.known,
            )
        self._ask(place, question, registered)

    def _poll(self, replica: Replica) -> None:
        """A broker asks for the state, now or, with a late answer, about what it was."""
        place = self.random.randrange(len(self.controllers))
        if not replica.is_up or not self._reaches(-place, replica.broker_id):
            return
        if not replica.is_registered:
            self._start(replica, place)
            return
        if self.random.random() < 0.5:
            self._look(self.controllers[place])
        group = self.controllers[place].group
        if group.master is None and self.random.random() < 0.5:
            self._ask(place, Elect(replica.broker_id), lambda _code, now: self._later(replica, now))
        else:
            self._later(replica, group)

    def _later(self, replica: Replica, group: Group) -> None:
        boot, life = replica.boot, replica.is_registered
        self.messages.append(
            lambda: self._learn(replica, group) if replica.is_up and (boot, life) == (replica.boot, True) else None
        )

    def _learn(self, replica: Replica, group: Group, *, is_start: bool = False) -> None:
        """A broker hears of a state of the group."""
        if not replica.is_registered or group.master_epoch < replica.epoch:
            return
        if group.master_epoch > replica.epoch:
            if replica.set is not None:
                replica.confirmed = max(replica.confirmed, replica.set.confirmed)
            replica.epoch, replica.master, replica.set, replica.link = group.master_epoch, group.master, None, None
            if group.master is not None:
                replica.known = group.master_epoch, group.master
            if group.master == replica.broker_id:
                self._promote(replica, group, is_resumed=is_start and self.rules.resumes)
        elif replica.set is not None:
            replica.set.record(group.in_sync, group.in_sync_epoch)

    def _promote(self, replica: Replica, group: Group, *, is_resumed: bool) -> None:
        replica.set = self.rules.sets(
            replica.broker_id,
            group.in_sync,
            group.in_sync_epoch,
            start=PhysicalOffset(len(replica.log)),
            copies_min=self.rules.min_in_sync,
            is_resumed=is_resumed,
        )
        if replica.epoch == self.group.master_epoch and not replica.lacks:
            self.promises.holds_all(replica.log, f"{replica.broker_id} is the master")

    def _append(self, replica: Replica) -> None:
        if replica.set is not None:
            self._number += 1
            replica.log.append((replica.epoch, self._number))

    def _flush(self, replica: Replica) -> None:
        replica.on_disk = self.random.randint(replica.on_disk, len(replica.log))

    def _copy(self, slave: Replica) -> None:
        """The stream to a slave: first the handshake and the cut to what both have, then entry after entry."""
        if (
            slave.master in (None, slave.broker_id)
            or not slave.is_up
            or not self._reaches(slave.broker_id, slave.master)
        ):
            return
        master = self.replicas[slave.master]
        if not master.is_up or master.set is None or master.epoch != slave.epoch:
            return
        if slave.link is None:
            common = 0
            while common < min(len(slave.log), len(master.log)) and slave.log[common] == master.log[common]:
                common += 1
            if common < slave.confirmed:
                raise Broken(f"{slave.broker_id} cuts its log to {common}, {slave.confirmed} is confirmed")
            del slave.log[common:]
            slave.on_disk = min(slave.on_disk, common)
            slave.link = master.set.connected(slave.broker_id)
            self._check()
        elif len(slave.log) < len(master.log):
            end = len(slave.log) + self.random.randint(1, 3)
            slave.log.extend(master.log[len(slave.log) : end])
        slave.confirmed = max(slave.confirmed, min(master.set.confirmed, len(slave.log)))
        self.messages.append(partial(self._report, master, master.set, slave.link, len(slave.log)))

    def _report(self, master: Replica, life: SyncStateSet, link: Follower, end: int) -> None:
        if master.is_up and master.set is life:
            try:
                life.report(link, PhysicalOffset(end), PhysicalOffset(len(master.log)))
            except ReportRefused:
                for slave in self.replicas.values():
                    if slave.link is link:
                        slave.link = None

    def _acknowledge(self, master: Replica) -> None:
        if master.set is None:
            return
        before = master.set.confirmed
        confirmed = master.set.advance(PhysicalOffset(len(master.log)))
        if confirmed < before:
            raise Broken(f"the confirm offset of {master.broker_id} fell from {before} to {confirmed}")
        self.promises.acknowledge(master.log, confirmed)
        self._check()

    def _propose(self, master: Replica) -> None:
        if master.set is None:
            return
        other = self.random.choice([each for each in _IDS if each != master.broker_id])
        if other not in master.set.recorded:
            proposal = master.set.propose(joining=(other,))
        elif self.random.random() < (0.03 if self.is_mild else 0.08) or master.set.is_short:
            proposal = master.set.propose(leaving=(other,))
        else:
            return
        if proposal is not None:
            self._send(master, proposal)

    def _propose_again(self, master: Replica) -> None:
        if master.set is not None and master.set.proposal is not None:
            self._send(master, master.set.proposal)

    def _send(self, master: Replica, proposal: Proposal) -> None:
        """The proposal reaches a controller later, or never; so does the answer."""
        own = master.set
        assert own is not None
        own.asked()
        question = AlterSet(master.broker_id, master.epoch, proposal.members, proposal.set_epoch)
        place = self.random.randrange(len(self.controllers))

        def answered(code: Code, group: Group) -> None:
            def hear() -> None:
                if master.set is own:
                    if code == Code.SUCCESS:
                        own.record(group.in_sync, group.in_sync_epoch)
                    else:
                        own.refused(proposal)

            self.messages.append(hear)

        def arrive() -> None:
            if self._reaches(-place, master.broker_id):
                self._ask(place, question, answered)

        self.messages.append(arrive)
        if self.rules.unknown_is_refused and self.random.random() < 0.3:
            own.refused(proposal)

    # -- messages and promises -----------------------------------------------------------------------------------------

    def _deliver(self, _replica: Replica) -> None:
        if self.messages:
            place = self.random.randrange(len(self.messages))
            self.messages[place], self.messages[-1] = self.messages[-1], self.messages[place]
            message = self.messages.pop()
            if self.random.random() >= 0.15:
                message()

    def _check(self) -> None:
        logs = {each: replica.log for each, replica in self.replicas.items() if not replica.lacks}
        self.promises.electable(self.group, logs)
