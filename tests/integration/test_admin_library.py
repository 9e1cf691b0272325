"""The admin library on a cluster: what it answers, what it refuses, its blocking twin, its example."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketlake import Consumer, LinkError, Message, Producer, RocketLakeError, UsageError
from rocketlake.admin import Admin, TopicChange
from rocketlake.admin.sync import Admin as BlockingAdmin
from rocketlake.base.errors import ConflictError, RemoteError
from rocketlake.model.topic import TopicConfig
from rocketlake.standalone import Standalone
from rocketlake.testing.cluster import EmbeddedCluster

EXAMPLE = Path(__file__).parents[2] / "examples" / "admin_lag.py"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Standalone]:
    async with Standalone(tmp_path / "cluster") as cluster:
        yield cluster


@pytest.fixture
async def admin(cluster: Standalone) -> AsyncIterator[Admin]:
    async with Admin(namesrv=cluster.namesrv_address) as admin:
        yield admin


async def test_topics_are_made_shown_altered_and_deleted(admin: Admin, cluster: Standalone) -> None:
    made = await admin.create_topic("orders", queues=2)
    assert (made.made, made.there) == (["broker-a"], {})
    with pytest.raises(RocketLakeError, match="exists: 2 queues, rw on broker-a"):
        await admin.create_topic("orders")
    assert (await admin.create_topic("orders", if_not_exists=True)).made == []
    with pytest.raises(UsageError, match="permission 'rwx'"):
        await admin.create_topic("closed", perm="rwx")
    assert await admin.topics() == ["orders"]
    assert "TBW102" in await admin.topics(everything=True)

    async with Producer("shop", namesrv=cluster.namesrv_address) as producer:
        for number in range(4):
            await producer.send(Message("orders", b"%d" % number))
    found = await admin.topic("orders")
    assert (found.messages, found.missing_on, [queue.messages for queue in found.queues]) == (4, [], [2, 2])

    with pytest.raises(RocketLakeError, match="2 messages out of reach"):
        await admin.alter_topic("orders", TopicChange(read_queues=1))
    altered = await admin.alter_topic("orders", TopicChange(read_queues=3, write_queues=3))
    assert altered.moves_keys
    assert altered.after["broker-a"].write_queues == 3
    assert await admin.check_topic_deletion("orders") == 4
    assert await admin.delete_topic("orders") == ["broker-a"]
    with pytest.raises(RocketLakeError, match="no topic 'orders'"):
        await admin.topic("orders")


async def test_a_purge_that_is_cut_off_leaves_the_topic(admin: Admin, cluster: Standalone) -> None:
    await admin.create_topic("orders", queues=3)
    purge = asyncio.create_task(admin.purge_topic("orders"))
    while cluster.broker.topics.get("orders"):  # noqa: ASYNC110 - the next turn cuts it off
        await asyncio.sleep(0)
    purge.cancel()
    with pytest.raises(asyncio.CancelledError):
        await purge
    assert (await admin.topic_settings())["orders"]["broker-a"].read_queues == 3


async def test_a_purge_that_a_broker_does_not_end_says_what_is_gone(admin: Admin, cluster: Standalone) -> None:
    cluster.broker.topics.put(TopicConfig("orders", read_queues=3, write_queues=3, attributes={"old.one": "7"}))
    await cluster.broker.cluster.registration.register()
    with pytest.raises(
        RocketLakeError,
        match=r"'orders' could not be made anew on broker-a, and may be gone there: .*unknown attribute 'old.one'.*"
        r"`rocketlake topic create orders`; it had 3 queues, rw on broker-a, \+old.one=7",
    ):
        await admin.purge_topic("orders")


async def test_a_drain_that_cannot_open_its_topic_again_says_how(admin: Admin, cluster: Standalone) -> None:
    await admin.create_topic("orders", queues=1)
    told = asyncio.Event()
    change = TopicChange(read_queues=2, write_queues=2)
    drain = asyncio.create_task(admin.alter_topic("orders", change, drain=lambda _: told.set()))
    await told.wait()
    await cluster.broker.stop()
    with pytest.raises(RocketLakeError, match=r"'orders' may take no messages now.*topic alter orders --perm rw`"):
        await drain


async def test_a_misspelt_attribute_of_a_group_is_never_passed_over(admin: Admin) -> None:
    wrong, right = "+lite.bind.topc=sessions", "+lite.bind.topic=sessions"
    for change in (admin.create_group, admin.alter_group):
        with pytest.raises(RemoteError, match=r"unknown attribute 'lite.bind.topc'.*write one of lite.bind.topic, "):
            await change("chat", attributes=wrong)
        with pytest.raises(UsageError, match=r"'\+lite.bind.topic' has no value.*write \+lite.bind.topic=VALUE"):
            await change("chat", attributes="+priority.factor=3,+lite.bind.topic")
        await admin.create_group("chat")
    for wish in (wrong, right):
        with pytest.raises(ConflictError, match=f"'chat' exists without {wish[1:]}.*group alter chat"):
            await admin.create_group("chat", attributes=wish)
    await admin.alter_group("chat", attributes=right)
    assert await admin.create_group("chat", attributes=right) == []


async def test_a_group_is_created_with_attributes_not_without(admin: Admin) -> None:
    await admin.create_group("there")
    for group in ("there", "new"):
        for wrong in ("-priority.factor", "priority.factor"):
            with pytest.raises(UsageError, match=rf"'{wrong}' of a group.*no \+.*alter {group} -a -NAME`"):
                await admin.create_group(group, attributes=f"+lite.bind.topic=a,{wrong}")
        with pytest.raises(UsageError, match=r"'\+priority.factor' is given twice"):
            await admin.create_group(group, attributes="+priority.factor=3,+priority.factor=4")


async def test_a_group_is_made_read_set_back_and_deleted(admin: Admin, cluster: Standalone) -> None:
    namesrv = cluster.namesrv_address
    assert await admin.create_group("billing", tries=3) == ["broker-a"]
    assert await admin.create_group("billing") == []
    with pytest.raises(ConflictError, match="'billing' exists without tries=4, with 3"):
        await admin.create_group("billing", tries=4)
    assert (await admin.alter_group("billing", tries=5))["broker-a"].retry_max_times == 5
    with pytest.raises(RocketLakeError, match="no broker knows group 'nobody'"):
        await admin.group("nobody")

    async with Producer("shop", namesrv=namesrv) as producer:
        sent = [await producer.send(Message("orders", b"%d" % number, keys="k1")) for number in range(3)]
    async with Consumer("billing", "orders", namesrv=namesrv, from_where="first") as consumer:
        for _ in range(3):
            assert await consumer.receive(timeout_ms=30_000)
        assert [member.subscriptions for member in (await admin.group("billing")).members] == [
            {"orders": "*", "%RETRY%billing": "*"}
        ]
        with pytest.raises(RocketLakeError, match="is running"):
            await admin.delete_group("billing")
        with pytest.raises(RocketLakeError, match="is running"):
            await admin.plan_reset("billing", "orders", "earliest")
    assert [(each.name, each.members, each.lag, each.topics) for each in await admin.groups()] == [
        ("billing", 0, 0, ["orders"])
    ]
    with pytest.raises(UsageError, match="to 'yesterday' is not understood"):
        await admin.plan_reset("billing", "orders", "yesterday")
    plan = await admin.plan_reset("billing", "orders", "earliest")
    assert (plan.again, plan.passed) == (3, 0)
    assert (await admin.group("billing")).lag == 0
    await admin.reset_group(plan)
    assert (await admin.group("billing")).lag == 3

    found = await admin.messages_by_key("orders", "k1")
    assert [message.body for message in found] == [b"0", b"1", b"2"]
    assert [message.body for message in await admin.messages_by_id("orders", sent[1].message_id)] == [b"1"]
    queue = sent[2].queue
    there = await admin.message_at("orders", queue.broker_name, queue.queue_id, sent[2].queue_offset)
    assert there is not None and there.body == b"2"
    assert await admin.message_at("orders", queue.broker_name, queue.queue_id, 99) is None
    assert len(await admin.messages_between("orders", 0, limit=2)) == 2
    steps = (await admin.message_life(sent[0].message_id, "orders")).steps
    assert [(step.what, step.by) for step in steps] == [("stored", None), ("waits", "billing")]

    assert await admin.delete_group("billing") == ["broker-a"]
    assert await admin.groups() == []


async def test_brokers_tell_figures_and_take_settings(admin: Admin) -> None:
    (broker,) = await admin.brokers()
    assert (broker.name, broker.broker_id, broker.trouble, broker.version[:1]) == ("broker-a", 0, "", "V")
    await admin.change_broker("broker-a", {"autoCreateTopicEnable": "false"})
    assert (await admin.broker_settings("broker-a"))["autoCreateTopicEnable"] == "false"
    with pytest.raises(UsageError, match="no broker broker-z with id 0") as refused:
        await admin.broker_settings("broker-z")
    assert "broker-a 0" in refused.value.hint
    assert (await admin.waiting_messages()).messages == []
    assert (await admin.open_transactions()).total == 0
    with pytest.raises(RocketLakeError, match="no server of this cluster asks who its clients are"):
        await admin.users()


async def test_without_a_cluster_and_before_start() -> None:
    with pytest.raises(UsageError, match="not running"):
        await Admin(namesrv="127.0.0.1:1").topics()
    async with Admin(namesrv="127.0.0.1:1") as admin:
        with pytest.raises(LinkError, match="no name server answers"):
            await admin.topics()


def test_the_blocking_twin(tmp_path: Path) -> None:
    with EmbeddedCluster(tmp_path) as cluster, BlockingAdmin(namesrv=cluster.namesrv) as admin:
        assert admin.create_topic("orders", queues=1).made == ["broker-a"]
        assert admin.topic("orders").messages == 0
        with pytest.raises(RocketLakeError, match="no topic 'nowhere'"):
            admin.topic("nowhere")


def test_the_twin_has_every_method() -> None:
    asking = {name for name, value in vars(Admin).items() if inspect.iscoroutinefunction(value) and name[0] != "_"}
    assert asking - set(vars(BlockingAdmin)) == {"start", "stop"}


async def test_the_example(cluster: Standalone) -> None:
    command = (sys.executable, str(EXAMPLE), cluster.namesrv_address)
    example = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    printed, _ = await example.communicate()
    assert example.returncode == 0
    assert printed.decode().splitlines() == [
        "topics ['orders']", "orders has 3 messages", "lag of billing 0", "read again 3 lag now 3",
    ]  # fmt: skip
