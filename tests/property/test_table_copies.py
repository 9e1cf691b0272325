"""Random changes on a master, cut links and a restart: its slave's tables are never empty or older than before, and end
equal.

What a slave holds at any moment is what the master held at one moment, and these moments follow one another.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from rocketlake.broker.tables.saved_table import SavedTable
from rocketlake.model.group import GroupConfig
from rocketlake.model.topic import TopicConfig
from rocketlake.store.results import PutMessage
from tests.replica_pair import MASTER, SLAVE, ReplicaPair
from tests.seeds import seeds

WHOLE = int(os.environ.get("ROCKETLAKE_SIM_SEEDS", "10")) // 3


def topics(table: Any) -> object:
    return {topic.name: topic for topic in table.all()}


def offsets(table: Any) -> object:
    return {(group, topic): dict(queues) for group, topic, queues in table.all() if queues}


class Watched:
    """A table of the master with all it ever held, and the slave's."""

    def __init__(self, master: SavedTable, slave: SavedTable, contents: Any) -> None:
        self._master, self._slave, self._contents = master, slave, contents
        self._held = [contents(master)]
        self._seen = 0
        """The latest moment that the slave has shown."""

    def note(self) -> None:
        now = self._contents(self._master)
        if now != self._held[-1]:
            self._held.append(now)

    def check(self) -> None:
        """The slave shows the moment it showed before, or a later one."""
        shown = self._contents(self._slave)
        found = next((moment for moment in range(self._seen, len(self._held)) if self._held[moment] == shown), None)
        assert found is not None, f"the slave shows {shown}, no moment from {self._held[self._seen]} on"
        self._seen = found

    @property
    def is_equal(self) -> bool:
        return bool(self._contents(self._slave) == self._contents(self._master))


class History:
    """One random history."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.pair = ReplicaPair()
        self.watched: list[Watched] = []

    async def run(self) -> None:
        pair = self.pair
        await pair.start()
        await pair.clock.run_for(1500)
        master, slave = pair.master, pair.slave
        self.watched = [
            Watched(master.topics, slave.topics, topics),
            Watched(master.groups, slave.groups, lambda table: table.all()),
            Watched(master.offsets, slave.offsets, offsets),
        ]
        for _step in range(40):
            self.random.choice([self.topic, self.topic, self.group, self.commit, self.commit, self.cut, self.heal])()
            for watched in self.watched:
                watched.note()
            for _look in range(3):
                await pair.clock.run_for(self.random.choice([0, 1, 5, 20, 300, 1500]))
                for watched in self.watched:
                    watched.check()
        pair.net.heal()
        await pair.clock.run_for(15_000)
        assert slave.topics.data_version == master.topics.data_version
        assert slave.groups.data_version == master.groups.data_version
        assert slave.health.is_green, slave.health.troubles
        await pair.stop()

    def topic(self) -> None:
        name = f"T{self.random.randrange(5)}"
        if self.random.random() < 0.3:
            self.pair.master.topics.delete(name)
        else:
            self.pair.master.topics.put(TopicConfig(name, read_queues=self.random.randrange(1, 9)))

    def group(self) -> None:
        name = f"g{self.random.randrange(5)}"
        if self.random.random() < 0.3:
            self.pair.master.groups.delete(name)
        else:
            self.pair.master.groups.put(GroupConfig(name, retry_max_times=self.random.randrange(99)))

    def commit(self) -> None:
        master = self.pair.master
        put = master.store.put(PutMessage("T0", 0, b"x"))
        assert put.next_offset > 0
        master.offsets.commit(f"g{self.random.randrange(5)}", "T0", 0, master.store.max_offset("T0", 0))

    def cut(self) -> None:
        self.pair.net.partition(MASTER, SLAVE)

    def heal(self) -> None:
        self.pair.net.heal()


@pytest.mark.parametrize("seed", seeds("table copies", short=2, whole=WHOLE))
async def test_a_slave_shows_what_its_master_held_later_and_later(seed: int) -> None:
    history = History(seed)
    await history.run()
    assert [watched.is_equal for watched in history.watched] == [True] * 3
