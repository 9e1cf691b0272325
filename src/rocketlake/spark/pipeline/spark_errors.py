"""Errors of Spark, in words for a reader of the pipeline file.

Owns        finding the cause in a long Spark error: our own error's text, or Spark's error class and first line.
Must not know   the step that failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from rocketlake.base.errors import RocketLakeError, UsageError
from rocketlake.spark.pipeline.environment import Environment

__all__ = ["cause", "explained"]

_OURS = re.compile(r"rocketlake\.[a-z_.]*\.[A-Za-z]+(?:Error|Lost|Failed|NoRoute)?: (.+)")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] (.+)")
_RAISED = re.compile(r"\[USER_RAISED_EXCEPTION\] (.+)")
_CHARS_MAX = 600


def cause(error: BaseException) -> tuple[str, str]:
    """(what, cure) of an error of Spark's."""
    text = str(error)
    for pattern in (_OURS, _RAISED):
        found = pattern.findall(text)
        if found:
            what, _, cure = found[-1].partition(". Cure: ")
            return what[:_CHARS_MAX], cure[:_CHARS_MAX]
    conditions = [found for found in _CONDITION.findall(text) if found[0] not in _FRAMES]
    if conditions:
        name, words = conditions[0]
        return f"{words[:_CHARS_MAX]} ({name})", _CURES.get(name.partition(".")[0], "")
    lines = [line for line in text.strip().splitlines() if line.strip()] or [type(error).__name__]
    return lines[0][:_CHARS_MAX], ""


_FRAMES = ("STREAM_FAILED", "PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR", "PYTHON_DATA_SOURCE_ERROR")
_CURES = {
    "DATA_SOURCE_NOT_FOUND": "look at `format`; ours are rocketmq, rocketmq_store and rocketmq_lake",
    "UNRESOLVED_COLUMN": "the view `source` has the columns of the body and of the message",
    "TABLE_OR_VIEW_NOT_FOUND": "read from `source` or a view that stands above",
    "PARSE_SYNTAX_ERROR": "look at the SQL text",
    "STREAMING_OUTPUT_MODE": "a window over an event time column with `watermark`, or `mode: complete`",
}


@contextmanager
def explained(environment: Environment | None, where: str) -> Iterator[None]:
    """Turn errors of Spark inside the block into a UsageError that names the place in the file."""
    try:
        yield
    except RocketLakeError:
        raise
    except Exception as error:
        what, cure = cause(error)
        if environment is not None:
            what, cure = environment.hide(what), environment.hide(cure)
        raise UsageError(what, where=where, hint=cure) from None
