"""When a search for a new master begins, and when not; what a search does: test_new_master.py."""

from __future__ import annotations

from rocketlake.base.clock import ManualClock
from rocketlake.base.service import Service
from rocketlake.client.masters import Masters
from rocketlake.client.routes import RouteCache
from rocketlake.model.route import BrokerInfo, QueueInfo, Route

MASTER = "a:10911"


async def test_slow_answers_begin_no_search_for_two_seconds_behind_one_that_found_the_old_master(
    clock: ManualClock, service: Service
) -> None:
    routes = RouteCache()
    routes.put("T", Route(queues=[QueueInfo("b", 1, 1)], brokers=[BrokerInfo("c", "b", {0: MASTER})]))

    async def ask(topic: str, elsewhere: bool) -> None:
        """The name servers know no other master."""

    masters = Masters(routes, ask, lambda address, why: None, clock, service.spawn)
    masters.begin(MASTER, "b", "T")  # no answer comes to it
    await clock.run_for(700)
    assert list(masters.in_doubt) == ["b"]
    masters.heard("b", MASTER, masters.begin(MASTER, "b", "T"))
    assert list(masters.in_doubt) == []
    await clock.run_for(1900)
    assert list(masters.in_doubt) == []
    await clock.run_for(200)
    assert list(masters.in_doubt) == ["b"]
