"""A simulated broker: a log of entries in place of a store, the real set of replicas in front of it.

Owns        what a broker asks its controllers, when it leads or follows, whom it proposes; its log over crashes.
Must not know   the rules of acknowledgement (replication/sync_state_set.py) and of election (controller/).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rocketlake.controller.group import Group
from rocketlake.controller.questions import AlterSet, Elect, Heard, Register
from rocketlake.controller.watch.liveness import Beat
from rocketlake.model.positions import PhysicalOffset
from rocketlake.protocol.response_code import ResponseCode as Code
from rocketlake.replication.set_changes import Changes
from rocketlake.replication.sync_state_set import Follower, Proposal, ReportRefused, SyncStateSet
from rocketlake.testing.replicas.promises import Broken, Entry
from rocketlake.testing.replicas.wires import Process, Stream

__all__ = ["SimBroker"]

_BEAT, _TICK, _POLL = 0.2, 0.1, 0.5
_SILENT, _ASK_AGAIN, _BEHIND = 1.0, 0.3, 1.0
_BATCH = 16
_FLUSHES = 0.1
"""Share of the ticks that bring something to the disk."""


class _Slave:
    """A replica that follows, as its master sees it."""

    def __init__(self, stream: Stream, follower: Follower, sent: int, now: float) -> None:
        self.stream = stream
        self.follower = follower
        self.sent = sent
        self.heard_at = now


class SimBroker(Process):
    """One broker of the group."""

    def __init__(self, world: Any, broker_id: int) -> None:
        super().__init__(f"broker-{broker_id}")
        self.world = world
        self.broker_id = broker_id
        self.log: list[Entry] = []
        self.on_disk = 0
        """Entries that a power cut leaves."""
        self.boot = 1
        self.lives: list[str] = []
        """This one, and those before it that the controllers may know."""
        self.known: tuple[int, int] | None = None
        """The newest epoch with a master, and that."""
        self.known_before: frozenset[tuple[int, int]] = frozenset()
        self.lacks = False
        """True from a power cut until it is registered: the controllers cannot know yet."""
        self.listens = True
        """False: its machine runs, and refuses connections for it."""
        self._forget()

    def _forget(self) -> None:
        self.is_registered = False
        self.epoch = 0
        self.seen_set_epoch = -1
        self.master: int | None = None
        self.set: SyncStateSet | None = None
        self.changes: Changes | None = None
        self.confirmed = 0
        self.token = object()
        """Our connection to the controllers."""
        self._slaves: dict[int, _Slave] = {}
        self._waiting: list[tuple[int, Callable[[bool], object]]] = []
        self._stalled_since: float | None = None
        self._asked_at = 0.0
        self._unmoved_since: float | None = None
        """When the confirm offset last grew, while the log is longer."""
        self._ended: Proposal | None = None
        self._behind_since: float | None = None
        self._stream: Stream | None = None
        self._master_heard_at = 0.0

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """A new process on the log that is there."""
        self.life += 1
        self.is_up = self.listens = True
        self.lives.append(f"{self.broker_id}-{self.life}")
        self._forget()
        self.world.every(self, _BEAT, self._beat)
        self.world.every(self, _TICK, self._tick)
        self.world.every(self, _POLL, self._poll)
        self._poll()

    def stop(self, *, power: bool = False) -> None:
        """kill -9: the log stays, peers hear that connections end. With `power` the end of the log may go, silently."""
        if not self.is_up:
            return
        self.is_up = False
        self.resume()
        self.listens = False
        if power:
            self.listens = True  # nobody is there to refuse
            self.boot += 1
            self.lacks = True
            kept = self.world.random.randint(self.on_disk, len(self.log))
            del self.log[kept:]
            self.on_disk = kept
        else:
            for controller in self.world.controllers:
                self.world.wires.send(self, controller, partial(controller.link_lost, self.token))
            for slave_id, slave in self._slaves.items():
                other = self.world.brokers[slave_id]
                self.world.wires.send(self, other, partial(other.stream_ended, slave.stream))

    # -- towards the controllers ---------------------------------------------------------------------------------------

    def _beat(self) -> None:
        if not self.is_registered:
            return
        now = self.world.now()
        silent = int((now - self._master_heard_at) * 1000) if self.set is None else None
        stalled = 0 if self._stalled_since is None else int((now - self._stalled_since) * 1000)
        beat = Beat(self.heard(), limit_ms=1000, ha_silent_ms=silent, ack_stalled_ms=stalled)
        for controller in self.world.controllers:
            self.world.wires.send(self, controller, partial(controller.hear, self.broker_id, self.token, beat))

    def heard(self) -> Heard:
        """What a heartbeat says of the log."""
        epoch = self.log[-1][0] if self.log else 0
        known = max(self.epoch, epoch) if self.world.rules.tells_life else -1
        known_master = self.known if self.world.rules.tells_life else None
        return Heard(epoch, len(self.log), boot_id=str(self.boot), known_epoch=known, known_master=known_master)

    def _poll(self) -> None:
        controller = self.world.random.choice(self.world.controllers)
        answer = partial(self.world.wires.send, controller, self)
        if not self.is_registered:
            question = self._registration()

            def registered(code: Code, group: Group) -> None:
                if code == Code.SUCCESS and not self.is_registered:
                    self.is_registered, self.lacks, self.lives = True, False, self.lives[-1:]
                    self.learn(group, is_start=True)

            self.world.wires.send(
                self, controller, lambda: controller.ask(question, lambda *said: answer(partial(registered, *said)))
            )
        else:
            self.world.wires.send(
                self, controller, lambda: controller.view(lambda group: answer(partial(self._seen, group)))
            )

    def _registration(self) -> Register:
        question = Register(self.broker_id, self.name, boot_id=str(self.boot), min_in_sync=self.world.rules.min_in_sync)
        if not self.world.rules.tells_life:
            return question
        *before, life = self.lives
        known = max(self.epoch, self.known[0] if self.known else -1)
        return replace(
            question,
            life=life,
            lives_before=frozenset(before),
            known_epoch=known,
            known_set_epoch=self._known_set_epoch() if known == self.epoch else -1,
            known_master=self.known,
            masters_before=self.known_before,
        )

    def _known_set_epoch(self) -> int:
        return self.seen_set_epoch if self.set is None else max(self.seen_set_epoch, self.set.set_epoch)

    def _register_again(self) -> None:
        self.is_registered = False
        self._poll()

    def _is_behind(self, group: Group) -> bool:
        """A controller that knows less than we do, for a second."""
        is_other = group.master_epoch == self.epoch and group.master != self.master
        if (group.master_epoch, group.in_sync_epoch) >= (self.epoch, self._known_set_epoch()) and not is_other:
            self._behind_since = None
        elif self._behind_since is None:
            self._behind_since = self.world.now()
        return self._behind_since is not None and self.world.now() - self._behind_since >= _BEHIND

    def _seen(self, group: Group) -> None:
        is_other = group.members[self.broker_id].life not in ("", self.lives[-1])
        if self.is_registered and self.world.rules.tells_life and (is_other or self._is_behind(group)):
            self._behind_since = None
            self._register_again()
            return
        self.learn(group)
        if group.master is None and group.master_epoch >= self.epoch:
            controller = self.world.random.choice(self.world.controllers)
            answer = partial(self.world.wires.send, controller, self)
            question = Elect(self.broker_id)
            self.world.wires.send(
                self,
                controller,
                lambda: controller.ask(question, lambda _code, now: answer(partial(self.learn, now))),
            )

    def learn(self, group: Group, *, is_start: bool = False) -> None:
        """A state of the group, perhaps an old one."""
        if not self.is_registered or group.master_epoch < self.epoch:
            return
        if self.world.rules.tells_life and group.contradicts(*(self.known or (None, None))):
            self._register_again()
            return
        if group.master_epoch == self.epoch:
            self.seen_set_epoch = max(self.seen_set_epoch, group.in_sync_epoch)
            own, changes = self.set, self.changes
            if own is not None and changes is not None and own.record(group.in_sync, group.in_sync_epoch):
                changes.recorded()
                self._advance()
            return
        if self.set is not None:
            self._step_down()
        self.epoch, self.master, self.set, self._stream = group.master_epoch, group.master, None, None
        self._master_heard_at = self.world.now()
        self.changes, self.seen_set_epoch = None, group.in_sync_epoch
        if group.master is not None:
            self.known_before |= set() if self.known is None else {self.known}
            self.known = group.master_epoch, group.master
        if group.master == self.broker_id:
            is_resumed = is_start and self.world.rules.resumes
            self.set = self.world.rules.sets(
                self.broker_id,
                group.in_sync,
                group.in_sync_epoch,
                start=PhysicalOffset(len(self.log)),
                copies_min=self.world.rules.min_in_sync,
                is_resumed=is_resumed,
            )
            self.changes = self.world.rules.changes(self.set)
            self._unmoved_since = None
            self.world.leads(self)
            self._advance()

    def _step_down(self) -> None:
        assert self.set is not None
        self.confirmed = max(self.confirmed, self.set.confirmed)
        self._slaves.clear()
        waiting, self._waiting, self._stalled_since = self._waiting, [], None
        for _end, answer in waiting:
            answer(False)

    # -- the master ----------------------------------------------------------------------------------------------------

    def put(self, number: int, answer: Callable[[bool], object]) -> None:
        """A client's send; the answer comes when it is acknowledged, or refused."""
        if self.set is None or (self.set.is_short and not self.world.rules.takes_while_short):
            answer(False)
            return
        self.log.append((self.epoch, number))
        if self.set.is_short:
            answer(False)
            return
        self._waiting.append((len(self.log), answer))
        if self._stalled_since is None:
            self._stalled_since = self.world.now()
        for slave_id in tuple(self._slaves):
            self._push(slave_id)
        self._advance()

    def hello(self, slave_id: int, epoch: int, stream: Stream, slave_log: Sequence[Entry]) -> None:
        """A replica wants to follow: it is told up to where its log and ours agree."""
        slave = self.world.brokers[slave_id]
        if self.set is None or epoch != self.epoch:
            stream.send(self, slave, partial(slave.stream_ended, stream))
            return
        same, common = self.world.rules.same, 0
        while common < min(len(slave_log), len(self.log)) and same(slave_log[common], self.log[common]):
            common += 1
        self._slaves.pop(slave_id, None)
        self._slaves[slave_id] = _Slave(stream, self.set.connected(slave_id), common, self.world.now())
        stream.send(self, slave, partial(slave.cut_to, stream, common))

    def _push(self, slave_id: int) -> None:
        assert self.set is not None
        follower, slave = self._slaves[slave_id], self.world.brokers[slave_id]
        entries = self.log[follower.sent : follower.sent + _BATCH]
        take = partial(slave.take, follower.stream, follower.sent, entries, self.set.confirmed)
        follower.sent += len(entries)
        follower.stream.send(self, slave, take)

    def reported(self, slave_id: int, stream: Stream, end: int) -> None:
        """A replica has the log up to `end`."""
        slave = self._slaves.get(slave_id)
        if self.set is None or slave is None or slave.stream is not stream:
            return
        slave.heard_at = self.world.now()
        try:
            self.set.report(slave.follower, PhysicalOffset(end), PhysicalOffset(len(self.log)))
        except ReportRefused:
            self._drop(slave_id)
            return
        assert self.changes is not None
        self.changes.came(slave_id)
        self._advance()
        if slave.sent < len(self.log):
            self._push(slave_id)

    def _drop(self, slave_id: int) -> None:
        assert self.set is not None
        slave, other = self._slaves.pop(slave_id), self.world.brokers[slave_id]
        slave.stream.send(self, other, partial(other.stream_ended, slave.stream))
        self.set.lost(slave.follower)
        if self.changes is not None:
            self.changes.went(slave_id)

    def _advance(self) -> None:
        assert self.set is not None
        before = self.set.confirmed
        confirmed = self.set.advance(PhysicalOffset(len(self.log)))
        if confirmed < before:
            raise Broken(f"the confirm offset of {self.broker_id} fell from {before} to {confirmed}")
        self.world.acknowledge(self.log, confirmed)
        if confirmed > before or confirmed == len(self.log):
            self._unmoved_since = self.world.now()
        while self._waiting and self._waiting[0][0] <= confirmed:
            self._waiting.pop(0)[1](True)
            self._stalled_since = self.world.now()
        if not self._waiting:
            self._stalled_since = None

    def _tick(self) -> None:
        if self.world.random.random() < _FLUSHES:
            self.on_disk = self.world.random.randint(self.on_disk, len(self.log))
        if self.set is None:
            self._follow()
            return
        for slave_id, slave in tuple(self._slaves.items()):
            if self.world.now() - slave.heard_at > _SILENT:
                self._drop(slave_id)
            else:
                self._push(slave_id)
        assert self.changes is not None
        if self._unmoved_since is None or self.set.confirmed == len(self.log):
            self._unmoved_since = self.world.now()
        elif self.world.now() - self._unmoved_since > _SILENT:
            self.changes.stalled()
        self._propose(self.set, self.changes)

    def _propose(self, own: SyncStateSet, changes: Changes) -> None:
        proposal = own.proposal
        if proposal is None:
            proposal = changes.propose(self._slaves)
        elif self.world.now() - self._asked_at < _ASK_AGAIN:
            return
        if proposal is not None:
            self._ask(own, proposal)

    def _ask(self, own: SyncStateSet, proposal: Proposal) -> None:
        own.asked()
        self._asked_at = self.world.now()
        question = AlterSet(self.broker_id, self.epoch, proposal.members, proposal.set_epoch)
        controller = self.world.random.choice(self.world.controllers)
        answer = partial(self.world.wires.send, controller, self)

        def answered(code: Code, group: Group) -> None:
            changes = self.changes
            if self.set is not own or changes is None:
                return
            if code == Code.SUCCESS and own.record(group.in_sync, group.in_sync_epoch):
                changes.recorded()
                self._advance()
            elif code != Code.SUCCESS:
                own.refused(proposal)
                changes.refused()
                if self.world.rules.registers_again and own.proposal is proposal is not self._ended:
                    self._ended = proposal
                    self._register_again()
                self.learn(group)

        self.world.wires.send(
            self, controller, lambda: controller.ask(question, lambda *said: answer(partial(answered, *said)))
        )
        if self.world.rules.unknown_is_refused and self.world.random.random() < 0.5:
            own.refused(proposal)

    # -- the slave -----------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        now = self.world.now()
        if self.master is None or self.master == self.broker_id:
            return
        if self._stream is not None and now - self._master_heard_at <= _SILENT:
            return
        if self._stream is not None:
            self._stream.is_open = False
        master = self.world.brokers[self.master]
        self._stream = stream = Stream(self.world.wires, self, master)
        if master.is_up:
            stream.send(self, master, partial(master.hello, self.broker_id, self.epoch, stream, self.log))
        elif not self.world.wires.are_cut(self, master) and not master.listens:
            self._stream = None  # refused: at once

    def stream_ended(self, stream: Stream) -> None:
        """The master's side has closed it."""
        if self._stream is stream:
            self._stream = None

    def cut_to(self, stream: Stream, common: int) -> None:
        """Up to here our log is that of the master; the rest goes."""
        if self._stream is not stream:
            return
        if common < self.confirmed and not self.lacks:
            raise Broken(f"{self.broker_id} cuts its log to {common}, {self.confirmed} is confirmed")
        del self.log[common:]
        self.on_disk = min(self.on_disk, common)
        self.world.check()
        self._report(stream)

    def take(self, stream: Stream, start: int, entries: Sequence[Entry], confirmed: int) -> None:
        """A stretch of the master's log."""
        if self._stream is not stream:
            return
        if start != len(self.log):
            raise Broken(f"{self.broker_id} at {len(self.log)} gets a stretch from {start}")
        self.log.extend(entries)
        self.confirmed = max(self.confirmed, min(confirmed, len(self.log)))
        self._report(stream)

    def _report(self, stream: Stream) -> None:
        self._master_heard_at = self.world.now()
        assert self.master is not None
        master = self.world.brokers[self.master]
        stream.send(self, master, partial(master.reported, self.broker_id, stream, len(self.log)))

    # -- readers -------------------------------------------------------------------------------------------------------

    def read(self, start: int) -> list[Entry]:
        """What a consumer gets: only what is confirmed, as far as this broker knows."""
        confirmed = self.confirmed if self.set is None else max(self.confirmed, self.set.confirmed)
        return self.log[start:confirmed]
