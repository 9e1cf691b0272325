"""A pipeline as a Spark Declarative Pipelines project: spark-pipeline.yaml, a Python file, a SQL file.

Owns        the text of these files.
Must not know   Spark: the export runs no query.

The files name our formats and use Spark's API only, so that users can read, change and keep them. Declarative pipelines
analyse a flow before it runs and forbid questions about its columns meanwhile, so all names are written out.
"""

from __future__ import annotations

import re
from pathlib import Path

from rocketlake.base.errors import UsageError
from rocketlake.spark.pipeline.bodies import JSON_OPTIONS, MESSAGE_COLUMNS, POSITION
from rocketlake.spark.pipeline.environment import references
from rocketlake.spark.pipeline.model import BAD_ROWS, Options, Pipeline, Route, Sink
from rocketlake.spark.schema import chosen_schema

__all__ = ["export_project", "field_names", "project_files", "streamed"]

_PIPELINE = """\
# Written by `rocketlake pipeline export` from pipeline {name}. Run it in this folder:
#   spark-pipelines --conf spark.sql.catalogImplementation=hive run
name: {name}
storage: {storage}
libraries:
  - glob:
      include: transformations/**
"""
_FLOWS = '''\
"""Pipeline {name}: its source and its sinks. The views between them are in views.sql."""

import os

from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()
'''


def export_project(pipeline: Pipeline, folder: Path) -> list[Path]:
    """Write the project. UsageError if the folder is not empty, or a pipeline has a part that SDP cannot run."""
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty", hint="give a new folder; nothing is overwritten")
    written = []
    for name, text in project_files(pipeline, folder.absolute()).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        written.append(path)
    return written


def project_files(pipeline: Pipeline, folder: Path) -> dict[str, str]:
    """Relative path -> text."""
    _check(pipeline)
    files = {
        "spark-pipeline.yaml": _PIPELINE.format(name=pipeline.name, storage=(folder / "storage").as_uri())
        + _configuration(pipeline),
        "transformations/flows.py": _flows(pipeline),
    }
    if pipeline.views:
        names = ("source", *(view.name for view in pipeline.views))
        views = [f"CREATE TEMPORARY VIEW {v.name} AS\n{streamed(v.sql, names)};\n" for v in pipeline.views]
        files["transformations/views.sql"] = "\n".join(views)
    return files


def _check(pipeline: Pipeline) -> None:
    cure = "`rocketlake pipeline run` does it"
    if not pipeline.source.is_stream:
        raise UsageError("a batch source has no streaming flow", where=pipeline.source.where, hint=cure)
    for sink in pipeline.sinks.values():
        if sink.partition_by:
            raise UsageError(
                "a declarative sink has no `partitionBy`", where=sink.where, hint=f"use rocketmq_lake, or {cure}"
            )
        if sink.mode != "append" or sink.format in ("console", "memory"):
            raise UsageError("a declarative sink appends to a lasting table or topic", where=sink.where, hint=cure)


def _configuration(pipeline: Pipeline) -> str:
    lines = [f"  {key}: {value!r}\n" for key, value in pipeline.spark.items()]
    return "configuration:\n" + "".join(lines) if lines else ""


def streamed(sql: str, names: tuple[str, ...]) -> str:
    """The SQL with views read as streams: `from source` -> `FROM STREAM(source)`."""
    pattern = rf"\b(from|join)(\s+)({'|'.join(map(re.escape, names))})\b(?!\s*[.(])"
    return re.sub(pattern, r"\1\2STREAM(\3)", sql, flags=re.IGNORECASE)


def _flows(pipeline: Pipeline) -> str:
    parts = [_FLOWS.format(name=pipeline.name), _messages(pipeline), _source(pipeline)]
    parts += [_route(route, pipeline) for route in pipeline.routes]
    if pipeline.bad_rows is not None:
        parts.append(_bad_rows(pipeline, pipeline.bad_rows))
    return "\n\n".join(parts)


def _messages(pipeline: Pipeline) -> str:
    source = pipeline.source
    given = ""
    if source.schema and source.body != "json":
        given = f".schema({source.schema!r})"
    read = f"spark.readStream.format({source.format!r}){given}.options(**{_options(source.options)}).load()"
    text = f'@dp.temporary_view(name="messages")\ndef messages():\n    rows = {read}\n'
    if source.body == "raw":
        return text + "    return rows\n"
    reason = (
        'F.when(F.col("body").isNull() | (F.length("body") == 0), "body is empty")'
        '.when(~F.is_valid_utf8(F.col("body").cast("string")), "body is not UTF-8")'
    )
    if source.body == "text":
        return text + f'    return rows.withColumn("_bad", {reason})\n'
    schema = f"{source.schema}, _unread string"
    misfit = 'F.col("_event").isNull() | F.col("_event._unread").isNotNull()'
    return text + (
        f'    event = F.from_json(F.col("body").cast("string"), {schema!r}, {JSON_OPTIONS!r})\n'
        f'    rows = rows.withColumn("_event", event)\n'
        f'    reason = {reason}.when({misfit}, "body does not fit schema")\n'
        f'    return rows.withColumn("_bad", reason)\n'
    )


