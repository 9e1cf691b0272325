"""Dead letters of invalid rows (onInvalidRow = dlq): in a topic, or as Parquet files in a folder or a bucket.

Owns        the content of a dead letter.
Must not know   why a row is invalid, how messages are sent.

A dead letter has the row's body as far as it fits. Properties give the reason (RL_REASON), the place of the row
(RL_POSITION: queryId/batchId/partitionId/row), its topic (RL_TOPIC) and the length of its body (RL_BODY_BYTES).
RocketMQ has no empty messages: a row without a body gives a dead letter with the body `-`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import UsageError
from rocketlake.codec import property_text
from rocketlake.codec.record_layout import BATCH_ENTRY_BYTES_MIN
from rocketlake.model.message import Message
from rocketlake.spark.places.location import Location
from rocketlake.spark.sink.faults import Fault
from rocketlake.spark.sink.identity import TaskIdentity

__all__ = ["DeadLetter", "as_message", "write_file", "write_object"]

NO_BODY = b"-"
SCHEMA = pa.schema(
    [
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("position", pa.string()),
        ("topic", pa.string()),
        ("body", pa.binary()),
    ]
)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One invalid row; `number` counts the rows of its task."""

    fault: Fault
    number: int
    topic: str
    body: bytes


def as_message(letter: DeadLetter, dlq_topic: str, identity: TaskIdentity, message_bytes_max: int) -> Message:
    """A dead letter for the topic, cut so that an entry of a batch holds it."""
    properties = {
        "RL_REASON": letter.fault.name,
        "RL_POSITION": f"{identity.key_prefix}{letter.number}",
        "RL_BODY_BYTES": str(len(letter.body)),
    }
    if letter.topic and not {"\x01", "\x02"} & set(letter.topic):
        properties["RL_TOPIC"] = letter.topic[:255]
    room = message_bytes_max - BATCH_ENTRY_BYTES_MIN - len(property_text.encode(properties))
    return Message(dlq_topic, letter.body[: max(room, 1)] or NO_BODY, properties=properties)


def write_file(folder: str, letters: list[DeadLetter], identity: TaskIdentity, files: Files | None = None) -> None:
    """The dead letters of a task as one file, whose name a repeated task uses again. UsageError if the write fails.

    The file and its name are on the disk on return: Spark never writes the batch again once it has noted its end.
    """
    disk = files or PosixFiles()
    path = Path(folder) / _file_name(identity)
    # Readers pass over this name until the file is whole; each attempt has a name of its own.
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        _make_folder(disk, path.parent)
        disk.write_bytes(fresh, _parquet(letters, identity))
        disk.rename(fresh, path)
        disk.sync_dir(path.parent)
    except OSError as error:
        raise UsageError(
            f"option 'dlqPath': {path} cannot be written: {error.strerror or error}",
            hint="give a folder that all workers see",
        ) from None


def write_object(location: Location, letters: list[DeadLetter], identity: TaskIdentity) -> None:
    """The same file as one object. StoreError if the store does not take it: Spark repeats the task."""
    place = location.open()
    place.put(place.path / _file_name(identity), _parquet(letters, identity))


def _file_name(identity: TaskIdentity) -> str:
    return f"dlq-{identity.key_prefix.replace('/', '-').rstrip('-')}.parquet"


def _parquet(letters: list[DeadLetter], identity: TaskIdentity) -> bytes:
    columns = [
        [letter.fault.name for letter in letters],
        [letter.fault.text for letter in letters],
        [f"{identity.key_prefix}{letter.number}" for letter in letters],
        [letter.topic for letter in letters],
        [letter.body for letter in letters],
    ]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, SCHEMA.types, strict=True)]
    whole = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), whole)
    data: bytes = whole.getvalue().to_pybytes()
    return data


def _make_folder(disk: Files, folder: Path) -> None:
    missing = [each for each in (folder, *folder.parents) if not disk.exists(each)]
    disk.make_dirs(folder)
    for each in missing:
        disk.sync_dir(each.parent)
