"""A reading of a topic for `rocketlake consume`: where it begins in each queue, where it ends, what is wanted of it.

Owns        these decisions, queues that come meanwhile.
Must not know   how messages are shown, the options' help.

A reading ends by the offset that each queue has reached, not by a count: a filter and a compaction leave holes.
"""

from __future__ import annotations

import asyncio
import fnmatch
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rocketlake.admin.group_reset import Target
from rocketlake.base.errors import LinkError, NotThereError, UsageError
from rocketlake.client.config import ClientConfig
from rocketlake.client.consumer.pull import PullConsumer
from rocketlake.client.errors import NoRoute
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.moment import parse_time

__all__ = ["Reading", "Span", "Wanted"]

_GROUP = "TOOLS_CONSUMER"
_ROUTE_MS = 2000
"""New queues and brokers are looked for so often."""


@dataclass(frozen=True, slots=True)
class Span:
    """From where to where: `to_ms` None and not `until_end`: for ever. `queues`: only these, "broker-a/0"."""

    begin: Target = field(default_factory=lambda: Target("latest"))
    to_ms: int | None = None
    last: int = 0
    until_end: bool = False
    queues: tuple[str, ...] = ()

    @classmethod
    def parse(cls, begin: str, end: str, last: int, *, until_end: bool, queues: Sequence[str], now_ms: int) -> Span:
        """From the options. UsageError for a place or time that is none, and for options that exclude each other."""
        if last and (begin != "latest" or end):
            raise UsageError("--last goes to the newest message", hint="leave --from and --to out")
        target = Target.parse(begin, now_ms, "--from")
        if target.kind == "shift" and target.number > 0:
            raise UsageError(f"--from {begin!r} is behind the newest message", hint="write -100, or an offset")
        if last:
            target = Target("shift", -last)
        to_ms = parse_time("--to", end, now_ms=now_ms) if end else None
        return cls(target, to_ms, last, until_end or bool(last), tuple(queues))

    @property
    def is_bounded(self) -> bool:
        """True if it ends by itself."""
        return self.until_end or self.to_ms is not None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which messages: the expression is the broker's work, the rest is looked at here."""

    expression: str = "*"
    expression_type: str = "TAG"
    key: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    grep: bytes = b""

    @classmethod
    def parse(cls, tags: str, sql92: str, *, key: str, headers: Sequence[str], grep: str) -> Wanted:
        """From the options. UsageError for a half-written expression: it matches less than the user thinks."""
        if not all(part.strip() for part in tags.split("||")):
            raise UsageError(f"the tags {tags!r} have nothing on one side of ||", hint="write 'TagA || TagB', or TagA")
        if sql92 and tags != "*":
            raise UsageError("--tag and --sql92 are two filters", hint="give one; in SQL92 the tag is TAGS")
        pairs = [text.partition("=") for text in headers]
        if bad := [text for text, (name, equals, _) in zip(headers, pairs, strict=True) if not (name and equals)]:
            raise UsageError(f"--header {bad[0]!r} is not name=value", hint="write --header colour=red")
        kind = ("SQL92", sql92) if sql92 else ("TAG", tags)
        return cls(kind[1], kind[0], key, {name: value for name, _, value in pairs}, grep.encode())

    def has(self, message: StoredMessage) -> bool:
        """True if the message is wanted."""
        return (
            (not self.key or self.key in (message.keys or "").split())
            and (not self.grep or self.grep in message.body)
            and all(
                name in message.properties and fnmatch.fnmatchcase(message.properties[name], pattern)
                for name, pattern in self.headers.items()
            )
        )


