"""Bodies that are changes of rows as Debezium writes them, in JSON.

Owns        the envelope: which image of a row counts, the order of changes at the source, what is no change of a row.
Must not know   columns of the row (json_declared.py), what a delete does to a table.

A tombstone (an empty body behind a delete) says nothing more than the delete, and is passed over. Truncates, changes of
the schema and rows that are not whole are bad records: a table would differ from its source without a word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType

from rocketlake.base.errors import UsageError
from rocketlake.spark.lake.bodies.json_declared import DeclaredJson
from rocketlake.spark.lake.bodies.parsed import Grow, Parsed, short

__all__ = ["CHANGE_OP", "CHANGE_VERSION", "DebeziumBodies"]

CHANGE_OP = "changeOp"
CHANGE_VERSION = "changeVersion"
_UNKNOWN = b'"__debezium_unavailable_value"'
_LONG_MAX = 2**63 - 1
_NONE = msgspec.Raw(b"null")
_POSITION_BITS = 36


class _Source(msgspec.Struct, gc=False):
    lsn: int | None = None
    scn: int | str | None = None
    file: str | None = None
    pos: int | None = None


class _Change(msgspec.Struct, gc=False):
    op: str | None = None
    before: msgspec.Raw = _NONE
    after: msgspec.Raw = _NONE
    source: _Source | None = None


class _Message(_Change, gc=False):
    payload: _Change | None = None


class DebeziumBodies:
    """Envelopes with or without their schemas; `ddl` names the members of a row that become columns."""

    def __init__(self, ddl: str) -> None:
        self._rows = DeclaredJson(ddl)
        own = [StructField(CHANGE_OP, StringType()), StructField(CHANGE_VERSION, LongType())]
        lower = {field.name.lower() for field in own}
        for field in self._rows.fields.fields:
            if field.name.lower() in lower:
                raise UsageError(
                    f"option 'bodySchema' has '{field.name}', which is what bodyFormat = debezium adds",
                    hint="leave that column out",
                )
        self.fields = StructType([*self._rows.fields.fields, *own])
        self._decoder = msgspec.json.Decoder(_Message)

    def parse(self, bodies: Sequence[bytes | None], grow: Grow) -> Parsed:
        """The row of each change, what was done to it, and when by the log of the source."""
        bad: dict[int, str] = {}
        skipped: set[int] = set()
        changes: list[tuple[int, _Change, bytes]] = []
        for number, body in enumerate(bodies):
            if body is None or body in (b"", b"null"):
                skipped.add(number)
                continue
            try:
                change = self._change(body)
                changes.append((number, change, _image(change)))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
                bad[number] = f"debezium: {short(error)}"
        parsed = self._rows.parse([image for _, _, image in changes], grow)
        bad.update({changes[place][0]: reason for place, reason in parsed.bad.items()})
        good = [change for place, (_, change, _) in enumerate(changes) if place not in parsed.bad]
        parsed.columns[CHANGE_OP] = pa.array([change.op for change in good], pa.string())
        parsed.columns[CHANGE_VERSION] = pa.array([_version(change.source) for change in good], pa.int64())
        return Parsed(parsed.columns, bad, skipped)

    def _change(self, body: bytes) -> _Change:
        message = self._decoder.decode(body)
        return message if message.payload is None else message.payload


def _image(change: _Change) -> bytes:
    """The row after the change, of a delete the row before it. ValueError for what is no change of a row."""
    if change.op not in ("c", "u", "r", "d"):
        raise ValueError(_reason(change.op))
    image = bytes(change.before if change.op == "d" else change.after)
    if image == b"null":
        raise ValueError(
            "the delete names no row (set REPLICA IDENTITY of the table at the source)"
            if change.op == "d"
            else f"a change '{change.op}' without 'after'"
        )
    if _UNKNOWN in image:
        raise ValueError("a column is not in the change (unchanged TOAST: set REPLICA IDENTITY FULL at the source)")
    return image


def _reason(op: str | None) -> str:
    if op is None:
        return "no change of a row: there is no 'op' (a change of the schema?)"
    return "the table was truncated at the source" if op == "t" else f"no change of a row: 'op' is '{op[:20]}'"


def _version(source: _Source | None) -> int | None:
    """The place in the source's log: PostgreSQL's lsn, Oracle's scn, MySQL's file and position; None for others."""
    if source is None:
        return None
    if source.lsn is not None:
        return source.lsn if 0 <= source.lsn <= _LONG_MAX else None
    if source.scn is not None:
        text = str(source.scn)
        return int(text) if text.isascii() and text.isdigit() and int(text) <= _LONG_MAX else None
    number = re.search(r"\.([0-9]{1,8})$", source.file or "")
    if number is None or source.pos is None or not 0 <= source.pos < 1 << _POSITION_BITS:
        return None
    return (int(number[1]) << _POSITION_BITS) | source.pos
