"""Who did what, followed by a consumer: a cluster with users that stores its audit in a topic."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from rocketlake import ClientConfig, PushConsumer
from rocketlake.auth.credentials import Credentials
from rocketlake.base.errors import UsageError
from rocketlake.broker.config import load_broker_conf
from rocketlake.model.message import StoredMessage
from rocketlake.model.topic import AUDIT_TOPIC
from rocketlake.net.client import NetClient
from rocketlake.net.gate.signing import signing
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.testing.cluster import EmbeddedCluster
from tests.integration.test_access_control import SETTINGS, Guarded
from tests.requests import pull_header, send_header


async def test_a_user_with_the_right_reads_each_line_of_the_file_and_nobody_writes(tmp_path: Path) -> None:
    with EmbeddedCluster(tmp_path, settings={**SETTINGS, "auditTopicEnable": "true"}) as cluster:
        guarded = Guarded(cluster, tmp_path)
        guarded.rocketlake("topic", "create", "Orders")
        auditor, bob = guarded.add("auditor"), guarded.add("bob")
        guarded.rocketlake("acl", "allow", "auditor", "Sub", f"Topic:{AUDIT_TOPIC}")
        guarded.rocketlake("acl", "allow", "auditor", "Sub", "Group:auditors")
        guarded.rocketlake("acl", "allow", "bob", "Pub,Sub", "Topic:Orders")
        guarded.rocketlake("acl", "allow", "bob", "Sub", "Group:*")
        guarded.rocketlake("topic", "delete", AUDIT_TOPIC, "--yes", exit_code=1)
        send = Command.request(RequestCode.SEND_MESSAGE_V2, send_header(AUDIT_TOPIC), b"not true")
        assert await answer(guarded, guarded.admin, send) == ResponseCode.NO_PERMISSION
        pull = Command.request(RequestCode.PULL_MESSAGE, pull_header(AUDIT_TOPIC, consumer_group="bobs"))
        assert await answer(guarded, bob, pull) == ResponseCode.NO_PERMISSION

        in_file = audit_lines(tmp_path)
        lines = await read(guarded.config(auditor), "auditors", last=in_file[-1])
        assert lines[: len(in_file)] == in_file
        told = [json.loads(line) for line in lines]
        assert ("admin", "Orders") in {(line["user"], line["fields"].get("topic")) for line in told}
        assert any(line["user"] == "bob" and line["outcome"] == "NO_PERMISSION" for line in told)
        done = {line["request"] for line in told if line["outcome"] == "SUCCESS"}
        assert done.isdisjoint({"SEND_MESSAGE_V2", "PULL_MESSAGE"}) and "UPDATE_AND_CREATE_TOPIC" in done


def audit_lines(folder: Path) -> list[bytes]:
    """What the broker's file holds now."""
    (path,) = (each for each in folder.rglob("config/audit.jsonl") if (each.parents[1] / "commitlog").exists())
    return path.read_bytes().splitlines()


async def answer(guarded: Guarded, user: Credentials, command: Command) -> int:
    """The code of the broker's answer to a request of this user."""
    net = NetClient(sign=signing(lambda: user))
    try:
        return (await net.invoke(guarded.cluster.standalone.broker_address, command, 10_000)).code
    finally:
        await net.close()


async def read(config: ClientConfig, group: str, last: bytes) -> list[bytes]:
    """The messages of the audit's topic up to this one."""
    got: dict[int, bytes] = {}
    done = asyncio.Event()

    def take(messages: list[StoredMessage]) -> None:
        got.update((message.queue_offset, message.body) for message in messages)
        if last in got.values():
            done.set()

    consumer = PushConsumer(group, client_config=config, listener=take, from_where="first")
    consumer.subscribe(AUDIT_TOPIC)
    async with consumer:
        await asyncio.wait_for(done.wait(), 60)
    return [got[offset] for offset in sorted(got)]


def test_without_rules_there_is_no_such_topic() -> None:
    with pytest.raises(UsageError, match="auditTopicEnable"):
        load_broker_conf(None, {"auditTopicEnable": "true", "authenticationEnabled": "true"})
