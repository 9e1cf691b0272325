"""Rules that hold for every header class, and the send header's two spellings."""

from __future__ import annotations

import importlib
import pkgutil

import msgspec
import pytest

from rocketlake.base.errors import UsageError
from rocketlake.protocol import headers
from rocketlake.protocol.command import Command
from rocketlake.protocol.fields import Header, from_fields, to_fields
from rocketlake.protocol.headers.admin_group import ConsumeStatsHeader
from rocketlake.protocol.headers.offset import SearchOffsetHeader
from rocketlake.protocol.headers.pull import PullReplyHeader, pull_reply_fields
from rocketlake.protocol.headers.send import (
    SendHeader,
    SendHeaderV2,
    host_text,
    parse_host_text,
    read_send_header,
)
from rocketlake.protocol.request_code import RequestCode


def all_headers() -> list[type[Header]]:
    found: list[type[Header]] = []
    for module_info in pkgutil.iter_modules(headers.__path__):
        module = importlib.import_module(f"{headers.__name__}.{module_info.name}")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Header) and value.__module__ == module.__name__:
                found.append(value)
    return found


def filled(cls: type[Header]) -> Header:
    values: dict[str, object] = {}
    for number, part in enumerate(msgspec.structs.fields(cls)):
        text = str(part.type)
        values[part.name] = bool(number % 2) if "bool" in text else number * 7 if "int" in text else f"text-{number}"
    return cls(**values)


@pytest.mark.parametrize("cls", all_headers(), ids=lambda cls: cls.__name__)
def test_every_header_survives_its_wire_form(cls: type[Header]) -> None:
    header = filled(cls)
    fields = to_fields(header)
    assert len(fields) == len(msgspec.structs.fields(cls))
    assert all(isinstance(value, str) for value in fields.values())
    assert from_fields(cls, fields) == header


@pytest.mark.parametrize("cls", all_headers(), ids=lambda cls: cls.__name__)
def test_every_header_says_what_it_is(cls: type[Header]) -> None:
    assert cls.__doc__


def send_header() -> SendHeader:
    return SendHeader(
        producer_group="pg", topic="T", default_topic="TBW102", default_topic_queue_nums=4, queue_id=1, sys_flag=0,
        born_timestamp=1_700_000_000_000, flag=0, properties="a\x01b\x02", batch=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("code", "cls", "topic_key"),
    [
        (RequestCode.SEND_MESSAGE, SendHeader, "topic"),
        (RequestCode.SEND_REPLY_MESSAGE, SendHeader, "topic"),
        (RequestCode.SEND_MESSAGE_V2, SendHeaderV2, "b"),
        (RequestCode.SEND_BATCH_MESSAGE, SendHeaderV2, "b"),
        (RequestCode.SEND_REPLY_MESSAGE_V2, SendHeaderV2, "b"),
    ],
)
def test_the_code_says_which_names_a_send_uses(code: int, cls: type[SendHeader], topic_key: str) -> None:
    values = {part.name: getattr(send_header(), part.name) for part in msgspec.structs.fields(SendHeader)}
    command = Command.request(code, cls(**values))
    assert command.fields is not None
    assert command.fields[topic_key] == "T"
    header = read_send_header(command)
    assert isinstance(header, SendHeader)
    assert {name: getattr(header, name) for name in values} == values


def test_the_letters_are_those_of_the_reference() -> None:
    header = SendHeaderV2(
        producer_group="pg", topic="T", default_topic="D", default_topic_queue_nums=4, queue_id=5, sys_flag=6,
        born_timestamp=7, flag=8, properties="9", reconsume_times=10, unit_mode=True, max_reconsume_times=12,
        batch=True, target_broker="broker",
    )  # fmt: skip
    assert to_fields(header) == {
        "a": "pg", "b": "T", "c": "D", "d": "4", "e": "5", "f": "6", "g": "7", "h": "8", "i": "9", "j": "10",
        "k": "true", "l": "12", "m": "true", "n": "broker",
    }  # fmt: skip


@pytest.mark.parametrize(("text", "upper"), [("UPPER", True), ("upper", True), ("LOWER", False), ("x", False)])
def test_the_boundary_is_lower_unless_it_says_upper(text: str, upper: bool) -> None:
    header = from_fields(SearchOffsetHeader, {"topic": "T", "queueId": "0", "timestamp": "1", "boundaryType": text})
    assert header.upper is upper


def test_topics_of_consume_stats_come_from_either_field() -> None:
    assert ConsumeStatsHeader(consumer_group="g").topics == []
    assert ConsumeStatsHeader(consumer_group="g", topic="T").topics == ["T"]
    assert ConsumeStatsHeader(consumer_group="g", topic="T", topic_list="A;B;").topics == ["A", "B"]


def test_hosts_are_ip_colon_port() -> None:
    assert host_text(("10.0.0.1", 10911)) == "10.0.0.1:10911"
    assert parse_host_text("/10.0.0.1:10911") == ("10.0.0.1", 10911)
    assert parse_host_text("[::1]:10911") == ("::1", 10911)
    for bad in ("10.0.0.1", "host:port", ""):
        with pytest.raises(UsageError):
            parse_host_text(bad)


def test_the_fields_of_a_pull_answer_are_those_of_its_header() -> None:
    header = PullReplyHeader(
        suggest_which_broker_id=0,
        next_begin_offset=2**62,
        min_offset=1,
        max_offset=3,
        topic_sys_flag=4,
        group_sys_flag=5,
    )
    assert pull_reply_fields(2**62, 1, 3, 4, 5) == to_fields(header)
