"""A message as a line for people and as a JSON object for programs.

Owns        what is shown of a message.
Must not know   single commands.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from rocketlake.cli.output import text_line
from rocketlake.cli.table import Moment

if TYPE_CHECKING:
    from rocketlake.model.message import StoredMessage

__all__ = ["json_line", "marks_of", "message_line", "message_object"]


def message_line(message: StoredMessage) -> str:
    """Time, place, tag, key, properties, body."""
    place = f"{message.broker_name}/{message.queue_id}@{message.queue_offset}"
    named = " ".join(f"{name}={value}" for name, value in _user_properties(message).items())
    between = f" [{named}]" if named else ""
    return f"{Moment(message.store_ms)} {place}{marks_of(message)}{between}  {text_line(message.body)}"


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
