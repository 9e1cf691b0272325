"""What Spark relies on: names of parameters, what can be sent between processes, what a commit does."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from rocketlake.base.errors import UsageError
from rocketlake.spark.data_source import RocketMQDataSource
from rocketlake.spark.sink.counts import Counts, TaskDone
from rocketlake.spark.sink.identity import TaskIdentity
from rocketlake.spark.sink.writers import RocketMQStreamWriter, RocketMQWriter

BODY = StructType([StructField("body", StringType())])
OPTIONS = {"namesrvAddr": "a:1", "topic": "T"}


def source(**options: str) -> RocketMQDataSource:
    return RocketMQDataSource(OPTIONS | options)


@pytest.mark.parametrize("name", ["writer", "streamWriter"])
def test_parameters_have_sparks_names(name: str) -> None:
    """Spark calls these with keywords when it commits."""
    ours, theirs = getattr(RocketMQDataSource, name), getattr(DataSource, name)
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)


def test_a_write_is_planned_from_options_and_columns() -> None:
    assert isinstance(source().writer(schema=BODY, overwrite=False), RocketMQWriter)
    assert isinstance(source().streamWriter(schema=BODY, overwrite=True), RocketMQStreamWriter)
    with pytest.raises(UsageError, match=r"cannot be overwritten.*append"):
        source().writer(schema=BODY, overwrite=True)
    with pytest.raises(UsageError, match="no column 'body'"):
        source().writer(schema=StructType([StructField("keys", StringType())]), overwrite=False)
    with pytest.raises(UsageError, match="column 'id' is not known"):
        source().streamWriter(schema=StructType([*BODY.fields, StructField("id", IntegerType())]), overwrite=False)
    with pytest.raises(UsageError, match="for batch writes"):
        source(producerId="p", batchId="1").streamWriter(schema=BODY, overwrite=False)


def test_writers_and_messages_go_between_processes() -> None:
    from pyspark.serializers import CloudPickleSerializer

    serializer = CloudPickleSerializer()
    for writer in (source().writer(BODY, False), source().streamWriter(BODY, False)):
        again = serializer.loads(serializer.dumps(writer))
        assert vars(again) == vars(writer), "the one that writes must be known as the one that planned"
    done = TaskDone(TaskIdentity("q", 1, 2), Counts(rows=3, faults={"NO_BODY": 1}))
    assert serializer.loads(serializer.dumps(done)) == done


def test_each_batch_write_has_a_name_of_its_own_unless_it_was_given_one() -> None:
    names = {vars(source().writer(BODY, False))["_query"] for _ in range(2)}
    assert len(names) == 2
    assert vars(source(producerId="p", batchId="4").writer(BODY, False))["_query"] == "p"


def test_a_commit_counts_and_an_abort_does_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "progress"
    messages = [TaskDone(TaskIdentity("q", 1, task), Counts(rows=3, messages=3)) for task in range(2)]
    source(progressPath=str(path)).streamWriter(BODY, False).commit([*messages, None], batchId=1)
    source(progressPath=str(path)).streamWriter(BODY, False).abort([messages[0], None], batchId=1)
    source(progressPath=str(path)).writer(BODY, False).abort([None])
    (line,) = path.read_text().splitlines()
    assert (json.loads(line)["messages"], json.loads(line)["tasks"]) == (6, 2)
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "rocketmq sink: the write failed, 3 messages of it are stored"
    ]


def test_rows_are_written_inside_of_tasks_only() -> None:
    for writer in (source().writer(BODY, False), source().streamWriter(BODY, False)):
        with pytest.raises(UsageError, match="inside of a Spark task"):
            writer.write(iter(()))
