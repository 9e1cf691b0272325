"""A seeded history of messages for a time: sends, clock steps, full disks, stops, kills and power cuts, in any order.

Owns        the steps, the model: which messages were acknowledged, for which time, which must arrive.
Must not know   pytest.

Rules: no message is delivered before its time, by the wall clock. Each message that a crash did not take with the end
of the log is delivered, and once; behind a power cut perhaps twice. What was taken back is not delivered.
"""

from __future__ import annotations

import random
from pathlib import Path

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.pure_import import has_kernel
from rocketlake.base.worker import InlineWorker
from rocketlake.broker.delay.parking import Parking, TimerRules
from rocketlake.broker.delay.timer import Timer
from rocketlake.broker.topics.table import TopicTable
from rocketlake.codec import property_text
from rocketlake.codec.record import decode_records
from rocketlake.model.delay_levels import DelayLevels
from rocketlake.model.message import StoredMessage
from rocketlake.model.topic import TIMER_TOPIC, TopicConfig
from rocketlake.store.config import StoreConfig
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage, PutStatus
from rocketlake.store.timer.timer_store import TimerStore

ROOT = Path("/s")
RULES = TimerRules(roll_ms=20_000)
QUEUES = 3


class Broker:
    """A store and its timer, on one disk."""

    def __init__(self, disk: MemoryFiles, clock: ManualClock) -> None:
        self.disk = disk
        self.clock = clock
        config = StoreConfig(commit_log_file_bytes=64 * 1024, index_slots=100, index_entries=2000, index_safe=True)
        self.store = MessageStore(ROOT, config, files=disk, clock=clock, workers=InlineWorker)
        timers = TimerStore(ROOT, disk, file_bytes=52 * 20 + 16, precision_ms=RULES.precision_ms)
        self.timer = Timer(self.store, timers, RULES, workers=InlineWorker, clock=clock)
        if has_kernel("rocketlake.broker.delay.due_run"):
            from rocketlake.broker.delay.due_runs import DueRuns
            from rocketlake.broker.delay.entry_run import EntryCutter
            from rocketlake.store.log_window import LogWindow

            topics = TopicTable(ROOT / "config" / "topics.json", disk, clock)
            topics.put(TopicConfig("T", QUEUES, QUEUES))
            self.timer.runs = DueRuns(self.store, topics, _count_nothing, precision_ms=RULES.precision_ms)
            log = LogWindow(self.store.fetch.window)
            self.timer.entries = EntryCutter(log, RULES.precision_ms, RULES.roll_ms)
        self.parking = Parking(DelayLevels(), RULES, clock)
        self.store.on_arrival = self._arrived

    def _arrived(self, topic: str, queue_id: int, *_: int) -> None:
        if topic == TIMER_TOPIC:
            self.timer.message_came(queue_id)

    async def start(self) -> None:
        await self.store.start()
        await self.timer.start()

    async def stop(self) -> None:
        await self.timer.stop()
        await self.store.stop()
        self.timer.store_stopped()

    def send(
        self,
        name: str,
        asked: dict[str, str],
        queue_id: int = 0,
        *,
        topic: str = "T",
        body: bytes = b"",
        sys_flag: int = 0,
        born_host: bytes = b"\x7f\0\0\x01\0\0\0\0",
    ) -> tuple[int, int] | None:
        """Its log offset and the end of its record; None: it was refused."""
        properties = {name: value for name, value in {"UNIQ_KEY": name, **asked}.items() if value}
        message = PutMessage(topic, queue_id, body or name.encode(), sys_flag=sys_flag, born_host=born_host)
        self.parking.park(message, properties)
        message.properties = property_text.encode(properties)
        result = self.store.put(message)
        return (result.physical_offset, result.next_offset) if result.status is PutStatus.OK else None

    def delivered(self) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        for queue_id in range(QUEUES):
            offset = 0
            while slices := self.store.get("T", queue_id, offset, 32, 1 << 20).slices:
                messages = decode_records(b"".join(slices))
                found += messages
                offset = messages[-1].queue_offset + 1
        return found


def _count_nothing(_topic: str, _count: int, _size: int) -> None: ...


