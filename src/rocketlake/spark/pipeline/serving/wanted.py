"""The tables that are wanted: by attributes of topics, by `--topic NAME=FORMAT`, by a YAML file.

Owns        the value of a wanted table, the check of its options, which source wins.
Must not know   Spark, how a cluster is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rocketlake.base.errors import UsageError
from rocketlake.model.names import check_topic
from rocketlake.model.table_wish import TableWish, table_wish
from rocketlake.model.topic import TopicConfig
from rocketlake.spark.lake.catalogs import CATALOG_OPTIONS
from rocketlake.spark.lake.options import FORMATS
from rocketlake.spark.lake.options import NAMES as SINK
from rocketlake.spark.pipeline.yaml_text import Section, Text, option_text, read_yaml
from rocketlake.spark.source.option_table import NAMES as SOURCE

__all__ = ["Listed", "WantedTable", "checked_options", "listed_in", "listed_words", "wanted_by_attributes"]

KEEP_DAYS = "keepDays"
_OURS = (
    "namesrvAddr", "nameServer", "subscribe", "subscribePattern", "assign", "includeSystemTopics", "consumerGroup",
    "offsetStore", "path", "tableLayout", "txnAppId", "txnVersion", "checkpointLocation", "queryName",
)  # fmt: skip
"""Options that the service sets itself, or that belong to other kinds of reads and writes."""
_BY_LOWER = {name.lower(): name for name in (*SOURCE.descriptions, *SINK.descriptions, KEEP_DAYS)}
_DAYS_MAX = 36_500


@dataclass(frozen=True)
class WantedTable:
    """A topic's table: options of source and sink by their proper names. Rows older than `keep_days` go; 0: none."""

    topic: str
    options: tuple[tuple[str, str], ...] = ()
    keep_days: int = 0


@dataclass(frozen=True)
class Listed:
    """What was given without attributes: options of all tables, and tables."""

    options: tuple[tuple[str, str], ...] = ()
    tables: tuple[WantedTable, ...] = ()


def checked_options(given: Mapping[str, str], places: Mapping[str, str] | None = None) -> dict[str, str]:
    """The options by their proper names. UsageError for one that is not known, or that the service sets itself."""
    found: dict[str, str] = {}
    for raw, value in given.items():
        name = _BY_LOWER.get(raw.lower())
        where = (places or {}).get(raw, "")
        if name is None:
            hint = "options are those of docs/how-to/spark_source.md and docs/how-to/lake.md, and keepDays"
            raise UsageError(f"option '{raw}' of a table is not known", where=where, hint=hint)
        if name in _OURS:
            hint = "remove it: --namesrv, --topic, --to and --checkpoint say the same for all tables"
            raise UsageError(f"option '{name}' is set by `lake serve` itself", where=where, hint=hint)
        found[name] = value
    return found


def _table(topic: str, options: Mapping[str, str], common: Mapping[str, str], where: str = "") -> WantedTable:
    merged = {**common, **options}
    days = merged.pop(KEEP_DAYS, "0")
    if not (days.isascii() and days.isdecimal() and int(days) <= _DAYS_MAX):
        raise UsageError(
            f"option '{KEEP_DAYS}' is '{days}'", where=where, hint=f"write 1 to {_DAYS_MAX} days; 0 keeps all rows"
        )
    if (table_format := merged.get("tableFormat", FORMATS[0])) not in FORMATS:
        hint = "write one of " + ", ".join(FORMATS)
        raise UsageError(f"the table of topic {topic} has no format '{table_format}'", where=where, hint=hint)
    if table_format != "iceberg":
        # Those of all tables may name a catalog, which only Iceberg tables have.
        merged = {name: value for name, value in merged.items() if name in options or name not in CATALOG_OPTIONS}
    return WantedTable(topic, tuple(sorted(merged.items())), int(days))


def listed_words(words: Iterable[str], common: Mapping[str, str]) -> Listed:
    """`orders=delta`, or `orders` for the default format. UsageError for another text."""
    tables = []
    for word in words:
        topic, equals, table_format = word.partition("=")
        check_topic(topic)
        tables.append(_table(topic, {"tableFormat": table_format} if equals else {}, common))
    return Listed(tuple(common.items()), tuple(tables))


def listed_in(path: Path, common: Mapping[str, str]) -> Listed:
    """A file with `topics`, each a format or options, and `options` of all tables; `common` goes before these."""
    root = read_yaml(path)
    for key in root.entries:
        if key not in ("topics", "options"):
            raise UsageError(f"there is no key '{key}'", where=root.key_places[key], hint="write `topics` or `options`")
    options = _section(root, "options")
    of_all = (_options_of(options) if options else {}) | dict(common)
    topics = _section(root, "topics")
    tables = []
    for topic, node in topics.entries.items() if topics else ():
        check_topic(topic)
        where = topics.key_places[topic] if topics else ""
        if isinstance(node, Section):
            own = _options_of(node)
        elif isinstance(node, Text):
            own = {"tableFormat": node.value}
        else:
            raise UsageError(f"table of topic {topic} is a list", where=where, hint=f"write `{topic}: delta`")
        tables.append(_table(topic, own, of_all, where))
    return Listed(tuple(of_all.items()), tuple(tables))


def _section(root: Section, key: str) -> Section | None:
    node = root.entries.get(key)
    if node is None or isinstance(node, Section):
        return node
    raise UsageError(f"`{key}` is not a mapping", where=root.key_places[key], hint=f"write {key}: and indented lines")


def _options_of(section: Section) -> dict[str, str]:
    return checked_options({key: option_text(node) for key, node in section.entries.items()}, section.key_places)


def wanted_by_attributes(
    settings: Mapping[str, Mapping[str, TopicConfig]], common: Mapping[str, str]
) -> tuple[dict[str, WantedTable], dict[str, str]]:
    """Topics whose attributes ask for a table, and topics whose attributes do not say which, with the reason."""
    wanted: dict[str, WantedTable] = {}
    unclear: dict[str, str] = {}
    for topic, configs in settings.items():
        try:
            wish = _one_wish(configs)
            if wish is not None:
                own = {"tableFormat": wish.table_format, "bodyFormat": wish.body}
                own |= {KEEP_DAYS: str(wish.keep_days)} if wish.keep_days else {}
                wanted[topic] = _table(topic, own, common)
        except UsageError as error:
            unclear[topic] = str(error)
    return wanted, unclear


def _one_wish(configs: Mapping[str, TopicConfig]) -> TableWish | None:
    """Any broker's wish; one that lacks the topic's attributes has none. UsageError if two ask for different tables."""
    wishes = {broker: wish for broker, config in configs.items() if (wish := table_wish(config.attributes))}
    if len(set(wishes.values())) > 1:
        said = ", ".join(f"{wish.table_format} on {broker}" for broker, wish in sorted(wishes.items()))
        name = next(iter(configs.values())).name
        raise UsageError(
            f"brokers want different tables of topic {name}: {said}",
            hint=f"`rocketlake topic alter {name} --lake FORMAT` tells all brokers",
        )
    return next(iter(wishes.values()), None)
