"""Errors of Spark, in words for a reader of the pipeline file.

Owns        finding the cause in a long Spark error: our own error's text, or Spark's error class and first line.
Must not know   the step that failed.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager

from rocketlake.base.errors import RocketLakeError, UsageError
from rocketlake.spark.pipeline.environment import Environment
from rocketlake.spark.pipeline.model import Options, View

__all__ = ["cause", "explained", "explained_sql"]

_OURS = re.compile(r"rocketlake\.[a-z_.]*\.[A-Za-z]+(?:Error|Lost|Failed|NoRoute)?: (.+)")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] (.+)")
_OPTION = re.compile(r"\boption '([A-Za-z0-9.]+)'")
_AT = re.compile(r"\bline (\d+),? pos (\d+)")
_AT_IN_TEXT = re.compile(r"; line \d+,? pos \d+;?| \(line \d+,? pos \d+\)")
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
def explained(environment: Environment | None, where: str, options: Options | None = None) -> Iterator[None]:
    """Turn errors of Spark inside the block into a UsageError that names the place in the file.

    The place is `where`, or the line of the one of `options` that the error names.
    """
    try:
        yield
    except Exception as error:
        what, cure = (error.what, error.hint) if isinstance(error, RocketLakeError) else cause(error)
        if isinstance(error, RocketLakeError) and (error.where or not isinstance(error, UsageError)):
            raise
        named = _OPTION.search(what)
        if named and options is not None:
            where = options.place(named[1], where)
        if environment is not None:
            what, cure = environment.hide(what), environment.hide(cure)
        raise UsageError(what, where=where, hint=cure) from None


@contextmanager
def explained_sql(view: View) -> Iterator[None]:
    """The same for the SQL text of a view: the place is the line that Spark names."""
    try:
        with explained(None, view.where):
            yield
    except UsageError as error:
        place = _AT.search(str(error.__context__)) if error.where == view.where else None
        if place is None:
            raise
        what = _AT_IN_TEXT.sub("", error.what)
        raise UsageError(what, where=_where(view, int(place[1]), int(place[2])), hint=error.hint) from None


def _where(view: View, line: int, column: int) -> str:
    """The line in the file of a place in the SQL text, found again by what stands before it."""
    before = [*view.sql.split("\n")[: line - 1], *(part[:column] for part in view.sql.split("\n")[line - 1 : line])]
    count = len("".join("".join(before).split()))
    file, _, first = view.where.rpartition(" ")
    return f"{file} {int(first) + bisect_right(view.line_ends[:-1], count)}"
