"""Where a server's settings come from, and what is refused before it starts."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from rocketlake.base.errors import StoreError, UsageError
from rocketlake.cli.given import (
    check_ports,
    grpc_ports,
    load_broker_settings,
    make_folder,
    metrics_ports,
    settings_of,
)


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "broker.conf"
    path.write_text("namesrvAddr=127.0.0.1:1111\nbrokerName=b\n")
    return path


def test_the_environment_never_beats_the_file(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:2222")
    loaded = load_broker_settings(conf, namesrv=None, store=None)
    assert loaded.broker.namesrv_addresses == ("127.0.0.1:1111",)
    assert "127.0.0.1:1111 (from namesrvAddr in" in loaded.registers_at
    assert "NAMESRV_ADDR=127.0.0.1:2222 is not used" in loaded.registers_at


def test_an_option_beats_file_and_environment(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:2222")
    loaded = load_broker_settings(conf, namesrv="127.0.0.1:3333", store=Path("/x"))
    assert loaded.broker.namesrv_addresses == ("127.0.0.1:3333",)
    assert loaded.broker.store_root == Path("/x")
    assert "(from --namesrv)" in loaded.registers_at


@pytest.mark.parametrize("text", ["brokerName=b\n", "brokerName=b\nnamesrvAddr=\n"])
def test_a_file_that_names_none_leaves_it_to_the_environment(
    conf: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf.write_text(text)
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:2222")
    loaded = load_broker_settings(conf, namesrv=None, store=None)
    assert loaded.broker.namesrv_addresses == ("127.0.0.1:2222",)
    assert loaded.registers_at.endswith("(from NAMESRV_ADDR in the environment)")
    monkeypatch.delenv("NAMESRV_ADDR")
    assert "registers with no name server" in load_broker_settings(conf, namesrv=None, store=None).registers_at


def test_a_folder_that_cannot_be_used_names_the_option(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for wrong in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/none")):
        with pytest.raises(StoreError, match="folder cannot be made") as refused:
            make_folder(wrong, "--dir")
        assert "--dir" in refused.value.hint
    make_folder(tmp_path / "a" / "b", "--dir")
    assert (tmp_path / "a" / "b").is_dir()


def test_settings_given_one_by_one() -> None:
    assert settings_of(["enablePropertyFilter=true", "x=a=b"]) == {"enablePropertyFilter": "true", "x": "a=b"}
    for text in ("alone", "=x", "listenPort=1", "namesrvAddr=a:1"):
        with pytest.raises(UsageError, match="--set") as refused:
            settings_of([text])
        assert refused.value.hint


@pytest.mark.parametrize(
    ("namesrv", "brokers", "settings", "told"),
    [
        (5000, [5000], {"haListenPort": "-1"}, "port 5000 is wanted twice: --namesrv-port and --broker-port"),
        (5001, [5000], {}, "port 5001 .*: --namesrv-port and the port for slaves next to --broker-port"),
        (5011, [5000, 5010], {}, "port 5011 .*: --namesrv-port and the port for slaves next to --broker-port"),
        (1, [5000, 5010], {"haListenPort": "7000"}, "port 7000 .*: --set haListenPort and --set haListenPort"),
        (7000, [0], {"haListenPort": "7000"}, "port 7000 .*: --namesrv-port and --set haListenPort"),
        (5002, [0, 0], {"grpcServerPort": "5001"}, r"port 5002 .*: --namesrv-port and gRPC next to"),
    ],
)
def test_the_ports_of_one_command_differ(namesrv: int, brokers: list[int], settings: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=told) as refused:
        check_ports(namesrv, [("--broker-port", port) for port in brokers], settings)
    assert "--broker-port" in refused.value.hint


@pytest.mark.parametrize(
    ("namesrv", "brokers", "settings"),
    [(5001, [5000], {"haListenPort": "-1"}), (0, [0, 0], {}), (9876, [10911, 10921], {})],
)
def test_ports_that_differ_are_good(namesrv: int, brokers: list[int], settings: dict[str, str]) -> None:
    assert check_ports(namesrv, [("--broker-port", port) for port in brokers], settings) is None


def test_metrics_have_ports_beside_each_other() -> None:
    assert metrics_ports(7000, 0, 3) == [6999, 7000, 7001, 7002]
    assert metrics_ports(0, 10911, 2) == [0, 0, 0]
    assert metrics_ports(-1, 10911, 2) == []
    assert metrics_ports(None, 0, 1) == [0, 0]


def test_a_port_of_metrics_that_is_taken_is_any_free_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr("rocketlake.net.http.settings.METRICS_PORT", port + 1)
        name_server, *_brokers = metrics_ports(None, 10911, 1)
        assert name_server == 0


def test_each_broker_of_a_group_serves_grpc_at_a_port_of_its_own() -> None:
    assert grpc_ports({"grpcServerPort": "8081"}, 3) == [8081, 8082, 8083]
    assert grpc_ports({"grpcServerPort": "0"}, 2) == [0, 0]
    assert grpc_ports({}, 2) == [-1, -1]
    for wrong in ("x", "-2", "65535"):
        with pytest.raises(UsageError, match="grpcServerPort"):
            grpc_ports({"grpcServerPort": wrong}, 2)
