from __future__ import annotations

from rocketlake.base.clock import ManualClock
from rocketlake.model.topic import TopicConfig
from rocketlake.namesrv.change_line import ChangeLine
from rocketlake.namesrv.liveness import Liveness
from rocketlake.namesrv.route_table import Registration, RouteTable
from rocketlake.net.turns import Turns
from rocketlake.protocol.bodies.long_text import at_once


class BrokerLink:
    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


async def test_a_broker_silent_for_two_minutes_is_dropped_and_its_link_closed() -> None:
    clock = ManualClock()
    routes, link = RouteTable(clock), BrokerLink()
    topics = {name: TopicConfig(name) for name in ("T", "U")}
    at_once(routes.register(Registration("c", "10.0.0.1:10911", "b", 0, topics=topics), link))
    liveness = Liveness(routes, ChangeLine(Turns(clock, 1), clock), clock, interval_ms=5000)
    await liveness.start()
    await clock.run_for(120_000)
    assert routes.topics() == ["T", "U"]
    assert not link.closed
    await clock.run_for(5_000)
    assert routes.topics() == []
    assert link.closed
    await liveness.stop()


async def test_a_broker_whose_link_is_lost_is_dropped_at_once() -> None:
    clock = ManualClock()
    routes, link, other = RouteTable(clock), BrokerLink(), BrokerLink()
    topics = {name: TopicConfig(name) for name in ("T", "U")}
    at_once(routes.register(Registration("c", "10.0.0.1:10911", "b", 0, topics=topics), link))
    liveness = Liveness(routes, ChangeLine(Turns(clock, 1), clock), clock)
    liveness.link_lost(other)
    assert routes.topics() == ["T", "U"]
    liveness.link_lost(link)
    assert routes.topics() == []
