"""How far the group has read each queue: at the brokers (clustering) or in a file of this client (broadcasting).

Owns        offsets known in memory, saving and reading them, the file of a broadcasting client.
Must not know   messages in hand, when to save (instance.py has the timer).

Local file: `{"offsetTable":{{queue}:offset}}` in fastjson's dialect, as Java writes it; the content before stays in
`.bak`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Protocol

from rocketlake.base.disk.saved_json import load_text, save_text
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import LinkError, RemoteError, RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.model.message_queue import MessageQueue
from rocketlake.protocol.bodies.offset import ResetOffsets

log = get_logger(__name__)
NONE = -1
FAILURES_MAX = 2


class OffsetStore(Protocol):
    """Offsets of one group; -1 means "never committed"."""

    async def load(self) -> None:
        """Read the offsets that are kept locally."""

    def memory(self, queue: MessageQueue) -> int:
        """The offset known here, -1 if none."""

    async def read(self, queue: MessageQueue) -> int:
        """The offset known here, else the saved one; -1 if none. Raises when it cannot be read."""

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool) -> None:
        """Note an offset; it is saved later."""

    async def persist(self, queues: Collection[MessageQueue]) -> None:
        """Save the offsets of these queues. Failures are logged and tried again next time."""

    def forget(self, queue: MessageQueue) -> None:
        """Another member has the queue now."""


class _Memory:
    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}

    def memory(self, queue: MessageQueue) -> int:
        return self._offsets.get(queue, NONE)

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool) -> None:
        if not increase_only or offset > self._offsets.get(queue, NONE):
            self._offsets[queue] = offset

    def forget(self, queue: MessageQueue) -> None:
        self._offsets.pop(queue, None)


class RemoteOffsets(_Memory):
    """Clustering: offsets live at the broker of each queue."""

    def __init__(
        self,
        query: Callable[[MessageQueue], Awaitable[int]],
        save: Callable[[MessageQueue, int], Awaitable[None]],
    ) -> None:
        super().__init__()
        self._query = query
        self._save = save
        self._unsaved: dict[str, dict[str, object]] = {}
        """Broker -> topic -> the kind of error that the last round met: it is logged once, not in each round."""

    async def load(self) -> None:
        """Nothing is kept locally."""

    async def read(self, queue: MessageQueue) -> int:
        """From memory, else from the broker."""
        known = self._offsets.get(queue, NONE)
        return known if known >= 0 else await self._query(queue)

    async def persist(self, queues: Collection[MessageQueue]) -> None:
        """Save at all brokers at once: a broker that does not answer delays no save at another one."""
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            by_broker.setdefault(queue.broker_name, []).append(queue)
        await asyncio.gather(*map(self._persist_at_one, by_broker.values()))

    async def _persist_at_one(self, queues: Sequence[MessageQueue]) -> None:
        """A broker out of reach is waited for twice (a broken link is opened again), not once for each queue."""
        failures = 0
        before = self._unsaved.pop(queues[0].broker_name, {})
        unsaved = self._unsaved[queues[0].broker_name] = {}
        for queue in queues:
            offset = self._offsets.get(queue, NONE)
            if offset < 0:
                continue
            try:
                await self._save(queue, offset)
            except RocketLakeError as error:
                kind = error.code if isinstance(error, RemoteError) else type(error)
                if kind not in (before.get(queue.topic), unsaved.get(queue.topic)):
                    log.warning("offset %d of %s was not saved, tried again at each interval: %s", offset, queue, error)
                unsaved[queue.topic] = kind
                failures += isinstance(error, LinkError)
                if failures == FAILURES_MAX:
                    return


class LocalOffsets(_Memory):
    """Broadcasting: offsets live in a file of this client id and group."""

    def __init__(self, files: Files, path: Path) -> None:
        super().__init__()
        self._files = files
        self._path = path
        self._saved: dict[MessageQueue, int] = {}
        self._writing = asyncio.Lock()

    async def load(self) -> None:
        """Read the file, or its `.bak` when it is broken."""
        text = await asyncio.to_thread(load_text, self._files, self._path)
        if text:
            self._saved = ResetOffsets.decode(text.encode()).offsets
            self._offsets.update(self._saved)

    async def read(self, queue: MessageQueue) -> int:
        """From memory, else from the file."""
        return self._offsets.get(queue, self._saved.get(queue, NONE))

    async def persist(self, queues: Collection[MessageQueue]) -> None:
        """Write the file: these queues' offsets on top of what it held."""
        updated = {q: self._offsets[q] for q in queues if q in self._offsets}
        # One after the other: the timer, a rebalance and a stop save the same file.
        async with self._writing:
            if all(self._saved.get(queue) == offset for queue, offset in updated.items()):
                return
            saved = self._saved | updated
            text = ResetOffsets(dict(sorted(saved.items()))).encode().decode()
            try:
                await asyncio.to_thread(save_text, self._files, self._path, text)
            except (OSError, RocketLakeError) as error:
                log.warning("offsets were not saved in %s, next try at the next interval: %s", self._path, error)
            else:
                self._saved = saved