class Reading:
    """`async with Reading(...) as reading: messages = await reading.next(32)`; None is its end."""

    def __init__(
        self, namesrv: str, topic: str, group: str, span: Span, wanted: Wanted, *, look: Callable[[], None]
    ) -> None:
        """`group` "": of no group. `look` is called while it waits for a topic; what it raises ends the reading."""
        self.topic = topic
        self._group, self._span, self._wanted, self._look = group, span, wanted, look
        self._consumer = PullConsumer(
            group or _GROUP,
            namesrv=namesrv,
            auto_commit=bool(group),
            client_config=ClientConfig(route_interval_ms=_ROUTE_MS),
        )
        self._ends: dict[MessageQueue, int] = {}
        self._newest: list[StoredMessage] | None = [] if span.last else None

    @property
    def queues(self) -> list[MessageQueue]:
        """Those that are read now."""
        return self._consumer.assignment

    @property
    def ends(self) -> str:
        """When it ends by itself, in words; "" if it does not."""
        if self._span.last:
            return "ends with the newest message"
        return "ends at the time given" if self._span.to_ms is not None else "ends at the end" * self._span.until_end

    async def __aenter__(self) -> Self:
        if self._group:
            self._consumer.subscribe(self.topic, self._wanted.expression, self._wanted.expression_type)
        await self._consumer.__aenter__()
        try:
            if not self._group:
                await self._begin()
        except BaseException as error:
            await self._consumer.__aexit__(type(error), error, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._consumer.__aexit__(kind, error, trace)

    async def _begin(self) -> None:
        queues, is_new = await self._wait_for_topic()
        queues = self._chosen(queues)
        self._assign(queues)
        if is_new:
            await self._consumer.seek_to_begin()
        else:
            await self._seek(queues)
        if self._span.is_bounded:
            self._ends = {queue: await self._consumer.end_offset(queue) for queue in queues}
            if self._span.to_ms is not None:
                until = await self._consumer.offsets_for_time(queues, self._span.to_ms)
                self._ends = {queue: min(end, until[queue]) for queue, end in self._ends.items()}

    async def _seek(self, queues: list[MessageQueue]) -> None:
        target, consumer = self._span.begin, self._consumer
        if target.kind == "earliest":
            await consumer.seek_to_begin()
            return
        if target.kind == "latest":
            await consumer.seek_to_end()
            return
        times = await consumer.offsets_for_time(queues, target.number) if target.kind == "time" else {}
        for queue in queues:
            begin, end = await consumer.begin_offset(queue), await consumer.end_offset(queue)
            wanted = times[queue] if times else end + target.number if target.kind == "shift" else target.number
            await consumer.seek(queue, min(max(wanted, begin), end))

    def _assign(self, queues: list[MessageQueue]) -> None:
        self._consumer.assign(queues, self._wanted.expression, self._wanted.expression_type)

    def _chosen(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        by_name = {f"{queue.broker_name}/{queue.queue_id}": queue for queue in queues}
        for name in self._span.queues:
            if name not in by_name:
                hint = f"name one of {', '.join(sorted(by_name)[:16])}"
                raise NotThereError(f"topic {self.topic!r} has no queue {name!r}", hint=hint)
        return [by_name[name] for name in self._span.queues] or queues

    async def _wait_for_topic(self) -> tuple[list[MessageQueue], bool]:
        """The topic's queues, and True if it was made during the wait: then its first message is new, too."""
        is_new = False
        while True:
            try:
                return await self._consumer.fetch_queues(self.topic), is_new
            except NoRoute:
                if self._span.is_bounded:
                    raise
                if not is_new:
                    said = f"topic {self.topic} does not exist yet; waiting for its first message"
                    print(said, file=sys.stderr, flush=True)
                is_new = True
                self._look()
                await asyncio.sleep(0.5)

    async def next(self, most: int) -> list[StoredMessage] | None:
        """The next messages that are wanted, [] if none came for a second; None behind the last one."""
        if self._span.is_bounded:
            await self._forget_ended()
            if not self._ends:
                found, self._newest = self._newest, None
                return found or None
        if not (self._span.is_bounded or self._span.queues or self._group):
            await self._add_queues()
        messages = await self._consumer.poll(timeout_ms=1000, max_messages=most)
        messages = [each for each in messages if self._is_within(each) and self._wanted.has(each)]
        if self._newest is None:
            return messages
        self._newest = sorted([*self._newest, *messages], key=lambda each: each.store_ms)[-self._span.last :]
        return []

    def _is_within(self, message: StoredMessage) -> bool:
        if not self._span.is_bounded:
            return True
        queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
        return message.queue_offset < self._ends.get(queue, 0)

    async def _forget_ended(self) -> None:
        for queue, end in list(self._ends.items()):
            if await self._consumer.position(queue) >= end:
                del self._ends[queue]
                self._consumer.pause([queue])

    async def _add_queues(self) -> None:
        """Read queues that came since, from their first message on. One that is out of reach stays: it comes back."""
        known = self._consumer.assignment
        try:
            new = [queue for queue in await self._consumer.fetch_queues(self.topic) if queue not in known]
            if new:
                self._assign([*known, *new])
                await self._consumer.seek_to_begin(*new)
        except (LinkError, NoRoute):
            self._assign(known)  # a server is away: the next look is soon
