"""A message as a line for people and as a JSON object for programs.

Owns        what is shown of a message.
Must not know   single commands.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rocketlake.admin.messages.place import place_of
from rocketlake.cli.output import text_line
from rocketlake.cli.table import Moment

if TYPE_CHECKING:
    from rocketlake.model.message import StoredMessage

__all__ = ["details", "everything", "formatted", "marks_of", "message_line", "message_object"]

_ESCAPES = {"n": "\n", "t": "\t", "0": "\0", "\\": "\\"}
_ESCAPE_NAMES = r"\n, \t, \0, \\"


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


def formatted(form: str, message: StoredMessage) -> str:
    r"""The message by a text with %-signs, as `consume -f` takes it; \n, \t, \0 and \\ are what they are in C."""
    from rocketlake.base.errors import UsageError

    values = {
        "%": "%",
        "t": message.topic,
        "p": message.broker_name,
        "q": str(message.queue_id),
        "o": str(message.queue_offset),
        "i": message.message_id or "",
        "T": message.tags or "",
        "k": message.keys or "",
        "h": ",".join(f"{name}={value}" for name, value in _user_properties(message).items()),
        "s": message.body.decode("utf-8", "backslashreplace"),
        "d": Moment(message.store_ms).to_json() or "",
    }

    def value(found: re.Match[str]) -> str:
        sign, letter = found[0][0], found[0][1:]
        known = values if sign == "%" else _ESCAPES
        if letter not in known:
            raise UsageError(f"--format has {found[0]!r}", hint=f"use %{', %'.join(values)} and {_ESCAPE_NAMES}")
        return known[letter]

    return re.sub(r"[%\\](?:.|$)", value, form, flags=re.DOTALL)
