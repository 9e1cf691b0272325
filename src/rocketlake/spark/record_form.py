"""Records seen as columns: what both forms of it offer, and which one is taken here.

Owns        the questions that columns.py asks.
Must not know   how they are answered (columns_kernel.py, columns_numpy.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from rocketlake.base.pure_import import has_kernel
from rocketlake.spark.columns_numpy import NumpyForm

__all__ = ["Bools", "Form", "Ints", "best_form"]

Ints = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]


class Form(Protocol):
    """Records seen as columns. Nothing may be asked when `misfit`, the first record with wrong lengths, is not -1."""

    misfit: int
    has_inner_batches: bool

    def int32s(self, at: int, hosts: int) -> np.ndarray[Any, np.dtype[np.int32]]:
        """The int32 at position `at` behind so many hosts, of each record."""

    def int64s(self, at: int, hosts: int, factor: int = 1) -> Ints:
        """The int64 there, multiplied."""

    def crc_ok(self) -> Bools:
        """Does each body have its checksum?"""

    def body(self, row: int) -> bytes:
        """One body as it is stored."""

    def bodies(self, instead: dict[int, bytes | None]) -> pa.Array:
        """All bodies; for some rows others."""

    def is_text(self) -> bool:
        """Are topics and properties valid UTF-8? If not, the texts below may not be asked of this form."""

    def topics(self) -> pa.Array:
        """Topics."""

    def named(self, name: bytes) -> pa.Array | None:
        """The values of a property, the last if it is repeated; None if no record has it."""

    def maps(self) -> pa.Array:
        """All properties."""

    def message_ids(self, name: bytes) -> pa.Array:
        """This property, else the id made of store host and place; that id for all with an empty name."""

    def hosts(self, which: int) -> pa.Array:
        """Born hosts (0) or store hosts (1)."""


def _best_form() -> Callable[[bytes | bytearray | memoryview, Ints], Form]:
    if not has_kernel("rocketlake.codec.record_columns"):
        return NumpyForm
    from rocketlake.spark.columns_kernel import KernelForm

    return KernelForm


best_form = _best_form()