class TimerHistory:
    """One history."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = ManualClock(settle_turns=20)
        self.broker = Broker(MemoryFiles(clock=self.clock), self.clock)
        self.due: dict[str, int] = {}
        self.ends: dict[str, int] = {}
        self.taken_back: dict[str, int] = {}
        """By name: the end of the recall's record."""
        self.maybe_taken_back: set[str] = set()
        """A power cut may have lost the recall, or the copy of a message that had come before it."""
        self.count = 0
        self.power_cuts = 0
        self.latest_ms = 0
        """The clock, before it was set back."""

    async def run(self) -> None:
        await self.broker.start()
        steps = (self.send, self.send, self.send, self.wait, self.wait, self.take_back, self.step_clock)
        for _ in range(self.random.randint(20, 60)):
            if self.random.random() < 0.12:
                await self.random.choice((self.stop, self.kill, self.kill, self.cut_power, self.fill_disk))()
            else:
                await self.random.choice(steps)()
            self.check_early()
        latest = max(self.due.values(), default=0)  # far away, if the clock was set back again and again
        await self.clock.run_for(max(70_000, latest - self.clock.now_ms() + 40_000))
        self.check_early()
        self.check_all()
        await self.broker.stop()

    async def send(self) -> None:
        for _ in range(self.random.randint(1, 5)):
            name = f"m{self.count}"
            self.count += 1
            delay_ms = self.random.choice((300, 2000, 5000, 12_000, 30_000)) + self.random.randrange(2000)
            due_ms = self.clock.now_ms() + delay_ms
            asked = {"TIMER_DELIVER_MS": str(due_ms)}
            if self.random.random() < 0.3:
                asked = {"TIMER_DELAY_MS": str(delay_ms)}
            if (place := self.broker.send(name, asked, self.random.randrange(QUEUES))) is not None:
                self.due[name], self.ends[name] = due_ms, place[1]
        await self.clock.settle()

    async def wait(self) -> None:
        await self.clock.run_for(self.random.choice((100, 900, 1500, 4000, 11_000)))

    async def take_back(self) -> None:
        """Recall a message that is not due soon, and never was by a clock that was set back since: its delivery may
        have begun, and wait for room on the disk (limits.md)."""
        soon = max(self.latest_ms, self.clock.now_ms()) + 1000
        waiting = [name for name, due in self.due.items() if due > soon]
        if waiting:
            name = self.random.choice(waiting)
            asked = {"TIMER_DELIVER_MS": str(self.due[name]), "TIMER_DEL_UNIQKEY": name}
            if (place := self.broker.send(f"recall {name}", asked)) is not None:
                self.taken_back[name] = place[1]

    async def step_clock(self) -> None:
        self.latest_ms = max(self.latest_ms, self.clock.now_ms())
        self.clock.jump_wall(self.random.choice((-15_000, -2500, 1500, 8000)))
        await self.clock.settle()

    async def stop(self) -> None:
        await self.broker.stop()
        await self._again(self.broker.disk)

    async def kill(self) -> None:
        await self._die(self.broker.disk.killed())

    async def cut_power(self) -> None:
        self.power_cuts += 1
        kept_end = self.broker.store.flushed_offset
        # Whole: a copy that lost a sector of its properties would count as delivered (limits.md, ASYNC_FLUSH).
        disk = self.broker.disk.power_cut(None)
        for name in [name for name, end in self.ends.items() if end > kept_end]:
            self._forget(name)
        self.maybe_taken_back |= {name for name, end in self.taken_back.items() if end > kept_end}
        await self._die(disk)

    def _forget(self, name: str) -> None:
        """It may be lost."""
        del self.due[name], self.ends[name]

    async def fill_disk(self) -> None:
        disk = self.broker.disk
        disk.capacity = disk.used
        await self.send()
        await self.clock.run_for(3000)
        disk.capacity = 1 << 40

    async def _die(self, disk: MemoryFiles) -> None:
        old = self.broker
        await self._again(disk)
        await old.stop()  # on its own disk, which nobody reads any more
        old.disk._nodes.clear()  # 80 MB, which else lie in cycles until a collection
        old.disk._safe_names.clear()

    async def _again(self, disk: MemoryFiles) -> None:
        await self.clock.run_for(self.random.choice((0, 0, 3000)))
        self.broker = Broker(disk, self.clock)
        await self.broker.start()

    def check_early(self) -> None:
        for message in self.broker.delivered():
            due_ms = self.due.get(message.body.decode())
            assert due_ms is None or message.store_ms >= due_ms, f"{message.body!r} is early"

    def check_all(self) -> None:
        delivered = [message.body.decode() for message in self.broker.delivered()]
        assert not [name for name in delivered if name.startswith("recall")]
        assert not set(delivered) & (self.taken_back.keys() - self.maybe_taken_back)
        counts = {name: delivered.count(name) for name in self.due if name not in self.taken_back}
        most = 1 if not self.power_cuts else 1 + self.power_cuts
        wrong = {name: count for name, count in counts.items() if not 1 <= count <= most}
        assert not wrong, f"delivered so often: {wrong}"