def _source(pipeline: Pipeline) -> str:
    source = pipeline.source
    text = '@dp.temporary_view(name="source")\ndef source():\n    rows = spark.readStream.table("messages")\n'
    if source.body == "raw":
        return text + _watermarked(pipeline)
    if pipeline.on_error == "fail":
        text += (
            '    refused = F.raise_error(F.concat(F.col("_bad"), F.lit(" at "), F.concat_ws("/", '
            f'{", ".join(map(repr, POSITION))}))).cast("boolean")\n'
            '    rows = rows.where(F.when(F.col("_bad").isNull(), F.lit(True)).otherwise(refused))\n'
        )
    else:
        text += '    rows = rows.where(F.col("_bad").isNull())\n'
    if source.body == "text":
        return (
            text
            + '    rows = rows.drop("_bad").withColumn("body", F.col("body").cast("string"))\n'
            + _watermarked(pipeline)
        )
    fields = field_names(source.schema)
    taken = {name.lower() for name in fields}
    columns = [f'F.col("_event").getField({name!r}).alias({name!r})' for name in fields]
    for name in _message_columns(source.options):
        columns.append(f'F.col({name!r}).alias("message_{name}")' if name.lower() in taken else f"F.col({name!r})")
    lines = "".join(f"        {column},\n" for column in columns)
    return text + f"    rows = rows.select(\n{lines}    )\n" + _watermarked(pipeline)


def _message_columns(options: Options) -> list[str]:
    names = chosen_schema(options.text("columns") or "full").fieldNames()
    if "properties" in names and options.text("includeProperties").lower() == "false":
        names.remove("properties")
    return names


def _watermarked(pipeline: Pipeline) -> str:
    if pipeline.source.watermark is None:
        return "    return rows\n"
    column, delay = pipeline.source.watermark
    return f"    return rows.withWatermark({column!r}, {delay!r})\n"


def _route(route: Route, pipeline: Pipeline) -> str:
    view = route.view or (pipeline.views[-1].name if pipeline.views else "source")
    condition = f".where({route.condition!r})" if route.condition else ""
    rows = f'spark.readStream.table("{view}"){condition}'
    return _flow(route.name, route.sink, f"    return {rows}\n")


def _bad_rows(pipeline: Pipeline, sink: Sink) -> str:
    bad = 'spark.readStream.table("messages").where(F.col("_bad").isNotNull())'
    if sink.format != "rocketmq":
        columns = ", ".join(f"F.col({name!r})" for name in (*MESSAGE_COLUMNS, "body"))
        return _flow(BAD_ROWS, sink, f'    return {bad}.select(F.col("_bad").alias("reason"), {columns})\n')
    entries = "".join(f', F.lit("dlq_{name}"), F.col({name!r}).cast("string")' for name in POSITION)
    body = 'F.when(F.length("body") > 0, F.col("body")).otherwise(F.lit(" ").cast("binary")).alias("body")'
    properties = f'F.create_map(F.lit("reason"), F.col("_bad"){entries}).alias("properties")'
    return _flow(BAD_ROWS, sink, f'    return {bad}.select({body}, "tags", "keys", {properties})\n')


def _flow(name: str, sink: Sink, body: str) -> str:
    word = re.sub(r"\W", "_", name)
    return (
        f'dp.create_sink("{word}_sink", {sink.format!r}, {_options(sink.options)})\n\n\n'
        f'@dp.append_flow(target="{word}_sink", name="{word}")\ndef {word}_rows():\n{body}'
    )


def _options(options: Options) -> str:
    return "{" + ", ".join(f"{name!r}: {_expression(value)}" for name, value in options.values.items()) + "}"


def _expression(text: str) -> str:
    """Python that gives the text, with references looked up when the pipeline runs: no secret gets into a file."""
    parts = re.split(r"(\$\{[^}]*\})", text)
    pieces = []
    for part in parts:
        found = references(part)
        if found:
            name, default = found[0]
            pieces.append(f"os.environ[{name!r}]" if default is None else f"os.environ.get({name!r}, {default!r})")
        elif part:
            pieces.append(repr(part))
    return " + ".join(pieces) or "''"


def field_names(schema: str) -> list[str]:
    """Names of the fields of a schema as SQL writes it: `id bigint, at struct<x: int>` -> id, at."""
    names, depth, word, is_quoted = [], 0, "", False
    for sign in schema + ",":
        is_quoted ^= sign == "`"
        depth += (sign in "<(") - (sign in ">)")
        if sign == "," and not depth and not is_quoted:
            names.append(_first_word(word.strip()))
            word = ""
        else:
            word += sign
    return [name for name in names if name]


def _first_word(field: str) -> str:
    quoted = re.match(r"`((?:[^`]|``)+)`", field)
    return quoted[1].replace("``", "`") if quoted else re.split(r"[\s:]", field, maxsplit=1)[0]
