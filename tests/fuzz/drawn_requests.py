"""Owns drawing requests that are nearly right: fields and bodies that their handler looks for, some of them strange.

Which headers and bodies a handler reads is taken from the names of its module.
Must not know   what handlers do with them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from inspect import getclosurevars, unwrap
from types import FunctionType, MethodType
from typing import Any, TypeAlias

import msgspec
from hypothesis import strategies as st
from msgspec import inspect as kinds

from rocketlake.codec.record_batch import encode_batch
from rocketlake.model.message import Message
from rocketlake.protocol.bodies.body import Entry
from rocketlake.protocol.fields import Header
from rocketlake.protocol.headers.send import SendHeaderV2
from rocketlake.protocol.request_code import RequestCode as Code

RequestCase: TypeAlias = tuple[int, dict[str, str], bytes, int, int]
"""Code, fields, body, codec of the header, flag."""

_SHORT_SENDS = (Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.SEND_REPLY_MESSAGE_V2)
_TOPICS = (
    "T",
    "T",
    "T",
    "Many",
    "Compacted",
    "New",
    "%RETRY%g",
    "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "TBW102",
)
_NAMES = {
    "filtertype": ("SINGLE_TAG", "MULTI_TAG"),
    "topic": _TOPICS,
    "b": _TOPICS,
    "group": ("g", "h"),
    "broker": ("b", "B"),
    "cluster": ("C",),
    "addr": ("10.0.0.1:10911", "10.0.0.100:10911"),
    "expression": ("TAG", "SQL92"),
    "subscription": ("*", "a || b", "a = 1"),
    "properties": ("KEYS\x01k\x02", "DELAY\x013\x02", "TRAN_MSG\x01true\x02", "TIMER_DELAY_SEC\x0160\x02"),
}
STRANGE = (
    "", " ", "0", "-1", "1", "2", "3", "+1", " 1", "1.5", "1e9", "NaN", "٣", "2147483647", "2147483648", "-2147483648",
    "9223372036854775807", "-9223372036854775808", "9223372036854775808", "9" * 400, "true", "TRUE", "null", "\0",
    "../../x", "%RETRY%", "%DLQ%g", "a" * 300, "é主😀", "\x01\x02", "a\x01", "{", "[]", "a = 1 AND", "b@c:d;e", "\n",
    "10.0.0.1:99999", "[::1]:0", "TAG", "SQL92", "7F0000010000", "AC1400010000277F0000000000000000",
)  # fmt: skip
strange = st.sampled_from(STRANGE) | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_json_leaf = st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.sampled_from([0.5, 1e308]) | strange
strange_json = st.recursive(
    _json_leaf, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(strange, inner, max_size=2), max_leaves=4
)
_BATCH = encode_batch([Message.with_properties("T", b"one", {"KEYS": "a"})] * 2)


def read_by(handler: Callable[..., Any]) -> tuple[list[type[Header]], list[type[Entry]]]:
    """The headers that the code of this handler names, and the bodies that its module knows."""
    modules: set[str] = set()
    names: set[str] = set()
    _read(handler, 0, modules, names)
    known = {name: each for module in sorted(modules) for name, each in vars(sys.modules[module]).items()}
    types = [(name, each) for name, each in known.items() if isinstance(each, type)]
    headers = [each for name, each in types if issubclass(each, Header) and "Reply" not in name]
    bodies = [each for _name, each in types if issubclass(each, Entry)]
    return _named(headers, names), _named(bodies, names)


def _named(kinds: list[Any], names: set[str]) -> list[Any]:
    return [each for each in kinds if each.__name__ in names] or kinds


def _read(work: Any, depth: int, modules: set[str], names: set[str]) -> None:
    """What a function names, and what it is wrapped around, and its own methods that it calls."""
    if depth > 6:
        return
    if isinstance(work, MethodType):
        _read(work.__func__, depth + 1, modules, names)
        kind = type(work.__self__)
        for name in work.__func__.__code__.co_names:
            if isinstance(method := vars(kind).get(name), FunctionType):
                _read(MethodType(method, work.__self__), depth + 2, modules, names)
    elif isinstance(work, FunctionType):
        if work.__module__.startswith("rocketlake."):
            modules.add(work.__module__)
            names.update(work.__code__.co_names)
        for each in getclosurevars(unwrap(work)).nonlocals.values():
            _read(each, depth + 1, modules, names)


def requests(code: int, handler: Callable[..., Any]) -> st.SearchStrategy[RequestCase]:
    """Requests of this code."""
    headers, bodies = read_by(handler)
    if code in _SHORT_SENDS:
        headers = [SendHeaderV2]
    return st.tuples(
        st.just(code),
        st.sampled_from(headers).flatmap(_fields) if headers else st.dictionaries(strange, strange, max_size=3),
        _body(bodies),
        st.sampled_from([0, 1]),
        st.sampled_from([0, 0, 0, 2]),
    )


@st.composite
def _fields(draw: st.DrawFn, header: type[Header]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for field in msgspec.structs.fields(header):
        is_left_out = draw(st.integers(0, 9)) > (9 if field.required else 4)
        if not is_left_out:
            fields[field.encode_name] = draw(_plain(field.encode_name, kinds.type_info(field.type)))
    for name in draw(st.lists(st.sampled_from(sorted(fields) or ["x"]), max_size=2, unique=True)):
        if draw(st.booleans()):
            fields[name] = draw(strange)
        else:
            fields.pop(name, None)
    return fields


def _plain(name: str, kind: kinds.Type) -> st.SearchStrategy[str]:
    if isinstance(kind, kinds.UnionType):
        kind = kind.types[0]
    if isinstance(kind, kinds.IntType):
        return st.sampled_from(["0", "1", "0", "3"])
    if isinstance(kind, kinds.BoolType):
        return st.sampled_from(["true", "false"])
    return st.sampled_from(next((known for part, known in _NAMES.items() if _is_in(part, name)), ("b", "x")))


def _is_in(part: str, name: str) -> bool:
    return part == name if len(part) == 1 else part in name.lower()


def _body(bodies: list[type[Entry]]) -> st.SearchStrategy[bytes]:
    usual: list[st.SearchStrategy[bytes]] = [
        st.sampled_from([b"", b"x", _BATCH, b"{}", b"[]", b"null", b"brokerPermission=6\nx=\n", b"[" * 3000]),
        st.binary(max_size=60),
        strange_json.map(_json_text),
    ]
    if bodies:
        nearly = st.sampled_from(bodies).flatmap(lambda body: _value("", kinds.type_info(body))).map(_json_text)
        usual += [nearly] * 4
    return st.one_of(usual)


def _json_text(value: Any) -> bytes:
    return json.dumps(value).encode()


@st.composite
def _value(draw: st.DrawFn, name: str, kind: kinds.Type, depth: int = 0) -> Any:
    if depth > 5 or draw(st.integers(0, 24)) == 24:
        return draw(_json_leaf)
    match kind:
        case kinds.StructType():
            return {
                field.encode_name: draw(_value(field.encode_name, field.type, depth + 1))
                for field in kind.fields
                if field.required or draw(st.booleans())
            }
        case kinds.ListType() | kinds.SetType() | kinds.VarTupleType() | kinds.FrozenSetType():
            return [draw(_value(name, kind.item_type, depth + 1)) for _ in range(draw(st.integers(0, 2)))]
        case kinds.DictType():
            keys = st.sampled_from(["T", "g", "0", "1", "b@c"]) | strange
            return {draw(keys): draw(_value(name, kind.value_type, depth + 1)) for _ in range(draw(st.integers(0, 2)))}
        case kinds.UnionType():
            return draw(_value(name, draw(st.sampled_from(kind.types)), depth + 1))
        case kinds.IntType():
            return draw(st.sampled_from([0, 1, 4, -1, 6]))
        case kinds.BoolType():
            return draw(st.booleans())
        case kinds.StrType():
            return draw(_plain(name, kind))
        case kinds.EnumType():
            return draw(st.sampled_from([each.value for each in kind.cls]))
        case kinds.LiteralType():
            return draw(st.sampled_from(kind.values))
    return draw(_json_leaf)
