"""Every key of Apache RocketMQ 5.3.3 means something to us: a setting, a promise that is refused, or nothing, said."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import UsageError
from rocketlake.base.settings.config_file import setting_texts
from rocketlake.broker.apache_keys import NOT_SUPPORTED, WITHOUT_EFFECT
from rocketlake.broker.config import BrokerConfig, load_broker_conf
from rocketlake.namesrv import config as namesrv
from rocketlake.store.config import WITHOUT_EFFECT as STORE_WITHOUT_EFFECT
from rocketlake.store.config import StoreConfig

LISTS = Path(__file__).parents[1] / "apache_keys"
CONF = Path("/etc/some.conf")


def listed(name: str) -> set[str]:
    return set((LISTS / name).read_text().split())


def files_with(text: str) -> MemoryFiles:
    files = MemoryFiles()
    files.make_dirs(CONF.parent)
    files.write_bytes(CONF, text.encode())
    return files


def test_every_key_of_a_broker_conf_is_classified() -> None:
    ours = {*setting_texts(BrokerConfig()), *setting_texts(StoreConfig())}
    keys = listed("broker_5_3_3.txt")
    assert len(keys) == 442
    assert keys - ours - WITHOUT_EFFECT - STORE_WITHOUT_EFFECT - NOT_SUPPORTED.keys() == set()
    assert NOT_SUPPORTED.keys() & (WITHOUT_EFFECT | STORE_WITHOUT_EFFECT) == set()
    assert ours & NOT_SUPPORTED.keys() == set()


def test_every_key_of_a_namesrv_conf_is_classified() -> None:
    ours = set(setting_texts(namesrv.NameServerConfig()))
    assert listed("namesrv_5_3_3.txt") - ours - namesrv.WITHOUT_EFFECT - namesrv.NOT_SUPPORTED == set()
    refused = {"notifyBrokerRoleChanged"}  # but true
    assert listed("controller_5_5_0.txt") - ours - namesrv.WITHOUT_EFFECT - refused == set()
    assert not namesrv.NOT_SUPPORTED & namesrv.WITHOUT_EFFECT


@pytest.mark.parametrize(
    "line",
    [
        "forceVerifyPropCRC=true",
        "aclEnable=true",
    ],
)
def test_a_promise_of_safety_or_security_that_is_not_kept_refuses_the_start_by_name(line: str) -> None:
    with pytest.raises(UsageError, match=line.replace("=", " = ")):
        load_broker_conf(CONF, files=files_with(line))


def test_the_value_of_a_promise_that_asks_for_nothing_is_taken() -> None:
    lines = [f"{key}={values[0]}" for key, values in NOT_SUPPORTED.items()]
    assert load_broker_conf(CONF, files=files_with("\n".join(lines))) == load_broker_conf(CONF, files=files_with(""))


def test_tuning_keys_that_mean_nothing_here_are_taken_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    text = "timerStopEnqueue=false\ndLegerGroup=g\nlistenPort=1\nmetricsInDelta=true"
    load_broker_conf(CONF, files=files_with(text))
    (line,) = caplog.messages
    assert line == (
        "/etc/some.conf: these settings of RocketMQ change nothing here: timerStopEnqueue, dLegerGroup, metricsInDelta"
    )


def test_a_word_that_nobody_knows_is_refused_with_the_nearest_of_all_that_are_known() -> None:
    with pytest.raises(UsageError, match="did you mean haSendHeartbeatInterval"):
        load_broker_conf(CONF, files=files_with("haSendHartbeatInterval=5"))


def test_the_share_of_the_disk_is_clamped_as_apache_clamps_it(caplog: pytest.LogCaptureFixture) -> None:
    for given, counts in (("99", 95), ("5", 10), ("80", 80)):
        _, store = load_broker_conf(CONF, files=files_with(f"diskMaxUsedSpaceRatio={given}"))
        assert store.disk_used_max_percent == counts
    assert "diskMaxUsedSpaceRatio = 99 counts as 95" in caplog.messages[0]
    assert len(caplog.messages) == 2
