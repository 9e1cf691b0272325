"""Every command of Apache's mqadmin 5.5.0 on our cluster does what the page docs/reference/mqadmin.md says of it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interop.apache import apache_cluster
from interop.replicas import mqadmin
from rocketlake import ClientConfig, Consumer, Message, MessageQueue, Producer, PushConsumer, StoredMessage
from rocketlake.admin import Admin
from tests.interop.mqadmin_rows import IN_GROUPS, ON_ONE_BROKER, PAGE, WITH_USERS, Call
from tests.interop.our_cluster import our_brokers
from tests.tidy.tree import ROOT

pytestmark = pytest.mark.interop

ADMINISTRATOR = ("root-user", "root-secret-1")
STATES = ("works", "differs", "refused")


def page_rows() -> dict[str, str]:
    """Command -> works, differs or refused, as the page says."""
    found = re.findall(r"^\| `(\w+)` \| (\w+) \|", (ROOT / PAGE).read_text(), re.MULTILINE)
    assert len(found) == len(dict(found)), "a command stands on the page twice"
    return dict(found)


@asynccontextmanager
async def traffic(namesrv: str) -> AsyncIterator[dict[str, str]]:
    """20 orders, read by `done`, which has left, and `live`, which is there; gives the names of one order."""
    traced = ClientConfig(namesrv=namesrv, trace=True)
    left = 20
    everything = asyncio.Event()

    async def read(messages: list[StoredMessage]) -> None:
        nonlocal left
        left -= len(messages)
        if left == 0:
            everything.set()

    async with Admin(namesrv=namesrv) as admin, Producer("shop", client_config=traced) as producer:
        await admin.create_topic("Orders", queues=4)
        queues = [MessageQueue("Orders", "broker-a", number) for number in range(4)]
        for number in range(20):
            order = Message("Orders", b"%d" % number, keys=f"k{number}", tags="A")
            await producer.send(order, queue=queues[number % 4])
        async with Consumer("done", "Orders", namesrv=namesrv, from_where="first") as consumer:
            for _ in range(20):
                assert await consumer.receive(timeout_ms=60_000)
        live = PushConsumer("live", listener=read, namesrv=namesrv, from_where="first")
        live.subscribe("Orders")
        async with live, asyncio.timeout(120):
            await everything.wait()
            while sum(queue.consumed for queue in (await admin.group("live")).queues) < 20:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
            first = await admin.message_at("Orders", "broker-a", 0, 0)
            assert first is not None
            yield {"id": first.message_id, "offset_id": first.offset_message_id}


def home_in(root: Path, user: tuple[str, str] | None = None) -> Path:
    """A home of mqadmin, with the files that its commands read."""
    home = root / "home"
    (home / "conf").mkdir(parents=True)
    topic = {"topicName": "Listed", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6, "order": False}
    (home / "topics.json").write_text(json.dumps([topic | {"topicFilterType": "SINGLE_TAG", "topicSysFlag": 0}]))
    (home / "groups.json").write_text(json.dumps([{"groupName": "listed", "consumeEnable": True}]))
    if user is not None:
        (home / "conf" / "tools.yml").write_text(f"accessKey: {user[0]}\nsecretKey: {user[1]}\n")
    return home


def answers(home: Path, calls: Sequence[Call], namesrv: str, **names: str) -> list[str]:
    known = {"home": str(home), "namesrv": namesrv, **names}
    words = [tuple(word.format_map(known) for word in call.words.split()) for call in calls]
    servers = [("-n", namesrv) if call.names_servers else () for call in calls]
    return mqadmin(home, *(line + more for line, more in zip(words, servers, strict=True)), fails_on="")


def check(calls: Sequence[Call], printed: Sequence[str]) -> None:
    """Each answer is what its row on the page, and its call, promise."""
    rows = page_rows()
    assert len(printed) == len(calls)
    wrong = []
    for call, text in zip(calls, printed, strict=True):
        failed = re.search(r"SubCommandException|\] error\b|records error|MQBrokerException", text) is not None
        may_fail = rows[call.command] == "refused" or call.is_refused
        if call.answer not in text or (failed and not may_fail):
            wrong.append(f"{call.words}: {rows[call.command]}, but it prints\n{text[-1500:]}")
    assert not wrong, "\n\n".join(wrong)


def likeness(text: str) -> list[str]:
    """An answer without what differs from one cluster to the next: times, addresses, ids, rates, order of lines."""
    for pattern, name in (
        (r"/\S*/home", "HOME"),
        (r"/?127\.0\.0\.1:\d+", "ADDRESS"),
        (r"\b[0-9A-F]{32,56}\b", "ID"),
        (r"\d+\.\d+\.\d+\.\d+@\d+#\d+", "CLIENT"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d+)?|\d{13}", "TIME"),
        (r"\b\d+ms\b|\d+\.\d+(E-?\d+)?", "RATE"),
        (r"[ \t]+", " "),
    ):
        text = re.sub(pattern, name, text)
    return sorted(line.strip() for line in text.splitlines() if line.strip())


async def test_each_command_on_a_broker_answers_as_apaches(apache_jars: None, tmp_path: Path) -> None:
    async def on_ours() -> list[str]:
        home = home_in(tmp_path / "ours")
        with our_brokers(tmp_path / "ours", settings=("traceTopicEnable=true",)) as (namesrv, broker):
            async with traffic(namesrv) as names:
                return await asyncio.to_thread(answers, home, ON_ONE_BROKER, namesrv, broker=broker, **names)

    async def on_apaches() -> list[str]:
        home, settings = home_in(tmp_path / "theirs"), {"brokerName": "broker-a", "traceTopicEnable": "true"}
        with apache_cluster(tmp_path / "apache", settings=settings, peer="server550") as apache:
            async with traffic(apache.namesrv) as names:
                calls = [call for call in ON_ONE_BROKER if call.same]
                return await asyncio.to_thread(answers, home, calls, apache.namesrv, broker=apache.broker, **names)

    ours, theirs = await on_ours(), await on_apaches()
    check(ON_ONE_BROKER, ours)
    same = [(call, text) for call, text in zip(ON_ONE_BROKER, ours, strict=True) if call.same]
    other = [
        f"{call.words}:\n{likeness(text)}\nApache's:\n{likeness(their)}"
        for (call, text), their in zip(same, theirs, strict=True)
        if likeness(text) != likeness(their)
    ]
    assert not other, "\n\n".join(other)


def test_each_command_about_users(apache_jars: None, tmp_path: Path) -> None:
    first = json.dumps(dict(zip(("username", "password"), ADMINISTRATOR, strict=True)))
    settings = ("authenticationEnabled=true", "authorizationEnabled=true", f"initAuthenticationUser={first}")
    home = home_in(tmp_path, ADMINISTRATOR)
    with our_brokers(tmp_path, settings=settings) as (namesrv, broker):
        check(WITH_USERS, answers(home, WITH_USERS, namesrv, broker=broker))


async def test_each_command_about_groups_of_brokers(apache_jars: None, tmp_path: Path) -> None:
    home = home_in(tmp_path)
    with our_brokers(tmp_path, "--replicas", "2") as (namesrv, broker):
        async with Admin(namesrv=namesrv) as admin, asyncio.timeout(120):
            while len(await admin.brokers()) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        check(IN_GROUPS, await asyncio.to_thread(answers, home, IN_GROUPS, namesrv, broker=broker))


def test_the_page_names_each_command_once_and_each_is_run(apache_jars: None, tmp_path: Path) -> None:
    (printed,) = mqadmin(home_in(tmp_path), ("help",))
    commands = set(re.findall(r"^   (\w+) ", printed, re.MULTILINE))
    assert len(commands) == 96
    assert set(page_rows()) == commands
    assert {call.command for call in (*ON_ONE_BROKER, *WITH_USERS, *IN_GROUPS)} == commands
    assert set(page_rows().values()) == set(STATES)
