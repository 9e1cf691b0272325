from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import UsageError
from rocketlake.broker.config import UPDATABLE, BrokerConfig, LiveConfig, load_broker_conf

CONF = Path("/etc/broker.conf")


def files_with(text: str) -> MemoryFiles:
    files = MemoryFiles()
    files.make_dirs(CONF.parent)
    files.write_bytes(CONF, text.encode())
    return files


def test_a_broker_conf_as_users_have_it_is_read() -> None:
    text = """
        brokerClusterName = DefaultCluster
        brokerName = broker-a
        brokerId = 0
        deleteWhen = 04
        fileReservedTime = 48
        brokerRole = ASYNC_MASTER
        flushDiskType = SYNC_FLUSH
        namesrvAddr = 10.0.0.1:9876;10.0.0.2:9876
        autoCreateTopicEnable=false
        sendMessageThreadPoolNums=64
        enablePropertyFilter=false
    """
    broker, store = load_broker_conf(CONF, files=files_with(text))
    assert broker.broker_name == "broker-a"
    assert broker.namesrv_addresses == ("10.0.0.1:9876", "10.0.0.2:9876")
    assert not broker.auto_create_topic
    assert store.sync_flush and store.file_reserved_hours == 48


def test_an_unknown_key_is_named_with_the_nearest_known_one() -> None:
    with pytest.raises(UsageError, match=r"unknown setting autoCreateTopicEnabled.*autoCreateTopicEnable"):
        load_broker_conf(CONF, files=files_with("autoCreateTopicEnabled=true"))


@pytest.mark.parametrize(
    "line", ["brokerRole=SLAVE", "aclEnable=true", "enableDLegerCommitLog=true", "filterSupportRetry=true"]
)
def test_what_we_do_not_have_is_refused_not_ignored(line: str) -> None:
    with pytest.raises(UsageError, match=line.partition("=")[0]):
        load_broker_conf(CONF, files=files_with(line))


def test_given_values_go_before_the_file() -> None:
    broker, _ = load_broker_conf(CONF, {"brokerName": "b"}, files=files_with("brokerName=a"))
    assert broker.broker_name == "b"


@pytest.mark.parametrize("name", ["a/b", "..", "a..b", "", "a b", "x" * 101, ".a"])
def test_names_that_could_not_be_topics_or_files_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="brokerName"):
        load_broker_conf(None, {"brokerName": name})


@pytest.mark.parametrize("name", ["broker-a", "vm.example.org", "B_1"])
def test_host_names_are_good_broker_names(name: str) -> None:
    assert load_broker_conf(None, {"brokerName": name})[0].broker_name == name


@pytest.mark.parametrize(
    ("listen", "fast", "port"), [(10911, -1, 10909), (10911, 0, None), (10911, 7000, 7000), (0, -1, None)]
)
def test_the_fast_port_is_two_below(listen: int, fast: int, port: int | None) -> None:
    assert BrokerConfig(listen_port=listen, fast_listen_port=fast).fast_port == port


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"listenPort": 7000, "fastListenPort": 7001}, "fastListenPort and haListenPort are both 7001"),
        ({"listenPort": 7000, "haListenPort": 6998}, "fastListenPort and haListenPort are both 6998"),
        ({"listenPort": 7000, "haListenPort": 7000}, "listenPort and haListenPort are both 7000"),
        ({"listenPort": 65535}, "haListenPort = 65536 is no port"),
    ],
)
def test_two_listeners_on_one_port_are_refused(settings: dict[str, int], told: str) -> None:
    with pytest.raises(UsageError, match=told) as refused:
        load_broker_conf(None, settings)
    assert "haListenPort" in refused.value.hint


def test_it_listens_on_this_machine_only_unless_told() -> None:
    assert BrokerConfig().listen_host == "127.0.0.1"


def test_a_live_change_replaces_the_settings_as_a_whole() -> None:
    live = LiveConfig(BrokerConfig(broker_name="a"))
    before = live.now
    live.update({"autoCreateTopicEnable": "false"})
    assert (before.auto_create_topic, live.now.auto_create_topic) == (True, False)
    assert live.now.broker_name == "a"


@pytest.mark.parametrize("values", [{"nonsense": "1"}, {"brokerPermission": "9"}, {"traceOn": "maybe"}])
def test_a_bad_live_change_changes_nothing(values: dict[str, str]) -> None:
    live = LiveConfig(BrokerConfig())
    before = live.now
    with pytest.raises(UsageError):
        live.update({"autoCreateTopicEnable": "false", **values})
    assert live.now is before


def test_settings_read_back_as_they_are_shown() -> None:
    config = BrokerConfig(broker_name="a", namesrv_addresses=("h:1", "h:2"))
    assert load_broker_conf(None, LiveConfig(config).to_values())[0] == config


def test_nothing_about_files_addresses_or_access_can_be_changed_from_outside() -> None:
    words = ("host", "port", "path", "root", "access", "address", "name")
    assert [name for name in UPDATABLE if any(word in name for word in words)] == []


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("enableControllerMode=true", "set controllerAddr"),
        ("enableControllerMode=true\ncontrollerAddr=h:1\nbrokerId=1", "leave brokerId out"),
        ("minInSyncReplicas=2", "set enableControllerMode=true"),
    ],
)
def test_settings_of_a_group_that_cannot_be_kept_refuse_the_start(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        load_broker_conf(CONF, files=files_with(text))
    assert hint in refused.value.hint


@pytest.mark.parametrize(
    ("more", "copies"),
    [("", 2), ("minInSyncReplicas=1", 1), ("minInSyncReplicas=3", 3), ("allAckInSyncStateSet=false", 1)],
)
def test_two_copies_are_asked_for_unless_less_is_set(more: str, copies: int) -> None:
    text = f"enableControllerMode=true\ncontrollerAddr=h:1;i:2\n{more}"
    config = load_broker_conf(CONF, files=files_with(text))[0]
    assert (config.copies_min, config.controller_addresses) == (copies, ("h:1", "i:2"))
