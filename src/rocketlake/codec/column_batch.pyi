from collections.abc import Sequence
from typing import Any

__all__ = ["ColumnBatch"]

Column = tuple[Any, Any, Any, int]
Properties = tuple[tuple[Any, Any, int], Column, Any, Sequence[bytes], bytes]

class ColumnBatch:
    rows: int
    faults: bytes
    def __init__(
        self,
        rows: int,
        body: Column | None,
        tags: Column | None,
        keys: Column | None,
        sharding: Column | None,
        properties: Properties | None,
        body_bytes_max: int,
        properties_bytes_max: int,
        row_key_bytes: int,
    ) -> None: ...
    def encode(
        self,
        rows: Any,
        start: int,
        bytes_max: int,
        count_max: int,
        unique_prefix: bytes,
        key_prefix: bytes,
        first_number: int,
    ) -> tuple[bytes, int]: ...
