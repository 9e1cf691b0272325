"""A pipeline file -> a Pipeline, checked as far as possible without Spark or a cluster.

Owns        the rules which keys are required and which exclude each other, defaults.
Must not know   Spark, the meaning of SQL texts.
"""

from __future__ import annotations

import re
from pathlib import Path

from rocketlake.base.errors import UsageError
from rocketlake.spark.pipeline.environment import has_reference, refuse_reference
from rocketlake.spark.pipeline.formats import BATCH_ONLY, PARTITION_OPTION, check_format, check_options
from rocketlake.spark.pipeline.keys import KEYS, check_keys
from rocketlake.spark.pipeline.model import Options, Pipeline, Route, Sink, Source, View
from rocketlake.spark.pipeline.routes import read_routes
from rocketlake.spark.pipeline.yaml_text import Node, Section, Text, option_text, read_yaml

__all__ = ["read_pipeline"]

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_VIEW = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_TRIGGER = re.compile(r"[1-9][0-9]{0,8} +(milliseconds?|seconds?|minutes?|hours?|days?)")


def read_pipeline(path: Path) -> Pipeline:
    """Read and check the file. UsageError names the line, the nearest key and the cure."""
    root = read_yaml(path)
    check_keys(root, "pipeline")
    name = _text(root, "name", path.stem)
    if not _NAME.fullmatch(name):
        where = root.key_places.get("name", root.where)
        raise UsageError(f"'{name}' is no name for a pipeline", where=where, hint="use letters, digits, _ . -")
    source = _source(root)
    views = _views(root.entries.get("transform"))
    common = _optional_section(root, "sink")
    cluster = _cluster_of(source)

    def sink(section: Section) -> Sink:
        return _sink(section, cluster)

    if "route" in root.entries:
        routes = read_routes(root.entries["route"], common, sink, views)
    elif common is not None:
        routes = (Route("main", sink(common), where=common.where),)
    else:
        raise UsageError("there is no `sink`", where=root.where, hint="say where rows go: `sink: {format: console}`")
    on_error, bad_rows = _on_error(root.entries.get("onError"), source, sink)
    trigger = _text(root, "trigger", "")
    if trigger and not _TRIGGER.fullmatch(trigger):
        raise UsageError(f"trigger is '{trigger}'", where=root.key_places["trigger"], hint="write it like `5 seconds`")
    return Pipeline(
        name, source, routes, views, on_error, bad_rows, _checkpoint(root, path, name), trigger, _spark(root)
    )


def _source(root: Section) -> Source:
    section = _optional_section(root, "source")
    if section is None:
        raise UsageError("there is no `source`", where=root.where, hint="add `source: {subscribe: TOPIC, ...}`")
    name, options = _format_and_options(section, "source")
    schema = _text(section, "schema", "")
    refuse_reference(schema, "the schema", section.key_places.get("schema", section.where))
    body = _choice(section, "body", ("raw", "text", "json"))
    if body == "json" and not schema:
        raise UsageError(
            "`body: json` needs a `schema`",
            where=section.key_places["body"],
            hint="add one, like schema: id bigint, at timestamp",
        )
    if schema and body != "json" and name in ("rocketmq", "rocketmq_store"):
        where = section.key_places["schema"]
        raise UsageError("`schema` says what is in a JSON body", where=where, hint="add `body: json`, or remove it")
    how = _choice(section, "read", ("stream", "batch"))
    if "read" in section.entries and how == "stream" and name in BATCH_ONLY:
        raise UsageError(f"{name} cannot stream", where=section.key_places["read"], hint="remove `read`")
    is_stream = how == "stream" and name not in BATCH_ONLY
    return Source(name, options, body, schema, _watermark(section), is_stream, section.where)


def _watermark(section: Section) -> tuple[str, str] | None:
    text = _text(section, "watermark", "")
    if not text:
        return None
    column, _, delay = text.partition(" ")
    if not (column and _TRIGGER.fullmatch(delay.strip())):
        where = section.key_places["watermark"]
        raise UsageError(f"watermark is '{text}'", where=where, hint="give a column and a time: `at 10 minutes`")
    return column, delay.strip()


def _cluster_of(source: Source) -> tuple[str, str] | None:
    """A sink topic lives in the cluster of the source unless its sink names another one."""
    if source.format != "rocketmq":
        return None
    for name in ("namesrvAddr", "nameServer"):
        value = source.options.text(name)
        if value:
            return value, source.options.place(name, source.where)
    return None


