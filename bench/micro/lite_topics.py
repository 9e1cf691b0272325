"""What an idle lite topic costs in memory: `python -m bench.micro.lite_topics`.

Each of a million lite topics gets one message, through the table of light queues and a store on disk. Then the
table is made anew, as at a start: from the log, and from its file. Anonymous memory counts, mapped files do not.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from rocketlake.base.clock import SystemClock
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.worker import ThreadWorker
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.lite.light_file import LightFile
from rocketlake.broker.lite.light_queues import LightQueues
from rocketlake.broker.lite.lite_messages import LiteMessages
from rocketlake.broker.lite.lite_run import LiteCutter
from rocketlake.broker.lite.subscriptions import Subscriptions
from rocketlake.broker.topics.table import TopicTable
from rocketlake.codec import property_text
from rocketlake.model import property_names as names
from rocketlake.model.topic import TopicConfig
from rocketlake.store.config import StoreConfig
from rocketlake.store.log_window import LogWindow
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage

PARENT = "Parent"
_TURN = 1000
_SAVED_SECONDS = 15
"""The file is written within them, if enough is new."""


def anonymous_bytes() -> int:
    """Memory of this process that is no file."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("RssAnon")).split()[1])


def name(number: int) -> str:
    """As long as a UUID."""
    return f"session-{number:028d}"


async def until_ready(queues: LightQueues) -> None:
    while not queues.is_ready:  # noqa: ASYNC110 - it waits for state, not for a call
        await asyncio.sleep(0.01)


async def fill(store: MessageStore, queues: LightQueues, topic: TopicConfig, count: int) -> None:
    for number in range(count):
        message = PutMessage(PARENT, 0, b"x" * 100)
        properties = {names.LITE_TOPIC: name(number), names.UNIQUE_KEY: f"{number:032d}"}
        lite = queues.place(message, properties, topic)
        message.properties = property_text.encode(properties)
        result = store.put(message)
        assert lite is not None
        assert result.status.is_stored, result
        queues.stored(lite, message.queue_id, result)
        if number % _TURN == 0:
            await asyncio.sleep(0)


async def measure(root: Path, count: int) -> None:
    clock, files, config = SystemClock(), PosixFiles(), LiveConfig(BrokerConfig(lite_topics_max=count))
    store = MessageStore(root / "store", StoreConfig(index_enabled=False), files=files, clock=clock)
    topics = TopicTable(root / "topics.json", files, clock)
    topic = TopicConfig(PARENT, attributes={"message.type": "LITE"})
    topics.put(topic)
    async with store:
        messages = LiteMessages(store, LiteCutter(LogWindow(store.fetch.window)))

        def table() -> LightQueues:
            file = LightFile(root / "lightQueues", files, ThreadWorker("light-table"), store)
            return LightQueues(config=config, store=store, topics=topics, messages=messages, file=file, clock=clock)

        queues = table()
        await queues.start()
        queues.lead()
        await until_ready(queues)
        before, began = anonymous_bytes(), time.perf_counter()
        await fill(store, queues, topic, count)
        seconds = time.perf_counter() - began
        print(f"{len(queues):,} lite topics with a message each: {seconds / count * 1e6:.1f} us a message")
        print(f"an idle one: {(anonymous_bytes() - before) / count:.0f} bytes")
        subscriptions, before = Subscriptions(clock), anonymous_bytes()
        for number in range(count // 1000):
            subscriber = subscriptions.find_or_add(f"client-{number}", "g", PARENT)
            subscriptions.add(subscriber, [name(number * 1000 + i) for i in range(1000)])
        print(f"a subscription to one, 1,000 for each client: {(anonymous_bytes() - before) / count:.0f} bytes more")
        await queues.stop()
        (root / "lightQueues").unlink(missing_ok=True)
        again = table()
        await started(again, count, "the log")
        await asyncio.sleep(_SAVED_SECONDS)
        await again.stop()
        again = table()
        await started(again, count, "its file and the log behind it")
        await again.stop()


async def started(table: LightQueues, count: int, source: str) -> None:
    began, clock_began = time.process_time(), time.perf_counter()
    await table.start()
    table.lead()
    await until_ready(table)
    cpu, seconds = time.process_time() - began, time.perf_counter() - clock_began
    print(f"made anew from {source}: {seconds:.1f} s, {cpu:.1f} s of CPU, {cpu / count * 1e6:.1f} us a message")
    assert len(table) == count


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.micro.lite_topics")
    parser.add_argument("--count", type=int, default=1_000_000)
    count = parser.parse_args().count
    with tempfile.TemporaryDirectory() as root:
        asyncio.run(measure(Path(root), count))


if __name__ == "__main__":
    main()
