"""Tracing of one producer or consumer, if its client is told to trace.

Owns        the parts of a trace, put together; the names of their groups.
Must not know   producers, consumers.
"""

from __future__ import annotations

import os
import random

from rocketlake.client.hooks import Hooks
from rocketlake.client.instance import ClientInstance
from rocketlake.client.trace.dispatcher import Dispatcher
from rocketlake.client.trace.recorder import Recorder
from rocketlake.model import names
from rocketlake.model.message_id import UniqueKeyMaker
from rocketlake.net.local_address import local_address

__all__ = ["traced"]


def traced(
    instance: ClientInstance, group: str, kind: str, hooks: Hooks, *, consume_timeout_ms: float = float("inf")
) -> tuple[Hooks, Dispatcher | None]:
    """These hooks and those that trace, and the sender of the trace, to be started and stopped.

    `kind`: PRODUCE or CONSUME. With `trace=False` in the settings of the client: the hooks as they are, and None.
    """
    topic = instance.config.trace_topic
    if not instance.config.trace:
        return hooks, None
    names.check_topic(topic)
    maker = UniqueKeyMaker(local_address(), os.getpid(), instance.clock.now_ms, instance=random.getrandbits(32))
    dispatcher = Dispatcher(instance, f"_INNER_TRACE_PRODUCER-{group}-{kind}-1", topic, maker.make)
    recorder = Recorder(
        dispatcher.append, instance.clock, maker.make, trace_topic=topic, consume_timeout_ms=consume_timeout_ms
    )
    return recorder.added_to(hooks), dispatcher
