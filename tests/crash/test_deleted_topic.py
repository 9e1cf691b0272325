"""`kill -9` of a real broker behind a topic that was deleted and made again: the new messages stay, the old ones do not
come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.clock import SystemClock
from rocketlake.net.client import NetClient
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.admin_topic import CreateTopicHeader, DeleteTopicHeader
from rocketlake.protocol.headers.send import SendReplyHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.audit import audit_store
from rocketlake.store.reader import StoreReader
from tests.crash.broker_process import BrokerProcess
from tests.requests import send_header

TOPIC = "Made"


class Administrator:
    """Makes and deletes a topic and sends to it, each step answered."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._net = NetClient(clock=SystemClock())

    async def ask(self, command: Command) -> Command:
        answer = await self._net.invoke(self._address, command, 8000)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return answer

    async def make(self) -> None:
        header = CreateTopicHeader(
            topic=TOPIC,
            default_topic="TBW102",
            read_queue_nums=1,
            write_queue_nums=1,
            perm=6,
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=0,
            order=False,
        )
        await self.ask(Command.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header))

    async def delete(self) -> None:
        await self.ask(Command.request(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicHeader(topic=TOPIC)))

    async def send(self, body: bytes) -> int:
        header = send_header(topic=TOPIC, default_topic_queue_nums=1, properties="KEYS\x01k\x02")
        answer = await self.ask(Command.request(RequestCode.SEND_MESSAGE_V2, header, body))
        return answer.header(SendReplyHeader).queue_offset

    async def close(self) -> None:
        await self._net.close()


def readable(store: Path) -> list[bytes]:
    reader = StoreReader(store)
    try:
        low, high = reader.queue_range(TOPIC, 0)
        return [bytes(record) for record in reader.records(TOPIC, 0, low, high)]
    finally:
        reader.close()


@pytest.mark.smoke
@pytest.mark.crash
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_a_topic_made_again_survives_kills_and_the_deleted_one_does_not(flush: str, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, flushDiskType=flush)
    for life in range(3):
        broker.start()
        administrator = Administrator(broker.address)
        await administrator.make()
        for number in range(40):
            await administrator.send(b"old-%d-%d" % (life, number))
        await administrator.delete()
        await administrator.make()
        assert [await administrator.send(b"new-%d-%d" % (life, number)) for number in range(5)] == list(range(5))
        await administrator.close()
        broker.kill()
        broker.start()
        administrator = Administrator(broker.address)
        assert await administrator.send(b"next") == 5
        await administrator.close()
        assert broker.stop() == 0
        found = readable(broker.store)
        assert len(found) == 6
        for number in range(5):
            assert b"new-%d-%d" % (life, number) in found[number]
        assert audit_store(broker.store, index_slots=1000, index_entries=4000) == []
