"""`rocketlake top`: what a cluster does now, again and again.

Owns        options and output of this command, the rates of topics between two looks.
Must not know   how a cluster is asked (admin/).
"""

from __future__ import annotations

import asyncio
import enum
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

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
            await looks.rows()
            if once:
                await asyncio.sleep(interval if by is _By.TOPIC else 0)
                show(headings, await looks.rows(), output, none=f"no {by.value}s yet")
            elif output is not OutputForm.TABLE or not sys.stdout.isatty():
                while True:
                    await asyncio.sleep(interval)
                    rows = await looks.rows()
                    if output is OutputForm.TABLE:
                        show(headings, rows, output)
                    else:
                        show_line(objects(headings, rows))
            else:
                await _live(looks, headings, interval)

    try:
        run(work())
    except KeyboardInterrupt:
        raise typer.Exit from None


async def _live(looks: _Looks, headings: Sequence[str], interval: float) -> None:
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(highlight=False), auto_refresh=False, screen=True) as live:
        while True:
            live.update(table_of(headings, await looks.rows()), refresh=True)
            await asyncio.sleep(interval)


class _Looks:
    """Rows of one kind, look by look."""

    def __init__(self, admin: Admin, by: _By, limit: int) -> None:
        self._admin, self._by, self._limit = admin, by, limit
        self._before: dict[str, int] = {}
        self._at = 0.0

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
        names = await self._admin.topics()
        ends = dict(zip(names, await asyncio.gather(*map(self._admin.topic_ends, names)), strict=True))
        now, seconds = asyncio.get_running_loop().time(), 0.0
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
