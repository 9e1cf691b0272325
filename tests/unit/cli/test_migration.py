"""What a slave needs of the master that it follows, and which masters it cannot follow."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from rocketlake.admin.migration.peer import Peer, number
from rocketlake.admin.migration.slave_conf import check_master, free_id, slave_settings
from rocketlake.base.errors import ProtocolError, StoreError, UsageError
from rocketlake.broker.config import BrokerConfig, BrokerRole
from rocketlake.cli.follow import _check_conf, _write_whole
from rocketlake.cli.following import lag_text
from rocketlake.cli.tree import app
from rocketlake.net.client import NetClient

MASTER = {"brokerName": "a", "brokerRole": "ASYNC_MASTER", "mappedFileSizeCommitLog": "4096", "brokerIP1": "10.0.0.1"}


def peer(**settings: str) -> Peer:
    found = Peer(NetClient(), "10.0.0.1:10911")
    found.settings = MASTER | settings
    return found


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"enableControllerMode": "true", "controllerAddr": "10.0.0.9:9878"},
            r"AutoSwitch.*controllerAddr=10.0.0.9:9878",
        ),
        ({"enableDLegerCommitLog": "true"}, r"DLedger group.*store convert"),
        ({"brokerRole": "SLAVE"}, r"is a slave.*of its master"),
    ],
)
async def test_a_master_that_cannot_be_followed_is_refused_with_the_way_that_there_is(
    settings: dict[str, str], text: str
) -> None:
    with pytest.raises(UsageError) as error:
        check_master(peer(**settings))
    assert error.match(text)


async def test_a_slave_has_the_layout_of_its_master_and_an_id_of_its_own() -> None:
    check_master(peer())
    settings = slave_settings(peer(), {"commitLogMinOffset": "8192"}, free_id({0, 1, 3}))
    assert settings == {
        "brokerName": "a",
        "mappedFileSizeCommitLog": "4096",
        "brokerRole": "SLAVE",
        "brokerId": "2",
        "haCopiesFrom": "8192",
    }
    ours = slave_settings(peer(adminAccess="LOOPBACK"), {"commitLogMinOffset": "8192"}, 1)
    assert "haCopiesFrom" not in ours


def test_lag_is_told_in_bytes_and_in_seconds() -> None:
    assert lag_text(0, 10.0) == "lacks nothing of the master's log"
    assert lag_text(500, 250.0) == "lacks 500 bytes of the master's log, 2.0 s of what the master writes"
    assert lag_text(500, 0.0) == "lacks 500 bytes of the master's log"


def test_a_figure_that_is_no_number_is_refused() -> None:
    assert number({"a": "-1"}, "a", "x") == -1
    with pytest.raises(ProtocolError, match="no number"):
        number({"a": "many"}, "a", "x")


@pytest.mark.parametrize("text", ["", "# Written by\nbrokerName=a\nbrokerClusterName=C\n"])
def test_follow_starts_no_master_with_settings_that_were_cut_off(tmp_path: Path, text: str) -> None:
    (tmp_path / "broker.conf").write_text(text)
    words = ["follow", "127.0.0.1:1", "--dir", str(tmp_path), "-n", "127.0.0.1:1"]
    with pytest.raises(UsageError, match="would be a master"):
        CliRunner().invoke(app, words, catch_exceptions=False)
    assert [path.name for path in tmp_path.iterdir()] == ["broker.conf"]


@pytest.mark.parametrize("conf", ["brokerName=a\nbrokerRole=SLAVE\nbrokerId=1\nstorePathRootDir={}\n", ""])
def test_follow_behind_a_takeover_starts_neither_a_second_master_nor_a_slave(tmp_path: Path, conf: str) -> None:
    store = tmp_path / "store"
    if conf:
        (tmp_path / "broker.conf").write_text(conf.format(store))
    (store / "config").mkdir(parents=True)
    (store / "config" / "takenRole.json").write_text('{"configuredId":1,"brokerId":0}')
    before = sorted(tmp_path.rglob("*"))
    words = ["follow", "127.0.0.1:1", "--dir", str(tmp_path), "-n", "127.0.0.1:1"]
    with pytest.raises(UsageError, match=r"has taken over.*takenRole.json.*rocketlake run broker -c.*--dir"):
        CliRunner().invoke(app, words, catch_exceptions=False)
    assert sorted(tmp_path.rglob("*")) == before


def test_settings_that_cannot_be_written_as_a_whole_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "broker.conf.tmp").mkdir()  # nothing can be written there
    with pytest.raises(StoreError, match="the settings cannot be written"):
        _write_whole(tmp_path / "broker.conf", "brokerRole=SLAVE\n")
    assert not (tmp_path / "broker.conf").exists()
    (tmp_path / "broker.conf.tmp").rmdir()
    _write_whole(tmp_path / "broker.conf", "brokerRole=SLAVE\n")
    assert [path.name for path in tmp_path.iterdir()] == ["broker.conf"]


def test_a_folder_follows_the_master_of_its_first_run_only() -> None:
    config = BrokerConfig(broker_name="a", cluster_name="C", broker_role=BrokerRole.SLAVE, broker_id=1)
    _check_conf(Path("broker.conf"), config, ("a", "C"))
    _check_conf(Path("broker.conf"), config, None)
    with pytest.raises(UsageError, match=r"follows a of C, the master is b of C.*--dir"):
        _check_conf(Path("broker.conf"), config, ("b", "C"))
