"""The commands of Apache's mqadmin about lite topics on our broker answer as on Apache's."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from interop.apache import apache_cluster
from interop.replicas import mqadmin
from rocketlake.protocol.bodies.lite import LiteAction
from tests.interop.our_cluster import our_brokers
from tests.interop.test_every_mqadmin_command import home_in, likeness
from tests.lites import PARENT, LiteClient

pytestmark = pytest.mark.interop

LMQ = {"enableLmq": "true", "enableMultiDispatch": "true"}


SAME = (
    "getParentTopicInfo -p Parent",
    "getLiteTopicInfo -p Parent -l a -s",
    "getLiteClientInfo -p Parent -g g -c c -s",
    "getLiteClientInfo -p Parent -g g -c nobody -s",
    "getLiteGroupInfo -p Parent -g g -l a",
    "getLiteGroupInfo -p Parent -g g -l none",
    "getLiteGroupInfo -p Parent -g g",
    "triggerLiteDispatch -p Parent -g g",
    "triggerLiteDispatch -p Parent -g g -c c",
    "triggerLiteDispatch -p Parent -g nobody",
)
OTHER = ("getBrokerLiteInfo -b {broker} -d", "getLiteTopicInfo -p Parent -l none")


async def use_lite_topics(broker: str) -> None:
    """Client c of g subscribes to `a`, `b`, `none`; of three messages in `a` two are not acknowledged, in `b` one."""
    client = LiteClient(broker, client_id="c")
    try:
        for lite in ("a", "b", "b"):
            assert (await client.put(lite, "x")).code == 0
        assert (await client.change_set(LiteAction.COMPLETE_ADD, "a", "b", "none")).code == 0
        popped = []
        async with asyncio.timeout(60):
            while len(popped) < 3:
                popped += await client.pop_lite(poll_ms=1000)
        for each in sorted(popped, key=lambda each: each.number)[:2]:
            assert (await client.ack_lite(each)).code == 0
        for _ in range(2):
            assert (await client.put("a", "x")).code == 0
    finally:
        await client.net.close()


def on_server(namesrv: str, *lines: str) -> tuple[tuple[str, ...], ...]:
    return tuple((*line.split(), "-n", namesrv) for line in lines)


async def asked(home: Path, namesrv: str, broker: str, *lines: str) -> list[str]:
    made = on_server(
        namesrv,
        f"updateTopic -b {broker} -t {PARENT} -r 4 -w 4 -a +message.type=LITE,+lite.topic.expiration=60",
        f"updateSubGroup -b {broker} -g g --attributes +lite.bind.topic={PARENT}",
    )
    await asyncio.to_thread(mqadmin, home, *made)
    await use_lite_topics(broker)
    return await asyncio.to_thread(mqadmin, home, *on_server(namesrv, *lines))


async def test_what_mqadmin_prints_of_lite_topics(apache_jars: None, tmp_path: Path) -> None:
    home = home_in(tmp_path)
    with our_brokers(tmp_path) as (namesrv, broker):
        other = [line.format(broker=broker) for line in OTHER]
        ours = await asked(home, namesrv, broker, *SAME, *other)
    settings = {"brokerName": "broker-a", **LMQ}
    with apache_cluster(tmp_path / "apache", settings=settings, peer="server550") as apache:
        theirs = await asked(home, apache.namesrv, apache.broker, *SAME)
    for words, *texts in zip(SAME, ours, theirs, strict=False):
        one, their = (likeness(re.sub(r"\d+ s ago", "AGO", text)) for text in texts)
        assert one == their, words
    of_broker, of_none = ours[len(SAME) :]
    row = next(line.split() for line in of_broker.splitlines() if line.startswith(broker))
    assert row[1:6] == ["default", "2000000", "2", "3", "1"]
    assert 'Topic Meta: {"Parent":60}' in of_broker
    assert 'Group Meta: {"Parent":["g"]}' in of_broker
    assert next(line.split() for line in of_none.splitlines() if "broker-a" in line)[1:] == [
        "0",
        "0",
        "-",
        "false",
        "1",
    ]
