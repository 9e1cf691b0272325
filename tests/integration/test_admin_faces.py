"""The admin library on users, dead letters and groups of replicas: values, refusals, the blocking twin."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from rocketlake import ClientConfig, ConsumeResult, Message, Producer, PushConsumer, StoredMessage
from rocketlake.admin import Admin, DeadLetterGroup, LetterChoice, LettersSettled, letter_error
from rocketlake.admin.sync import Admin as BlockingAdmin
from rocketlake.auth.account_text import AclInfo, EntryInfo, PolicyInfo, QuotaInfo, UserInfo
from rocketlake.auth.credentials import Credentials
from rocketlake.base.errors import ConflictError, NotThereError, RemoteError, UsageError
from rocketlake.namesrv.config import load_namesrv_conf
from rocketlake.namesrv.server import NameServer
from rocketlake.net.client import NetClient
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.controller import ApplyBrokerIdHeader, ElectMasterHeader, RegisterReplicaHeader
from rocketlake.protocol.request_code import RequestCode as Ask
from rocketlake.standalone import Standalone

ROOT = {"username": "root", "password": "secret of root"}


async def test_users_are_made_altered_told_and_deleted(tmp_path: Path) -> None:
    settings = {"authenticationEnabled": "true", "initAuthenticationUser": json.dumps(ROOT)}
    config = ClientConfig(credentials=Credentials(ROOT["username"], ROOT["password"]))
    async with (
        Standalone(tmp_path, settings=settings) as cluster,
        Admin(namesrv=cluster.namesrv_address, client_config=config) as admin,
    ):
        made = await admin.create_user("shop", quota=QuotaInfo(requests_in=7))
        assert (made.name, len(made.password) >= 16, bool(made.servers)) == ("shop", True, True)
        with pytest.raises(ConflictError, match="there is a user shop already"):
            await admin.create_user("shop")
        allowed = await admin.allow("shop", ["Pub", "Sub"], "Topic:orders")
        assert (str(allowed.entry.resource), allowed.replaced) == ("Topic:orders", None)
        assert (await admin.allow("shop", ["Sub", "Pub"], "Topic:orders")).replaced is None
        denied = await admin.deny("shop", ["Pub"], "Topic:orders")
        assert str(denied.replaced) == "Allow Pub,Sub on Topic:orders"
        assert not (await admin.may("shop", "Sub", "Topic:orders")).allowed
        assert (await admin.allow("shop", ["Pub", "Sub"], "Topic:orders")).replaced == denied.entry
        default = PolicyInfo("Default", [EntryInfo("Topic:orders", ["Pub"], None, "Deny")])
        await admin.add_accounts([UserInfo("other", "secret of other", "Normal")], [AclInfo("User:other", [default])])
        assert (await admin.allow("other", ["Pub"], "Topic:orders")).replaced is None
        await admin.delete_policies("other", "Topic:orders")
        assert await admin.policies("other") == {}
        await admin.delete_user("other")
        await admin.deny("shop", ["Sub"], "Topic:audit*", sources=["10.0.0.0/8"])
        with pytest.raises(UsageError):
            await admin.allow("shop", ["Fly"], "Topic:orders")
        assert (await admin.may("shop", "Pub", "Topic:orders")).allowed
        assert not (await admin.may("shop", "Delete", "Topic:orders")).allowed
        with pytest.raises(UsageError, match="no single resource"):
            await admin.may("shop", "Sub", "Topic:audit*")
        assert len((await admin.policies("shop"))["shop"].entries) == 2
        await admin.delete_policies("shop", "Topic:orders")
        assert len((await admin.policies("shop"))["shop"].entries) == 1
        await admin.alter_user("shop", enabled=False)
        assert (await admin.may("shop", "Pub", "Topic:orders")).why == "user shop is disabled"
        await admin.delete_user("shop")
        assert [user.username for user in await admin.users()] == ["root"]
        with pytest.raises(NotThereError, match="no user shop"):
            await admin.alter_user("shop", enabled=True)


async def test_dead_letters_are_told_chosen_sent_again_and_dropped(tmp_path: Path) -> None:
    async def give_up(messages: list[StoredMessage]) -> ConsumeResult:
        return ConsumeResult.later(delay_level=-1, error=f"no {messages[0].body.decode()}")

    async with Standalone(tmp_path) as cluster, Admin(namesrv=cluster.namesrv_address) as admin:
        assert await admin.dead_letter_groups() == []
        await admin.create_topic("orders", queues=1)
        async with Producer("shop", namesrv=cluster.namesrv_address) as producer:
            for body in (b"tea", b"milk", b"salt"):
                await producer.send(Message("orders", body))
        consumer = PushConsumer("kitchen", listener=give_up, namesrv=cluster.namesrv_address, from_where="first")
        consumer.subscribe("orders")
        async with consumer, asyncio.timeout(60):
            while sum(each.kept for each in await admin.dead_letter_groups()) < 3:
                pass  # each look is a round of requests
        (group,) = await admin.dead_letter_groups()
        assert (group.group, group.open, group.kept, group.newest_ms > 0) == ("kitchen", 3, 3, True)
        seen: list[str] = []
        tea = LetterChoice(error="no tea")
        assert await admin.dead_letters("kitchen", lambda letter: seen.append(letter_error(letter)), tea) == 1
        assert seen == ["no tea"]
        with pytest.raises(UsageError, match="one message"):
            await admin.resend_dead_letters("kitchen", body=b"repaired")
        bodies: list[bytes] = []
        sent = await admin.resend_dead_letters("kitchen", tea, to="other", tell=lambda each: bodies.append(each.body))
        assert (sent.done, bodies) == (1, [b"tea"])
        assert (await admin.topic("other")).messages == 1
        dropped = await admin.drop_dead_letters("kitchen", LetterChoice(topic="orders", since_ms=0))
        assert dropped == LettersSettled(2, 0)
        assert await admin.dead_letter_groups() == [DeadLetterGroup("kitchen", 0, 3, group.newest_ms)]


async def test_groups_of_replicas_are_told_and_changed(tmp_path: Path) -> None:
    """A controller that knows brokers 1 and 2 of group g; 1 is the master. Neither of them is heard any more."""
    settings = {"listenPort": 0, "kvConfigPath": tmp_path / "kv.json", "enableControllerInNamesrv": True}
    async with (
        NameServer(load_namesrv_conf(None, settings)) as server,
        NetClient() as client,
        Admin(namesrv=server.address) as admin,
    ):
        for number in (1, 2):
            told = {"cluster_name": "c", "broker_name": "g"}
            at = f"127.0.0.1:{number}"
            apply = ApplyBrokerIdHeader(**told, applied_broker_id=number, register_check_code=f"{at};1")
            register = RegisterReplicaHeader(**told, broker_id=number, broker_address=at)
            await client.invoke(server.address, Command.request(Ask.CONTROLLER_APPLY_BROKER_ID, apply))
            await client.invoke(server.address, Command.request(Ask.CONTROLLER_REGISTER_BROKER, register))
        elect = ElectMasterHeader(cluster_name="c", broker_name="g", broker_id=1)
        await client.invoke(server.address, Command.request(Ask.CONTROLLER_ELECT_MASTER, elect))
        (group,) = await admin.replica_groups()
        assert group == await admin.replica_group("g")
        assert (group.name, group.master, group.in_step, group.needed) == ("g", 1, [1], 1)
        assert group.no_failover == "no other living broker holds all that was acknowledged"
        assert [(each.broker_id, each.is_master, each.holds_all) for each in group.members] == [
            (1, True, True),
            (2, False, False),
        ]
        assert [(each.epoch, each.master, each.before) for each in await admin.master_switches("g")] == [(1, 1, None)]
        with pytest.raises(NotThereError, match="g has no broker 7"):
            await admin.count_lacking("g", 7)
        assert await admin.count_lacking("g", 2) is None  # nobody answers at these addresses
        for ask in (admin.master_switches, admin.replica_group):
            with pytest.raises(NotThereError, match="no controller knows a group of brokers 'other'"):
                await ask("other")
        for nowhere in ("nonsense", "127.0.0.1:99999", ":1"):
            with pytest.raises(RemoteError, match=f"'{nowhere}'"):
                await admin.move_replica("g", 2, nowhere)
        with pytest.raises(UsageError, match="broker 2 of g is not in step: not in step"):
            await admin.check_hand_over("g", 2)
        with pytest.raises(UsageError, match="broker 2 of g is not in step"):
            await admin.hand_over("g", 2)
        with pytest.raises(UsageError, match="only 1 may hold all that was acknowledged"):
            await admin.remove_replica("g", 1)
        with pytest.raises(NotThereError, match="g has no broker 7"):
            await admin.check_election("g", 7)
        await admin.move_replica("g", 2, "127.0.0.1:22")
        assert [each.address for each in (await admin.replica_group("g")).members] == ["127.0.0.1:1", "127.0.0.1:22"]
        await admin.check_removal("g", 2)
        await admin.remove_replica("g", 2)
        assert [each.broker_id for each in (await admin.replica_group("g")).members] == [1]


def test_the_blocking_twin_tells_dead_letters_by_a_call(tmp_path: Path) -> None:
    from rocketlake.testing.cluster import EmbeddedCluster

    with EmbeddedCluster(tmp_path) as cluster, BlockingAdmin(namesrv=cluster.namesrv) as admin:
        seen: list[StoredMessage] = []
        assert admin.dead_letters("nobody", seen.append) == 0
        assert (admin.dead_letter_groups(), seen) == ([], [])
