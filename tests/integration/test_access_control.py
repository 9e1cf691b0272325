"""Our own cluster with users and policies: our client, the command line, what nobody gets to see."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rocketlake import ClientConfig, Message, Producer, ProducerConfig, PushConsumer, SimpleConsumer
from rocketlake.admin import Admin
from rocketlake.auth.credentials import Credentials
from rocketlake.base.errors import RemoteError, RocketLakeError
from rocketlake.cli.tree import app
from rocketlake.model.message import StoredMessage
from rocketlake.net.client import NetClient
from rocketlake.net.dispatcher import Dispatcher
from rocketlake.net.gate.signing import signing
from rocketlake.net.request import Held, Reply, Request
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.testing.cluster import EmbeddedCluster

SETTINGS = {"authenticationEnabled": "true", "authorizationEnabled": "true"}
RUN = CliRunner()


class Guarded:
    """A cluster that has just made its first user, and the secrets that were told to us."""

    def __init__(self, cluster: EmbeddedCluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.admin = Credentials("admin", (folder / "admin_password").read_text().strip())

    def rocketlake(self, *words: str, exit_code: int = 0, user: Credentials | None = None) -> str:
        """What a command prints, and its error, asked as the administrator or this user."""
        user = user or self.admin
        environment = {"ROCKETMQ_ACCESS_KEY": user.access_key, "ROCKETMQ_SECRET_KEY": user.secret_key}
        with ThreadPoolExecutor(1) as own:  # a command has a loop of its own
            done = own.submit(RUN.invoke, app, [*words, "-n", self.cluster.namesrv], env=environment).result()
        assert done.exit_code == exit_code, done.output
        return f"{done.output}{done.exception or ''}"

    def add(self, name: str) -> Credentials:
        """A new user."""
        shown = self.rocketlake("acl", "add", name)
        return Credentials(name, shown.rpartition("secretKey: ")[2].strip())

    def config(self, user: Credentials) -> ClientConfig:
        return ClientConfig(namesrv=self.cluster.namesrv, credentials=user)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    with EmbeddedCluster(folder, settings=SETTINGS) as cluster:
        yield Guarded(cluster, folder)


def test_the_first_start_makes_an_administrator_whose_secret_only_the_owner_reads(guarded: Guarded) -> None:
    for name in ("admin_password", "accounts.json"):
        assert stat.S_IMODE((guarded.folder / name).stat().st_mode) == 0o600
    assert "admin" in guarded.rocketlake("acl", "users")


async def test_a_user_sends_and_reads_what_policies_allow(guarded: Guarded) -> None:
    guarded.rocketlake("topic", "create", "Orders")
    alice = guarded.add("alice")
    guarded.rocketlake("acl", "allow", "alice", "Pub,Sub", "Topic:Orders")
    guarded.rocketlake("acl", "allow", "alice", "Sub", "Group:alice*")
    bodies, got, done = {b"%d" % number for number in range(200)}, set[bytes](), asyncio.Event()

    def take(messages: list[StoredMessage]) -> None:
        got.update(message.body for message in messages)
        if got == bodies:
            done.set()

    consumer = PushConsumer("alice_reads", client_config=guarded.config(alice), listener=take, from_where="first")
    consumer.subscribe("Orders")
    async with Producer("ours", client_config=guarded.config(alice)) as producer:
        await asyncio.gather(*(producer.send(Message("Orders", body), timeout_ms=30_000) for body in bodies))
        async with consumer:
            await asyncio.wait_for(done.wait(), 30)
    assert got == bodies


@pytest.mark.skipif(os.environ.get("ROCKETLAKE_PURE") == "1", reason="runs need the kernels")
async def test_what_a_user_pops_and_acknowledges_is_served_by_runs(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the first request on a link, which tells who the user is."""
    guarded.rocketlake("topic", "create", "Popped")
    walter = guarded.add("walter")
    assert "in place of" not in guarded.rocketlake("acl", "allow", "walter", "Sub", "Topic:Popped")
    said = guarded.rocketlake("acl", "allow", "walter", "Pub,Sub", "Topic:Popped")
    assert "Allow Pub,Sub on Topic:Popped, in place of Allow Sub on Topic:Popped, on " in said
    guarded.rocketlake("acl", "allow", "walter", "Sub", "Group:walter")
    alone = Counter[int]()
    serve = Dispatcher._run

    def watch(self: Dispatcher, request: Request) -> Reply | Held:
        alone[request.code] += 1
        return serve(self, request)

    monkeypatch.setattr(Dispatcher, "_run", watch)
    bodies, got = {b"%d" % number for number in range(200)}, set[bytes]()
    async with Producer("ours", client_config=guarded.config(walter)) as producer:
        await asyncio.gather(*(producer.send(Message("Popped", body), timeout_ms=30_000) for body in bodies))
    # Only then: where a group begins in a queue is decided by an ordinary pop, which finds all queues filled.
    async with SimpleConsumer("walter", "Popped", from_where="first", client_config=guarded.config(walter)) as consumer:
        while got != bodies:
            messages = await consumer.receive(max_messages=32)
            await asyncio.gather(*(consumer.ack(message) for message in messages))
            got |= {message.body for message in messages}
    assert alone[RequestCode.POP_MESSAGE] <= 1
    assert not alone[RequestCode.ACK_MESSAGE] and not alone[RequestCode.BATCH_ACK_MESSAGE]


