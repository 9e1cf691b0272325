"""What Apache's clients asked Apache's name server, asked of ours: the answers say the same."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.logs import RareWarnings
from rocketlake.model.topic import TopicConfig
from rocketlake.namesrv.config import LiveConfig, NameServerConfig
from rocketlake.namesrv.kv_config import KVConfig
from rocketlake.namesrv.processors.route import Routes
from rocketlake.namesrv.route_table import Registration, RouteTable
from rocketlake.net.dispatcher import Dispatcher, Row
from rocketlake.net.endpoint import Endpoint
from rocketlake.net.gate.needs import ANYBODY
from rocketlake.net.limits import NetLimits
from rocketlake.net.link import Link
from rocketlake.net.request import Reply, Request
from rocketlake.net.turns import Turns
from rocketlake.protocol.bodies.long_text import at_once
from rocketlake.protocol.bodies.route import RouteBody
from rocketlake.protocol.command import Command
from rocketlake.protocol.connection import Connection
from rocketlake.protocol.frame import Codec
from rocketlake.protocol.request_code import RequestCode

FRAMES = Path(__file__).parent / "frames"


class NoLink:
    def close(self) -> None: ...


def read_commands(path: Path) -> list[Command]:
    commands = Connection().receive_data(path.read_bytes())
    assert commands
    return commands


def table_of(answer: Command, topic: str) -> RouteTable:
    """A route table that knows what the recorded answer says."""
    table = RouteTable(ManualClock())
    if answer.code == 0:
        route = RouteBody.decode(answer.body_bytes).to_model()
        for queues in route.queues:
            broker = route.broker(queues.broker_name)
            assert broker is not None
            config = TopicConfig(topic, queues.read_queues, queues.write_queues, queues.perm, sys_flag=queues.sys_flag)
            for broker_id, address in broker.addresses.items():
                topics = {topic: config, "other": TopicConfig("other")}
                registration = Registration(broker.cluster, address, broker.name, broker_id, topics=topics)
                at_once(table.register(registration, NoLink()))
    return table


@pytest.mark.parametrize("codec", ["json", "rocketmq"])
def test_recorded_route_requests_get_the_recorded_answers(codec: str) -> None:
    clock = ManualClock()
    requests = read_commands(FRAMES / codec / "namesrv_requests.bin")
    answers = read_commands(FRAMES / codec / "namesrv_responses.bin")
    assert len(requests) == len(answers)
    for asked, recorded in zip(requests, answers, strict=True):
        assert asked.opaque == recorded.opaque
        table = table_of(recorded, (asked.fields or {})["topic"])
        routes = Routes(table, KVConfig(Path("/kv"), MemoryFiles()), LiveConfig(NameServerConfig()))
        dispatcher = Dispatcher([Row(RequestCode.GET_ROUTEINFO_BY_TOPIC, routes.route, ANYBODY)])
        warnings = RareWarnings(logging.getLogger("test"), clock=clock)
        link = Link(Endpoint(dispatcher, NetLimits(), clock, Codec.JSON, warnings, Turns(clock, 0.0005)))
        reply = dispatcher.dispatch(Request(asked, link, 0.0))
        assert isinstance(reply, Reply)
        assert reply.code == recorded.code
        if recorded.code == 0:
            assert isinstance(reply.body, bytes)
            assert json.loads(reply.body) == json.loads(recorded.body_bytes)
        else:
            assert (reply.remark or "").split(".")[0] == (recorded.remark or "").split("\n")[0]
