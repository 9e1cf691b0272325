"""A broker in this process, whose links are handed bytes without sockets.

Owns        starting and stopping it, its links, whether it serves by runs.
Must not know   which requests are sent, what is measured.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.model.subscription import parse_subscription
from rocketlake.net.server_link import ServerLink
from rocketlake.protocol.command import Codec, Command
from rocketlake.protocol.frame import encode_command
from rocketlake.protocol.headers.pull import PULL_COMMIT_OFFSET, PULL_SUSPEND, PullHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.store.config import StoreConfig

TOPIC, GROUP = "BenchmarkTest", "readers"


class Nowhere(asyncio.Transport):
    """A transport whose peer takes everything."""

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("127.0.0.1", 40_000) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def writelines(self, list_of_data: object) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class InProcess:
    """A started broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.links: list[ServerLink] = []

    def link(self) -> ServerLink:
        """One more connection."""
        link = self.broker._servers[0]._make_link()
        link.connection_made(Nowhere())
        self.links.append(link)
        return link

    def subscribe(self, link: ServerLink) -> None:
        """Make the link a consumer of everything in TOPIC."""
        everything = [parse_subscription(TOPIC, "*", version=1)]
        self.broker.clients.consumers.register(GROUP, link, "reader", "CONSUME_PASSIVELY", "CLUSTERING", "", everything)

    def serve_one_by_one(self) -> None:
        """From now on nothing is served by runs: see Dispatcher.run."""
        self.broker._dispatcher.after.append(lambda _request, _reply: None)


@asynccontextmanager
async def in_process(**settings: Any) -> AsyncIterator[InProcess]:
    """A broker with these settings (BrokerConfig) and a real store that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="rocketlake-micro-") as folder:
        config = BrokerConfig(listen_port=0, fast_listen_port=0, store_root=Path(folder) / "store", **settings)
        broker = Broker(config, StoreConfig())
        await broker.start()
        found = InProcess(broker)
        try:
            yield found
        finally:
            for link in found.links:
                link.connection_lost(None)
                broker._servers[0].lost(link)
            await broker.stop()


def pull(queue_id: int, offset: int) -> bytes:
    """The frame in which Java's consumer asks for messages of a queue; it may wait."""
    header = PullHeader(
        consumer_group=GROUP,
        topic=TOPIC,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=PULL_SUSPEND | (PULL_COMMIT_OFFSET if offset else 0),
        commit_offset=offset,
        suspend_timeout_millis=15_000,
        sub_version=1,
        expression_type="TAG",
    )
    return b"".join(map(bytes, encode_command(Command.request(RequestCode.PULL_MESSAGE, header), Codec.JSON)))