@pytest.mark.parametrize("credentials", [None, Credentials("admin", "wrong-secret"), Credentials("nobody", "x" * 9)])
async def test_a_stranger_is_refused_and_told_what_to_give(guarded: Guarded, credentials: Credentials | None) -> None:
    async with Producer(
        "ours", client_config=ClientConfig(namesrv=guarded.cluster.namesrv, credentials=credentials)
    ) as producer:
        with pytest.raises(RocketLakeError, match="access key"):
            await producer.send(Message("Orders", b"x"))


async def test_what_a_policy_denies_is_refused_by_name_and_explained(guarded: Guarded) -> None:
    guarded.rocketlake("topic", "create", "Payments")
    bob = guarded.add("bob")
    guarded.rocketlake("acl", "allow", "bob", "All", "Topic:*")
    guarded.rocketlake("acl", "deny", "bob", "Pub", "Topic:Pay*")
    assert "refused: Deny Pub on Topic:Pay*" in guarded.rocketlake(
        "acl", "explain", "bob", "Pub", "Topic:Payments", exit_code=8
    )
    assert "allowed: Allow All on Topic:*" in guarded.rocketlake("acl", "explain", "bob", "Sub", "Topic:Payments")
    async with Producer("ours", client_config=guarded.config(bob)) as producer:
        with pytest.raises(RocketLakeError, match=r"user bob .* lacks Pub on Topic:Payments: Deny Pub on Topic:Pay\*"):
            await producer.send(Message("Payments", b"x"))
        guarded.rocketlake("acl", "forget", "bob", "Topic:Pay*", "--yes")
        assert (await producer.send(Message("Payments", b"x"))).message_id
    guarded.rocketlake("acl", "change", "bob", "--disable")
    async with Producer("ours", client_config=guarded.config(bob)) as producer:
        with pytest.raises(RocketLakeError, match="disabled"):
            await producer.send(Message("Payments", b"x"))
    guarded.rocketlake("acl", "remove", "bob", "--yes")
    assert "bob" not in guarded.rocketlake("acl", "users")


async def test_a_user_above_his_quota_is_told_so_and_what_to_do(guarded: Guarded) -> None:
    guarded.rocketlake("topic", "create", "Metered")
    shown = guarded.rocketlake("acl", "add", "mallory", "--quota-requests-in", "5")
    mallory = Credentials("mallory", shown.rpartition("secretKey: ")[2].strip())
    guarded.rocketlake("acl", "allow", "mallory", "Pub", "Topic:Metered")
    assert "requests-in=5" in guarded.rocketlake("acl", "users")
    settings = guarded.config(mallory)
    async with Producer("ours", config=ProducerConfig(send_timeout_ms=300), client_config=settings) as producer:
        await producer.send(Message("Metered", b"x"), timeout_ms=30_000)  # the connection is there from now on
        sends = [producer.send(Message("Metered", b"x")) for _ in range(200)]
        refused = [done for done in await asyncio.gather(*sends, return_exceptions=True) if isinstance(done, Exception)]
        assert any("acl change mallory" in str(error) for error in refused)
        guarded.rocketlake("acl", "change", "mallory", "--quota-requests-in", "0")
        assert "requests-in" not in guarded.rocketlake("acl", "users")
        await asyncio.gather(*(producer.send(Message("Metered", b"x"), timeout_ms=30_000) for _ in range(200)))


