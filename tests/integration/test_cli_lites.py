"""Lite topics on the command line: how many there are, what one holds, where a group is behind."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rocketlake import LiteSimpleConsumer, Message, Producer
from rocketlake.base.errors import NotThereError, UsageError
from rocketlake.testing.cluster import EmbeddedCluster
from tests.integration.conftest import Typed


async def send(namesrv: str, parent: str, *lites: str) -> None:
    async with Producer("shop", namesrv=namesrv) as producer:
        for lite in lites:
            await producer.send(Message(parent, b"x", lite_topic=lite))


async def receive(namesrv: str, group: str, parent: str, *lites: str) -> None:
    """Two messages of each are there: the first is acknowledged."""
    async with LiteSimpleConsumer(group, parent, namesrv=namesrv) as consumer:
        for lite in lites:
            await consumer.subscribe_lite(lite)
        done: set[str] = set()
        while done < set(lites):
            for message in await consumer.receive(1, invisible_ms=60_000, await_ms=10_000):
                assert message.lite_topic is not None
                if message.lite_topic not in done:
                    await consumer.ack(message)
                done.add(message.lite_topic)


def told(rocketlake: Typed, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(rocketlake(*words, "-o", "json"))
    return found


def test_what_there_is_and_where_a_group_is_behind(cluster: EmbeddedCluster, rocketlake: Typed) -> None:
    rocketlake("topic", "create", "sessions", "-q", "2")
    rocketlake("topic", "alter", "sessions", "-a", "+message.type=LITE", "-a", "+lite.topic.expiration=60")
    rocketlake("group", "create", "chat", "-a", "+lite.bind.topic=sessions")
    altered = rocketlake("group", "alter", "chat", "-a", "+lite.sub.model=Exclusive")
    assert altered.rstrip().endswith(", +lite.sub.model=Exclusive")
    bound = "lite.bind.topic=sessions, lite.sub.model=Exclusive"
    assert f": {bound}\n" in rocketlake("group", "show", "chat")
    assert rocketlake("group", "lites", "chat") == ""
    cluster.run(send(cluster.namesrv, "sessions", "a", "a", "a", "b", "b"))
    cluster.run(receive(cluster.namesrv, "chat", "sessions", "a", "b"))
    (parent,) = told(rocketlake, "topic", "lites", "sessions")
    assert (parent["lite_topics"], parent["expire_after_minutes"], parent["groups"]) == (2, 60, ["chat"])
    (lite,) = told(rocketlake, "topic", "lites", "sessions", "a")
    assert lite["next_offset"] - lite["first_offset"] == 3
    assert lite["last_message"]
    behind = told(rocketlake, "group", "lites", "chat")
    assert [(each["lite_topic"], each["lag"]) for each in behind] == [("a", 2), ("b", 1)]
    assert all(each["waits_since"] for each in behind)
    assert len(told(rocketlake, "group", "lites", "chat", "--top", "1")) == 1


def test_what_has_no_lite_topics_says_so(rocketlake: Typed) -> None:
    rocketlake("topic", "create", "plain")
    rocketlake("group", "create", "usual")
    for asked in (["plain"], ["plain", "a"]):
        with pytest.raises(UsageError, match="topic plain is no parent of lite topics") as of_topic:
            rocketlake("topic", "lites", *asked)
        assert "+message.type=LITE" in of_topic.value.hint
    with pytest.raises(UsageError, match=r"bound to no parent") as refused:
        rocketlake("group", "lites", "usual")
    assert "lite.bind.topic" in refused.value.hint
    with pytest.raises(NotThereError, match="no broker knows group"):
        rocketlake("group", "lites", "nobody")
