"""Lite topics by Apache's Python and Java clients for gRPC on our broker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interop.apache import run_driver
from rocketlake.admin import Admin
from rocketlake.admin.topic_change import TopicChange
from rocketlake.client.calls.answer import ask
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.group import GroupEntry
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode
from tests.interop.test_grpc_python import Grpc
from tests.interop.test_grpc_python import grpc as grpc

pytest.importorskip("rocketmq.v5")
pytestmark = pytest.mark.interop


async def create(grpc: Grpc, parent: str, group: str, **attributes: str) -> None:
    async with Admin(namesrv=grpc.namesrv) as admin:
        await admin.create_topic(parent, queues=4)
        await admin.alter_topic(parent, TopicChange(attributes="+message.type=LITE"))
        (broker,) = await admin.brokers()
    entry = GroupEntry(group_name=group, attributes={"+lite.bind.topic": parent, **attributes})
    async with NetClient() as net:
        await ask(
            net, broker.address, Command.request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=entry.encode())
        )


def send(grpc: Grpc, parent: str, *texts: str) -> None:
    given = [{"lite": text.partition(":")[0], "body": text} for text in texts]
    assert len(grpc.run("send", parent, json.dumps(given))) == len(texts)


def shown(lines: list[dict[str, Any]], what: str) -> list[tuple[str, int]]:
    return sorted((line[what]["body"], line[what]["attempt"]) for line in lines)


async def test_a_simple_consumer_gets_the_lite_topics_that_it_subscribes_to(grpc: Grpc) -> None:
    await create(grpc, "Simple", "simple")
    send(grpc, "Simple", "anna:1", "bert:1", "carl:1", "anna:2")
    kept = grpc.run("lite", "Simple", "simple", "3", "anna,bert", "later")
    assert shown(kept, "received") == [("anna:1", 1), ("anna:2", 1), ("bert:1", 1)]
    assert {line["received"]["lite"] for line in kept} == {"anna", "bert"}
    again = grpc.run("lite", "Simple", "simple", "4", "anna,bert,carl", "ack")
    assert shown(again, "received") == [("anna:1", 2), ("anna:2", 2), ("bert:1", 2), ("carl:1", 1)]
    send(grpc, "Simple", "anna:3")
    assert shown(grpc.run("lite", "Simple", "simple", "1", "anna,bert,carl", "ack"), "received") == [("anna:3", 1)]


async def test_a_push_consumer_gets_again_what_it_failed(grpc: Grpc) -> None:
    await create(grpc, "Push", "push")
    texts = [f"{lite}:{number}" for lite in ("anna", "bert", "carl") for number in range(5)]
    send(grpc, "Push", *texts)
    pushed = grpc.run("lite_push", "Push", "push", "20", "anna,bert", "fails-first")
    assert shown(pushed, "pushed") == [(text, attempt) for text in texts if text[0] != "c" for attempt in (1, 2)]


async def test_a_lite_topic_of_an_exclusive_group_goes_from_one_push_consumer_to_another(
    grpc: Grpc, apache_jars: None
) -> None:
    await create(grpc, "Alone", "alone", **{"+lite.sub.model": "Exclusive"})
    told = run_driver("GrpcLite", "exclusive", grpc.endpoint, "Alone", "alone", peer="grpc520", timeout=250)
    assert told == {"left": 1, "others": 0, "first": 3, "second": 1}


async def test_consumers_of_a_wildcard_group_get_all_lite_topics(grpc: Grpc, apache_jars: None) -> None:
    await create(grpc, "All", "all", **{"+lite.sub.wildcard": "true"})
    send(grpc, "All", "a:1", "b:1", "a:2")
    received = grpc.run("lite", "All", "all", "3", "", "ack")
    assert shown(received, "received") == [("a:1", 1), ("a:2", 1), ("b:1", 1)]
    await create(grpc, "Pushed", "pushed", **{"+lite.sub.wildcard": "true"})
    told = run_driver("GrpcLite", "wildcard", grpc.endpoint, "Pushed", "pushed", peer="grpc520", timeout=250)
    assert told == {"got": 60}
