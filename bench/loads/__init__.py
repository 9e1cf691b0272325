"""One module per kind of load. Owns: what is driven, how, and which figures it has to reach (issue of the hot path)."""

from __future__ import annotations

from bench.loads import batch, open_loop, producer
from bench.plan import Load

LOADS: tuple[Load, ...] = (*producer.LOADS, *batch.LOADS, *open_loop.LOADS)
"""All, in the order they run: a later one may use the rates of an earlier one."""
