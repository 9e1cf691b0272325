"""Options of a table made with CREATE TABLE ... USING: Spark tells a source these options only once, at that time.

Owns        keeping the options in the table's schema, from which every later read takes them.
Must not know   the meaning of options.

When a table is made, Spark hands over each option twice (`x` and `option.x`) among the table's properties. When it is
read, a Python source gets the schema that the catalogue keeps, and no options at all (tests/spark/test_facts.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType

from rocketlake.spark.option_values import options_of_new_table

__all__ = ["carried_options", "carry_options"]

_KEY = "rocketlake.options"


def carry_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The schema with the options of a new table in the metadata of its first column."""
    carried = options_of_new_table(options)
    if not carried or not schema.fields:
        return schema
    first, *others = schema.fields
    metadata = {_KEY: json.dumps(carried, sort_keys=True)}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


def carried_options(schema: StructType, options: Mapping[str, str]) -> dict[str, str]:
    """The options of a read: those the table was made with, under those of the query itself."""
    kept = next((field.metadata[_KEY] for field in schema.fields if _KEY in field.metadata), "{}")
    own = options_of_new_table(options) or dict(options)
    lower = {name.lower() for name in own}
    return {name: value for name, value in json.loads(kept).items() if name.lower() not in lower} | own
