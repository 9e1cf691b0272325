"""SQL92 filters: Apache's evaluator beside ours, our client on Apache's broker, Java's consumer on our broker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from interop.apache import ApacheCluster, run_driver
from interop.sql92 import LETTERS, REFUSED, apache_outcomes
from rocketlake import Message, Producer, ProducerConfig, PullConsumer
from rocketlake.base.errors import RemoteError, UsageError
from rocketlake.client.calls.group import check_config
from rocketlake.client.calls.pull import pull
from rocketlake.client.config import ClientConfig
from rocketlake.client.instance import ClientInstance
from rocketlake.filter.sql_evaluate import decide, matches
from rocketlake.filter.sql_parser import parse_sql92
from rocketlake.model.subscription import SQL92, Subscription, parse_subscription
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.standalone import Standalone
from tests.sql92_cases import kept_by_apache, random_expression, random_message

pytestmark = pytest.mark.interop

VALUES = ("-7", "0", "5", "5", "9", "12", "7.5", "0x1p3", "3000000000", "x", "it's", "true")
EXPRESSIONS = (
    "a > 5",
    "a BETWEEN -5 AND 5.5 OR b IS NULL",
    "b IN ('x', '7.5', 'it''s') AND NOT (a = 5)",
    "a <> b",
    "c CONTAINS '5' OR c NOT STARTSWITH 't'",
    "c = TRUE OR (a > 1) IS NULL",
    "KEYS ENDSWITH '7' OR TAGS = 'odd'",
)


def test_random_expressions_in_apaches_evaluator(apache_jars: None) -> None:
    """Others than the recorded ones (tests/golden/sql92.json)."""
    random = Random(1992)
    messages = [random_message(random) for _ in range(20)]
    expressions = [random_expression(random) for _ in range(300)]
    for text, theirs in zip(expressions, apache_outcomes(expressions, messages), strict=True):
        ours = our_outcomes(text, messages)
        if ours == REFUSED != theirs:
            ours = our_outcomes(kept_by_apache(text), messages)
        assert ours == theirs, text


def our_outcomes(text: str, messages: list[dict[str, str]]) -> str:
    try:
        expression = parse_sql92(text)
    except UsageError:
        return REFUSED
    return "".join(LETTERS[decide(expression, message)] for message in messages)


async def send_random(namesrv: str, topic: str, count: int) -> list[dict[str, str]]:
    """Messages numbered by their bodies; their properties as a consumer sees them."""
    random = Random(5)
    sent = []
    async with Producer("senders", namesrv=namesrv, config=ProducerConfig(send_timeout_ms=20_000)) as producer:
        for n in range(count):
            properties = {name: random.choice(VALUES) for name in "abc" if random.random() < 0.8}
            await producer.send(
                Message(topic, b"%d" % n, properties=properties, keys=f"k{n}", tags=["even", "odd"][n % 2])
            )
            sent.append({**properties, "KEYS": f"k{n}", "TAGS": ["even", "odd"][n % 2]})
    return sent


async def pulled(instance: ClientInstance, subscription: Subscription) -> set[int]:
    """Numbers of the messages that a broker finds, from the first to the last of all queues."""
    found: set[int] = set()
    for queue in await instance.queues_to_read(subscription.topic) or ():
        address, offset, end = await instance.master(queue.broker_name, queue.topic), 0, 1
        while offset < end:
            answer = await pull(
                instance.net, address, queue, group="puller", offset=offset, subscription=subscription, lite=True
            )
            found |= {int(message.body) for message in answer.messages}
            offset, end = answer.next_offset, answer.max_offset
    return found


async def test_our_client_filters_on_apaches_broker(apache: ApacheCluster) -> None:
    sent = await send_random(apache.namesrv, "Filtered", 120)
    instance = ClientInstance(ClientConfig(namesrv=apache.namesrv))
    await instance.start()
    try:
        for text in EXPRESSIONS:
            expression = parse_sql92(text)
            wanted = {n for n, properties in enumerate(sent) if matches(expression, properties)}
            assert 0 < len(wanted) < 120, text
            assert await pulled(instance, parse_subscription("Filtered", text, SQL92)) == wanted, text
        wrong = parse_subscription("Filtered", "a >", SQL92)
        with pytest.raises(RemoteError) as refused:
            await check_config(instance.net, apache.broker, "client", "group", wrong)
        assert refused.value.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        # Documented: a pull that brings a wrong expression along is not filtered by Apache at all.
        assert await pulled(instance, wrong) == set(range(120))
    finally:
        await instance.stop()
    async with PullConsumer("filtering", namesrv=apache.namesrv) as consumer:
        consumer.subscribe("Filtered", EXPRESSIONS[0], SQL92)


async def test_javas_consumers_filter_on_our_broker(apache_jars: None, tmp_path: Path) -> None:
    async with Standalone(tmp_path / "ours", settings={"enablePropertyFilter": "true"}) as ours:
        sent = await send_random(ours.namesrv_address, "Filtered", 400)
        for peer, text in (("server", EXPRESSIONS[1]), ("client49", EXPRESSIONS[2])):
            wanted = {n for n, properties in enumerate(sent) if matches(parse_sql92(text), properties)}
            found = await asyncio.to_thread(
                run_driver, "Consume", ours.namesrv_address, "Filtered", f"java_{peer}", f"sql:{text}", "concurrent",
                len(wanted), 60, 0, peer=peer,
            )  # fmt: skip
            assert (found["distinct"], found["sum"], found["duplicates"]) == (len(wanted), sum(wanted), 0)
        with pytest.raises(RuntimeError, match="CODE: 23"):
            await asyncio.to_thread(
                run_driver, "Consume", ours.namesrv_address, "Filtered", "wrong", "sql:a >", "concurrent", 1, 5, 0
            )
