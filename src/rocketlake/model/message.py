"""A message to send, and a message read back.

Owns        Message, StoredMessage, the meaning of their properties.
Must not know   bytes (codec/record.py), wire headers.

Invariant: properties are text to text; names and values hold neither \\x01 nor \\x02 (there is no escape for them).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from rocketlake.base.errors import UsageError
from rocketlake.model import property_names as names
from rocketlake.model.lite import LITE_CHARS_MAX, is_lite_name
from rocketlake.model.message_id import offset_message_id
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.positions import PhysicalOffset, QueueOffset

__all__ = ["Message", "StoredMessage"]

Host = tuple[str, int]
Properties = dict[str, str]
NO_HOST: Host = ("0.0.0.0", 0)
_FIRST = QueueOffset(0)
_START = PhysicalOffset(0)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_PRIORITY_DIGITS = 10
_TIME_MS_MAX = 253_402_300_799_999  # the last millisecond of year 9999


def _as_bytes(body: object) -> bytes:
    """`bytes(5)` would be five zero bytes."""
    try:
        return bytes(memoryview(body))  # type: ignore[arg-type]  # a value without bytes is refused
    except TypeError:
        hint = "encode it: text.encode()" if isinstance(body, str) else "give it as bytes"
        raise UsageError(f"a message body is bytes, not {type(body).__name__}", hint=hint) from None


def _as_text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    hint = "give one tag" if name == "tags" else f"give {name} as text"
    raise UsageError(f"{name} of a message is text, not {type(value).__name__}", hint=hint)


def _as_keys(keys: object) -> str:
    if isinstance(keys, str):
        return keys
    try:
        return names.KEY_SEPARATOR.join(keys)  # type: ignore[arg-type]  # a value that is no list of texts is refused
    except TypeError:
        what = f"keys of a message are text, or several texts, not {keys!r}"
        raise UsageError(what, hint='give keys="order-17", or keys=["order-17", "user-4"]') from None


def _deliver_ms(moment: object) -> int:
    """Epoch ms, a part of one rounded up: never early."""
    if isinstance(moment, datetime):
        if moment.utcoffset() is None:
            what = f"deliver_at={moment} has no time zone"
            raise UsageError(what, hint="give it one: datetime.now(UTC) + timedelta(hours=1)")
        moment = -((_EPOCH - moment) // _MS)
    elif not isinstance(moment, int) or isinstance(moment, bool):
        what = f"deliver_at of a message is a datetime or epoch milliseconds, not {moment!r}"
        raise UsageError(what, hint="give a datetime with a zone, or int(time.time() * 1000) + 60_000")
    if not 0 <= moment <= _TIME_MS_MAX:
        raise UsageError(f"deliver_at={moment} is not a time between 1970 and 9999", hint="give epoch milliseconds")
    return moment


def _delay_ms(delay: object) -> int:
    """Milliseconds, a part of one rounded up: never early."""
    if isinstance(delay, timedelta):
        milliseconds = -(-delay // _MS)
    elif isinstance(delay, int | float) and not isinstance(delay, bool) and math.isfinite(delay):
        milliseconds = math.ceil(delay * 1000)
    else:
        what = f"delay of a message is seconds or a timedelta, not {delay!r}"
        raise UsageError(what, hint="give delay=90, or delay=timedelta(minutes=10)")
    if not 0 <= milliseconds <= _TIME_MS_MAX:
        raise UsageError(f"delay={delay} is no time to wait", hint="give 0 seconds or more")
    return milliseconds


def _priority(priority: object, properties: Properties) -> str:
    if not isinstance(priority, int) or isinstance(priority, bool) or not 0 <= priority < 1 << 31:
        raise UsageError(f"priority={priority!r} is not one of a message", hint="give 0 or a higher whole number")
    if names.SHARDING_KEY in properties or names.DELAY in properties or not names.TIMERS.isdisjoint(properties):
        raise UsageError(
            "a message with a priority is neither delayed nor ordered",
            hint="leave priority out, or delay_level, deliver_at, delay and sharding_key",
        )
    return str(priority)


def _lite_topic(name: object) -> str:
    if not isinstance(name, str) or not is_lite_name(name):
        raise UsageError(
            f"lite_topic={str(name)[:80]!r} is no name of a lite topic",
            hint=f"use 1 to {LITE_CHARS_MAX} letters, digits, - and _",
        )
    return name


_OWN = {
    names.TAGS: "give it as tags=",
    names.KEYS: "give them as keys=",
    names.DELAY: "give it as delay_level=",
    names.TIMER_DELIVER_MS: "give it as deliver_at=",
    names.TIMER_DELAY_MS: "give it as delay=",
    names.TIMER_DELAY_SEC: "give it as delay=",
    names.LITE_TOPIC: "give it as lite_topic=",
    names.WAIT: "set wait_store_ok of the message",
    names.UNIQUE_KEY: "set unique_key of the message",
}
"""The cure for a user who gives one of RocketMQ's own properties by its name."""


