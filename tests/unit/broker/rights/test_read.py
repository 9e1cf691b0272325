"""Rights to read: the checks in Apache's order, and how long an admission is good for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.broker.clients.consumers import ConsumerTable
from rocketlake.broker.config import BrokerConfig, LiveConfig
from rocketlake.broker.groups.table import GroupTable
from rocketlake.broker.rights.read import ReadRights
from rocketlake.broker.rights.refusal import Refused
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.group import GroupConfig
from rocketlake.model.topic import Perm, TopicConfig
from rocketlake.protocol.request_code import RequestCode as Request
from rocketlake.protocol.response_code import ResponseCode as Code
from tests.requests import pull_header


class NoNotice:
    def consumers_changed(self, group: str, askers: object) -> None:
        pass


class World:
    def __init__(self) -> None:
        files, clock = MemoryFiles(), ManualClock()
        self.config = LiveConfig(BrokerConfig(broker_name="b"))
        self.topics = TopicTable(Path("/t/topics.json"), files, clock)
        self.groups = GroupTable(Path("/t/groups.json"), files, clock, auto_create=False)
        self.consumers = ConsumerTable(NoNotice(), clock)
        self.rights = ReadRights(self.config, self.topics, self.groups, self.consumers)

    def refusal(self, code: int = Request.PULL_MESSAGE, **fields: Any) -> tuple[int, str | None] | None:
        try:
            self.rights.admit(code, pull_header(**fields))
        except Refused as refused:
            return refused.code, refused.forbidden_type
        return None


def test_the_first_check_that_fails_is_told() -> None:
    """Everything is wrong at first; one thing after the other is put right."""
    world = World()
    world.config.update({"brokerPermission": "2", "litePullMessageEnable": "false"})
    lite = {"code": Request.LITE_PULL_MESSAGE, "queue_id": 9, "subscription": "||"}
    assert world.refusal(**lite) == (Code.NO_PERMISSION, "1")
    world.config.update({"brokerPermission": "6"})
    assert world.refusal(**lite) == (Code.NO_PERMISSION, "1")
    world.config.update({"litePullMessageEnable": "true"})
    assert world.refusal(**lite) == (Code.SUBSCRIPTION_GROUP_NOT_EXIST, None)
    world.groups.put(GroupConfig("g", consume_enable=False))
    assert world.refusal(**lite) == (Code.NO_PERMISSION, "2")
    world.groups.put(GroupConfig("g"))
    assert world.refusal(**lite) == (Code.TOPIC_NOT_EXIST, None)
    world.topics.put(TopicConfig("T", read_queues=4, perm=Perm.WRITE))
    assert world.refusal(**lite) == (Code.NO_PERMISSION, "3")
    world.topics.put(TopicConfig("T", read_queues=4))
    assert world.refusal(**lite) == (Code.INVALID_PARAMETER, None)
    assert world.refusal(subscription="||") == (Code.SUBSCRIPTION_PARSE_FAILED, None)
    assert world.refusal(sys_flag=0) == (Code.SUBSCRIPTION_NOT_EXIST, None)
    assert world.refusal(subscription="a > 1", expression_type="SQL92") == (Code.SYSTEM_ERROR, None)
    assert world.refusal() is None


def test_an_admission_is_in_force_until_a_setting_behind_it_is_replaced() -> None:
    world = World()
    world.groups.put(GroupConfig("g"))
    world.topics.put(TopicConfig("T"))
    admission = world.rights.admit(Request.PULL_MESSAGE, pull_header())
    assert world.rights.is_in_force(admission)
    for change in (
        lambda: world.topics.put(TopicConfig("T")),
        lambda: world.groups.put(GroupConfig("g")),
        lambda: world.config.update({"traceOn": "false"}),
    ):
        change()
        assert not world.rights.is_in_force(admission)
        admission = world.rights.admit(Request.PULL_MESSAGE, pull_header())
        assert world.rights.is_in_force(admission)