def test_who_changes_its_own_secret_is_not_refused_halfway(guarded: Guarded, tmp_path: Path) -> None:
    shown = guarded.rocketlake("acl", "add", "erin", "--super")
    erin = Credentials("erin", shown.rpartition("secretKey: ")[2].strip())
    (tmp_path / "new").write_text("another-secret-1\n")
    told = guarded.rocketlake("acl", "change", "erin", "--password-file", str(tmp_path / "new"), user=erin)
    assert "2 servers" in told  # broker and name server, which share one file
    assert "erin" in guarded.rocketlake("acl", "users", user=Credentials("erin", "another-secret-1"))
    guarded.rocketlake("acl", "remove", "erin", "--yes", user=Credentials("erin", "another-secret-1"))


def test_a_user_without_rights_changes_nobody(guarded: Guarded) -> None:
    carol = guarded.add("carol")
    for words in (
        ("acl", "users"),
        ("acl", "allow", "carol", "All", "*"),
        ("acl", "change", "carol", "--super"),
        ("topic", "delete", "Orders", "--yes"),
    ):
        assert "lacks" in guarded.rocketlake(*words, exit_code=1, user=carol)
    assert "last super user" in guarded.rocketlake("acl", "remove", "admin", "--yes", exit_code=1)


async def test_no_answer_has_a_secret(guarded: Guarded) -> None:
    """Settings, users and policies, as an administrator gets them."""
    secrets = [guarded.admin.secret_key.encode(), guarded.add("dora").secret_key.encode()]
    broker = guarded.cluster.standalone.broker_address
    net = NetClient(sign=signing(lambda: guarded.admin))
    try:
        for code in (
            RequestCode.GET_BROKER_CONFIG,
            RequestCode.AUTH_LIST_USER,
            RequestCode.AUTH_LIST_ACL,
            RequestCode.GET_BROKER_RUNTIME_INFO,
        ):
            answer = await net.invoke(broker, Command.request(code))
            assert answer.code == ResponseCode.SUCCESS
            assert not any(secret in answer.body_bytes for secret in secrets)
        asked = Command.request(RequestCode.AUTH_GET_USER, fields={"username": "admin"})
        assert b"password" not in (await net.invoke(broker, asked)).body_bytes
    finally:
        await net.close()


PLAIN_ACL = """
globalWhiteRemoteAddresses:
- 10.10.103.*
accounts:
- accessKey: RocketMQ
  secretKey: "12345678"
  whiteRemoteAddress: 192.168.0.*
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - topicA=DENY
  - topicB=PUB|SUB
  groupPerms:
  - groupA=DENY
- accessKey: rocketmq2
  secretKey: "87654321"
  admin: true
"""


def test_accounts_of_acl_1_become_users_and_policies(guarded: Guarded, tmp_path: Path) -> None:
    file = tmp_path / "plain_acl.yml"
    file.write_text(PLAIN_ACL)
    said = guarded.rocketlake("acl", "import", str(file))
    assert "10.10.103.* needed no signature" in said and "12345678" not in said
    shown = [line.split() for line in guarded.rocketlake("acl", "show", "RocketMQ").splitlines()[1:]]
    assert sorted(shown) == sorted(
        line.split()
        for line in (
            "RocketMQ Deny All Topic:topicA - Custom",
            "RocketMQ Allow Pub,Sub Topic:topicB - Custom",
            "RocketMQ Deny All Group:groupA - Custom",
            "RocketMQ Deny All Topic:* - Default",
            "RocketMQ Allow Sub Group:* - Default",
        )
    )
    old = Credentials("rocketmq2", "87654321")
    assert "rocketmq2" in guarded.rocketlake("acl", "users", user=old), "an administrator there is a super user here"
    assert "stays as it is" in guarded.rocketlake("acl", "import", str(file))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "accounts: 1",
        "accounts: [{accessKey: a}]",
        "{",
        "accounts: [{accessKey: a, secretKey: bbbbbbb, topicPerms: [x]}]",
    ],
)
def test_a_file_that_is_no_plain_acl_is_refused_and_nothing_is_made(
    guarded: Guarded, tmp_path: Path, text: str
) -> None:
    before = guarded.rocketlake("acl", "users")
    (tmp_path / "plain_acl.yml").write_text(text)
    assert "Cure" in guarded.rocketlake("acl", "import", str(tmp_path / "plain_acl.yml"), exit_code=1)
    assert guarded.rocketlake("acl", "users") == before


