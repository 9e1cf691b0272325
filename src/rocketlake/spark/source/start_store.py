"""The store of a stream's first offsets, which Spark does not keep (tests/spark/test_facts.py).

Owns        the file form (option offsetStore; a disk or an object store) and the broker form (option consumerGroup).
Must not know   how first offsets are chosen, when they are needed (stream_reader.py).

First offsets are needed until the first batch stands in Spark's checkpoint: a query stopped before that asks again, and
must get the same answer. Afterwards the store forgets them, so that a new checkpoint really starts anew.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Protocol
from zlib import crc32

from rocketlake.base.disk.posix import PosixFiles
from rocketlake.base.disk.saved_json import load_text, save_text
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError, UsageError
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.places.place import Place
from rocketlake.spark.source.brokers import Brokers, keep_offsets, kept_offsets
from rocketlake.spark.source.folders import kept_location, local_folder
from rocketlake.spark.source.offsets import Offsets, from_nested, to_nested
from rocketlake.spark.source.options import SourceOptions

__all__ = ["BrokerStarts", "FileStarts", "NoStarts", "StartStore", "StoredStarts", "start_store"]


class StartStore(Protocol):
    """First offsets of one stream, kept over restarts."""

    name: str

    def load(self, queues: Collection[MessageQueue]) -> Offsets:
        """The offsets kept, at least for these queues; empty if there are none."""

    def save(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Keep the offsets; they are safe on return."""

    def forget(self, queues: Collection[MessageQueue]) -> None:
        """Forget the offsets: they are not needed any more."""


def start_store(options: SourceOptions, brokers: Brokers) -> StartStore:
    """The store that the options ask for: a folder, the brokers, or none."""
    if options.offset_store:
        location = kept_location("offsetStore", options.offset_store, options.store)
        return FileStarts(options, PosixFiles()) if location.is_local else StoredStarts(options, location.open())
    if options.consumer_group:
        return BrokerStarts(options, brokers)
    return NoStarts()


class NoStarts:
    """A stream that starts at earliest or at given offsets finds the same start again without a store."""

    name = "nowhere"

    def load(self, queues: Collection[MessageQueue]) -> Offsets:
        """Nothing is kept."""
        return {}

    def save(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Nothing is kept."""

    def forget(self, queues: Collection[MessageQueue]) -> None:
        """Nothing is kept."""


class FileStarts:
    """One small JSON file per choice of topics in the folder of option offsetStore."""

    def __init__(self, options: SourceOptions, files: Files) -> None:
        self._path = local_folder("offsetStore", options.offset_store) / _file_name(options)
        self._files = files
        self.name = f"file {self._path}"

    def load(self, queues: Collection[MessageQueue]) -> Offsets:
        """The file's offsets. Raises StoreError if the file cannot be read."""
        text = load_text(self._files, self._path)
        return _read(text, str(self._path)) if text else {}

    def save(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Replace the file as a whole."""
        self._files.make_dirs(self._path.parent)
        save_text(self._files, self._path, _text(offsets))

    def forget(self, queues: Collection[MessageQueue]) -> None:
        """Remove the file and the copy that save_text keeps."""
        for path in (self._path.with_name(self._path.name + ".bak"), self._path):
            if self._files.exists(path):
                self._files.remove(path)


class StoredStarts:
    """The same file as one object, which a store replaces as a whole."""

    def __init__(self, options: SourceOptions, place: Place) -> None:
        self._place = place
        self._path = place.path / _file_name(options)
        self.name = f"object {place.url(self._path)}"

    def load(self, queues: Collection[MessageQueue]) -> Offsets:
        """The object's offsets. Raises StoreError if it cannot be read."""
        text = self._place.get(self._path)
        return _read(text, self._place.url(self._path)) if text else {}

    def save(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Replace the object."""
        self._place.put(self._path, _text(offsets).encode())

    def forget(self, queues: Collection[MessageQueue]) -> None:
        """Remove the object."""
        self._place.delete([self._path])


def _file_name(options: SourceOptions) -> str:
    return f"first-offsets-{crc32(str(options.topics).encode()):08x}.json"


def _text(offsets: Mapping[MessageQueue, int]) -> str:
    return json.dumps({"offsets": to_nested(offsets)}, indent=1)


def _read(text: str | bytes, path: str) -> Offsets:
    try:
        return from_nested(json.loads(text)["offsets"])
    except (ValueError, KeyError, TypeError, UsageError) as error:
        raise StoreError(
            "the first offsets of this stream cannot be read",
            path=path,
            hint="remove the file and its .bak if the query never finished a batch; the start is then chosen anew",
        ) from error


class BrokerStarts:
    """Kept as consumer offsets of the group `<consumerGroup>_spark_start`.

    The broker keeps offset + 1, and 0 stands for "none": brokers before 5.0 answer 0 for a group they do not know.
    """

    def __init__(self, options: SourceOptions, brokers: Brokers) -> None:
        self._options = options
        self._brokers = brokers
        self._group = options.start_group
        self.name = f"consumer group {self._group}"

    def load(self, queues: Collection[MessageQueue]) -> Offsets:
        """The offsets that the brokers keep."""
        kept = self._brokers.run(kept_offsets(self._brokers, self._options, self._group, queues))
        return {queue: number - 1 for queue, number in kept.items() if number}

    def save(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Store, then read back: RocketMQ brokers do not say whether they kept an offset."""
        self._keep({queue: offset + 1 for queue, offset in offsets.items()})
        kept = self.load(offsets)
        if kept != dict(offsets):
            raise UsageError(
                f"the brokers did not keep the first offsets under {self.name}",
                hint="allow the group (autoCreateSubscriptionGroup = true, or create it), or use 'offsetStore'",
            )

    def forget(self, queues: Collection[MessageQueue]) -> None:
        """Overwrite with "none"."""
        self._keep(dict.fromkeys(queues, 0))

    def _keep(self, numbers: Mapping[MessageQueue, int]) -> None:
        self._brokers.run(keep_offsets(self._brokers, self._options, self._group, numbers))
