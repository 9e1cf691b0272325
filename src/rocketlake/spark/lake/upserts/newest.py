"""The newest row of each key, and the deletes that are remembered: plain Arrow.

Owns        reducing changes to one a key, laying them over the rows that are there.
Must not know   files, tables.

The result does not depend on the order in which changes come: of each key the row with the highest version stays. Of
two with the same version the one that was there first stays: it is the same change, come twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rocketlake.spark.lake.merge_rule import MergeRule

__all__ = ["DELETED", "Bucket", "deletes", "empty_graves", "laid_over", "newest"]

DELETED = "_rocketlake_deleted"
"""Column of staged changes: the row deletes its key."""

_DIED = "_rocketlake_died_ms"


@dataclass(frozen=True, slots=True)
class Bucket:
    """All that a table knows of the keys of one bucket. No key is in both."""

    rows: pa.Table
    graves: pa.Table
    """Deleted keys: the key columns, the version of the delete, and when it was stored."""


def empty_graves(rule: MergeRule, schema: pa.Schema) -> pa.Table:
    """No deletes."""
    return pa.schema([*_key_fields(rule, schema), pa.field(_DIED, pa.int64())]).empty_table()


def deletes(rule: MergeRule, rows: pa.RecordBatch) -> pa.Array:
    """True for each row that deletes its key."""
    if not rule.delete_column:
        return pa.repeat(pa.scalar(False), len(rows))
    column = rows.column(rows.schema.get_field_index(rule.delete_column))
    if rule.delete_value is not None:
        column = pc.equal(pc.cast(column, pa.string()), rule.delete_value)
    return pc.fill_null(column, False)


def newest(rule: MergeRule, changes: pa.Table) -> pa.Table:
    """One change a key."""
    keys = _key(rule, changes)
    keys = pc.dictionary_encode(keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys).indices
    codes = keys.to_numpy(zero_copy_only=False)
    order = np.lexsort((-np.arange(len(codes)), _versions(rule, changes), codes))
    sorted_codes = codes[order]
    is_last = np.append(sorted_codes[1:] != sorted_codes[:-1], True)[: len(codes)]
    return changes.take(pa.array(np.sort(order[is_last])))


def laid_over(rule: MergeRule, bucket: Bucket, changes: pa.Table, now_ms: int) -> Bucket | None:
    """The bucket with these changes, one a key; None if all of them are old. Deletes are forgotten past retention."""
    changed = _key(rule, changes)
    versions = _versions(rule, changes)
    wins = np.ones(len(changes), bool)
    met = []
    for known in (bucket.rows, bucket.graves):
        places = pc.index_in(_key(rule, known), value_set=changed)
        here = np.flatnonzero(pc.is_valid(places).to_numpy())
        change = pc.drop_null(places).to_numpy()
        wins[change[versions[change] <= _versions(rule, known)[here]]] = False
        met.append((here, change))
    if not wins.any():
        return None
    rows, graves = (
        _without(known, here[wins[change]])
        for known, (here, change) in zip((bucket.rows, bucket.graves), met, strict=True)
    )
    changes = changes.filter(pa.array(wins))
    gone = changes.column(DELETED)
    rows = pa.concat_tables([rows, changes.filter(pc.invert(gone)).select(rows.column_names)])
    dead = changes.filter(gone).select([*rule.keys, rule.version])
    dead = dead.append_column(_DIED, pa.array(np.full(len(dead), now_ms, np.int64)))
    graves = pa.concat_tables([graves, dead.select(graves.column_names)])
    return Bucket(rows, graves.filter(pc.greater(graves.column(_DIED), now_ms - rule.retention_ms)))


def _without(known: pa.Table, places: NDArray[np.int64]) -> pa.Table:
    stays = np.ones(len(known), bool)
    stays[places] = False
    return known.filter(pa.array(stays))


def _key_fields(rule: MergeRule, schema: pa.Schema) -> list[pa.Field]:
    return [schema.field(name) for name in (*rule.keys, rule.version)]


def _versions(rule: MergeRule, rows: pa.Table) -> NDArray[np.int64]:
    versions: NDArray[np.int64] = pc.cast(rows.column(rule.version), pa.int64()).to_numpy()
    return versions


def _key(rule: MergeRule, rows: pa.Table) -> pa.ChunkedArray:
    """One column: the key, or the texts of its parts with a mark between that no part has."""
    if len(rule.keys) == 1:
        return rows.column(rule.keys[0])
    texts = [pc.cast(rows.column(name), pa.string()) for name in rule.keys]
    plain = [pc.replace_substring(pc.replace_substring(text, "\x1e", "\x1e0"), "\x1f", "\x1e1") for text in texts]
    return pc.binary_join_element_wise(*plain, "\x1f")
