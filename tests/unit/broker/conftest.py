from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketlake.base.clock import Clock
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.net.dispatcher import Dispatcher
from rocketlake.net.endpoint import Endpoint
from rocketlake.net.limits import NetLimits
from rocketlake.net.link import Link
from rocketlake.net.turns import Turns
from rocketlake.protocol.frame import Codec

NewLink = Callable[[Clock], Link]


@pytest.fixture
def new_link() -> NewLink:
    """Makes links that were never connected: they can hold requests and be lost."""

    def make(clock: Clock) -> Link:
        limits = NetLimits()
        turns = Turns(clock, limits.turn_seconds)
        return Link(Endpoint(Dispatcher([]), limits, clock, Codec.JSON, RareWarnings(get_logger(__name__)), turns))

    return make