def _sink(section: Section, cluster: tuple[str, str] | None) -> Sink:
    name, options = _format_and_options(section, "sink")
    if name == "rocketmq" and cluster and not options.text("namesrvAddr", "nameServer"):
        options = Options({**options.values, "namesrvAddr": cluster[0]}, {**options.places, "namesrvAddr": cluster[1]})
    columns = section.entries.get("partitionBy")
    partition_by = tuple(part.strip() for part in option_text(columns).split(",")) if columns else ()
    if name in PARTITION_OPTION and columns:
        place = section.key_places["partitionBy"]
        options = Options(
            {**options.values, "partitionBy": ",".join(partition_by)}, {**options.places, "partitionBy": place}
        )
        partition_by = ()
    mode = _choice(section, "mode", ("append", "complete", "update"))
    if mode == "update" and name.startswith("rocketmq"):
        where = section.key_places["mode"]
        raise UsageError("Spark refuses update mode for Python sinks", where=where, hint="use append with a watermark")
    return Sink(name, options, partition_by, mode, section.where)


def _format_and_options(section: Section, kind: str) -> tuple[str, Options]:
    name = _text(section, "format", "rocketmq")
    check_format(name, kind, section.key_places.get("format", section.where))
    given = {key: option_text(value) for key, value in section.entries.items() if key not in KEYS[kind]}
    options = Options(given, section.key_places)
    check_options(name, options, kind)
    return name, options


def _views(node: Node | None) -> tuple[View, ...]:
    if node is None:
        return ()
    if isinstance(node, Text):
        return (_view("result", node),)
    if not isinstance(node, Section) or not node.entries:
        raise UsageError(
            "`transform` is not SQL", where=node.where, hint="write `transform: select ...`, or `name: SQL` lines"
        )
    return tuple(_view(name, value) for name, value in node.entries.items())


def _view(name: str, node: Node) -> View:
    if not _VIEW.fullmatch(name) or name.lower() == "source":
        raise UsageError(
            f"'{name}' is no name for a view", where=node.where, hint="use letters, digits, _; not `source`"
        )
    if not isinstance(node, Text) or not node.value.strip():
        raise UsageError(f"view {name} has no SQL text", where=node.where, hint="select ... from source")
    refuse_reference(node.value, f"the SQL of view {name}", node.where)
    return View(name, node.value.strip().rstrip(";"), node.where, node.line_ends)


def _on_error(node: Node | None, source: Source, sink: object) -> tuple[str, Sink | None]:
    if node is None:
        return "fail", None
    if isinstance(node, Text):
        if node.value not in ("fail", "skip"):
            raise UsageError(
                f"onError is '{node.value}'", where=node.where, hint="give fail, skip, or `dlq:` with a sink"
            )
        return node.value, None
    if not isinstance(node, Section):
        raise UsageError("onError is a list", where=node.where, hint="give fail, skip, or `dlq:` with a sink")
    check_keys(node, "onError")
    target = _optional_section(node, "dlq")
    if target is None:
        raise UsageError("onError says nothing", where=node.where, hint="write dlq: {topic: NAME}")
    if source.body == "raw":
        raise UsageError(
            "raw bodies are never bad", where=node.where, hint="set `body: json` or `text`, or remove onError"
        )
    return "dlq", sink(target)  # type: ignore[operator]


def _checkpoint(root: Section, path: Path, name: str) -> str:
    text = _text(root, "checkpoint", "")
    if has_reference(text):
        return text
    if "://" in text:
        return text
    return str(path.absolute().parent / (text or f".rocketlake/{name}"))


def _spark(root: Section) -> dict[str, str]:
    section = _optional_section(root, "spark")
    settings = {key: option_text(value) for key, value in section.entries.items()} if section else {}
    for key, value in settings.items():
        where = section.key_places[key] if section else ""
        refuse_reference(value, f"setting {key}", where)
        if not key.startswith("spark."):
            raise UsageError(f"'{key}' is no setting of Spark", where=where, hint=f"did you mean 'spark.{key}'?")
    return settings


def _optional_section(parent: Section, key: str) -> Section | None:
    node = parent.entries.get(key)
    if node is None or isinstance(node, Section):
        return node
    raise UsageError(
        f"`{key}` is not a mapping", where=parent.key_places[key], hint=f"write {key}: and indented keys below it"
    )


def _text(section: Section, key: str, default: str) -> str:
    node = section.entries.get(key)
    if node is None:
        return default
    if not isinstance(node, Text):
        raise UsageError(f"`{key}` is not a text", where=section.key_places[key], hint=f"give {key} one value")
    return node.value.strip()


def _choice(section: Section, key: str, choices: tuple[str, ...]) -> str:
    value = _text(section, key, choices[0])
    if value not in choices:
        where = section.key_places[key]
        raise UsageError(f"{key} is '{value}'", where=where, hint="write one of " + ", ".join(choices))
    return value
