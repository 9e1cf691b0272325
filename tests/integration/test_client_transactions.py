"""Our transaction producer on our own cluster, over real sockets: all ends, questions, a producer that comes back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake import Consumer, Message, StoredMessage, TransactionEnd, TransactionProducer
from rocketlake.client import sync
from rocketlake.standalone import Standalone

COMMIT, ROLLBACK, UNKNOWN = TransactionEnd.COMMIT, TransactionEnd.ROLLBACK, TransactionEnd.UNKNOWN
SOON = {
    "transactionCheckInterval": "100",
    "transactionTimeOut": "50",
    "transactionOpBatchInterval": "20",
    "transactionCheckMax": "1000",  # else a half message is given up in 1.5 s without a producer
}


@pytest.fixture(params=["ASYNC_FLUSH", "SYNC_FLUSH"])
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Standalone]:
    settings = {**SOON, "flushDiskType": request.param}
    async with Standalone(tmp_path / "cluster", settings=settings) as cluster:
        yield cluster


async def received(cluster: Standalone, count: int) -> list[bytes]:
    async with Consumer("readers", "paid", namesrv=cluster.namesrv_address, from_where="first") as consumer:
        async with asyncio.timeout(20):
            found = [await consumer.receive() for _ in range(count)]
        return sorted(message.body for message in found if message is not None)


async def test_consumers_see_what_was_committed_and_nothing_else(cluster: Standalone) -> None:
    asked: list[bytes] = []

    async def check(message: StoredMessage) -> TransactionEnd:
        asked.append(message.body)
        return UNKNOWN if asked.count(message.body) < 3 else COMMIT

    async with TransactionProducer("payers", check=check, namesrv=cluster.namesrv_address) as producer:
        for body, end in ((b"yes", COMMIT), (b"no", ROLLBACK), (b"later", UNKNOWN)):
            result = await producer.send_in_transaction(Message("paid", body), lambda _, end=end: end)  # type: ignore[misc]
            assert result.end is end
        assert await received(cluster, 2) == [b"later", b"yes"]
    assert asked.count(b"later") >= 3  # on a busy machine one may be asked about again before its end comes


async def test_a_producer_that_comes_back_is_asked_about_what_it_left_open(cluster: Standalone) -> None:
    left: list[str | None] = []

    async def die(message: Message) -> TransactionEnd:
        left.append(message.unique_key)
        raise asyncio.CancelledError

    async def never(_: StoredMessage) -> TransactionEnd:
        return UNKNOWN

    async with TransactionProducer("payers", check=never, namesrv=cluster.namesrv_address) as producer:
        with pytest.raises(asyncio.CancelledError):
            await producer.send_in_transaction(Message("paid", b"open"), die)

    async def check(message: StoredMessage) -> TransactionEnd:
        return COMMIT if message.unique_key in left else ROLLBACK

    async with TransactionProducer("payers", check=check, topics=["paid"], namesrv=cluster.namesrv_address):
        assert await received(cluster, 1) == [b"open"]


async def test_the_blocking_twin(cluster: Standalone) -> None:
    threads: list[str] = []

    def local(message: Message) -> TransactionEnd:
        threads.append(threading.current_thread().name)
        return COMMIT

    def send() -> None:
        with sync.TransactionProducer("payers", check=lambda _: ROLLBACK, namesrv=cluster.namesrv_address) as producer:
            assert producer.send_in_transaction(Message("paid", b"blocking"), local).end is COMMIT

    await asyncio.to_thread(send)
    assert await received(cluster, 1) == [b"blocking"]
    assert threads[0].startswith("rocketlake-transaction")
