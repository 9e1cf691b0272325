"""A store in memory that is killed, loses power, meets a full disk and failing syncs, against a plain model of it."""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import Fault, FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import HandWorker, InlineWorker, Worker
from rocketlake.codec.record import decode_records
from rocketlake.codec.record_batch import encode_batch
from rocketlake.model.message import Message
from rocketlake.store.config import StoreConfig
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import GetStatus, PutMessage, PutResult, PutStatus

ROOT = Path("/store")
TOPICS = ("A", "B-with-a-longer-name")
Queue = tuple[str, int]

queues = st.tuples(st.sampled_from(TOPICS), st.integers(0, 1))
bodies = st.binary(min_size=0, max_size=300)


@dataclass
class Stored:
    """A message the store has taken; `promised` once it was called durable."""

    body: bytes
    physical_offset: int
    promised: bool = False


@dataclass
class Model:
    queues: dict[Queue, list[Stored]] = field(default_factory=dict)

    def of(self, queue: Queue) -> list[Stored]:
        return self.queues.setdefault(queue, [])


class StoreMachine(RuleBasedStateMachine):
    """What was promised is there after every crash; nothing is invented; queue offsets have no holes."""

    @initialize(sync_flush=st.booleans(), write_pool=st.booleans(), seed=st.integers(0, 2**32))
    def open_first(self, sync_flush: bool, write_pool: bool, seed: int) -> None:
        self.loop = asyncio.new_event_loop()
        self.random = random.Random(seed)
        self.clock = ManualClock()
        self.disk = MemoryFiles(clock=self.clock)
        self.model = Model()
        self.config = StoreConfig(
            commit_log_file_bytes=4096,
            consume_queue_file_bytes=140,
            index_slots=7,
            index_entries=40,
            flush_disk_type="SYNC_FLUSH" if sync_flush else "ASYNC_FLUSH",
            write_pool_enabled=write_pool,
            write_pool_buffers=2,
            flush_thorough_interval_ms=1000,
            queue_flush_thorough_interval_ms=2000,
        )
        self.open()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def open(self) -> None:
        self.files = FaultyFiles(self.disk)
        self.sync_worker = HandWorker()

        def workers(name: str) -> Worker:
            return self.sync_worker if name == "store-flush" else InlineWorker(name)

        self.store = MessageStore(ROOT, self.config, files=self.files, clock=self.clock, workers=workers)
        self.run(self.store.start())

    # -- what users do -------------------------------------------------------------------------------------------------

    @rule(queue=queues, body=bodies)
    def put(self, queue: Queue, body: bytes) -> None:
        async def one() -> None:
            result = self.store.put(PutMessage(queue[0], queue[1], body, b"KEYS\x01k\x02"))
            self.took(queue, [body], result)
            await asyncio.sleep(0)

        self.run(one())

    @rule(queue=queues, many=st.lists(bodies, min_size=1, max_size=6))
    def put_batch(self, queue: Queue, many: list[bytes]) -> None:
        async def batch() -> None:
            encoded = encode_batch([Message(queue[0], body) for body in many])
            result = self.store.put_batch(PutMessage(queue[0], queue[1], encoded))
            self.took(queue, many, result)
            await asyncio.sleep(0)

        self.run(batch())

    def took(self, queue: Queue, bodies_put: list[bytes], result: PutResult) -> None:
        if result.status is not PutStatus.OK:
            assert result.reason
            assert result.physical_offset == -1
            return
        stored = self.model.of(queue)
        assert result.queue_offset == len(stored)
        offsets = result.offsets or [result.physical_offset]
        new = [Stored(body, offset) for body, offset in zip(bodies_put, offsets, strict=True)]
        stored += new

        def done(status: PutStatus) -> None:
            for message in new:
                message.promised = status is PutStatus.OK

        self.store.when_durable(result, wait=True, done=done)

    @rule(topic=st.sampled_from(TOPICS))
    def delete_topic(self, topic: str) -> None:
        answers: list[Exception | None] = []

        async def delete() -> None:
            self.store.delete_topics([topic], answers.append)
            await asyncio.sleep(0)

        self.run(delete())
        assert answers == [None]
        for queue in [queue for queue in self.model.queues if queue[0] == topic]:
            self.model.queues[queue] = []

    # -- what the disk and the clock do --------------------------------------------------------------------------------

    @rule()
    def sync_ends(self) -> None:
        async def end() -> None:
            self.sync_worker.run_all()
            await asyncio.sleep(0)

        self.run(end())

    @rule(ms=st.sampled_from([1, 250, 1200]))
    def time_passes(self, ms: int) -> None:
        self.run(self.clock.run_for(ms))

    @rule(kept=st.integers(0, 400), times=st.integers(1, 3), part=st.sampled_from(["commitlog", "consumequeue", ""]))
    def disk_gets_full(self, kept: int, times: int, part: str) -> None:
        self.files.plan.add(Fault("pwrite", part, times=times, error=errno.ENOSPC, keep_bytes=kept))

    @rule()
    def disk_has_room_again(self) -> None:
        self.files.plan.clear()

    @rule()
    def next_sync_fails(self) -> None:
        self.files.plan.add(Fault("sync", "commitlog", times=1))

    # -- restarts ------------------------------------------------------------------------------------------------------

    @rule()
    def killed(self) -> None:
        self.die()
        self.disk.process_died()
        self.open()
        # Only what still lay in a write buffer is gone.
        self.trim(lambda message: message.promised and not self.config.uses_write_pool)

    @rule(some_pages_survive=st.booleans())
    def power_cut(self, some_pages_survive: bool) -> None:
        self.die()
        self.disk = self.disk.power_cut(self.random if some_pages_survive else None)
        self.open()
        self.trim(lambda message: message.promised and self.config.sync_flush)

    @precondition(lambda self: not self.store.not_writable_reason)
    @rule()
    def stopped_and_started(self) -> None:
        self.files.plan.clear()
        stored = {queue: len(messages) for queue, messages in self.model.queues.items()}
        self.sync_ends()
        self.run(self.store.stop())
        assert not self.disk.exists(ROOT / "abort")
        self.open()
        for queue, count in stored.items():
            assert self.store.max_offset(*queue) == count

    def die(self) -> None:
        async def cancel_all() -> None:
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self.run(cancel_all())

    def trim(self, must_survive: Any) -> None:
        """After a crash: what had to survive did; what did not survive is forgotten by the model too."""
        for queue, messages in self.model.queues.items():
            survived = self.store.max_offset(*queue)
            assert survived <= len(messages), "invented"
            for message in messages[survived:]:
                assert not must_survive(message), f"lost {message} of {queue}"
            del messages[survived:]

    # -- what holds always ---------------------------------------------------------------------------------------------

    @invariant()
    def positions_are_in_order(self) -> None:
        for mapped in self.store.log.list.files:
            assert 0 <= mapped.flushed <= mapped.committed <= mapped.wrote <= mapped.size
        assert self.store.flushed_offset <= self.store.log.max_offset <= self.store.max_physical_offset
        assert self.store.dispatched_offset <= self.store.log.max_offset

    @invariant()
    def every_queue_reads_as_a_prefix_of_what_was_put(self) -> None:
        for queue, messages in self.model.queues.items():
            read = self.read(queue)
            assert len(read) <= len(messages)
            for offset, (body, message) in enumerate(zip(read, messages, strict=False)):
                assert body == message.body, f"{queue} at {offset}"

    @invariant()
    def what_was_promised_can_be_read(self) -> None:
        if self.store.dispatch.error or self.config.uses_write_pool:
            return
        for queue, messages in self.model.queues.items():
            promised = [number for number, message in enumerate(messages) if message.promised]
            assert self.store.max_offset(*queue) > max(promised, default=-1)

    def read(self, queue: Queue) -> list[bytes]:
        found: list[bytes] = []
        while True:
            answer = self.store.get(queue[0], queue[1], len(found), 32, 1 << 20)
            if answer.status is not GetStatus.FOUND:
                assert answer.status in (GetStatus.OFFSET_OVERFLOW_ONE, GetStatus.NO_MESSAGE_IN_QUEUE), answer
                return found
            messages = decode_records(b"".join(answer.slices))
            assert len(messages) == answer.count
            for message in messages:
                assert (message.topic, message.queue_id, message.queue_offset) == (*queue, len(found))
                found.append(message.body)

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        self.die()
        self.loop.close()


StoreMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
test_store_crashes = StoreMachine.TestCase
