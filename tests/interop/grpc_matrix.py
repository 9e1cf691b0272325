"""What each of Apache's clients for gRPC is asked to do on our broker, beside our own client on the remoting port.

A client's tests are a class of those parts that its client can do.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from interop.apache import PeerMissing, free_ports
from interop.grpc_clients import GrpcProgram, go, node, rust
from rocketlake import ClientConfig, Consumer
from rocketlake.admin import Admin
from rocketlake.auth.credentials import Credentials
from rocketlake.client.calls.answer import ask
from rocketlake.model.message import StoredMessage
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.group import GroupEntry
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode
from tests.interop.our_cluster import guarded_cluster, our_cluster, until_open

BUILDS = {"node": node, "go": go, "rust": rust}
LARGE = 3 << 20
ROOT = ("root", "secret of root")


class Matrix:
    """One client before our cluster."""

    language: ClassVar[str]
    namesrv: ClassVar[str]
    endpoint: ClassVar[str]
    program: ClassVar[GrpcProgram]

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def before_our_cluster(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        """Build the client, start the cluster."""
        try:
            cls.program = BUILDS[cls.language]()
        except PeerMissing as reason:
            pytest.skip(str(reason))
        (port,) = free_ports(1)
        settings = (f"grpcServerPort={port}", "transactionTimeOut=1000", "transactionCheckInterval=1000")
        with our_cluster(tmp_path_factory.mktemp("grpc"), *settings) as cls.namesrv:
            cls.endpoint = f"127.0.0.1:{port}"
            until_open(port)
            yield

    def run(self, what: str, *words: str) -> list[Any]:
        """What the client tells, without the words that say which it is."""
        return [next(iter(line.values())) for line in self.program.run(what, self.endpoint, *words)]

    def send(self, topic: str, *messages: dict[str, Any]) -> list[str]:
        return self.run("send", topic, json.dumps(messages))

    async def create(self, topic: str) -> None:
        async with Admin(namesrv=self.namesrv) as admin:
            await admin.create_topic(topic, queues=4)

    async def read(self, topic: str, count: int) -> list[StoredMessage]:
        """So many messages, by our client on the remoting port."""
        found: list[StoredMessage] = []
        async with asyncio.timeout(60):
            async with Consumer(f"by_remoting_{topic}", topic, namesrv=self.namesrv, from_where="first") as consumer:
                async for message in consumer:
                    found.append(message)
                    if len(found) == count:
                        break
        return found


class Basics(Matrix):
    """Producer and simple consumer."""

    async def test_messages_arrive_whole_by_grpc_and_by_remoting(self) -> None:
        await self.create("Whole")
        given = [
            {"body": f"body {n}", "tag": "A", "keys": [f"a{n}", f"b{n}"], "properties": {"colour": "blue", "n": str(n)}}
            for n in range(10)
        ]
        by_id = dict(zip(self.send("Whole", *given), given, strict=True))
        stored = {each.message_id: each for each in await self.read("Whole", 10)}
        received = {each["id"]: each for each in self.run("receive", "Whole", "whole", "10", "ack")}
        assert stored.keys() == received.keys() == by_id.keys()
        for message_id, one in by_id.items():
            message, each = stored[message_id], received[message_id]
            assert (message.body.decode(), message.tags, message.key_list) == (one["body"], "A", one["keys"])
            assert message.user_properties == each["properties"] == one["properties"]
            assert (each["body"], each["tag"], each["keys"]) == (one["body"], "A", one["keys"])
            assert (each["attempt"], each.get("corrupted", False)) == (1, False)

    async def test_what_is_kept_comes_again_and_what_is_acknowledged_does_not(self) -> None:
        await self.create("Again")
        self.send("Again", {"body": "one"}, {"body": "two"})
        assert [each["attempt"] for each in self.run("receive", "Again", "again", "2", "keep")] == [1, 1]
        again = self.run("receive", "Again", "again", "2", "ack")
        assert sorted((each["body"], each["attempt"]) for each in again) == [("one", 2), ("two", 2)]
        self.send("Again", {"body": "behind them"})
        assert [each["body"] for each in self.run("receive", "Again", "again", "1", "ack")] == ["behind them"]

    async def test_a_message_group_lies_in_one_queue_in_its_order(self) -> None:
        await self.create("Grouped")
        self.send("Grouped", *[{"body": str(n), "group": f"group {n % 3}"} for n in range(30)])
        places: dict[str, list[tuple[int, int, int]]] = {}
        for each in await self.read("Grouped", 30):
            place = (each.queue_id, each.queue_offset, int(each.body))
            places.setdefault(each.sharding_key or "", []).append(place)
        assert sorted(places) == ["group 0", "group 1", "group 2"]
        for found in places.values():
            assert len({queue_id for queue_id, _, _ in found}) == 1
            assert [number for _, _, number in sorted(found)] == sorted(number for _, _, number in found)

    async def test_a_delayed_message_comes_at_its_time(self) -> None:
        await self.create("Delayed")
        began = time.time()
        self.send("Delayed", {"body": "late", "delay": 4})
        (message,) = await self.read("Delayed", 1)
        assert message.body == b"late"
        assert message.store_ms / 1000 - began >= 3, "the second of the time may be cut off"

    @pytest.mark.parametrize("end", ["commit", "rollback", "asked"])
    async def test_transactions_end_as_their_producer_says(self, end: str) -> None:
        topic = f"Ended_{end}"
        await self.create(topic)
        told = self.run("transaction", topic, end)
        assert [each["body"] for each in told if isinstance(each, dict)] == (["asked"] if end == "asked" else [])
        self.send(topic, {"body": "behind it"})
        expected = [b"behind it"] if end == "rollback" else [b"behind it", end.encode()]
        assert sorted(each.body for each in await self.read(topic, len(expected))) == sorted(expected)

    async def test_large_bodies_pass(self) -> None:
        await self.create("Large")
        self.send("Large", *[{"body": letter, "bytes": LARGE} for letter in "abc"])
        received = self.run("receive", "Large", "large", "3", "ack")
        assert sorted((each["body"][0], each["bytes"]) for each in received) == [(each, LARGE) for each in "abc"]

    async def test_a_user_signs_over_an_encrypted_connection(self, tmp_path: Path) -> None:
        (port,) = free_ports(1)
        with guarded_cluster(tmp_path, port, ROOT) as (namesrv, authority):
            signed = ClientConfig(credentials=Credentials(*ROOT))
            async with Admin(namesrv=namesrv, client_config=signed) as admin:
                await admin.create_topic("Secret", queues=1)
            root, endpoint = ":".join(ROOT), f"127.0.0.1:{port}"
            message = json.dumps([{"body": "secret"}])
            (sent,) = self.program.run("send", endpoint, "Secret", message, user=root, trusted=authority.trusted)
            refusal = self._refusal("send", endpoint, "Secret", message, user="root:wrong secret")
            assert re.search("unauthorized|signature is not its own", refusal, re.IGNORECASE), refusal
            received = self.program.run(
                "receive", endpoint, "Secret", "g", "1", "ack", user=root, trusted=authority.trusted
            )
        assert [(each["received"]["id"], each["received"]["body"]) for each in received] == [(sent["sent"], "secret")]

    def _refusal(self, *words: str, user: str) -> str:
        """Why the client, or its call, fails."""
        try:
            (line,) = self.program.run(*words, user=user)
        except RuntimeError as error:
            return str(error)
        return str(line.get("refused", ""))


class Renewals(Matrix):
    """Change of the invisible time."""

    async def test_what_is_put_off_comes_then(self) -> None:
        await self.create("Later")
        self.send("Later", {"body": "one"}, {"body": "two"})
        assert len(self.run("receive", "Later", "later", "2", "later")) == 2
        again = self.run("receive", "Later", "later", "2", "ack")
        assert sorted((each["body"], each["attempt"]) for each in again) == [("one", 2), ("two", 2)]


class Pushes(Matrix):
    """Push consumer."""

    async def test_a_push_consumer_gets_by_tag_and_again_what_it_failed(self) -> None:
        await self.create("Pushed")
        self.send("Pushed", *[{"body": str(n), "tag": "AB"[n % 2]} for n in range(20)])
        pushed = self.run("push", "Pushed", "pushed", "20", "A", "fails-first")
        assert sorted((int(each["body"]), each["attempt"]) for each in pushed) == [
            (n, attempt) for n in range(0, 20, 2) for attempt in (1, 2)
        ]

    async def test_a_group_in_order_is_pushed_in_order(self) -> None:
        await self.create("InOrder")
        await self._create_in_order("in_order")
        self.send("InOrder", *[{"body": str(n), "group": f"group {n % 3}"} for n in range(60)])
        pushed = self.run("push", "InOrder", "in_order", "60", "*", "no")
        assert len(pushed) == 60
        for group in range(3):
            numbers = [int(each["body"]) for each in pushed if each["group"] == f"group {group}"]
            assert numbers == list(range(group, 60, 3))

    async def _create_in_order(self, group: str) -> None:
        """A group whose consumers get the messages of a queue in order."""
        async with Admin(namesrv=self.namesrv) as admin:
            (broker,) = await admin.brokers()
        entry = GroupEntry(group_name=group, consume_message_orderly=True)
        async with NetClient() as net:
            command = Command.request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=entry.encode())
            await ask(net, broker.address, command)


class Recalls(Matrix):
    """Recall of delayed messages."""

    async def test_a_recalled_message_does_not_come(self) -> None:
        await self.create("Recalled")
        sent, recalled = self.run("recall", "Recalled", "5")
        assert recalled == sent
        (kept,) = await self.read("Recalled", 1)
        assert kept.body == b"kept"
