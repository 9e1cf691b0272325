"""`rocketlake message get | trace` on a real broker: messages found, and the life of one, told by our own clients."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rocketlake import ClientConfig, ConsumeResult, Message, Producer, PushConsumer, TransactionEnd, TransactionProducer
from rocketlake.base.errors import RocketLakeError, UsageError
from rocketlake.client.calls.send import SendResult
from rocketlake.model.message import StoredMessage
from rocketlake.testing.cluster import EmbeddedCluster
from tests.integration.conftest import Typed

EXAMPLE = Path(__file__).parents[2] / "examples" / "message_trace.py"


def traced(cluster: EmbeddedCluster) -> ClientConfig:
    return ClientConfig(namesrv=cluster.namesrv, trace=True)


def send(cluster: EmbeddedCluster, config: ClientConfig, *messages: Message) -> list[SendResult]:
    async def work() -> list[SendResult]:
        async with Producer("sellers", client_config=config) as producer:
            return [await producer.send(message) for message in messages]

    return cluster.run(work())


def consume(cluster: EmbeddedCluster, config: ClientConfig, topic: str, answers: list[ConsumeResult]) -> None:
    """One call of a listener for each of these answers."""

    async def work() -> None:
        done = asyncio.Event()

        async def listen(messages: list[StoredMessage]) -> ConsumeResult:
            answer = answers.pop(0)
            if not answers:
                done.set()
            return answer

        consumer = PushConsumer("packers", listener=listen, client_config=config, from_where="first")
        consumer.subscribe(topic)
        async with consumer, asyncio.timeout(60):
            await done.wait()

    cluster.run(work())


def life(rocketlake: Typed, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(rocketlake("message", "trace", *words, "-o", "json"))
    return found


def steps(found: dict[str, Any]) -> list[tuple[str, str | None, str | None]]:
    return [(step["step"], step["group"], step["result"]) for step in found["steps"]]


def test_a_life_with_a_retry(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    (result,) = send(cluster, traced(cluster), Message("orders", b"one", keys="order-17"))
    consume(cluster, traced(cluster), "orders", [ConsumeResult.later(delay_level=1), ConsumeResult.SUCCESS])
    found = life(rocketlake, result.message_id)
    assert (found["id"], found["topic"], found["traced"]) == (result.message_id, "orders", True)
    assert steps(found) == [
        ("sent", "sellers", "ok"),
        ("stored", None, None),
        ("consumed", "packers", "failed"),
        ("stored for a retry", "packers", "failures: 1"),
        ("consumed (retry 1)", "packers", "ok"),
    ]
    place = f"{result.queue.broker_name}/{result.queue.queue_id}@{result.queue_offset}"
    assert found["steps"][1]["where"] == place
    table = rocketlake("message", "trace", result.offset_message_id, "--topic", "orders")
    assert table.splitlines()[0] == f"message {result.message_id} of topic orders"
    assert re.search(r"consumed \(retry 1\) +- +packers +127\.0\.0\.1", table)


def test_a_life_that_ends_in_the_dead_letters(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    (result,) = send(cluster, traced(cluster), Message("bad", b"one"))
    consume(cluster, traced(cluster), "bad", [ConsumeResult.later(delay_level=-1, error="no such shop")])
    assert steps(life(rocketlake, result.message_id)) == [
        ("sent", "sellers", "ok"),
        ("stored", None, None),
        ("consumed", "packers", "failed"),
        ("dead letter", "packers", "failures: 1, the last: no such shop"),
    ]


def test_a_transaction(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    async def work() -> str:
        async with TransactionProducer("payers", check=lambda _: None, client_config=traced(cluster)) as producer:
            outcome = await producer.send_in_transaction(Message("paid", b"x"), lambda _: TransactionEnd.COMMIT)
            return outcome.sent.message_id

    found = steps(life(rocketlake, cluster.run(work())))
    assert [step for step in found if step[0] != "stored"] == [
        ("sent as half", "payers", "ok"),
        ("transaction ended", "payers", "commit"),
    ]


def test_a_life_nobody_told_of(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    plain = ClientConfig(namesrv=cluster.namesrv)
    first, second = send(cluster, plain, Message("quiet", b"one"), Message("quiet", b"two"))
    consume(cluster, plain, "quiet", [ConsumeResult.SUCCESS] * 2)
    found = life(rocketlake, second.message_id, "--topic", "quiet")
    assert found["traced"] is False
    assert [step[:2] for step in steps(found)] == [("stored", None), ("passed", "packers")]
    with pytest.raises(RocketLakeError, match="nothing is known of message") as caught:
        rocketlake("message", "trace", first.message_id)
    assert "--topic" in str(caught.value)


def test_get(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    plain = ClientConfig(namesrv=cluster.namesrv)
    messages = [Message("stock", b"%d" % n, keys=f"k{n} all", tags="A", properties={"n": str(n)}) for n in range(3)]
    results = send(cluster, plain, *messages)
    one = results[1]

    def get(*words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in rocketlake("message", "get", "stock", *words, "-o", "json").splitlines()]

    place = f"{one.queue.broker_name}/{one.queue.queue_id}@{one.queue_offset}"
    for words in (("--id", one.message_id), ("--id", one.offset_message_id), ("--key", "k1"), ("--at", place)):
        (found,) = get(*words)
        assert (found["body"], found["id"], found["keys"]) == ("1", one.message_id, "k1 all")
        assert found["offset_id"] == one.offset_message_id
        assert found["properties"] == {"n": "1"}
        assert found["system"]["UNIQ_KEY"] == one.message_id
    assert [found["body"] for found in get("--key", "all")] == ["0", "1", "2"]
    assert sorted(found["body"] for found in get("--from", "1h")) == ["0", "1", "2"]
    assert len(get("--from", "1h", "--count", "2")) == 2
    text = rocketlake("message", "get", "stock", "--key", "k1")
    assert text.splitlines()[0].split() == ["id", one.message_id]
    assert text.splitlines()[-1].split() == ["body", "1"]
    assert len(rocketlake("message", "get", "stock", "--key", "all").splitlines()) == 3


@pytest.mark.parametrize(
    "words",
    [
        ("--id", "0" * 32),
        ("--id", "not-an-id"),
        ("--key", "nothing"),
        ("--at", "broker-a/0@4000"),
        ("--from", "2030-01-01T00:00:00Z"),
        ("--key", "all", "--to", "2001-01-01T00:00:00Z"),
    ],
)
def test_get_without_a_hit_is_an_error(rocketlake: Typed, cluster: EmbeddedCluster, words: tuple[str, ...]) -> None:
    send(cluster, ClientConfig(namesrv=cluster.namesrv), Message("few", b"x", keys="all"))
    with pytest.raises(RocketLakeError, match="topic few has no such message"):
        rocketlake("message", "get", "few", *words)


@pytest.mark.parametrize(
    "words, message",
    [
        ((), "found by one of"),
        (("--id", "a", "--key", "b"), "found by one of"),
        (("--id", "a", "--from", "1h"), "whatever time"),
        (("--at", "broker-a"), "no place"),
        (("--at", "unknown/0@0"), "no broker 'unknown'"),
    ],
)
def test_bad_words_are_refused(
    rocketlake: Typed, cluster: EmbeddedCluster, words: tuple[str, ...], message: str
) -> None:
    send(cluster, ClientConfig(namesrv=cluster.namesrv), Message("few", b"x"))
    with pytest.raises(UsageError, match=message):
        rocketlake("message", "get", "few", *words)


def test_the_example(rocketlake: Typed, cluster: EmbeddedCluster) -> None:
    command = [sys.executable, str(EXAMPLE), cluster.namesrv]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.split()
    assert printed[:3] == ["rocketlake", "message", "trace"]
    consumed = [step for step in steps(life(rocketlake, printed[3])) if step[0].startswith("consumed")]
    assert consumed == [("consumed", "packers", "failed"), ("consumed (retry 1)", "packers", "ok")]
