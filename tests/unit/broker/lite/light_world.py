"""The table of light queues of one broker and its store, over starts, crashes and changes of its role."""

from __future__ import annotations

from rocketlake.base.clock import Clock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.disk.seam import Files
from rocketlake.base.worker import InlineWorker
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.lite.light_file import LightFile
from rocketlake.broker.lite.light_queues import LightQueues, Newest
from rocketlake.broker.lite.lite_messages import LiteMessages, Said
from rocketlake.broker.topics.table import TopicTable
from rocketlake.codec import property_text
from rocketlake.model import property_names as names
from rocketlake.model.lite import LITE_LIFE
from rocketlake.model.positions import PhysicalOffset, QueueOffset
from rocketlake.model.topic import TopicConfig
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage
from rocketlake.store.retention import DiskView
from tests.unit.store.store_world import ROOT, World

PARENT = "Parent"
FILE = ROOT / "config" / "lightQueues"


def light_queues(
    store: MessageStore,
    topics: TopicTable,
    clock: Clock,
    *,
    messages: LiteMessages | None = None,
    config: LiveConfig | None = None,
    files: Files | None = None,
) -> LightQueues:
    """A table; without `files` its file is on a disk of its own, where there is none."""
    return LightQueues(
        config=config or LiveConfig(BrokerConfig()),
        store=store,
        topics=topics,
        messages=messages or LiteMessages(store, None),
        file=LightFile(FILE, files or MemoryFiles(clock=clock), InlineWorker(), store),
        clock=clock,
    )


class CountedMessages(LiteMessages):
    """Counts the messages that are read."""

    count = 0

    def read(self, parent: str, queue_id: int, offset: QueueOffset) -> tuple[list[Said | None], PhysicalOffset | None]:
        found, last = super().read(parent, queue_id, offset)
        self.count += len(found)
        return found, last


class LightWorld:
    """A master numbers what is sent to it, a slave copies messages that have numbers."""

    def __init__(self) -> None:
        self.disk = World()
        self.clock = self.disk.clock
        self.topics = TopicTable(ROOT / "topics.json", self.disk.files, self.clock)
        self.make_parent()

    def make_parent(self) -> None:
        self.topics.put(
            TopicConfig(PARENT, read_queues=2, write_queues=2, attributes={"message.type": "LITE", LITE_LIFE: "15"})
        )

    def delete_parent(self) -> None:
        self.topics.delete(PARENT)
        self.store.delete_topics([PARENT])

    async def start(self) -> None:
        self.store = await self.disk.started(
            index_enabled=False,
            commit_log_file_bytes=8 * 1024,
            consume_queue_file_bytes=2000,
            flush_thorough_interval_ms=1000,
        )
        self.messages = CountedMessages(self.store, None)
        self.queues = light_queues(self.store, self.topics, self.clock, messages=self.messages, files=self.disk.files)
        await self.queues.start()

    async def lead(self) -> None:
        self.queues.lead()
        await self.clock.settle()
        assert self.queues.is_ready

    async def stop(self) -> None:
        await self.queues.stop()
        await self.store.stop()

    async def die(self, *, power: bool = False) -> None:
        await self.queues.stop()  # it writes nothing
        await (self.disk.power_cut() if power else self.disk.killed())

    # -- messages ------------------------------------------------------------------------------------------------------

    def send(self, lite: str) -> None:
        """To the master."""
        topic = self.topics.get(PARENT)
        assert topic is not None
        message, properties = PutMessage(PARENT, 0, b"body"), {names.LITE_TOPIC: lite}
        placed = self.queues.place(message, properties, topic)
        assert placed is not None
        message.properties = property_text.encode(properties)
        result = self.store.put(message)
        assert result.status.is_stored
        self.queues.stored(placed, message.queue_id, result)

    def copy(self, lite: str, number: int, queue_id: int = 0) -> None:
        """A message comes from the master."""
        properties = {names.LITE_TOPIC: lite, names.INNER_MULTI_QUEUE_OFFSET: str(number), names.LITE_BEFORE: "0 0"}
        message = PutMessage(PARENT, queue_id, b"body", properties=property_text.encode(properties))
        assert self.store.put(message).status.is_stored

    def places(self) -> list[PhysicalOffset]:
        """Where messages of the parent lie in the log, in order."""
        first = QueueOffset(0)
        entries = [each for queue_id in (0, 1) for each in self.store.queue_entries(PARENT, queue_id, first, 1000)]
        return sorted(each[0] for each in entries)

    def expire(self) -> None:
        """All files of the log but the last one are deleted, as if they had expired."""
        self.store.log.list.flush()
        self.store.retention.count_to_drop = lambda _disk: 1000  # type: ignore[method-assign]
        self.store.retention._measured(DiskView({ROOT: 10.0}, []), None)

    def end(self, lite: str) -> int | None:
        newest = self.queues.newest(PARENT, lite)
        return None if newest is None else newest.end

    # -- what must be --------------------------------------------------------------------------------------------------

    def ends(self, lites: str, queues: LightQueues | None = None) -> dict[str, Newest | None]:
        """Of lite topics with names of one letter."""
        return {lite: (queues or self.queues).newest(PARENT, lite) for lite in lites}

    async def ends_of_the_log(self, lites: str) -> dict[str, Newest | None]:
        """By a table that is made from the log alone."""
        queues = light_queues(self.store, self.topics, self.clock)
        async with queues:
            queues.lead()
            await self.clock.settle()
            assert queues.is_ready
            return self.ends(lites, queues)