def _as_properties(properties: Any) -> Properties:
    try:
        own = dict(properties)
    except (TypeError, ValueError):
        what = f"properties of a message are names and values, not {type(properties).__name__}"
        raise UsageError(what, hint='give properties={"name": "value"}') from None
    for name, value in own.items():
        if not isinstance(name, str) or not isinstance(value, str):
            what = f"property {name!r} = {value!r}: name and value of a property are text"
            raise UsageError(what, hint="give both as text")
        if name in names.RESERVED:
            hint = _OWN.get(name, "choose another name; for a copy of a message take Message.with_properties")
            raise UsageError(f"the property name {name} is used by RocketMQ itself", hint=hint)
    return own


class Message:
    """A message to send: topic, body, properties. Properties with a meaning of their own are attributes too."""

    __slots__ = ("body", "flag", "lazy_properties", "topic")

    def __init__(
        self,
        topic: str,
        body: bytes | bytearray | memoryview = b"",
        *,
        tags: str | None = None,
        keys: str | Iterable[str] | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        delay_level: int = 0,
        deliver_at: datetime | int | None = None,
        delay: float | timedelta | None = None,
        sharding_key: str | None = None,
        priority: int | None = None,
        lite_topic: str | None = None,
    ) -> None:
        """`keys` is one text (blank separated) or several; `delay_level` 1..18 as the broker counts, 0 = now.

        `deliver_at`: deliver it not before this time (a datetime with a zone, or epoch ms). `delay`: not before so many
        seconds after the broker has it. One of these three at most. `priority`: 0 and up; consumers that pop get higher
        ones first. Such a message is neither delayed nor ordered. `lite_topic`: the lite topic of the message, in a
        topic of type LITE; it is not delayed.

        UsageError for a value of another kind, and for a property whose name is RocketMQ's.
        """
        self.topic = _as_text("topic", topic)
        self.body = body if type(body) is bytes else _as_bytes(body)
        own: Properties = _as_properties(properties) if properties else {}
        if tags is not None:
            own[names.TAGS] = _as_text("tags", tags)
        if keys is not None:
            own[names.KEYS] = _as_keys(keys)
        if delay_level:
            own[names.DELAY] = str(delay_level)
        if deliver_at is not None:
            own[names.TIMER_DELIVER_MS] = str(_deliver_ms(deliver_at))
        if delay is not None:
            own[names.TIMER_DELAY_MS] = str(_delay_ms(delay))
        if bool(delay_level) + (deliver_at is not None) + (delay is not None) > 1:
            what = "a message is delayed by one of delay_level, deliver_at and delay"
            raise UsageError(what, hint="leave the others away")
        if sharding_key is not None:
            own[names.SHARDING_KEY] = _as_text("sharding_key", sharding_key)
        if priority is not None:
            own[names.PRIORITY] = _priority(priority, own)
        if lite_topic is not None:
            own[names.LITE_TOPIC] = _lite_topic(lite_topic)
        self.lazy_properties: Properties | Callable[[], Properties] = own
        """The properties, or the call that reads them at the first use: most readers of messages never use them."""
        self.flag = flag

    @classmethod
    def with_properties(cls, topic: str, body: bytes, properties: Mapping[str, str], *, flag: int = 0) -> Self:
        """A message with these properties as they are, RocketMQ's own too: for copies of messages."""
        message = cls(topic, body, flag=flag)
        message.properties = dict(properties)
        return message

    @property
    def properties(self) -> dict[str, str]:
        """Name to value, RocketMQ's own and yours."""
        own = self.lazy_properties
        if not isinstance(own, dict):
            own = self.lazy_properties = own()
        return own

    @properties.setter
    def properties(self, properties: Properties) -> None:
        self.lazy_properties = properties

    @property
    def tags(self) -> str | None:
        """The tag."""
        return self.properties.get(names.TAGS)

    @tags.setter
    def tags(self, tag: str | None) -> None:
        self._set(names.TAGS, tag if tag is None else _as_text("tags", tag))

    @property
    def keys(self) -> str | None:
        """The keys, blank separated."""
        return self.properties.get(names.KEYS)

    @keys.setter
    def keys(self, keys: str | None) -> None:
        self._set(names.KEYS, keys if keys is None else _as_text("keys", keys))

    @property
    def key_list(self) -> list[str]:
        """The keys one by one."""
        return [key for key in (self.keys or "").split(names.KEY_SEPARATOR) if key]

    @property
    def priority(self) -> int | None:
        """The priority, None without one (or text that is no number)."""
        text = self.properties.get(names.PRIORITY, "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) <= _PRIORITY_DIGITS else None

    @property
    def delay_level(self) -> int:
        """Delay level; 0 = none (or text that is no number)."""
        return self._number(names.DELAY)

    @delay_level.setter
    def delay_level(self, level: int) -> None:
        self._set(names.DELAY, str(level) if level else None)

    @property
    def is_delayed(self) -> bool:
        """True if it asks to be delivered later: by a level, a time or a delay."""
        return self.delay_level > 0 or not names.TIMERS.isdisjoint(self.properties)

    @property
    def wait_store_ok(self) -> bool:
        """True if the broker is to answer only when the message is as safe as its settings promise."""
        return self.properties.get(names.WAIT, "true").lower() == "true"

    @wait_store_ok.setter
    def wait_store_ok(self, wait: bool) -> None:
        self._set(names.WAIT, "true" if wait else "false")

    @property
    def unique_key(self) -> str | None:
        """The id its client gave it."""
        return self.properties.get(names.UNIQUE_KEY)

    @unique_key.setter
    def unique_key(self, key: str | None) -> None:
        self._set(names.UNIQUE_KEY, key if key is None else _as_text("unique_key", key))

    @property
    def sharding_key(self) -> str | None:
        """The key by which the producer chose the queue of an ordered message."""
        return self.properties.get(names.SHARDING_KEY)

    @sharding_key.setter
    def sharding_key(self, key: str | None) -> None:
        self._set(names.SHARDING_KEY, key if key is None else _as_text("sharding_key", key))

    @property
    def lite_topic(self) -> str | None:
        """The lite topic that it belongs to, in its topic."""
        return self.properties.get(names.LITE_TOPIC)

    @lite_topic.setter
    def lite_topic(self, name: str | None) -> None:
        self._set(names.LITE_TOPIC, name if name is None else _lite_topic(name))

    @property
    def retry_topic(self) -> str | None:
        """The topic a retried message belongs to."""
        return self.properties.get(names.RETRY_TOPIC)

    @property
    def user_properties(self) -> dict[str, str]:
        """Properties whose names RocketMQ does not reserve (a copy)."""
        return {name: value for name, value in self.properties.items() if name not in names.RESERVED}

    def put_user_property(self, name: str, value: str) -> None:
        """Set a property of your own. UsageError if the name is RocketMQ's, or one of both is blank."""
        if not name.strip() or not value.strip():
            raise UsageError(f"property {name!r} = {value!r}: name and value must not be blank")
        if name in names.RESERVED:
            raise UsageError(f"the property name {name} is used by RocketMQ itself", hint="choose another name")
        if any(separator in name + value for separator in (names.NAME_SEPARATOR, names.PAIR_SEPARATOR)):
            raise UsageError(f"property {name!r} holds \\x01 or \\x02", hint="put such bytes into the body")
        self.properties[name] = value

    def _set(self, name: str, value: str | None) -> None:
        if value is None:
            self.properties.pop(name, None)
        else:
            self.properties[name] = value

    def _number(self, name: str) -> int:
        try:
            return int(self.properties.get(name, "0"))
        except ValueError:
            return 0

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def _values(self) -> tuple[object, ...]:
        return self.topic, self.body, self.properties, self.flag

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(topic={self.topic!r}, body={len(self.body)} bytes, properties={self.properties!r})"
        )


