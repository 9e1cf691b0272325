from __future__ import annotations

import pytest

from rocketlake.base.config_file import load
from rocketlake.base.errors import UsageError
from rocketlake.namesrv.config import LiveConfig, NameServerConfig
from rocketlake.net.admin_access import AdminAccess


def test_settings_have_the_names_users_know() -> None:
    config = load(NameServerConfig, overrides={"listenPort": "9877", "orderMessageEnable": "true", "adminAccess": "ANY"})
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
