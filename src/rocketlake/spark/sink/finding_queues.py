"""The queues of a topic, with patience: a name server or a broker may be away while a task begins.

Owns        the time for which a task asks again, the error after it.
Must not know   rows, how routes are looked up.

A broken link is tried for `deliveryTimeoutMs`, as requests are. A topic without a route may have a broker that
restarts, or may not exist: the task waits for a route, too, but not for minutes, since the name may be misspelt.
"""

from __future__ import annotations

from concurrent.futures import Future

from rocketlake.base.errors import LinkError, RemoteError, RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.client.wire import NoRoute
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.sink.options import SinkOptions
from rocketlake.spark.sink.sending import SinkCluster

__all__ = ["await_queues", "find_queues"]

_log = get_logger(__name__)

_RESTART_SECONDS = 30.0
"""A broker is back with its topics by then."""
_PAUSE_MAX_SECONDS = 2.0


def find_queues(cluster: SinkCluster, options: SinkOptions, topic: str) -> tuple[MessageQueue, ...]:
    """Called on the task's thread. Raises NoRoute, LinkError or RemoteError when its time is over."""
    found: Future[tuple[MessageQueue, ...]] = Future()

    async def find() -> None:
        try:
            found.set_result(await await_queues(cluster, options, topic))
        except RocketLakeError as error:
            found.set_exception(error)

    cluster.run_soon(find()).result()
    return found.result()


async def await_queues(cluster: SinkCluster, options: SinkOptions, topic: str) -> tuple[MessageQueue, ...]:
    """The same on the loop's thread."""
    start, patience = cluster.monotonic(), options.delivery_timeout_ms / 1000
    pause = options.retry_interval_ms / 1000
    while True:
        try:
            return await cluster.queues(topic, must_exist=options.is_repeatable)
        except NoRoute as missing:
            error: RocketLakeError = missing
            if not missing.is_read_only:
                missing.hint = _cure(topic, options)
            deadline = start + min(patience, _RESTART_SECONDS)
        except (LinkError, RemoteError) as broken:
            error, deadline = broken, start + patience
        if cluster.monotonic() + pause > deadline:
            raise error
        _log.warning(
            "rocketmq sink: the queues of %s are not known, asked again for %.0f s: %s",
            topic,
            deadline - cluster.monotonic(),
            error,
        )
        await cluster.sleep(pause)
        pause = min(2 * pause, _PAUSE_MAX_SECONDS)


def _cure(topic: str, options: SinkOptions) -> str:
    make = f"if it does not exist, create it with `rocketlake topic create {topic}`"
    if options.is_repeatable:
        guarantee = "exactly_once" if options.exactly_once else "effectively_once"
        make += f" (autoCreateTopicEnable does not help: with '{guarantee}' a topic must be there before)"
    else:
        make += " or set autoCreateTopicEnable=true on the broker"
    return f"{make}; if it does, its broker is away: start it"
