"""The surroundings of a runner of listeners: one queue in hand, offsets that go nowhere, a clock moved by hand."""

from __future__ import annotations

from rocketlake.base.clock import ManualClock
from rocketlake.client.consumer.concurrent import ConcurrentRunner
from rocketlake.client.consumer.offset_store import RemoteOffsets
from rocketlake.client.consumer.ordered import OrderedRunner
from rocketlake.client.consumer.process_queue import ProcessQueue
from rocketlake.client.hooks import Hooks
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue


class RunnerStage:
    """Base of the stages of both runners; they make `runner`."""

    runner: ConcurrentRunner | OrderedRunner

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.queue = MessageQueue("T", "b", 0)
        self.held = ProcessQueue(self.queue)
        self.offsets = RemoteOffsets(self._nowhere, self._nothing)
        self.hooks = Hooks()

    async def _nowhere(self, queue: MessageQueue) -> int:
        return -1

    async def _nothing(self, queue: MessageQueue, offset: int) -> None:
        return None

    async def consume(self, *offsets: int) -> None:
        """Hand these messages over, as a pull does, and let everything run that can."""
        batch = [StoredMessage("T", str(offset).encode(), broker_name="b", queue_offset=offset) for offset in offsets]
        self.held.add(batch)
        self.runner.submit(self.held, batch)
        await self.clock.settle()

    @property
    def committed(self) -> int:
        return self.offsets.memory(self.queue)
