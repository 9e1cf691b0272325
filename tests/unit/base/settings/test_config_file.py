from __future__ import annotations

import dataclasses
import enum
from pathlib import Path

import pytest

from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import UsageError
from rocketlake.base.settings.config_file import (
    java_name,
    load,
    load_together,
    parse_properties,
    read_properties,
    setting,
    to_properties,
)


class Flush(enum.Enum):
    ASYNC_FLUSH = 0
    SYNC_FLUSH = 1


@dataclasses.dataclass(frozen=True)
class Broker:
    broker_name: str = setting("broker-a", java="brokerName", why="names the group of replicas")
    listen_port: int = setting(10911, low=0, high=65535)
    ratio: float = setting(0.5, low=0)
    auto_create: bool = setting(True, java="autoCreateTopicEnable")
    root: Path = setting(Path("/store"), java="storePathRootDir")
    namesrv: tuple[str, ...] = setting((), java="namesrvAddr")
    ports: tuple[int, ...] = setting(lambda: (1, 2))
    host: str | None = setting(None, java="brokerIP1")
    derived: int = dataclasses.field(default=0, init=False)

    def validate(self) -> None:
        if self.broker_name == "bad":
            raise UsageError("bad name")


@dataclasses.dataclass(frozen=True)
class Store:
    flush: Flush = setting(Flush.ASYNC_FLUSH, java="flushDiskType")


def test_defaults_need_no_file():
    assert load(Broker) == Broker()
    assert Broker().ports == (1, 2)


def test_text_becomes_the_type_of_the_field():
    found = load(
        Broker,
        overrides={
            "brokerName": "b", "listenPort": "0", "ratio": "2", "autoCreateTopicEnable": "FALSE",
            "storePathRootDir": "/x",
            "namesrvAddr": "a:1; b:2;", "ports": "5,6", "brokerIP1": "1.2.3.4",
        },
    )  # fmt: skip
    assert found == Broker("b", 0, 2.0, False, Path("/x"), ("a:1", "b:2"), (5, 6), "1.2.3.4")


def test_python_names_and_values_are_taken_too():
    found = load(Broker, overrides={"listen_port": 5, "ratio": 1, "namesrv": ("a:1",), "root": "/y", "host": None})
    assert (found.listen_port, found.ratio, found.namesrv, found.root, found.host) == (5, 1, ("a:1",), Path("/y"), None)


def test_a_file_goes_before_defaults_and_overrides_before_the_file(tmp_path):
    path = tmp_path / "broker.conf"
    path.write_text("brokerName = from file\nlistenPort=1\n")
    assert load(Broker, path, {"listenPort": 2}) == Broker("from file", 2)


def test_one_file_serves_several_parts_and_keys_without_effect_are_let_through(tmp_path):
    path = tmp_path / "broker.conf"
    path.write_text("brokerName=b\nflushDiskType=SYNC_FLUSH\nsendMessageThreadPoolNums=4\n")
    broker, store = load_together([Broker, Store], path, without_effect={"sendMessageThreadPoolNums"})
    assert (broker.broker_name, store.flush) == ("b", Flush.SYNC_FLUSH)
    with pytest.raises(UsageError, match="sendMessageThreadPoolNums"):
        load_together([Broker, Store], path)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("brokerNam", "x", "did you mean brokerName"),
        ("zzzzzz", "x", r"settings\.md"),
        ("derived", 1, "unknown setting derived"),
        ("listenPort", "70000", "Cure: give it 0 to 65535"),
        ("ratio", "-1", "at least 0"),
        ("listenPort", "ten", "listenPort = 'ten' is not a whole number"),
        ("listenPort", "", "whole number"),
        ("listenPort", "1.5", "whole number"),
        ("listenPort", None, "whole number"),
        ("autoCreateTopicEnable", "yes", "true or false"),
        ("brokerName", 5, "text"),
        ("brokerName", "bad", "bad name"),
    ],
)
def test_a_wrong_setting_is_named_with_its_cure(key, value, text):
    with pytest.raises(UsageError, match=text):
        load(Broker, overrides={key: value})


def test_an_enum_error_lists_what_is_allowed():
    with pytest.raises(UsageError, match="one of ASYNC_FLUSH, SYNC_FLUSH"):
        load(Store, overrides={"flushDiskType": "SOMETIMES"})


def test_the_source_of_a_wrong_value_is_named(tmp_path):
    path = tmp_path / "broker.conf"
    path.write_text("# first\nbrokerName=\\\n  b\n\nlistenPort=x\n")
    with pytest.raises(UsageError, match=r"broker\.conf, line 5"):
        load(Broker, path)
    path.write_text("brokerName=b\nthis is no setting\n")
    with pytest.raises(UsageError, match=r"unknown setting this .*broker\.conf, line 2.*NAME=VALUE"):
        load(Broker, path)
    with pytest.raises(UsageError, match="cannot be read"):
        load(Broker, tmp_path / "none.conf")


def test_java_names_are_camel_case_unless_given():
    names = {field.name: java_name(field) for field in dataclasses.fields(Broker)}
    assert names["listen_port"] == "listenPort"
    assert names["auto_create"] == "autoCreateTopicEnable"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1 \r\nb:2\nc 3\n", {"a": "1", "b": "2", "c": "3"}),
        ("# no\n! no\n\n  \t\n  a=1", {"a": "1"}),
        ("a=1\\\n   2\\\n   3\nb=2", {"a": "123", "b": "2"}),
        ("a\\=b\\:c=d", {"a=b:c": "d"}),
        ("a=x\\ty\\u00e9", {"a": "x\tyé"}),
        ("\\ud83d\\ude00=\\ud83d\\ude00\\ud800", {"😀": "😀\ufffd"}),
        ("a", {"a": ""}),
        ("a=b=c#d", {"a": "b=c#d"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\\", {"a": "1"}),
        ("a=c:\\\\x", {"a": "c:\\x"}),
        ("a=#b", {"a": "#b"}),
        ("k=v\\\n# not a comment", {"k": "v# not a comment"}),
    ],
)
def test_the_properties_format(text, values):
    assert parse_properties(text) == values


def test_a_latin_1_file_is_read_as_java_would():
    files = MemoryFiles()
    files.write_bytes(Path("a"), b"a=\xe9")
    files.write_bytes(Path("b"), "\ufeffa=é".encode())
    assert read_properties(Path("a"), files) == read_properties(Path("b"), files) == {"a": "é"}


def test_values_written_are_values_read():
    values = {"a b": "c=d", "#x": "=lead", "tab\t": "line\nend", "back": "\\u0041", "e": ""}
    assert parse_properties(to_properties(values)) == values


def test_a_key_that_promises_what_there_is_not_is_taken_only_with_a_harmless_value() -> None:
    not_supported = {"aclEnable": ("false",)}
    load_together([], None, {"aclEnable": " false "}, not_supported=not_supported)
    with pytest.raises(UsageError, match=r"aclEnable = true: .*set it to false"):
        load_together([], None, {"aclEnable": "true"}, not_supported=not_supported)
