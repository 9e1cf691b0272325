"""Our producer asks and our consumer answers, on our own cluster over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake import Message, Producer, PushConsumer, StoredMessage
from rocketlake.standalone import Standalone


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Standalone]:
    async with Standalone(tmp_path / "cluster") as cluster:
        yield cluster


async def test_each_request_gets_its_own_answer(cluster: Standalone) -> None:
    async def answer(request: StoredMessage) -> bytes:
        return b"re: " + request.body

    namesrv = cluster.namesrv_address
    async with Producer("asks", namesrv=namesrv) as asker, Producer("answers", namesrv=namesrv) as producer:
        consumer = PushConsumer("answers", listener=producer.replier(answer), namesrv=namesrv, from_where="first")
        consumer.subscribe("Asked")
        async with consumer:
            questions = [Message("Asked", b"question %d" % number) for number in range(100)]
            answers = await asyncio.gather(*(asker.request(each, timeout_ms=20_000) for each in questions))
    assert [each.body for each in answers] == [b"re: " + each.body for each in questions]
    assert not any(each.properties for each in questions)
