"""Pipeline files: what they mean, and that every mistake is named with its line and a cure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.spark.pipeline.model import Pipeline
from rocketlake.spark.pipeline.read import read_pipeline

Read = Callable[[str], Pipeline]

WHOLE = """\
    # Orders by city.
    source:
      namesrvAddr: ${NAMESRV}
      subscribe: [orders, returns]
      startingOffsets: {orders: earliest, returns: latest}
      body: json
      schema: id bigint, at timestamp
      watermark: at 10 minutes
    transform:
      valid: select * from source where id > 0;
      hours: select window(at, '1 hour') as hour, count(*) as n from valid group by 1
    sink: {format: parquet, path: /lake/hours, partitionBy: [hour], mode: append, compression: zstd}
    onError:
      dlq: {format: parquet, path: /lake/bad}
    trigger: 5 seconds
    spark: {spark.sql.shuffle.partitions: 4}
    """


def test_a_whole_pipeline(read: Read, tmp_path: Path) -> None:
    pipeline = read(WHOLE)
    assert pipeline.name == "orders"
    source = pipeline.source
    assert (source.format, source.body, source.schema) == ("rocketmq", "json", "id bigint, at timestamp")
    assert source.watermark == ("at", "10 minutes")
    assert source.options.values == {
        "namesrvAddr": "${NAMESRV}",
        "subscribe": "orders,returns",
        "startingOffsets": '{"orders": "earliest", "returns": "latest"}',
    }
    assert [view.name for view in pipeline.views] == ["valid", "hours"]
    assert pipeline.views[0].sql == "select * from source where id > 0"
    (route,) = pipeline.routes
    assert (route.name, route.sink.partition_by, route.sink.mode) == ("main", ("hour",), "append")
    assert route.sink.options.values == {"path": "/lake/hours", "compression": "zstd"}
    assert pipeline.on_error == "dlq"
    assert set(pipeline.sinks) == {"main", "dlq"}
    assert pipeline.checkpoint == str(tmp_path / ".rocketlake" / "orders")
    assert pipeline.spark == {"spark.sql.shuffle.partitions": "4"}


def test_the_least_pipeline(read: Read) -> None:
    pipeline = read("source: {namesrvAddr: a:1, subscribe: t}\nsink: {format: console}\n")
    assert pipeline.source.body == "raw"
    assert pipeline.on_error == "fail"
    assert pipeline.source.is_stream


def test_a_batch_format_is_read_as_a_batch(read: Read) -> None:
    pipeline = read("source: {format: parquet, read: batch, path: /x}\nsink: {format: console}\n")
    assert not pipeline.source.is_stream


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("sourc: {subscribe: t}\n", 1, "no key 'sourc'.*did you mean 'source'"),
        ("source: {subscribe: t}\n", 1, "no `sink`"),
        ("sink: {format: console}\n", 1, "no `source`"),
        ("source:\n  subscribe: t\n  bodyy: json\nsink: {format: console}\n", 3, "did you mean 'body'"),
        ("source:\n  maxOffsetPerTrigger: 5\nsink: {format: console}\n", 2, "did you mean 'maxOffsetsPerTrigger'"),
        ("source:\n  kafka.bootstrap.servers: x\nsink: {format: console}\n", 2, "namesrvAddr"),
        ("source: {subscribe: t}\nsink:\n  format: parquett\n", 3, "did you mean 'parquet'"),
        ("source: {subscribe: t}\nsink:\n  format: parquet\n  partitonBy: a\n", 4, "did you mean 'partitionBy'"),
        ("source: {subscribe: t, body: json}\nsink: {format: console}\n", 1, "needs a `schema`"),
        ("source: {subscribe: t}\nsink: {format: console, mode: appendd}\n", 2, "one of append, complete, update"),
        ("source: {subscribe: t, schema: a int}\nsink: {format: console}\n", 1, "JSON body"),
        ("source: {subscribe: t}\nonError: ignore\nsink: {format: console}\n", 2, "fail, skip"),
        ("source: {subscribe: t}\nonError: {dlq: {format: console}}\nsink: {format: console}\n", 2, "never bad"),
        ("source: {subscribe: t}\ntrigger: often\nsink: {format: console}\n", 2, "5 seconds"),
        ("source: {subscribe: t, watermark: at}\nsink: {format: console}\n", 1, "at 10 minutes"),
        ("source: {subscribe: t}\ntransform:\n  source: select 1\nsink: {format: console}\n", 3, "no name for a view"),
        ("source: {subscribe: t}\ntransform: [select 1]\nsink: {format: console}\n", 2, "not SQL"),
        ("source: {subscribe: t}\ntransform: select '${X}'\nsink: {format: console}\n", 2, "plans and logs"),
        ("source: {subscribe: t}\nspark: {sql.x: 1}\nsink: {format: console}\n", 2, "spark.sql.x"),
        ("source: {subscribe: t}\nname: a/b\nsink: {format: console}\n", 2, "no name for a pipeline"),
        ("source: t\nsink: {format: console}\n", 1, "not a mapping"),
        ("source: {subscribe: t}\nroute: []\n", 2, "not a list of 1"),
        ("source: {subscribe: t}\nroute:\n- sink: {format: console}\n", 3, "which rows"),
        ("source: {subscribe: t}\nroute:\n- match: {tags: A}\n", 3, "no `sink`"),
        ("source: {subscribe: t}\nroute:\n- {where: a, from: v, sink: {format: console}}\n", 3, "views: source"),
        ("source: {subscribe: t}\nroute:\n- {wher: a, sink: {format: console}}\n", 3, "did you mean 'where'"),
    ],
)
def test_mistakes_are_named_with_line_and_cure(read: Read, text: str, line: int, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(text)
    assert refused.match(f"(?s){words}")
    assert refused.value.where == f"orders.yaml, line {line}"
    assert refused.value.hint


def test_a_checkpoint_may_lie_elsewhere(read: Read, tmp_path: Path) -> None:
    rest = "source: {subscribe: t}\nsink: {format: console}\n"
    assert read("checkpoint: cp\n" + rest).checkpoint == str(tmp_path / "cp")
    assert read("checkpoint: /data/cp\n" + rest).checkpoint == "/data/cp"
    assert read("checkpoint: s3a://b/cp\n" + rest).checkpoint == "s3a://b/cp"
    assert read("checkpoint: ${CP}/x\n" + rest).checkpoint == "${CP}/x"


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_pipeline(tmp_path / "none.yaml")