class StoredMessage(Message):
    """A message as a broker keeps it. Hosts are (address text, port), times epoch ms; `store_size` is the record's."""

    __slots__ = (
        "body_crc",
        "born_host",
        "born_ms",
        "broker_name",
        "physical_offset",
        "prepared_transaction_offset",
        "queue_id",
        "queue_offset",
        "reconsume_times",
        "store_host",
        "store_ms",
        "store_size",
        "sys_flag",
    )

    def __init__(
        self,
        topic: str,
        body: bytes = b"",
        *,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        broker_name: str = "",
        queue_id: int = 0,
        queue_offset: QueueOffset = _FIRST,
        physical_offset: PhysicalOffset = _START,
        sys_flag: int = 0,
        born_ms: int = 0,
        born_host: Host = NO_HOST,
        store_ms: int = 0,
        store_host: Host = NO_HOST,
        reconsume_times: int = 0,
        prepared_transaction_offset: PhysicalOffset = _START,
        body_crc: int = 0,
        store_size: int = 0,
    ) -> None:
        super().__init__(topic, body, flag=flag)
        if properties:
            self.lazy_properties = dict(properties)
        self.broker_name = broker_name
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self.physical_offset = physical_offset
        self.sys_flag = sys_flag
        self.born_ms = born_ms
        self.born_host = born_host
        self.store_ms = store_ms
        self.store_host = store_host
        self.reconsume_times = reconsume_times
        self.prepared_transaction_offset = prepared_transaction_offset
        self.body_crc = body_crc
        self.store_size = store_size

    @property
    def offset_message_id(self) -> str:
        """The id that says where it is stored."""
        return offset_message_id(self.store_host[0], self.store_host[1], self.physical_offset)

    @property
    def message_id(self) -> str:
        """The id its client gave it; where it is stored, if it has none."""
        return self.unique_key or self.offset_message_id

    @property
    def message_queue(self) -> MessageQueue:
        """The queue it was read from."""
        return MessageQueue(self.topic, self.broker_name, self.queue_id)

    def __repr__(self) -> str:
        place = f"{self.message_queue} at {self.queue_offset}"
        return f"{type(self).__name__}({place}, body={len(self.body)} bytes, properties={self.properties!r})"

    def _values(self) -> tuple[object, ...]:
        place = (self.broker_name, self.queue_id, self.queue_offset, self.physical_offset, self.store_size)
        origin = (self.born_ms, self.born_host, self.store_ms, self.store_host, self.reconsume_times)
        return (
            super()._values(), place, origin, self.sys_flag, self.prepared_transaction_offset, self.body_crc,
        )  # fmt: skip
