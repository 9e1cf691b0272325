"""Records seen as columns: the methods of both forms, and the choice of the form for this machine.

Owns        the protocol between columns.py and a form.
Must not know   how a form reads records (columns_kernel.py, columns_numpy.py).
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
    """Records seen as columns. Unless `misfit`, the first record with wrong lengths, is -1, no method may be called."""

    misfit: int
    has_inner_batches: bool

    def int32s(self, at: int, hosts: int) -> np.ndarray[Any, np.dtype[np.int32]]:
        """The int32 at position `at` behind so many hosts, of each record."""

    def int64s(self, at: int, hosts: int) -> Ints:
        """The int64 at position `at`."""

    def crc_ok(self) -> Bools:
        """True for each record whose body matches its checksum."""

    def body(self, row: int) -> bytes:
        """One body as it is stored."""

    def bodies(self, instead: dict[int, bytes | None]) -> pa.Array:
        """All bodies, with other bodies for some rows."""

    def is_text(self) -> bool:
        """True if topics and properties are valid UTF-8; otherwise the text methods below may not be called."""

    def topics(self) -> pa.Array:
        """Topics."""

    def named(self, name: bytes) -> pa.Array | None:
        """The values of a property, the last if it is repeated; None if no record has it."""

    def maps(self) -> pa.Array:
        """All properties."""

    def message_ids(self, name: bytes) -> pa.Array:
        """The value of this property, else the id made of store host and physical offset.

        Empty name: that id for all.
        """

    def hosts(self, which: int) -> pa.Array:
        """Born hosts (0) or store hosts (1)."""


def _best_form() -> Callable[[bytes | bytearray | memoryview, Ints], Form]:
    if not has_kernel("rocketlake.codec.record_columns"):
        return NumpyForm
    from rocketlake.spark.columns_kernel import KernelForm

    return KernelForm


best_form = _best_form()
