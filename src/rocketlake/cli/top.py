"""`rocketlake top`: what a cluster does now, again and again.

Owns        options and output of this command, the rates of topics between two looks.
Must not know   how a cluster is asked (admin/).
"""

from __future__ import annotations

import enum
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Annotated

import typer

from rocketlake.base.clock import SystemClock
from rocketlake.cli.output import NAMESRV_DEFAULT, Namesrv, run
from rocketlake.cli.table import OUTPUT_DEFAULT, Moment, Output, OutputForm, objects, show, show_line, table_of

if TYPE_CHECKING:
    from rocketlake.admin import Admin

__all__ = ["top"]

Row = tuple[object, ...]


class _By(enum.Enum):
    GROUP = "group"
    TOPIC = "topic"
    BROKER = "broker"


_HEADINGS = {
    _By.GROUP: ("group", "members", "lag", "taken/s", "topics"),
    _By.TOPIC: ("topic", "messages", "in/s"),
    _By.BROKER: ("broker", "id", "in/s", "out/s", "disk %", "started", "trouble"),
}


def top(
    by: Annotated[_By, typer.Option("--by", help="What has a row: those with most come first.")] = _By.GROUP,
    interval: Annotated[float, typer.Option("--interval", min=0.1, help="Seconds from one look to the next.")] = 2.0,
    limit: Annotated[int, typer.Option("--limit", min=1, help="So many rows.")] = 30,
    once: Annotated[bool, typer.Option("--once", help="One look, and end.")] = False,
    output: Output = OUTPUT_DEFAULT,
    namesrv: Namesrv = NAMESRV_DEFAULT,
) -> None:
    """Show what a cluster does now: the groups with most lag, topics and brokers with most messages. Ctrl-C ends.

    Rates of topics are those from one look to the next, others those that brokers tell.
    """
    headings = _HEADINGS[by]

    async def work() -> None:
        from rocketlake.admin import Admin

        async with Admin(namesrv=namesrv) as admin:
            looks = _Looks(admin, by, limit)
            with _screen(headings, output, once=once) as shown:
                async for rows in looks.each(interval, 1 if once else None):
                    shown(rows)

    try:
        run(work())
    except KeyboardInterrupt:
        raise typer.Exit from None


@contextmanager
def _screen(headings: Sequence[str], output: OutputForm, *, once: bool) -> Iterator[Callable[[list[Row]], object]]:
    """What shows a look: all looks in one place on a terminal, else one below the other."""
    if once:
        yield lambda rows: show(headings, rows, output, none="there is nothing yet")
    elif output is not OutputForm.TABLE:
        yield lambda rows: show_line(objects(headings, rows))
    elif not sys.stdout.isatty():
        yield lambda rows: show(headings, rows, output)
    else:
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(highlight=False), auto_refresh=False, screen=True) as live:
            yield lambda rows: live.update(table_of(headings, rows), refresh=True)


class _Looks:
    """Rows of one kind, look by look."""

    def __init__(self, admin: Admin, by: _By, limit: int) -> None:
        self._admin, self._by, self._limit = admin, by, limit
        self._clock = SystemClock()
        self._before: dict[str, int] = {}
        self._at = 0.0

    async def each(self, interval: float, times: int | None) -> AsyncIterator[list[Row]]:
        """So many looks, None: without end, an interval apart; a look that fails ends them."""
        if self._by is _By.TOPIC:
            await self.rows()  # rates are those since an earlier look
            await self._clock.sleep(interval)
        for number in count(1):
            yield await self.rows()
            if number == times:
                return
            await self._clock.sleep(interval)

    async def rows(self) -> list[Row]:
        """Those with most first."""
        asked = {_By.GROUP: self._groups, _By.TOPIC: self._topics, _By.BROKER: self._brokers}
        return (await asked[self._by]())[: self._limit]

    async def _groups(self) -> list[Row]:
        found = sorted(await self._admin.groups(), key=lambda each: (-each.lag, each.name))
        return [
            (each.name, each.members, each.lag, round(each.taken_per_second), ", ".join(each.topics) or None)
            for each in found
        ]

    async def _topics(self) -> list[Row]:
        from rocketlake.net.client import some_at_once  # other commands need no network

        names = await self._admin.topics()
        ends = dict(zip(names, await some_at_once(self._admin.topic_ends, names), strict=True))
        now, seconds = self._clock.monotonic(), 0.0
        if self._at:
            seconds = now - self._at
        rows: list[tuple[str, int, int | None]] = [
            (name, kept, self._rate(name, end, seconds)) for name, (kept, end) in ends.items()
        ]
        self._before, self._at = {name: end for name, (_, end) in ends.items()}, now
        return [*sorted(rows, key=lambda row: (-(row[2] or 0), row[0]))]

    def _rate(self, name: str, end: int, seconds: float) -> int | None:
        before = self._before.get(name)
        return None if before is None or not seconds else round(max(0, end - before) / seconds)

    async def _brokers(self) -> list[Row]:
        return [
            (
                each.name,
                each.broker_id,
                round(each.in_per_second or 0),
                round(each.out_per_second or 0),
                None if each.disk_used_ratio is None else round(each.disk_used_ratio * 100),
                Moment(each.started_ms),
                each.trouble or None,
            )
            for each in sorted(await self._admin.brokers(), key=lambda each: -(each.in_per_second or 0))
        ]
