"""The table of a folder, by its format.

Owns        format name -> class, the error for a missing package.
Must not know   how tables work.
"""

from __future__ import annotations

from pathlib import PurePath

from rocketlake.base.errors import UsageError
from rocketlake.spark.lake.tables.table import LakeTable
from rocketlake.spark.places.location import Location, place_of
from rocketlake.spark.places.place import Place

__all__ = ["open_table"]


def open_table(where: PurePath | Location | Place, table_format: str) -> LakeTable:
    """The table, without reading it. UsageError if the format's package is not installed."""
    place = place_of(where)
    try:
        if table_format == "delta":
            from rocketlake.spark.lake.tables.delta_table import DeltaLakeTable

            return DeltaLakeTable(place)
        if table_format == "iceberg":
            from rocketlake.spark.lake.tables.iceberg_table import IcebergLakeTable

            return IcebergLakeTable(place)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"tableFormat = {table_format} needs the package '{error.name}'", hint="pip install 'rocketlake[lake]'"
        ) from error
    from rocketlake.spark.lake.tables.parquet_table import ParquetTable

    return ParquetTable(place)
