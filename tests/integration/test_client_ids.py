"""Two users who may both read with one group: neither acts in the name of the other's client."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rocketlake.auth.action import Action
from rocketlake.auth.credentials import Credentials
from rocketlake.auth.policy import Acl, Decision, Entry, PolicyType, Resource
from rocketlake.auth.user import User
from rocketlake.model.group import GroupConfig
from rocketlake.model.topic import TopicConfig
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.client import GroupMembers
from rocketlake.protocol.bodies.heartbeat import ConsumerEntry, Heartbeat, ProducerEntry
from rocketlake.protocol.bodies.lite import LiteAction, LiteSubscription, LiteSubscriptionBody
from rocketlake.protocol.bodies.lock import LockBody, LockReply
from rocketlake.protocol.bodies.queue_map import QueueEntry
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.client import GroupMembersHeader, UnregisterClientHeader
from rocketlake.protocol.headers.lite import PopLiteHeader
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.protocol.response_code import ResponseCode
from tests.lone_broker import Alone

OK, REFUSED = ResponseCode.SUCCESS, ResponseCode.NO_PERMISSION
ALICE, BOB = "10.0.0.81@7", "10.0.0.82@9"
"""Their client ids."""


class Two(Alone):
    """Alice and Bob, and root."""

    def __init__(self) -> None:
        super().__init__(
            authentication_enabled=True,
            authorization_enabled=True,
            first_user='{"username":"root","password":"root-secret"}',
        )

    async def start(self) -> None:
        await super().start()
        self.alice, self.bob = await self.reader("alice", "10.0.0.81"), await self.reader("bob", "10.0.0.82")
        self.root = self.client_at("10.0.0.83", Credentials("root", "root-secret"))

    async def reader(self, name: str, host: str) -> NetClient:
        file = self.master.ground.accounts.file
        assert file is not None
        file.accounts.put_user(User(name, f"{name}-secret"))
        entry = Entry(Resource.parse("*"), frozenset({Action.SUB}), Decision.ALLOW)
        file.accounts.put_acl(name, Acl(((PolicyType.CUSTOM, entry),)))
        return self.again(name, host)

    def again(self, name: str, host: str) -> NetClient:
        """A new link of the user."""
        return self.client_at(host, Credentials(name, f"{name}-secret"))

    async def beat(self, client: NetClient, client_id: str) -> int:
        return (await self.asked(client, heartbeat(client_id))).code

    async def lock(self, client: NetClient, client_id: str, code: Code = Code.LOCK_BATCH_MQ) -> tuple[int, int]:
        """The code, and how many of the two queues the client has."""
        queues = [QueueEntry(topic="T", broker_name="b", queue_id=number) for number in range(2)]
        body = LockBody(client_id=client_id, consumer_group="g", queues=queues).encode()
        answer = await self.asked(client, Command.request(code, body=body))
        has = len(LockReply.decode(answer.body_bytes).queues) if answer.body and code is Code.LOCK_BATCH_MQ else 0
        return answer.code, has

    async def members(self) -> list[str]:
        header = GroupMembersHeader(consumer_group="g")
        answer = await self.asked(self.root, Command.request(Code.GET_CONSUMER_LIST_BY_GROUP, header))
        return GroupMembers.decode(answer.body_bytes).client_ids


@pytest.fixture
async def two() -> AsyncIterator[Two]:
    two = Two()
    await two.start()
    yield two
    await two.stop()


def heartbeat(client_id: str) -> Command:
    consumer = ConsumerEntry(
        group_name="g",
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_LAST_OFFSET",
        subscriptions=[],
        unit_mode=False,
    )
    body = Heartbeat(client_id=client_id, consumers=[consumer], producers=[ProducerEntry(group_name="p")])
    return Command.request(Code.HEART_BEAT, body=body.encode())


async def test_no_other_user_unlocks_or_takes_the_queues_of_a_client(two: Two) -> None:
    assert await two.beat(two.alice, ALICE) == await two.beat(two.bob, BOB) == OK
    assert await two.lock(two.alice, ALICE) == (OK, 2)
    assert await two.lock(two.bob, ALICE, Code.UNLOCK_BATCH_MQ) == (REFUSED, 0)
    assert await two.lock(two.bob, ALICE) == (REFUSED, 0)
    assert await two.lock(two.bob, BOB) == (OK, 0)  # as ever: they are hers
    assert await two.lock(two.alice, ALICE) == (OK, 2)
    assert await two.lock(two.alice, ALICE, Code.UNLOCK_BATCH_MQ) == (OK, 0)
    assert await two.lock(two.bob, BOB) == (OK, 2)


async def test_no_other_user_registers_with_the_id_of_a_client_or_leaves_for_it(two: Two) -> None:
    assert await two.beat(two.alice, ALICE) == OK
    assert await two.beat(two.bob, ALICE) == REFUSED
    leave = Command.request(Code.UNREGISTER_CLIENT, UnregisterClientHeader(client_id=ALICE, consumer_group="g"))
    await two.asked(two.bob, leave)
    assert await two.members() == [ALICE]
    # Nor does he get the answers to her requests.
    producer = two.master.clients.producers.client(ALICE)
    assert producer is not None
    assert producer.asker.remote[0] == "10.0.0.81"
    assert await two.beat(two.bob, BOB) == OK
    assert sorted(await two.members()) == [ALICE, BOB]


async def test_an_id_stays_its_users_while_the_client_connects_anew_and_for_two_minutes(two: Two) -> None:
    await two.beat(two.alice, ALICE)
    await two.alice.close()
    await two.clock.settle()
    assert await two.beat(two.bob, ALICE) == REFUSED
    again = two.again("alice", "10.0.0.81")
    assert await two.beat(again, ALICE) == OK
    await again.close()
    await two.clock.run_for(121_000)
    assert await two.beat(two.bob, ALICE) == OK


async def test_a_client_that_locks_before_its_first_heartbeat_has_its_id(two: Two) -> None:
    assert await two.lock(two.alice, ALICE) == (OK, 2)
    assert await two.lock(two.bob, ALICE, Code.UNLOCK_BATCH_MQ) == (REFUSED, 0)


async def test_no_other_user_changes_what_a_client_subscribes_to_or_pops_for_it(two: Two) -> None:
    two.master.ground.topics.put(TopicConfig("P", attributes={"message.type": "LITE"}))
    two.master.ground.groups.put(GroupConfig("g", attributes={"lite.bind.topic": "P"}))

    async def change(client: NetClient, action: LiteAction) -> int:
        entry = LiteSubscription(action=action, client_id=ALICE, group="g", topic="P", lite_topic_set=["a"])
        body = LiteSubscriptionBody(subscription_set=[entry]).encode()
        return (await two.asked(client, Command.request(Code.LITE_SUBSCRIPTION_CTL, body=body))).code

    async def pop(client: NetClient) -> int:
        header = PopLiteHeader(
            client_id=ALICE, consumer_group="g", topic="P", max_msg_num=1, invisible_time=60_000, poll_time=0,
            born_time=two.clock.now_ms(),
        )  # fmt: skip
        return (await two.asked(client, Command.request(Code.POP_LITE_MESSAGE, header))).code

    assert await change(two.alice, LiteAction.PARTIAL_ADD) == OK
    for action in LiteAction:
        assert await change(two.bob, action) == REFUSED
    assert await pop(two.bob) == REFUSED
    assert await pop(two.alice) == ResponseCode.POLLING_TIMEOUT
    assert await change(two.root, LiteAction.COMPLETE_REMOVE) == OK


async def test_a_super_user_may_speak_for_a_client_as_brokers_do_and_takes_no_id(two: Two) -> None:
    await two.beat(two.alice, ALICE)
    assert await two.lock(two.alice, ALICE) == (OK, 2)
    assert await two.beat(two.root, ALICE) == OK
    assert await two.lock(two.root, ALICE, Code.UNLOCK_BATCH_MQ) == (OK, 0)
    assert await two.lock(two.alice, ALICE) == (OK, 2)


async def test_ids_without_end_are_refused_and_forgotten_after_a_while(two: Two) -> None:
    ids = two.master.clients.client_ids
    ids._shares._most_of_one = 50
    answers = [await two.beat(two.bob, f"{number}@bob") for number in range(60)]
    assert (answers.count(OK), answers[-1]) == (50, ResponseCode.SYSTEM_ERROR)
    assert await two.beat(two.alice, ALICE) == OK
    await two.clock.run_for(121_000)
    assert await two.beat(two.bob, BOB) == OK


async def test_without_users_nobody_is_asked() -> None:
    alone = Alone()
    await alone.start()
    try:
        one, other = alone.client_at("10.0.0.81"), alone.client_at("10.0.0.82")
        for client in (one, other):
            assert (await alone.asked(client, heartbeat(ALICE))).code == OK
    finally:
        await alone.stop()
