"""Endpoint: one server or client, as each of its links sees it.

Owns        the list of what all links of one server or client share.
Must not know   single links.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocketlake.base.clock import Clock
from rocketlake.base.logs import RareWarnings
from rocketlake.net.dispatcher import Dispatcher
from rocketlake.net.limits import NetLimits
from rocketlake.net.turns import Turns
from rocketlake.protocol.frame import Codec

__all__ = ["Endpoint"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Shared by all links of one server or client."""

    dispatcher: Dispatcher
    """Serves the requests that peers send."""
    limits: NetLimits
    clock: Clock
    codec: Codec
    """The codec of our own requests; an answer follows its request."""
    warnings: RareWarnings
    turns: Turns
