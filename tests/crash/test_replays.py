"""`kill -9` of a real broker while producers send numbered batches, and send them again: each message once."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from zlib import crc32

import pytest

from rocketlake.base.clock import SystemClock
from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.saved_json import load_text
from rocketlake.base.errors import RocketLakeError
from rocketlake.codec.record import iter_records
from rocketlake.codec.record_batch import encode_batch
from rocketlake.model.message import Message
from rocketlake.net.client import NetClient
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.pull import PullHeader
from rocketlake.protocol.headers.send import SendHeaderV2
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from tests.crash.broker_process import QUEUES, TOPIC, BrokerProcess
from tests.seeds import drawn

KILLS = int(os.environ.get("ROCKETLAKE_KILLS", "24")) // 20
ROWS = 300
"""Of a batch in each queue."""


class Task:
    """One task of a query, repeated with its batch from the beginning whenever the broker was gone."""

    rows = ROWS
    pause_seconds = 0.0
    topic = TOPIC
    refusals = frozenset({ResponseCode.SERVICE_NOT_AVAILABLE})
    """Answers behind which the batch is sent again."""

    def __init__(self, address: str, name: str, numbers: random.Random) -> None:
        self.address, self.name, self.numbers = address, name, numbers
        self.batch = 0
        self.replays = 0
        self._queues = range(QUEUES)

    def body(self, batch: int, queue_id: int, number: int) -> bytes:
        return f"{self.name} {batch} {queue_id} {number}".encode()

    async def run(self, ended: asyncio.Event) -> None:
        """Batch after batch until told to end; the last one is complete then."""
        net = NetClient(clock=SystemClock())
        try:
            while not ended.is_set():
                while not await self._whole_batch(net):
                    self.replays += 1
                    await self.repeat()
                self.batch += 1
                await asyncio.sleep(self.pause_seconds)
        finally:
            await net.close()

    async def repeat(self) -> None:
        """Before a batch is sent again."""

    async def _whole_batch(self, net: NetClient) -> bool:
        return all(await asyncio.gather(*(self._queue(net, queue_id) for queue_id in self._queues)))

    async def _queue(self, net: NetClient, queue_id: int) -> bool:
        """All rows of the batch for one queue, in pieces; False if the broker was lost."""
        number = 0
        while number < self.rows:
            count = min(self.numbers.randint(1, 60), self.rows - number)
            try:
                answer = await net.invoke(self.address, self._command(queue_id, number, count), 3000)
            except RocketLakeError:
                await asyncio.sleep(0.02)  # it is being restarted: nothing here can be awaited
                return False
            if answer.code in self.refusals:
                return False
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            number += count
        return True

    def _command(self, queue_id: int, first: int, count: int) -> Command:
        query, _, task = self.name.partition("/")
        messages = [Message(self.topic, self.body(self.batch, queue_id, row)) for row in range(first + count)]
        digests = "/".join(f"{crc32(encode_batch(part)):08x}" for part in (messages[:first], messages))
        header = SendHeaderV2(
            producer_group="crash", topic=self.topic, default_topic="TBW102", default_topic_queue_nums=QUEUES,
            queue_id=queue_id, sys_flag=0, born_timestamp=1, flag=0, batch=True,
            properties=f"__RL_SEQ\x01{query}/{self.batch}/{task}/{first}/lay/{count}/{digests}\x02",
        )  # fmt: skip
        return Command.request(RequestCode.SEND_BATCH_MESSAGE, header, encode_batch(messages[first:]))


async def stored(address: str, queue_id: int, topic: str = TOPIC) -> list[bytes]:
    """All bodies of a queue."""
    net, found, offset = NetClient(clock=SystemClock()), [], 0
    try:
        while True:
            header = PullHeader(
                consumer_group="crash", topic=topic, queue_id=queue_id, queue_offset=offset, max_msg_nums=1024,
                sys_flag=4, commit_offset=0, suspend_timeout_millis=0, subscription="*", sub_version=0,
            )  # fmt: skip
            answer = await net.invoke(address, Command.request(RequestCode.PULL_MESSAGE, header), 8000)
            if answer.code != ResponseCode.SUCCESS:
                assert answer.code == ResponseCode.PULL_NOT_FOUND, answer.remark
                return found
            messages = list(iter_records(answer.body_bytes))
            found += [message.body for message in messages]
            offset += len(messages)
    finally:
        await net.close()


@pytest.mark.crash
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_each_message_is_stored_once_however_often_the_broker_is_killed(flush: str, tmp_path: Path) -> None:
    (seed,) = drawn("killed replays", 1)
    numbers = random.Random(f"{seed}{flush}")
    # The table is saved often, so that kills fall before, behind and into a save.
    broker = BrokerProcess(tmp_path, flushDiskType=flush, flushConsumerOffsetInterval=50)
    broker.start()
    # Of three queries: tasks of one query begin a batch when all of them are through with the one before.
    tasks = [Task(broker.address, name, numbers) for name in ("q1/0", "q2/1", "q3/0")]
    ended = asyncio.Event()
    runs = [asyncio.create_task(task.run(ended)) for task in tasks]
    try:
        for _ in range(KILLS):
            # The moment of the kill is the input of this test; there is no condition to await.
            await asyncio.sleep(numbers.uniform(0.02, 0.5))
            broker.kill()
            await asyncio.to_thread(broker.start)
        ended.set()
        await asyncio.gather(*runs)
        for queue_id in range(QUEUES):
            found = await stored(broker.address, queue_id)
            for task in tasks:
                begin = f"{task.name} ".encode()
                wanted = [task.body(batch, queue_id, row) for batch in range(task.batch) for row in range(ROWS)]
                assert [body for body in found if body.startswith(begin)] == wanted, f"{task.name} (seed {seed})"
    finally:
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)
        broker.kill()
    assert sum(task.replays for task in tasks) >= KILLS, "kills must really have hit batches"
    # By the rule of such files: the last kill may have come between the renames of a save.
    assert load_text(PosixFiles(), broker.store / "config" / "producerSequences.json")
