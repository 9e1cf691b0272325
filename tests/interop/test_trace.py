"""Message traces between both worlds: Apache's clients and mqadmin, and ours."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interop.apache import ApacheCluster, compiled_drivers, run_driver
from rocketlake import ClientConfig, ConsumeResult, Message, Producer, PushConsumer
from rocketlake.client.calls.send import SendResult
from rocketlake.model.message import StoredMessage
from tests.interop.releases import jars_of

pytestmark = pytest.mark.interop

JAVA = "server550"


def rocketlake(namesrv: str, *words: str) -> str:
    command = [sys.executable, "-m", "rocketlake", *words, "-n", namesrv]
    return subprocess.run(command, check=True, timeout=60, capture_output=True, text=True).stdout


def mqadmin(namesrv: str, home: Path, *words: str) -> str:
    command = ["java", "-Xmx128m", f"-Duser.home={home}", "-cp", compiled_drivers(JAVA)]
    command += ["org.apache.rocketmq.tools.command.MQAdminStartup", *words, "-n", namesrv]
    environment = {**os.environ, "ROCKETMQ_HOME": str(home)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, env=environment, cwd=home)
    assert "Exception" not in done.stdout + done.stderr, (done.stdout + done.stderr)[-3000:]
    return done.stdout


def life_in_java(namesrv: str, topic: str, peer: str) -> list[dict[str, Any]]:
    """Java's clients send and consume two messages; the second fails once. The steps of that one, as we read them."""
    rocketlake(namesrv, "topic", "create", topic)
    assert run_driver("Trace", "produce", namesrv, topic, "java_sellers", 2, peer=peer) == {"sent": 2}
    told = run_driver("Trace", "consume", namesrv, topic, "java_packers", 2, 60, peer=peer)
    assert told == {"distinct": 2, "calls": 3}
    found = json.loads(rocketlake(namesrv, "message", "get", topic, "--key", "k1", "-o", "json").splitlines()[0])
    life = json.loads(rocketlake(namesrv, "message", "trace", found["id"], "-o", "json"))
    assert (life["topic"], life["traced"]) == (topic, True)
    steps: list[dict[str, Any]] = life["steps"]
    return steps


def judge_javas_life(steps: list[dict[str, Any]]) -> None:
    assert [(step["step"], step["group"], step["result"]) for step in steps] == [
        ("sent", "java_sellers", "ok"),
        ("stored", None, None),
        ("consumed", "java_packers", "failed"),
        ("stored for a retry", "java_packers", "failures: 1"),
        ("consumed (retry 1)", "java_packers", "ok"),
    ]


@pytest.mark.parametrize("peer", [JAVA, "client49"])
def test_javas_clients_on_our_broker(our_namesrv: str, peer: str) -> None:
    jars_of(peer)
    judge_javas_life(life_in_java(our_namesrv, f"JavaTraced_{peer}", peer))


def test_javas_clients_on_apaches_broker(apache: ApacheCluster) -> None:
    judge_javas_life(life_in_java(apache.namesrv, "JavaTracedThere", JAVA))


async def our_life(namesrv: str, topic: str) -> SendResult:
    """Our clients send and consume one message, which fails once."""
    client = ClientConfig(namesrv=namesrv, trace=True)
    calls: list[int] = []
    done = asyncio.Event()

    async def listen(messages: list[StoredMessage]) -> ConsumeResult:
        calls.append(messages[0].reconsume_times)
        if len(calls) == 1:
            return ConsumeResult.later(delay_level=1)
        done.set()
        return ConsumeResult.SUCCESS

    async with Producer("our_sellers", client_config=client) as producer:
        result = await producer.send(Message(topic, b"x", keys="order-17"))
    consumer = PushConsumer("our_packers", listener=listen, client_config=client, from_where="first")
    consumer.subscribe(topic)
    async with consumer, asyncio.timeout(60):
        await done.wait()
    return result


@pytest.mark.parametrize("place", ["ours", "apache"])
def test_mqadmin_reads_what_our_clients_tell(place: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    jars_of(JAVA)
    namesrv = request.getfixturevalue("our_namesrv" if place == "ours" else "apache")
    namesrv = namesrv if isinstance(namesrv, str) else namesrv.namesrv
    rocketlake(namesrv, "topic", "create", "OursTraced")
    result = asyncio.run(our_life(namesrv, "OursTraced"))
    text = mqadmin(namesrv, tmp_path, "queryMsgTraceById", "-i", result.message_id)
    rows = [line.split() for line in text.splitlines() if line.startswith(("Pub", "Sub"))]
    assert [(row[0], row[1], row[-1]) for row in rows if row[0] == "Pub"] == [("Pub", "our_sellers", "success")]
    assert sorted((row[0], row[1], row[-1]) for row in rows if row[0] == "Sub") == [
        ("Sub", "our_packers", "failed"), ("Sub", "our_packers", "success"),
    ]  # fmt: skip
