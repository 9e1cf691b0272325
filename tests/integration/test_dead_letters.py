"""Dead letters on our own cluster: why a message failed, reading, repairing, sending again, dropping."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake import Consumer, ConsumerConfig, DeadLetters, Message, Producer, PushConsumer
from rocketlake.model.message import StoredMessage
from rocketlake.model.property_names import LAST_ERROR
from rocketlake.standalone import Standalone

EXAMPLE = Path(__file__).parents[2] / "examples" / "dead_letters.py"
GROUP = "billing"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Standalone]:
    async with Standalone(tmp_path / "cluster", settings={"messageDelayLevel": " ".join(["1s"] * 18)}) as cluster:
        yield cluster


class Billing:
    """A listener that cannot handle bodies that are no number, and sums up the others."""

    def __init__(self) -> None:
        self.seen: list[StoredMessage] = []

    async def __call__(self, messages: list[StoredMessage]) -> None:
        for message in messages:
            int(message.body)
            self.seen.append(message)


def consumer(cluster: Standalone, listener: object, **settings: object) -> PushConsumer:
    made = PushConsumer(
        GROUP, namesrv=cluster.namesrv_address, listener=listener, from_where="first", **settings,  # type: ignore[arg-type]
    )  # fmt: skip
    made.subscribe("orders")
    return made


async def spoil(cluster: Standalone, *bodies: bytes, orderly: bool = False) -> None:
    """Send these to a consumer that gives each up at once, until all are dead letters."""
    namesrv = cluster.namesrv_address
    async with Producer("shop", namesrv=namesrv) as producer:
        for number, body in enumerate(bodies):
            sent = Message("orders", body, tags="paid", keys=f"order-{number}", properties={"shop": "Rome"})
            await producer.send(sent, key="one queue")
    config = ConsumerConfig(reconsume_max=0, suspend_ms=10)
    async with consumer(cluster, Billing(), orderly=orderly, config=config), DeadLetters(GROUP, namesrv=namesrv) as it:
        async with asyncio.timeout(30):
            while sum(span.open for span in (await it.spans()).values()) < len(bodies):  # noqa: ASYNC110
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_dead_letter_says_why_is_repaired_and_reaches_its_group_again(
    cluster: Standalone, orderly: bool
) -> None:
    await spoil(cluster, b"7 euros", orderly=orderly)
    billing = Billing()
    async with DeadLetters(GROUP, namesrv=cluster.namesrv_address) as letters:
        (letter,) = [letter async for letter in letters.read()]
        assert letter.properties[LAST_ERROR] == "ValueError: invalid literal for int() with base 10: b'7 euros'"
        await letters.send_again(letter, body=b"7")
        assert [letter async for letter in letters.read()] == []
        assert [each.message_id async for each in letters.read(settled=True)] == [letter.message_id]
    async with consumer(cluster, billing, orderly=orderly), asyncio.timeout(30):
        while not billing.seen:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    (message,) = billing.seen
    assert (message.topic, message.body, message.tags, message.keys) == ("orders", b"7", "paid", "order-0")
    assert (message.message_id, message.reconsume_times) == (letter.message_id, 0)
    assert message.properties["shop"] == "Rome" and LAST_ERROR not in message.properties


async def test_the_mark_stays_at_the_first_letter_that_was_left(cluster: Standalone) -> None:
    await spoil(cluster, b"a", b"b", b"c", b"d")
    async with DeadLetters(GROUP, namesrv=cluster.namesrv_address) as letters:
        async for letter in letters.read():
            if letter.body in b"ac":
                await letters.drop(letter)
        assert [letter.body async for letter in letters.read()] == [b"b", b"c", b"d"]
        assert [(span.begin, span.mark, span.end) for span in (await letters.spans()).values()] == [(0, 1, 4)]
        async for letter in letters.read(settled=True):  # what was settled before takes no mark back
            await letters.drop(letter)
            if letter.body == b"b":
                break
        assert [letter.body async for letter in letters.read()] == [b"c", b"d"]
    async with DeadLetters(GROUP, namesrv=cluster.namesrv_address) as letters:
        assert [letter.body async for letter in letters.read()] == [b"c", b"d"]


async def test_a_letter_sent_to_a_topic_reaches_its_readers(cluster: Standalone) -> None:
    await spoil(cluster, b"x")
    namesrv = cluster.namesrv_address
    async with DeadLetters(GROUP, namesrv=namesrv) as letters:
        async for letter in letters.read():
            sent = await letters.send_again(letter, topic="orders_by_hand")
            assert sent.message_id == letter.message_id
    async with Consumer("clerks", "orders_by_hand", namesrv=namesrv, from_where="first") as clerks:
        message = await clerks.receive(timeout_ms=30_000)
    assert message is not None and (message.body, message.retry_topic) == (b"x", None)


async def test_a_group_without_dead_letters(cluster: Standalone) -> None:
    async with DeadLetters("nobody", namesrv=cluster.namesrv_address) as letters:
        assert await letters.spans() == {}
        assert [letter async for letter in letters.read()] == []


async def test_what_a_consumer_says_is_the_last_error(cluster: Standalone) -> None:
    namesrv = cluster.namesrv_address
    async with Producer("shop", namesrv=namesrv) as producer:
        await producer.send(Message("orders", b"x"))
    async with Consumer(GROUP, "orders", namesrv=namesrv, from_where="first") as reader:
        assert await reader.receive(timeout_ms=30_000)
        reader.later(error="the bank\x02 is closed\n")
        again = await reader.receive(timeout_ms=30_000)
        assert again is not None and again.properties[LAST_ERROR] == "the bank  is closed "
        reader.later(delay_level=-1, error="gone")
        async with DeadLetters(GROUP, namesrv=namesrv) as letters, asyncio.timeout(30):
            while not (found := [letter async for letter in letters.read()]):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    assert found[0].properties[LAST_ERROR] == "gone"


async def test_the_example(cluster: Standalone) -> None:
    command = (sys.executable, str(EXAMPLE), cluster.namesrv_address)
    example = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    printed, _ = await example.communicate()
    assert example.returncode == 0
    assert printed.decode().splitlines() == [
        "booked 35", "given up: invalid literal for int() with base 10: b'7 euros'", "booked 7",
    ]  # fmt: skip


async def test_a_start_that_is_given_up_leaves_nothing_running() -> None:
    starting = asyncio.create_task(DeadLetters(GROUP, namesrv="127.0.0.1:1").__aenter__())
    await asyncio.sleep(0)
    assert not starting.done()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert asyncio.all_tasks() == {asyncio.current_task()}
