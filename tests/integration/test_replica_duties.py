"""What a group of brokers does for its clients beside sends: handed back messages, transactions, delayed messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rocketlake.base.errors import LinkError
from rocketlake.model.topic import DELAY_TOPIC
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import Header
from rocketlake.protocol.headers.send import SendBackHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from tests.replica_group import ReplicaGroup

OK = ResponseCode.SUCCESS


@pytest.fixture
async def group() -> AsyncIterator[ReplicaGroup]:
    group = ReplicaGroup()
    await group.start()
    yield group
    await group.stop()


async def ask(group: ReplicaGroup, host: str, code: RequestCode, header: Header, body: bytes = b"") -> Command | None:
    """The answer; None without one."""
    asked = asyncio.ensure_future(group.client.invoke(f"{host}:10911", Command.request(code, header, body), 3000))
    while not asked.done():
        await group.clock.run_for(5)
    try:
        return asked.result()
    except LinkError:
        return None


def cut_off(group: ReplicaGroup, host: str) -> None:
    """Nobody of the group and no name server hears it; clients do."""
    for other in [*group.hosts, "10.0.0.1"]:
        if other != host:
            group.net.partition(host, other)


def parked(group: ReplicaGroup, host: str, level: int) -> int:
    return group.brokers[host].store.max_offset(DELAY_TOPIC, level - 1)


async def hand_back(group: ReplicaGroup, host: str) -> int:
    """Hand the first message of the log back; the code of the answer, -1 without one."""
    header = SendBackHeader(offset=0, group="g", delay_level=0, max_reconsume_times=16)
    answer = await ask(group, host, RequestCode.CONSUMER_SEND_MSG_BACK, header)
    return -1 if answer is None else answer.code


async def test_a_message_is_taken_back_when_the_replicas_have_its_copy(group: ReplicaGroup) -> None:
    """The consumer is done with it after the answer: nobody else would ask for it again."""
    old = group.master
    assert await group.send(b"first") == OK
    assert await hand_back(group, old) == OK
    await group.clock.run_for(1000)
    assert [parked(group, host, 3) for host in group.hosts] == [1, 1, 1]
    cut_off(group, old)
    assert await hand_back(group, old) != OK
