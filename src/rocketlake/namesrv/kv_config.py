"""Key-value settings that the name server keeps for its cluster.

Owns        namespaces, keys, values, kvConfig.json.
Must not know   requests, the meaning of a value.

The one namespace RocketMQ itself uses is ORDER_TOPIC_CONFIG: topic -> "broker:queues;broker:queues".
"""

from __future__ import annotations

from pathlib import Path

from rocketlake.base.disk.saved_json import load_text, save_text
from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import StoreError, UsageError
from rocketlake.base.java.json_text import parse, to_text

__all__ = ["ORDER_TOPIC_CONFIG", "VALUES_MAX", "VALUE_CHARS_MAX", "KVConfig"]

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
VALUES_MAX = 10_000
VALUE_CHARS_MAX = 65_536


class KVConfig:
    """Values by namespace and key, saved at each change."""

    def __init__(self, path: Path, files: Files) -> None:
        self._path = path
        self._files = files
        self._namespaces: dict[str, dict[str, str]] = {}

    def load(self) -> None:
        """Read kvConfig.json; a missing file is an empty table. StoreError if it cannot be read."""
        text = load_text(self._files, self._path)
        if text is None:
            return
        try:
            table = parse(text).get("configTable") or {}
            self._namespaces = {
                namespace: {key: str(value) for key, value in values.items()} for namespace, values in table.items()
            }
        except (ValueError, AttributeError) as error:
            raise StoreError(
                f"KV settings cannot be read: {error}",
                path=str(self._path),
                hint="repair the file, or move it away to start without KV settings",
            ) from error

    def get(self, namespace: str, key: str) -> str | None:
        """One value."""
        return self._namespaces.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """All values of a namespace (a copy); None if there is no such namespace."""
        values = self._namespaces.get(namespace)
        return None if values is None else dict(values)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set one value and save. UsageError when there are too many: any client may set values."""
        self.load()  # another name server of this machine may use the same file
        if sum(map(len, self._namespaces.values())) >= VALUES_MAX and self.get(namespace, key) is None:
            raise UsageError(f"there are {VALUES_MAX} KV settings already", hint="delete values that no client needs")
        if len(value) > VALUE_CHARS_MAX or len(key) + len(namespace) > VALUE_CHARS_MAX:
            raise UsageError(f"a KV setting longer than {VALUE_CHARS_MAX} characters")
        self._namespaces.setdefault(namespace, {})[key] = value
        self._save()

    def delete(self, namespace: str, key: str) -> None:
        """Remove one value and save; nothing happens if it is not there."""
        self.load()
        values = self._namespaces.get(namespace)
        if values is not None and values.pop(key, None) is not None:
            self._save()

    def _save(self) -> None:
        save_text(self._files, self._path, to_text({"configTable": self._namespaces}).decode())
