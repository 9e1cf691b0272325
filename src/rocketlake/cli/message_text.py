"""A message as a line for people and as a JSON object for programs.

Owns        what is shown of a message.
Must not know   single commands.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rocketlake.admin.messages.place import place_of
from rocketlake.cli.output import text_line
from rocketlake.cli.table import Moment

if TYPE_CHECKING:
    from rocketlake.model.message import StoredMessage

__all__ = ["details", "everything", "json_line", "marks_of", "message_line", "message_object"]


def message_line(message: StoredMessage) -> str:
    """Time, place, tag, key, properties, body."""
    named = " ".join(f"{name}={value}" for name, value in _user_properties(message).items())
    between = f" [{named}]" if named else ""
    return f"{Moment(message.store_ms)} {place_of(message)}{marks_of(message)}{between}  {text_line(message.body)}"


def details(message: StoredMessage) -> str:
    """One line for each thing that is known of the message, the body last."""
    return "\n".join(f"{name:<12}{value}" for name, value in _details(message))


def _details(message: StoredMessage) -> Iterator[tuple[str, object]]:
    from rocketlake.model.property_names import KEYS, TAGS, UNIQUE_KEY

    yield "id", message.message_id
    yield "topic", message.topic
    yield "place", place_of(message)
    yield "offset id", message.offset_message_id
    yield "stored", f"{Moment(message.store_ms)} at {_host(message.store_host)}"
    yield "born", f"{Moment(message.born_ms)} at {_host(message.born_host)}"
    for name, value in (("tag", message.tags), ("keys", message.keys), ("retries", message.reconsume_times or None)):
        if value is not None:
            yield name, value
    for name, value in sorted(message.properties.items()):
        if name not in (TAGS, KEYS, UNIQUE_KEY):
            yield "property", f"{name}={value}"
    yield "body", text_line(message.body)


def everything(message: StoredMessage) -> dict[str, object]:
    """What `details` shows, as a JSON object."""
    own = _user_properties(message)
    return message_object(message) | {
        "offset_id": message.offset_message_id,
        "stored_at": _host(message.store_host),
        "born": Moment(message.born_ms).to_json(),
        "born_at": _host(message.born_host),
        "retries": message.reconsume_times,
        "system": {name: value for name, value in message.properties.items() if name not in own},
    }


def _host(host: tuple[str, int]) -> str:
    return f"{host[0]}:{host[1]}"


def marks_of(message: StoredMessage) -> str:
    """Its tag and keys, each behind a blank; "" without them."""
    return "".join(f" {name}={value}" for name, value in (("tag", message.tags), ("key", message.keys)) if value)


def json_line(value: dict[str, object]) -> str:
    """One object on one line."""
    return json.dumps(value, ensure_ascii=False)


def message_object(message: StoredMessage) -> dict[str, object]:
    """The message as a JSON object; a body that is no text stands as base64 under another name."""
    try:
        body = {"body": message.body.decode()}
    except UnicodeDecodeError:
        body = {"body_base64": base64.b64encode(message.body).decode()}
    return {
        "topic": message.topic,
        "broker": message.broker_name,
        "queue": message.queue_id,
        "offset": message.queue_offset,
        "stored": Moment(message.store_ms).to_json(),
        "id": message.message_id,
        "tag": message.tags,
        "keys": message.keys,
        "properties": _user_properties(message),
    } | body


def _user_properties(message: StoredMessage) -> dict[str, str]:
    from rocketlake.model.property_names import RESERVED

    return {name: value for name, value in message.properties.items() if name not in RESERVED}
