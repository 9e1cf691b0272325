"""Options of format("rocketmq_store"): every name, its default and range, checked before anything is read.

Owns        names, spelling help, parsing into one frozen value.
Must not know   Spark classes, files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rocketlake.base.errors import UsageError
from rocketlake.filter.sql_parser import parse_sql92
from rocketlake.model.moment import parse_time
from rocketlake.model.subscription import parse_subscription
from rocketlake.spark.option_values import Given, OptionNames

__all__ = ["DESCRIPTIONS", "NAMES", "TABLES", "ScanOptions", "parse_options"]

TABLES = ("messages", "consumequeue", "index", "offsets", "half", "topics", "checkpoint", "schedule")

DESCRIPTIONS: dict[str, str] = {
    "path": "the broker's `storePathRootDir` (required; `load(path)` sets it)",
    "commitLogPath": "the commit log's folder if it lies elsewhere (`storePathCommitLog`); default `path`/commitlog",
    "table": "`messages` (default), `consumequeue`, `index`, `offsets`, `half`, `topics`, `checkpoint`, `schedule`",
    "columns": "`full` (default), `core`, or names with commas: only these are read",
    "topics": "only these topics, comma separated; found through their consume queues",
    "tags": "only messages with one of these tags, `TagA || TagB`; default `*`",
    "filter.sql92": "only messages whose properties fulfil this SQL92 condition, as a broker judges it",
    "startingTimestamp": "only messages stored at this time or later: epoch ms, or ISO-8601 (UTC unless it has a zone)",
    "endingTimestamp": "only messages stored before this time",
    "brokerName": "what the column `brokerName` shows; a store does not hold it; default null",
    "frames": "`messages` (default): a row per message; `all`: also blank, damaged and torn stretches of the log",
    "failOnCorrupt": "`true`: stop with an error at the first damage; default `false`: show it in the columns",
    "useIndexes": "`false`: read the whole log whatever consume queues and key index say; default `true`",
    "pushDown": "`true` takes conditions from Spark, for DataFrames used for one query only; default `false`",
    "splitBytes": "bytes of the log per Spark task; default 128m",
    "maxHashSlotNum": "slots of a key index file, if the broker's setting was another; default 5000000",
}

_ELSEWHERE = {
    "namesrvaddr": 'a store is read without a cluster; to read a cluster use format("rocketmq")',
    "subscribe": "use 'topics'",
    "topic": "use 'topics'",
    "storepathrootdir": "use 'path', or load(path)",
    "storepathcommitlog": "use 'commitLogPath'",
    "includeproperties": "use 'columns'",
    "startingoffsets": "filter by the column queueOffset",
    "endingoffsets": "filter by the column queueOffset",
}

NAMES = OptionNames("rocketmq_store", DESCRIPTIONS, {}, _ELSEWHERE)
_MESSAGES_ONLY = ("tags", "filter.sql92", "startingTimestamp", "endingTimestamp", "frames", "useIndexes")


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """Checked options of one read; times in epoch milliseconds."""

    path: str
    commit_log_path: str
    table: str
    topics: tuple[str, ...]
    tags: frozenset[str]
    sql92: str
    starting_ms: int | None
    ending_ms: int | None
    broker_name: str | None
    all_frames: bool
    fail_on_corrupt: bool
    use_indexes: bool
    push_down: bool
    split_bytes: int
    index_slots: int


def parse_options(options: Mapping[str, str]) -> ScanOptions:
    """Check every option; UsageError names the option, its value and the cure."""
    given = NAMES.given(options)
    path = given.path("path")
    if not path:
        raise UsageError(
            "option 'path' is missing", hint='give the broker\'s storePathRootDir: .load("/data/rocketmq/store")'
        )
    table = given.choice("table", TABLES)
    if table != "messages":
        for name in _MESSAGES_ONLY:
            if name in given:
                raise UsageError(f"option '{name}' belongs to table 'messages', not '{table}'", hint="remove it")
    sql92 = given.text("filter.sql92")
    if sql92:
        parse_sql92(sql92)
    return ScanOptions(
        path=path,
        commit_log_path=given.path("commitLogPath"),
        table=table,
        topics=tuple(sorted({part.strip() for part in given.text("topics").split(",") if part.strip()})),
        tags=parse_subscription("", given.text("tags") or "*").tags,
        sql92=sql92,
        starting_ms=_time(given, "startingTimestamp"),
        ending_ms=_time(given, "endingTimestamp"),
        broker_name=given.text("brokerName") or None,
        all_frames=given.choice("frames", ("messages", "all")) == "all",
        fail_on_corrupt=given.flag("failOnCorrupt", default=False),
        use_indexes=given.flag("useIndexes", default=True),
        push_down=given.flag("pushDown", default=False),
        split_bytes=max(given.size("splitBytes") or 128 << 20, 1 << 16),
        index_slots=given.number("maxHashSlotNum", 5_000_000, low=1, high=2**30),
    )


def _time(given: Given, name: str) -> int | None:
    if name not in given:
        return None
    return parse_time(name, given.text(name))