async def test_a_message_is_not_read_by_its_place_without_a_right_to_its_topic(guarded: Guarded) -> None:
    """The field topic only claims something: what counts is the topic of the record."""
    guarded.rocketlake("topic", "create", "Secret")
    guarded.rocketlake("topic", "create", "Mine")
    eve = guarded.add("eve")
    guarded.rocketlake("acl", "allow", "eve", "All", "Topic:Mine")
    guarded.rocketlake("acl", "allow", "eve", "Sub", "Group:eve*")
    async with Producer("ours", client_config=guarded.config(guarded.admin)) as producer:
        sent = await producer.send(Message("Secret", b"nobody reads this"))
    offset = str(int(sent.offset_message_id[16:], 16))
    broker = guarded.cluster.standalone.broker_address
    net = NetClient(sign=signing(lambda: eve))
    try:
        for fields in ({}, {"topic": "Mine"}, {"topic": "Secret"}):
            asked = Command.request(RequestCode.VIEW_MESSAGE_BY_ID, fields={"offset": offset, **fields})
            answer = await net.invoke(broker, asked)
            assert (answer.code, b"nobody" in answer.body_bytes) == (ResponseCode.NO_PERMISSION, False)
        back = {"offset": offset, "group": "eve_reads", "delayLevel": "-1", "originTopic": "Mine"}
        answer = await net.invoke(broker, Command.request(RequestCode.CONSUMER_SEND_MSG_BACK, fields=back))
        assert answer.code == ResponseCode.NO_PERMISSION
    finally:
        await net.close()


def test_who_changed_what_and_who_was_refused_is_noted(guarded: Guarded) -> None:
    fred = guarded.add("fred")
    guarded.rocketlake("topic", "create", "Noted")
    guarded.rocketlake("topic", "delete", "Noted", "--yes", user=fred, exit_code=1)
    broker = (guarded.folder / "store" / "config" / "audit.jsonl").read_text()
    lines = [json.loads(line) for line in broker.splitlines()]
    made = [line for line in lines if line["request"] == "AUTH_CREATE_USER" and line["fields"]["username"] == "fred"]
    assert [(line["user"], line["outcome"]) for line in made] == [("admin", "SUCCESS")]
    created = [line for line in lines if line["fields"].get("topic") == "Noted" and line["user"] == "admin"]
    assert [line["request"] for line in created] == ["UPDATE_AND_CREATE_TOPIC"]
    refused = json.loads((guarded.folder / "namesrv" / "audit.jsonl").read_text().splitlines()[-1])
    assert (refused["user"], refused["outcome"]) == ("fred", "NO_PERMISSION")
    assert fred.secret_key not in broker and guarded.admin.secret_key not in broker


async def test_a_purge_that_is_refused_speaks_of_the_deletion(guarded: Guarded) -> None:
    guarded.rocketlake("topic", "create", "Kept")
    looks = guarded.add("looks")
    for resource in ("Cluster:*", "Topic:*", "Group:*"):
        guarded.rocketlake("acl", "allow", "looks", "Get,List", resource)
    async with Admin(client_config=guarded.config(looks)) as admin:
        with pytest.raises(RemoteError, match=r"DELETE_TOPIC_IN_BROKER was refused"):
            await admin.purge_topic("Kept")
        assert "Kept" in await admin.topics()
