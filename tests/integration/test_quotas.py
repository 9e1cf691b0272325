"""Quotas of users and topics: what one above his quota gets, and what a client beside him sees meanwhile."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rocketlake.auth.action import Action
from rocketlake.auth.credentials import Credentials
from rocketlake.auth.policy import Acl, Decision, Entry, PolicyType, Resource
from rocketlake.auth.user import User, UserType
from rocketlake.codec.record import decode_records
from rocketlake.model.quota import Quota
from rocketlake.model.topic import TopicConfig
from rocketlake.net.client import NetClient
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.admin_topic import CreateTopicHeader
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.results import PutMessage
from tests.lone_broker import CALM, GREEDY, Alone
from tests.replica_pair import MASTER
from tests.requests import pull_header, send_header

OK, BUSY = ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY
ROOT = '{"username":"root","password":"root-secret"}'
BODY = b"x" * 900
"""A record of some 1000 bytes."""
KEY = "UNIQ_KEY\x010A00004200002A9F0000000000000001\x02"
"""With it a send is a plain one, and goes with others in a run."""


class Metered(Alone):
    """Users greedy and calm, and who else is asked for."""

    def __init__(self) -> None:
        super().__init__(authentication_enabled=True, authorization_enabled=True, first_user=ROOT)

    async def start(self) -> None:
        await super().start()
        self.greedy, self.calm = self.user("greedy", GREEDY), self.user("calm", CALM)

    @property
    def accounts(self) -> Any:
        file = self.master.ground.accounts.file
        assert file is not None
        return file.accounts

    def user(self, name: str, host: str, quota: Quota | None = None) -> NetClient:
        self.limit(name, quota or Quota())
        return self.client_at(host, Credentials(name, f"{name}-secret"))

    def limit(self, name: str, quota: Quota) -> None:
        self.accounts.put_user(User(name, f"{name}-secret", UserType.SUPER, quota=quota))

    async def sent(self, client: NetClient, count: int, topic: str = "T") -> list[Command]:
        """The answers to so many sends that are on their way together."""
        command = [
            Command.request(Code.SEND_MESSAGE_V2, send_header(topic, properties=KEY), BODY) for _ in range(count)
        ]
        asked = [asyncio.create_task(client.invoke(f"{MASTER}:10911", each, 1e9)) for each in command]
        await self.clock.settle()
        return await asyncio.gather(*asked)

    async def pulled(self, client: NetClient, offset: int, **fields: Any) -> asyncio.Task[Command]:
        command = Command.request(Code.PULL_MESSAGE, pull_header("T", offset=offset, max_msg_nums=5, **fields))
        task = asyncio.create_task(client.invoke(f"{MASTER}:10911", command, 1e9))
        await self.clock.settle()
        return task


@pytest.fixture
async def metered() -> AsyncIterator[Metered]:
    metered = Metered()
    await metered.start()
    yield metered
    await metered.stop()


@pytest.mark.parametrize("quota", [Quota(requests_in=20), Quota(bytes_in=20_000)], ids=["requests", "bytes"])
async def test_a_user_who_sends_more_than_his_quota_is_told_so_and_another_one_notices_nothing(
    metered: Metered, quota: Quota
) -> None:
    metered.limit("greedy", quota)
    taken = 0
    for _ in range(100):  # ten seconds
        answers = await metered.sent(metered.greedy, 10)
        assert {answer.code for answer in answers} <= {OK, BUSY}
        taken += sum(answer.code == OK for answer in answers)
        assert [answer.code for answer in await metered.sent(metered.calm, 10)] == [OK] * 10
        await metered.clock.run_for(100)
    assert 20 * 10 <= taken <= 20 * 11 + 10  # what a full bucket held, and the run that overdraws it
    await metered.sent(metered.greedy, 40)
    remark = (await metered.sent(metered.greedy, 1))[0].remark
    assert remark is not None
    assert "[QUOTA]" in remark
    assert "user greedy" in remark
    assert f"is {max(quota.requests_in, quota.bytes_in)} " in remark
    assert "rocketlake acl change greedy" in remark


async def test_a_pull_above_a_quota_waits_and_gets_its_messages_and_another_one_does_not_wait(
    metered: Metered,
) -> None:
    for number in range(60):
        assert metered.master.store.put(PutMessage("T", 0, b"%d" % number + BODY)).status.is_stored
    metered.limit("greedy", Quota(bytes_out=5000))
    offset, seconds, bodies = 0, 0.0, []
    while offset < 60:
        task = await metered.pulled(metered.greedy, offset, wait_ms=15_000)
        while not task.done():
            calm = await metered.pulled(metered.calm, 0)
            assert calm.result().code == OK
            await metered.clock.run_for(100)
            seconds += 0.1
        assert task.result().code == OK
        found = list(decode_records(task.result().body_bytes))
        bodies += [bytes(message.body).removesuffix(BODY) for message in found]
        offset = found[-1].queue_offset + 1
    assert bodies == [b"%d" % number for number in range(60)]
    assert 8 <= seconds <= 14  # 60 KB at 5 KB a second, and a full bucket at the start


async def test_a_pull_that_asks_for_no_wait_is_refused_after_two_seconds(metered: Metered) -> None:
    for _ in range(60):
        metered.master.store.put(PutMessage("T", 0, BODY))
    metered.limit("greedy", Quota(bytes_out=100))
    assert (await metered.pulled(metered.greedy, 0)).result().code == OK
    late = await metered.pulled(metered.greedy, 5)
    await metered.clock.run_for(1900)
    assert not late.done()
    await metered.clock.run_for(500)
    assert (late.result().code, "user greedy: " in (late.result().remark or "")) == (BUSY, True)


async def test_a_topic_has_a_quota_for_all_its_users_and_other_topics_go_on(metered: Metered) -> None:
    metered.master.topics.put(TopicConfig("Narrow", attributes={"quota.requests.in": "15"}))
    metered.master.topics.put(TopicConfig("Wide"))
    narrow = [*await metered.sent(metered.greedy, 10, "Narrow"), *await metered.sent(metered.calm, 10, "Narrow")]
    again = await metered.sent(metered.calm, 10, "Narrow")
    assert [answer.code for answer in narrow].count(OK) >= 15
    assert {answer.code for answer in again} == {BUSY}
    assert re.search(r"topic Narrow: (15|20) requests were sent in a second", again[0].remark or "")
    assert {answer.code for answer in await metered.sent(metered.calm, 100, "Wide")} == {OK}
    metered.master.topics.put(TopicConfig("Third"))  # a change elsewhere fills no bucket
    assert {answer.code for answer in await metered.sent(metered.calm, 1, "Narrow")} == {BUSY}
    await metered.clock.run_for(1500)
    assert {answer.code for answer in await metered.sent(metered.calm, 5, "Narrow")} == {OK}


async def test_a_change_of_another_account_fills_no_bucket_and_a_quota_may_be_taken_away(metered: Metered) -> None:
    metered.limit("greedy", Quota(requests_in=5))
    await metered.sent(metered.greedy, 1)
    await metered.sent(metered.greedy, 20)
    metered.limit("calm", Quota(requests_in=500))
    assert {answer.code for answer in await metered.sent(metered.greedy, 3)} == {BUSY}
    metered.limit("greedy", Quota())
    assert {answer.code for answer in await metered.sent(metered.greedy, 50)} == {OK}


async def test_who_may_make_a_topic_may_not_change_its_quota(metered: Metered) -> None:
    metered.accounts.put_user(User("maker", "maker-secret"))
    entry = Entry(Resource.parse("Topic:*"), frozenset({Action.CREATE, Action.PUB}), Decision.ALLOW)
    metered.accounts.put_acl("maker", Acl(((PolicyType.CUSTOM, entry),)))
    metered.master.topics.put(TopicConfig("N", read_queues=4, write_queues=4, attributes={"quota.bytes.in": "1000"}))
    maker = metered.client_at("10.0.0.71", Credentials("maker", "maker-secret"))
    for change in ("-quota.bytes.in", "+quota.bytes.in=100000"):
        answer = await metered.asked(maker, alter("N", change))
        assert (answer.code, "lacks Update on Cluster" in (answer.remark or "")) == (ResponseCode.NO_PERMISSION, True)
    assert (await metered.asked(maker, alter("N", "+message.type=NORMAL"))).code == OK
    assert (await metered.asked(metered.calm, alter("N", "-quota.bytes.in"))).code == OK


@pytest.mark.parametrize("value", ["0", "-1", "1e3", "x", "9" * 30, "٣"])
async def test_a_quota_that_is_none_is_refused(metered: Metered, value: str) -> None:
    answer = await metered.asked(metered.calm, alter("T", f"+quota.bytes.out={value}"))
    assert (answer.code != OK, "quota.bytes.out" in (answer.remark or "")) == (True, True)


def alter(topic: str, attributes: str) -> Command:
    header = CreateTopicHeader(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=16,
        write_queue_nums=16,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        order=False,
        attributes=attributes,
    )
    return Command.request(Code.UPDATE_AND_CREATE_TOPIC, header)
