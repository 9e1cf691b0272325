"""The table of a folder, by its format.

Owns        format name -> class, the error for a missing package.
Must not know   how tables work.
"""

from __future__ import annotations

from pathlib import Path

from rocketlake.base.errors import UsageError
from rocketlake.spark.lake.tables.table import LakeTable

__all__ = ["open_table"]


def open_table(path: Path, table_format: str) -> LakeTable:
    """The table, without reading it. UsageError if the format's package is not installed."""
    try:
        if table_format == "delta":
            from rocketlake.spark.lake.tables.delta_table import DeltaLakeTable

            return DeltaLakeTable(path)
        if table_format == "iceberg":
            from rocketlake.spark.lake.tables.iceberg_table import IcebergLakeTable

            return IcebergLakeTable(path)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"tableFormat = {table_format} needs the package '{error.name}'", hint="pip install 'rocketlake[lake]'"
        ) from error
    from rocketlake.spark.lake.tables.parquet_table import ParquetTable

    return ParquetTable(path)
