"""Values in place of bodies: both ways, and bodies that are none."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rocketlake import Consumer, DeadLetters, Message, Payload, Producer, PushConsumer, StoredMessage
from rocketlake.base.errors import UsageError
from rocketlake.model.property_names import LAST_ERROR
from rocketlake.standalone import Standalone

EXAMPLE = Path(__file__).parents[2] / "examples" / "payload.py"


@dataclass
class Order:
    number: int
    city: str


class Struct(msgspec.Struct):
    number: int
    city: str


class Shouted:
    """A codec of one's own."""

    def encode(self, value: str) -> bytes:
        return value.upper().encode()

    def decode(self, body: bytes) -> str:
        return body.decode()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Standalone]:
    async with Standalone(tmp_path / "cluster") as cluster:
        yield cluster


async def send(namesrv: str, *bodies: bytes) -> None:
    async with Producer("shop", namesrv=namesrv) as producer:
        for body in bodies:
            await producer.send(Message("orders", body), key=1)


async def given_up(namesrv: str, group: str) -> list[tuple[bytes, str]]:
    async with DeadLetters(group, namesrv=namesrv) as letters, asyncio.timeout(30):
        while not (found := [each async for each in letters.read()]):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return [(letter.body, letter.properties[LAST_ERROR]) for letter in found]


def test_values_of_each_kind_come_back() -> None:
    for kind, value in ((Order, Order(7, "Rome")), (Struct, Struct(7, "Rome")), (dict, {"a": [1]}), (int, 7)):
        payload: Payload[Any] = Payload(kind)
        assert payload.value(StoredMessage("T", payload.body(value))) == value
    assert Payload(Shouted()).body("loud") == b"LOUD"


def test_models_of_pydantic_come_back() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Model", number=(int, ...))
    payload: Payload[Any] = Payload(model)
    assert payload.value(StoredMessage("T", payload.body(model(number=7)))) == model(number=7)
    with pytest.raises(pydantic.ValidationError):
        payload.value(StoredMessage("T", b'{"number": "x"}'))


def test_a_class_that_is_no_json_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be read from JSON"):
        Payload(type("Own", (), {"__init__": lambda self, value: None}))


async def test_a_bad_body_is_a_dead_letter_and_the_next_ones_come(cluster: Standalone) -> None:
    orders, namesrv = Payload(Order), cluster.namesrv_address
    await send(namesrv, orders.body(Order(1, "Rome")), b'{"number": 2}', orders.body(Order(3, "Oslo")))
    found = []
    async with Consumer("billing", "orders", namesrv=namesrv, from_where="first") as consumer, asyncio.timeout(30):
        async for order, message in orders.read(consumer):
            found.append(order)
            assert message.topic == "orders"
            if len(found) == 2:
                break
    assert found == [Order(1, "Rome"), Order(3, "Oslo")]
    ((body, reason),) = await given_up(namesrv, "billing")
    assert body == b'{"number": 2}'
    assert reason == "the body is no value of its kind: ValidationError: Object missing required field `city`"


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("plain", [False, True])
async def test_a_listener_gets_values(cluster: Standalone, orderly: bool, plain: bool) -> None:
    orders, namesrv, found = Payload(Order), cluster.namesrv_address, asyncio.Queue[Order]()
    await send(namesrv, b"no json", orders.body(Order(1, "Rome")))

    async def book(order: Order, _message: StoredMessage) -> None:
        found.put_nowait(order)

    listener = orders.listener((lambda order, _message: found.put_nowait(order)) if plain else book)
    consumer = PushConsumer("billing", namesrv=namesrv, listener=listener, from_where="first", orderly=orderly)
    consumer.subscribe("orders")
    async with consumer:
        assert await asyncio.wait_for(found.get(), 30) == Order(1, "Rome")
        assert [body for body, _reason in await given_up(namesrv, "billing")] == [b"no json"]


async def test_the_example(cluster: Standalone) -> None:
    command = (sys.executable, str(EXAMPLE), cluster.namesrv_address)
    example = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    printed, _ = await example.communicate()
    assert example.returncode == 0
    assert printed.decode().splitlines() == ["3 apples to Rome", "5 pears to Oslo"]
