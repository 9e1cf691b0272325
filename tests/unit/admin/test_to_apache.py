"""Back to Apache: what its slave has that the master of ours has not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rocketlake.admin.migration.peer import Peer
from rocketlake.admin.migration.to_apache import ToApache
from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import RocketLakeError
from rocketlake.net.client import NetClient
from rocketlake.protocol.request_code import RequestCode

TOPICS, GROUPS = RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
MEMBERS = {TOPICS: "topicConfigTable", GROUPS: "subscriptionGroupTable"}


class Told(Peer):
    """A broker with these tables."""

    def __init__(self, address: str, **settings: str) -> None:
        super().__init__(NetClient(), address)
        self.settings = {"brokerName": "a", "brokerClusterName": "C"} | settings
        self.names: dict[RequestCode, list[str]] = {TOPICS: ["T"], GROUPS: ["g"]}

    async def figures(self) -> dict[str, str]:
        return {"commitLogMinOffset": "0"}

    async def table(self, code: RequestCode, *, may_fail: bool = False) -> dict[str, Any]:
        return {MEMBERS[code]: {name: {} for name in self.names[code]}} if code in MEMBERS else {}


@pytest.mark.parametrize(("code", "named"), [(TOPICS, "topics Gone"), (GROUPS, "groups Gone")])
async def test_names_that_only_apaches_slave_has_are_told_and_waited_for(code: RequestCode, named: str) -> None:
    clock, said = ManualClock(), list[str]()
    old, new = Told("o:1", adminAccess="ANY"), Told("n:1", brokerRole="SLAVE")
    back = ToApache(old, new, said.append, clock)
    new.names[code] += ["%RETRY%gone", "%DLQ%gone", "rmq_sys_gone", "CID_RMQ_SYS_gone", "a", "C"]  # brokers make them
    assert [each.what for each in await back.check()] == ["marks of producer sequences"]
    new.names[code].append("Gone")
    assert [each.what for each in await back.check()] == ["marks of producer sequences", named]
    waiting = asyncio.ensure_future(back.until_copied())
    await clock.run_for(76_000)
    with pytest.raises(RocketLakeError, match=f"n:1 has not copied that {named} are deleted"):
        await waiting
    waiting = asyncio.ensure_future(back.until_copied())
    await clock.run_for(1_000)
    assert not waiting.done()
    new.names[code].remove("Gone")
    await clock.run_for(1_000)
    await waiting
