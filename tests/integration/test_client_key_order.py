"""Two hundred keys while member processes of an ordered group come and go; with faults: tests/simulation."""

from __future__ import annotations

import asyncio
import random
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake import Message, Producer, ProducerConfig
from rocketlake.standalone import Standalone
from tests.key_order import KeyOrder

READER = Path(__file__).parent / "ordered_reader.py"
KEYS, MESSAGES, SECONDS = 200, 30, 8


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Standalone]:
    async with Standalone(tmp_path / "cluster") as cluster:
        yield cluster


def seen(file: Path) -> KeyOrder:
    order = KeyOrder(KEYS)
    for line in file.read_text().splitlines():
        word, member, key, number = line.split()
        if word == "begin":
            order.begin(member, int(key), int(number))
        else:
            order.end(member, int(key))
    return order


async def send(producer: Producer, key: int) -> None:
    for number in range(MESSAGES):
        await producer.send(Message("Keys", b"%d %d" % (key, number)), key=key)
        await asyncio.sleep(SECONDS / MESSAGES)


@pytest.mark.long
async def test_each_key_is_seen_in_order_while_processes_come_and_go(cluster: Standalone, tmp_path: Path) -> None:
    namesrv, file = cluster.namesrv_address, tmp_path / "seen"
    file.touch()
    members: list[Process] = []

    async def change() -> None:
        """One member more, or one less."""
        if len(members) < 2 or (len(members) < 4 and random.random() < 0.6):
            members.append(await asyncio.create_subprocess_exec(sys.executable, str(READER), namesrv, str(file)))
        else:
            leaving = members.pop(0)
            leaving.terminate()
            await leaving.wait()

    async with Producer("keys", namesrv=namesrv, config=ProducerConfig(auto_batch=True)) as producer:
        sending = asyncio.gather(*[send(producer, key) for key in range(KEYS)])
        while not sending.done():
            await change()
            await asyncio.sleep(1)
        await sending
    async with asyncio.timeout(150):
        while not seen(file).are_seen(MESSAGES):  # noqa: ASYNC110  # other processes write it
            await asyncio.sleep(0.2)
    for member in members:
        member.terminate()
        await member.wait()
    assert seen(file).problems == []
