"""Column lists as Spark writes them, `id bigint, items array<struct<sku: string, n: int>>`, read without a JVM.

Owns        the grammar. Spark's own reader lives in the JVM, which neither a Spark task nor the command line has.
Must not know   the use of the columns.
"""

from __future__ import annotations

import re

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from rocketlake.base.errors import UsageError

__all__ = ["parse_ddl"]

_NAMED: dict[str, type[DataType]] = {
    "boolean": BooleanType,
    "tinyint": ByteType,
    "byte": ByteType,
    "smallint": ShortType,
    "short": ShortType,
    "int": IntegerType,
    "integer": IntegerType,
    "bigint": LongType,
    "long": LongType,
    "float": FloatType,
    "real": FloatType,
    "double": DoubleType,
    "string": StringType,
    "binary": BinaryType,
    "date": DateType,
    "timestamp": TimestampType,
    "timestamp_ltz": TimestampType,
    "timestamp_ntz": TimestampNTZType,
}
_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|('(?:[^'\\]|\\.)*')|(\w+)|([<>(),:]))")
_DEPTH_MAX = 50


def parse_ddl(text: str) -> StructType:
    """The columns. UsageError names the error and its place."""
    return _Reader(text).columns()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._next()

    def columns(self) -> StructType:
        fields = self._fields(end="")
        if not fields:
            raise self._wrong("a column")
        return StructType(fields)

    def _next(self) -> None:
        self._start = self._at
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            if self._text[self._at :].strip():
                raise self._wrong("a name or a type")
            self._token = ""
            return
        self._at = match.end()
        self._start = match.start(match.lastindex or 0)
        self._token = match[match.lastindex or 0]

    def _wrong(self, wanted: str) -> UsageError:
        found = self._text[self._start : self._start + 20].strip() or "the end"
        return UsageError(
            f"the column list expects {wanted} at character {self._start + 1}, and there is '{found}'",
            hint="write it like id bigint, price double, items array<struct<sku: string, n: int>>",
        )

    def _take(self, token: str) -> bool:
        if self._token.lower() != token:
            return False
        self._next()
        return True

    def _need(self, token: str) -> None:
        if not self._take(token):
            raise self._wrong(f"'{token}'")

    def _name(self) -> str:
        token = self._token
        if not (token.startswith("`") or re.fullmatch(r"\w+", token)):
            raise self._wrong("a name")
        self._next()
        return token[1:-1].replace("``", "`") if token.startswith("`") else token

    def _fields(self, end: str) -> list[StructField]:
        fields: list[StructField] = []
        while self._token != end:
            name = self._name()
            self._take(":")
            fields.append(StructField(name, self._type(), nullable=True))
            if self._take("not"):
                self._need("null")
            if self._take("comment"):
                if not self._token.startswith("'"):
                    raise self._wrong("a text in quotes")
                self._next()
            if self._token == end:
                break
            self._need(",")
            if self._token == end:
                raise self._wrong("a column")
        return fields

    def _type(self) -> DataType:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise self._wrong("fewer types inside types")
        word = self._token.lower()
        kind: DataType
        if word == "array":
            kind = ArrayType(self._inside(1)[0])
        elif word == "map":
            key, value = self._inside(2)
            kind = MapType(key, value)
        elif word == "struct":
            self._next()
            self._need("<")
            kind = StructType(self._fields(end=">"))
            self._need(">")
        elif word in ("decimal", "dec", "numeric"):
            kind = self._decimal()
        elif word in _NAMED:
            self._next()
            kind = _NAMED[word]()
        else:
            raise self._wrong("a type")
        self._depth -= 1
        return kind

    def _inside(self, count: int) -> list[DataType]:
        self._next()
        self._need("<")
        kinds = [self._type()]
        while len(kinds) < count:
            self._need(",")
            kinds.append(self._type())
        self._need(">")
        return kinds

    def _decimal(self) -> DecimalType:
        self._next()
        if not self._take("("):
            return DecimalType(10, 0)
        precision, scale = self._number(), 0
        if self._take(","):
            scale = self._number()
        self._need(")")
        if not 1 <= precision <= 38 or scale > precision:
            raise self._wrong("a decimal of 1 to 38 digits")
        return DecimalType(precision, scale)

    def _number(self) -> int:
        token = self._token
        if not (token.isascii() and token.isdigit()):
            raise self._wrong("a number")
        self._next()
        return int(token)
