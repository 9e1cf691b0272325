"""The demo's verdict: four independent witnesses must say the same.

Owns        the four counts to compare: the package, the broker's log on disk, the consumer group, the lake table.
Must not know   how the witnesses got their numbers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from demo.flights import Answers
from demo.log import LogFacts


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What Spark says of the table; checksum as in log.py."""

    rows: int
    checksum: int
    positions: int
    delay_minutes: int
    tags_right: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One comparison."""

    what: str
    value: str
    agrees: bool


def compare(answers: Answers, log: LogFacts, table: TableFacts, by_carrier: Counter[str]) -> list[Finding]:
    """All comparisons; the demo failed if one does not agree."""
    counted, minutes = by_carrier.total(), table.delay_minutes
    return [
        Finding("messages in the log on disk", f"{log.messages:,}", log.messages == answers.flights),
        Finding("rows in the table", f"{table.rows:,}", table.rows == log.messages),
        Finding("distinct queue positions in the table", f"{table.positions:,}", table.positions == log.messages),
        Finding("checksum of the table = of the log", str(table.checksum), table.checksum == log.checksum),
        Finding("minutes of delay, table = package", f"{minutes:,}", minutes == answers.delay_minutes),
        Finding("tag = carrier", f"{table.tags_right:,}", table.tags_right == answers.flights),
        Finding("counted by carrier, group = package", f"{counted:,}", by_carrier == answers.by_carrier),
    ]
