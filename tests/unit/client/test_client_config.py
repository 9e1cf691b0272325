"""Settings of the client: ranges, name server addresses, ids."""

from __future__ import annotations

from dataclasses import fields

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import UsageError
from rocketlake.client.config import ClientConfig, ConsumerConfig, FirstOffset, ProducerConfig
from rocketlake.client.instance import client_settings, make_client_id


@pytest.mark.parametrize("kind", [ClientConfig, ProducerConfig, ConsumerConfig])
def test_every_setting_says_why(kind: type) -> None:
    assert all(entry.metadata["why"] for entry in fields(kind))


def test_a_value_out_of_range_is_named_with_its_range() -> None:
    with pytest.raises(UsageError, match=r"batch_size=0.*1 to 1024"):
        ConsumerConfig(batch_size=0)


def test_a_pull_may_not_time_out_before_its_hold_ends() -> None:
    with pytest.raises(UsageError, match=r"pull_timeout_ms=1000.*hold_ms=1000"):
        ConsumerConfig(hold_ms=1000, pull_timeout_ms=1000)


@pytest.mark.parametrize("text", ["a:1;b:2", "a:1,b:2", " a:1 ; b:2 "])
def test_name_servers_are_a_list(text: str) -> None:
    assert ClientConfig(namesrv=text).name_servers == ("a:1", "b:2")


def test_the_environment_names_the_name_server_unless_an_argument_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "env:1")
    assert ClientConfig().name_servers == ("env:1",)
    assert client_settings(None, "arg:2").name_servers == ("arg:2",)
    monkeypatch.delenv("NAMESRV_ADDR")
    assert ClientConfig().name_servers == ("127.0.0.1:9876",)


@pytest.mark.parametrize("text", ["nohost", ":1", "a:b"])
def test_a_broken_name_server_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="name server"):
        _ = ClientConfig(namesrv=text).name_servers


def test_client_ids_of_one_process_differ() -> None:
    clock = ManualClock()
    config = ClientConfig(client_ip="1.2.3.4")
    first, second = make_client_id(config, clock), make_client_id(config, clock)
    assert first != second
    assert first.startswith("1.2.3.4@")
    assert make_client_id(ClientConfig(client_ip="1.2.3.4", instance_name="DEFAULT"), clock) == "1.2.3.4@DEFAULT"


def test_retry_limits_differ_by_order() -> None:
    assert ConsumerConfig().reconsume_limit(orderly=False) == 16
    assert ConsumerConfig().reconsume_limit(orderly=True) == 2**31 - 1
    assert ConsumerConfig(reconsume_max=3).reconsume_limit(orderly=True) == 3


def test_first_offset_by_name() -> None:
    assert FirstOffset.of("first") is FirstOffset.FIRST
    assert FirstOffset.of(FirstOffset.LAST) is FirstOffset.LAST
    with pytest.raises(UsageError, match="last, first or timestamp"):
        FirstOffset.of("middle")
