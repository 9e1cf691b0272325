"""Causes of Spark's errors, from texts as Spark writes them."""

from __future__ import annotations

import pytest

from rocketlake.base.errors import LinkError, UsageError
from rocketlake.spark.pipeline.environment import Environment
from rocketlake.spark.pipeline.spark_errors import cause, explained

OURS = """[STREAM_FAILED] Query [id = a, runId = b] terminated with exception: [PYTHON_DATA_SOURCE_ERROR] Failed
Traceback (most recent call last):
  File "stream_reader.py", line 3, in read
rocketlake.spark.source.losses.DataLoss: messages are gone: wanted offsets 5 to 9. Cure: 'failOnDataLoss' = false
 SQLSTATE: 38000"""
COLUMN = """[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `idd` cannot be resolved. SQLSTATE: 42703;
'Project ['idd]"""
RAISED = """[STREAM_FAILED] Query [id = a] terminated with exception: Job aborted due to stage failure: Task 0
org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] body is empty at t/b/0/5; `onError: skip`
\tat org.apache"""


def test_our_own_error_and_its_cure_are_found() -> None:
    assert cause(Exception(OURS)) == ("messages are gone: wanted offsets 5 to 9", "'failOnDataLoss' = false")


def test_spark_conditions_get_a_cure() -> None:
    what, cure = cause(Exception(COLUMN))
    assert what.startswith("A column with name `idd` cannot be resolved")
    assert what.endswith("(UNRESOLVED_COLUMN.WITH_SUGGESTION)")
    assert "source" in cure


def test_a_bad_row_is_named() -> None:
    assert cause(Exception(RAISED))[0] == "body is empty at t/b/0/5; `onError: skip`"


def test_anything_else_keeps_its_first_line() -> None:
    assert cause(ValueError("first\nsecond")) == ("first", "")
    assert cause(ValueError("")) == ("ValueError", "")


def test_errors_are_told_with_their_place_and_without_values_of_the_environment() -> None:
    environment = Environment({"KEY": "s3cr3t-value"})
    environment.fill("${KEY}", "")
    with pytest.raises(UsageError) as refused, explained(environment, "p.yaml, line 3"):
        raise ValueError("login with s3cr3t-value failed")
    assert refused.value.what == "login with ${KEY} failed"
    assert refused.value.where == "p.yaml, line 3"
    assert refused.value.__cause__ is None


def test_our_errors_pass_as_they_are() -> None:
    with pytest.raises(LinkError), explained(None, "p"):
        raise LinkError("gone")
