"""`kill -9` of a real broker among transactions: each is committed once, or rolled back, as its producer decided.

A producer decides by the transaction's name. Two senders of three tell the broker, the others wait to be asked. Ends of
the time before a kill come once more after it: nobody knows which of them the broker still remembers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from pathlib import Path
from time import time
from zlib import crc32

import pytest

from rocketlake.base.clock import SystemClock
from rocketlake.base.errors import RocketLakeError
from rocketlake.codec.record import decode_records
from rocketlake.model.message_id import parse_offset_message_id
from rocketlake.net.client import NetClient
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.bodies.heartbeat import Heartbeat, ProducerEntry
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.offset import MaxOffsetHeader, OffsetReplyHeader, QueryOffsetHeader
from rocketlake.protocol.headers.send import SendReplyHeader
from rocketlake.protocol.headers.transaction import CheckTransactionHeader, EndTransactionHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.store.audit import audit_store
from tests.crash.broker_process import TOPIC, BrokerProcess, Ledger, Reader
from tests.requests import send_header
from tests.seeds import drawn

KILLS = int(os.environ.get("ROCKETLAKE_KILLS", "24")) // 10
SENDERS = 6
AGAIN = 50
"""Ends that are told again after a restart."""
COMMIT, ROLLBACK = 8, 12
SOON = {
    "transactionCheckInterval": 100,
    "transactionTimeOut": 200,
    "transactionOpBatchInterval": 50,
    "transactionCheckMax": 1000,  # else a half message is given up in 1.5 s without a producer
}


def decision(identity: str) -> int:
    return COMMIT if crc32(identity.encode()) & 1 else ROLLBACK


class Producers:
    """Sends in transactions until the broker is gone, and answers its questions."""

    def __init__(self, address: str, ledger: Ledger, told: list[Command]) -> None:
        """`told`: ends that brokers were told, of this run and those before it."""
        self._address = address
        self._ledger = ledger
        self._told = told
        self._net = NetClient(None, SystemClock(), {RequestCode.CHECK_TRANSACTION_STATE: self._answer})

    async def __aenter__(self) -> Producers:
        body = Heartbeat(client_id="crash", producers=[ProducerEntry(group_name="crash")]).encode()
        await self._net.invoke(self._address, Command.request(RequestCode.HEART_BEAT, body=body), 8000)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._net.close()

    async def run(self, name: str) -> None:
        again = self._told[-AGAIN:]
        await asyncio.gather(
            self.tell_again(again), *(self._send(f"{name}-{number}", number) for number in range(SENDERS))
        )

    async def tell_again(self, ends: list[Command]) -> None:
        """Ends that brokers were told before."""
        with contextlib.suppress(RocketLakeError):
            for end in ends:
                answer = await self._net.invoke(self._address, end, 8000)
                assert answer.code in (0, 1), "ended now, or ended already"

    async def _send(self, name: str, sender: int) -> None:
        with contextlib.suppress(RocketLakeError):
            for number in range(1_000_000):
                identity = f"{name}-{number}"
                self._ledger.tried.add(identity)
                answer = await self._net.invoke(self._address, self._half(identity), 8000)
                assert answer.code == 0, answer.remark
                reply = answer.header(SendReplyHeader)
                self._ledger.acked[identity] = (reply.queue_id, reply.queue_offset)
                if sender % 3:
                    place = parse_offset_message_id(reply.msg_id)[2]
                    end = self._end(identity, place, reply.queue_offset, False)
                    self._told.append(end)
                    ended = await self._net.invoke(self._address, end, 8000)
                    assert ended.code == 0, ended.remark

    def _half(self, identity: str) -> Command:
        header = send_header(
            producer_group="crash",
            topic=TOPIC,
            queue_id=crc32(identity.encode()) % 4,
            born_timestamp=int(time() * 1000),
            properties="TRAN_MSG\x01true\x02PGROUP\x01crash\x02",
        )
        return Command.request(RequestCode.SEND_MESSAGE_V2, header, identity.encode())

    def _end(self, identity: str, place: int, half_offset: int, asked: bool) -> Command:
        header = EndTransactionHeader(
            producer_group="crash",
            tran_state_table_offset=half_offset,
            commit_log_offset=place,
            commit_or_rollback=decision(identity),
            from_transaction_check=asked,
        )
        return Command.request(RequestCode.END_TRANSACTION, header)

    def _answer(self, request: Request) -> Reply:
        question = request.header(CheckTransactionHeader)
        (message,) = decode_records(request.body)
        end = self._end(message.body.decode(), question.commit_log_offset, question.tran_state_table_offset, asked=True)
        request.asker.send(end)
        return Reply()

    async def nothing_open(self) -> None:
        """Until the progress of the half topic has reached its end."""
        topic = "RMQ_SYS_TRANS_HALF_TOPIC"
        asked = MaxOffsetHeader(topic=topic, queue_id=0)
        progress = QueryOffsetHeader(consumer_group="CID_RMQ_SYS_TRANS", topic=topic, queue_id=0)
        async with asyncio.timeout(60):
            while True:  # the broker says nothing by itself
                end = await self._offset(RequestCode.GET_MAX_OFFSET, asked)
                if await self._offset(RequestCode.QUERY_CONSUMER_OFFSET, progress) == end:
                    return
                await asyncio.sleep(0.1)

    async def _offset(self, code: RequestCode, header: MaxOffsetHeader | QueryOffsetHeader) -> int:
        answer = await self._net.invoke(self._address, Command.request(code, header), 8000)
        return answer.header(OffsetReplyHeader).offset if answer.code == 0 else 0


@pytest.mark.crash
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_every_transaction_ends_as_decided_though_the_broker_is_killed(flush: str, tmp_path: Path) -> None:
    (seed,) = drawn("killed transactions", 1)
    moments = random.Random(f"{seed}{flush}")
    broker = BrokerProcess(tmp_path, flushDiskType=flush, **SOON)
    ledger = Ledger()
    told: list[Command] = []
    for number in range(KILLS):
        broker.start()
        async with Producers(broker.address, ledger, told) as producers:
            load = asyncio.create_task(producers.run(f"k{number}"))
            # The moment of the kill is the input of this test; there is no condition to await.
            await asyncio.sleep(moments.uniform(0.05, 0.8))
            broker.kill()
            await asyncio.wait_for(load, 20)
    broker.start()
    async with Producers(broker.address, ledger, told) as producers:
        await producers.nothing_open()
        await producers.tell_again(told)
        await producers.nothing_open()
    # Read as strictly as any other topic: a message that is there twice fails.
    reader = Reader(broker.address, ledger)
    await reader.read_new()
    assert broker.stop() == 0
    wanted = {identity for identity in ledger.acked if decision(identity) == COMMIT}
    assert wanted - reader.found.keys() == set(), f"lost (seed {seed})"
    assert {identity for identity in reader.found if decision(identity) == ROLLBACK} == set()
    assert len(ledger.acked) > KILLS, "the load must really have run"
    assert audit_store(broker.store, index_slots=1000, index_entries=4000) == []
