"""Three replicas of one log under random masters, cuts of the network and kills: confirmed records stay, logs agree."""

from __future__ import annotations

import os
import random

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.model.positions import PhysicalOffset
from rocketlake.net.memory_net import MemoryNet
from rocketlake.store.dispatch_scan import scan
from rocketlake.store.durability import Stage
from rocketlake.store.message_store import MessageStore
from tests.epoch_group import PORT, Replica, Reports
from tests.seeds import seeds
from tests.unit.store.store_world import abandon, bodies_of

HOSTS = "abc"
STEPS = 40
_WHOLE = int(os.environ.get("ROCKETLAKE_SIM_SEEDS", "6"))


def record_starts(store: MessageStore) -> list[PhysicalOffset]:
    found: list[PhysicalOffset] = []
    for start, view in store.log_views(store.min_physical_offset):
        entries, _taken, _status = scan(view, start, False, ())
        found += [entry.physical_offset for entry in entries]
    return found


class AllThree(Reports):
    """Confirms what both other replicas have reported since this one became the master."""

    def reported(self, name: str, end: int) -> None:  # type: ignore[override]
        self.ends[name] = end  # type: ignore[assignment]
        if len(self.ends) == 2:
            self._store.durability.advance(Stage.CONFIRMED, min(self.ends.values()))


class Life:
    """One group and what its clients know."""

    def __init__(self, seed: int, *, rots: bool = False) -> None:
        self.draw = random.Random(seed)
        self.clock = ManualClock()
        self.net = MemoryNet(clock=self.clock)
        self.rotten = 0
        self.more = (self.rot, self.rot) * rots
        self.epoch = 0
        self.sent = 0
        self.master: Replica | None = None
        self.confirmed: list[bytes] = []
        """The longest list of messages that any reader has seen."""
        self.replicas = [self._new(host) for host in HOSTS]

    def _new(self, host: str, files: MemoryFiles | None = None) -> Replica:
        replica = Replica(
            self.clock, self.net.host(host), HOSTS.index(host) + 1, host=host, files=files, flush_least_pages=0
        )
        replica.reports = replica.leader.rule = AllThree(replica.store)
        return replica

    async def run(self) -> None:
        for replica in self.replicas:
            await replica.start()
        await self.elect()
        for _ in range(STEPS):
            steps = self.elect, self.put, self.put, self.cut, self.heal, self.kill, self.wait, *self.more
            await self.draw.choice(steps)()
            self.look()
        await self.elect()
        await self.heal()
        await self.put()
        await self.clock.run_for(3000)
        self.look()
        logs = {replica.log for replica in self.replicas}
        ends = [(replica.end, replica.confirmed, str(replica.epochs.history)) for replica in self.replicas]
        assert len(logs) == 1, ends
        assert {replica.confirmed for replica in self.replicas} == {self.replicas[0].end}, ends
        assert all(bodies_of(replica.store) == self.confirmed for replica in self.replicas)
        for replica in self.replicas:
            await replica.stop()

    async def elect(self) -> None:
        """Any replica will do that has all that is confirmed. The old master may not hear of it."""
        self.epoch += 1
        end = max(replica.confirmed for replica in self.replicas)
        able = [each for each in self.replicas if each.end >= end and each.store.damaged_from is None]
        master = self.draw.choice(able)
        self.master = master
        master.reports.ends.clear()
        master.leader.follow()
        await master.lead(self.epoch)
        for replica in self.replicas:
            if replica is not master and self.draw.random() < 0.8:
                replica.least_epoch = self.epoch
                await replica.follow(f"{master.host}:{PORT}")
        await self.wait()

    async def put(self) -> None:
        """Also to a master that was deposed and does not know it."""
        masters = [replica for replica in self.replicas if replica.leader.leads]
        for _ in range(self.draw.randrange(1, 8)):
            self.sent += 1
            self.draw.choice(masters).put(b"%d" % self.sent + bytes(self.draw.choice((0, 0, 700))))
        await self.wait()

    async def cut(self) -> None:
        self.net.partition(*self.draw.sample(HOSTS, 2))

    async def heal(self) -> None:
        self.net.heal()
        for replica in self.replicas:
            if replica is not self.master and self.master is not None:
                replica.least_epoch = self.epoch
                await replica.follow(f"{self.master.host}:{PORT}")

    async def wait(self) -> None:
        await self.clock.run_for(self.draw.choice((0, 1, 20, 1500)))

    async def rot(self) -> None:
        """A kill, and the disk loses a synced record that the next start looks at; one replica at a time."""
        await self.clock.run_for(2500)
        index = self.draw.randrange(3)
        replica = self.replicas[index]
        end = max(each.confirmed for each in self.replicas)
        page, files = replica.store.checkpoint, replica.store.log.list
        seen = files.find(max(files.min_offset, min(page.derived_offset, page.confirm_offset)))
        if any(each.end < end or each.store.damaged_from is not None for each in self.replicas) or seen is None:
            return
        starts = [offset for offset in record_starts(replica.store) if seen.start <= offset < page.confirm_offset]
        if not starts:
            return
        offset = self.draw.choice(starts)
        mapped = files.find(offset)
        assert mapped is not None and self.master is not None
        mapped.file.pwrite(b"x", offset - mapped.start)
        self.rotten += 1
        self.master.reports.ends.pop(str(replica.broker_id), None)  # the controller hears of it
        await self.kill(index)

    async def kill(self, index: int = -1) -> None:
        """kill -9 and a start; a master comes back as nobody until the next election."""
        index = self.draw.randrange(3) if index < 0 else index
        old = self.replicas[index]
        await old.follower.stop()
        await old.leader.stop()
        await abandon(old.store)
        assert isinstance(old.files, MemoryFiles)
        old.files.process_died()
        new = self.replicas[index] = self._new(old.host, old.files)
        new.least_epoch = old.least_epoch
        await new.start()
        if self.master is old:
            await self.elect()
        elif old.master:
            await new.follow(old.master)

    def look(self) -> None:
        """No reader sees two histories, on whichever replica it reads."""
        for replica in self.replicas:
            if replica.store.damaged_from is not None:
                continue  # it serves no reads
            seen = bodies_of(replica.store)
            common = min(len(seen), len(self.confirmed))
            assert seen[:common] == self.confirmed[:common]
            self.confirmed = max(self.confirmed, seen, key=len)
            assert not any("confirmed" in str(reason) for reason in replica.follower.health.troubles.values())


@pytest.mark.parametrize("seed", [13, *seeds("epochs", short=3, whole=_WHOLE)])
async def test_what_was_read_stays_and_all_logs_agree_in_the_end(seed: int) -> None:
    life = Life(seed)
    await life.run()
    assert life.confirmed


@pytest.mark.parametrize("seed", [0, *seeds("epochs and rot", short=1, whole=_WHOLE // 3)])
async def test_a_replica_whose_disk_loses_records_has_them_again_in_the_end(seed: int) -> None:
    life = Life(seed, rots=True)
    await life.run()
    assert life.rotten or seed
