"""Every request code of a broker and of a name server: what nobody, and what a user without policies, gets by it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rocketlake.auth.credentials import Credentials
from rocketlake.auth.user import User
from rocketlake.net.client import NetClient
from rocketlake.net.gate.signing import signing
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.protocol.response_code import ResponseCode
from tests.integration.test_access_control_group import GuardedGroup
from tests.replica_group import NAMESRV

NO = ResponseCode.NO_PERMISSION
CAROL = Credentials("carol", "carol-secret")
FIELDS = {
    **dict.fromkeys(("topic", "b", "defaultTopic", "c", "parentTopic"), "Orders"),
    **dict.fromkeys(("group", "consumerGroup", "groupName", "producerGroup", "a", "srcGroup", "destGroup"), "readers"),
    **dict.fromkeys(("compareGroup", "username", "clientID", "brokerName", "clusterName", "namespace", "key"), "b"),
    **dict.fromkeys(("queueId", "queueOffset", "offset", "e", "f", "sysFlag", "commitOffset", "timestamp"), "0"),
    "subject": "User:b",
}
FOR_ALL = {
    Code.GET_BROKER_CLUSTER_INFO,
    Code.GET_KV_CONFIG,
    Code.GET_KVLIST_BY_NAMESPACE,
    Code.NOTIFY_MIN_BROKER_ID_CHANGE,
}
"""What each known user may ask: it says nothing about topics and groups, or is believed by nobody."""
SAYS_NOTHING = {
    Code.HEART_BEAT,
    Code.UNREGISTER_CLIENT,
    Code.END_TRANSACTION,
    Code.VIEW_MESSAGE_BY_ID,
    Code.LITE_SUBSCRIPTION_CTL,
}
"""Their resources are in the body, or optional: without them they may fail otherwise, or do nothing."""


@pytest.fixture
async def group() -> AsyncIterator[GuardedGroup]:
    group = GuardedGroup()
    await group.start()
    for accounts in (group.namesrv._accounts, *(broker.ground.accounts for broker in group.brokers.values())):
        assert accounts.file is not None
        accounts.file.accounts.put_user(User(CAROL.access_key, CAROL.secret_key))
    try:
        yield group
    finally:
        await group.stranger.close()
        await group.stop()


async def answers(group: GuardedGroup, net: NetClient, address: str, codes: set[int]) -> dict[Code, int]:
    """The code of the answer to each request, asked one after the other."""
    found = {}
    for code in sorted(codes):
        asked = asyncio.ensure_future(net.invoke(address, Command.request(code, fields=dict(FIELDS)), 3000))
        await group.clock.run_for(20)
        found[Code(code)] = (await asked).code
    return found


@pytest.mark.parametrize("server", ["broker", "name server"])
async def test_nobody_gets_anything_and_a_user_without_policies_nothing_of_topics(
    group: GuardedGroup, server: str
) -> None:
    address = f"{group.master}:10911" if server == "broker" else f"{NAMESRV}:9876"
    listener = group.brokers[group.master]._servers[0] if server == "broker" else group.namesrv._server
    codes = set(listener._endpoint.dispatcher.lanes)
    assert len(codes) > 30
    strangers = await answers(group, group.stranger, address, codes - {Code.NOTIFY_MIN_BROKER_ID_CHANGE})
    assert {code: answer for code, answer in strangers.items() if answer != NO} == {}
    carol = NetClient(clock=group.clock, network=group.net.host("10.0.0.78"), sign=signing(lambda: CAROL))
    try:
        users = await answers(group, carol, address, codes - FOR_ALL - SAYS_NOTHING)
    finally:
        await carol.close()
    # A body that cannot be read is an error of its own; nothing succeeds.
    refused = {NO, ResponseCode.SYSTEM_ERROR}
    assert {code: answer for code, answer in users.items() if answer not in refused} == {}
    assert sum(answer == NO for answer in users.values()) > len(users) * 0.8
