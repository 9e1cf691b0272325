"""An end that fails with an unexpected exception: the half message is committed, or asked about again, never both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.scenarios.broker_world import BrokerWorld


@pytest.fixture(params=["ASYNC_FLUSH", "SYNC_FLUSH", "write pool"])
def world(request: pytest.FixtureRequest) -> Iterator[BrokerWorld]:
    is_pool = request.param == "write pool"
    world = BrokerWorld("ASYNC_FLUSH" if is_pool else request.param, write_pool=is_pool)
    world.do("topic", ["T"], {})
    world.do("producer", ["p"], {})
    world.do("half", ["T", "h"], {})
    world.do("tick", ["1000"], {})  # the half message can be read: with the write pool that takes a moment
    yield world
    world.close()


def read(world: BrokerWorld) -> list[str]:
    return world.do("pull", ["p1"], {"topic": "T"})


@pytest.mark.parametrize("is_stored", [False, True])
def test_an_unexpected_error_of_a_commit(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, is_stored: bool) -> None:
    intake = world._broker.ground.intake
    put = intake.put

    def fail(message, properties):  # type: ignore[no-untyped-def]
        monkeypatch.undo()
        if is_stored:
            put(message, properties)
        raise RuntimeError("nobody thought of this")

    monkeypatch.setattr(intake, "put", fail)
    assert world.do("end", ["commit", "h"], {}) == ["refused SYSTEM_ERROR"]
    asked = [] if is_stored else ["asked c1 about h to=T/0 times=1"]
    assert world.do("tick", ["31000"], {}) == asked
    assert world.do("end", ["commit", "h"], {"check": "yes"}) == ["ended"]
    assert world.do("end", ["commit", "h"], {"check": "yes"}) == ["ended"]
    world.do("tick", ["1000"], {})
    assert read(world) == ["answer p1 FOUND next=1 bodies=[h]"]
    assert world.do("tick", ["61000"], {}) == []
