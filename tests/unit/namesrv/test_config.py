from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.auth.admin_access import AdminAccess
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import UsageError
from rocketlake.base.settings.config_file import load
from rocketlake.namesrv.config import LiveConfig, NameServerConfig, load_namesrv_conf


def test_settings_have_the_names_users_know() -> None:
    given = {"listenPort": "9877", "orderMessageEnable": "true", "adminAccess": "ANY"}
    config = load(NameServerConfig, overrides=given)
    assert (config.listen_port, config.order_message_enable, config.admin_access) == (9877, True, AdminAccess.ANY)


def test_live_settings_change_all_or_none() -> None:
    live = LiveConfig(NameServerConfig(listen_port=0))
    live.update({"orderMessageEnable": "true"})
    assert live.now.order_message_enable
    assert live.now.listen_port == 0
    with pytest.raises(UsageError, match="enableTopicList"):
        live.update({"orderMessageEnable": "false", "enableTopicList": "perhaps"})
    assert live.now.order_message_enable


def test_every_setting_is_shown_as_a_file_would_hold_it() -> None:
    values = LiveConfig(NameServerConfig()).to_values()
    assert values["listenPort"] == "9876"
    assert values["enableTopicList"] == "true"
    assert values["adminAccess"] == "LOOPBACK"
    assert load(NameServerConfig, overrides=values) == NameServerConfig()


def conf(text: str) -> tuple[Path, MemoryFiles]:
    files, path = MemoryFiles(), Path("/etc/namesrv.conf")
    files.make_dirs(path.parent)
    files.write_bytes(path, text.encode())
    return path, files


def test_a_file_of_apaches_name_server_is_taken() -> None:
    path, files = conf("rocketmqHome=/opt/rocketmq\nlistenPort=9999\nserverWorkerThreads=8\nclusterTest=false\n")
    assert load_namesrv_conf(path, {"bindAddress": "0.0.0.0"}, files=files) == NameServerConfig(
        listen_host="0.0.0.0", listen_port=9999
    )


@pytest.mark.parametrize("line", ["listenPrt=9999", "needWaitForService=true", "listenPort=70000"])
def test_a_key_that_is_unknown_or_asks_for_what_we_do_not_have_is_named(line: str) -> None:
    path, files = conf(line)
    with pytest.raises(UsageError, match=rf"{line.split('=')[0]}.*namesrv\.conf"):
        load_namesrv_conf(path, files=files)
