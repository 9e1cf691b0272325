"""An SQL92 expression on stored records.

Owns        reading the properties that an expression looks at, and no others, from a record's bytes.
Must not know   queues, files, requests.

A compiled twin; see docs/internals/compiled_twins.md.
"""

from __future__ import annotations

from rocketlake.codec.property_text import decode, find
from rocketlake.codec.record_parts import properties_block
from rocketlake.filter import sql_tree as tree
from rocketlake.filter.sql_evaluate import test_of

__all__ = ["RecordTest"]

_TRUE = tree.TRUE
_NAMES_FOUND_MAX = 3
"""Up to so many properties are searched for one by one; with more of them, reading all properties is cheaper."""


class RecordTest:
    """One expression, ready for many records."""

    __slots__ = ("_names", "_test")

    def __init__(self, expression: tree.Expression) -> None:
        self._test = test_of(expression.condition)
        names = sorted(expression.names)
        self._names = [(name, name.encode()) for name in names] if len(names) <= _NAMES_FOUND_MAX else []

    def matches(self, record: memoryview) -> bool:
        """True if the record passes the filter."""
        block = properties_block(record)
        if not self._names:
            return self._test.decide(decode(block)) == _TRUE
        properties = {}
        for name, wanted in self._names:
            value = find(block, wanted)
            if value is not None:
                properties[name] = str(value, "utf-8", "replace")
        return self._test.decide(properties) == _TRUE
