"""Settings of the name server.

Owns        names, defaults, ranges; the settings that may change while the server runs; reading a namesrv.conf.
Must not know   the requests that change settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocketlake.base.disk.seam import Files
from rocketlake.base.settings.config_file import load_together, setting
from rocketlake.base.settings.live_settings import LiveSettings
from rocketlake.controller.watch.timing import Profile
from rocketlake.net.server_settings import ServerSettings

__all__ = ["UPDATABLE", "LiveConfig", "NameServerConfig", "load_namesrv_conf"]


@dataclass(frozen=True, slots=True)
class NameServerConfig(ServerSettings):
    """Settings of one name server; Java names are those of NamesrvConfig and NettyServerConfig."""

    # Behaviour
    listen_host: str = setting(
        "127.0.0.1", java="bindAddress", why="the address to listen on; 0.0.0.0 opens it to the network"
    )
    listen_port: int = setting(9876, low=0, high=65535, why="0 takes any free port")
    kv_config_path: Path = setting(
        Path.home() / "namesrv" / "kvConfig.json", java="kvConfigPath", why="file of the KV settings"
    )
    order_message_enable: bool = setting(False, why="answer routes with the order configuration of a topic")
    return_order_topic_config_to_broker: bool = setting(True, why="tell brokers which topics are ordered")
    enable_all_topic_list: bool = setting(True, why="serve requests for the list of all topics")
    enable_topic_list: bool = setting(True, why="serve requests for the topics of a cluster or a unit")
    support_acting_master: bool = setting(
        False, why="routes show the slave with the lowest id as master while there is no master"
    )
    delete_topic_with_broker_registration: bool = setting(
        False, why="a registration takes away the broker's topics that it does not name"
    )

    # Controller
    enable_controller: bool = setting(
        False, java="enableControllerInNamesrv", why="choose the masters of groups of brokers (docs/decisions/0024)"
    )
    controller_profile: Profile = setting(
        Profile.FAST, why="silence of a broker of ours after which another master is chosen: FAST 1 s, CALM 3 s"
    )
    controller_address: str = setting(
        "", why="host:port at which brokers reach this controller; empty: the address that it listens on"
    )
    controller_store_path: str = setting(
        "", why="folder of the controllers' register when it is a file; empty: beside the file of the KV settings"
    )
    controller_etcd_addresses: str = setting(
        "", why="the register is etcd: http://host:2379;http://host2:2379. Empty: a file, for one controller only"
    )
    controller_etcd_root: str = setting("/rocketlake/v1/", why="start of all keys in etcd, one for each cluster")
    controller_etcd_user: str = setting("", why="account in etcd")
    controller_etcd_password_file: str = setting("", why="file whose first line is the password of that account")
    controller_etcd_ca_file: str = setting("", why="certificates that vouch for etcd; empty: those of the machine")
    controller_etcd_cert_file: str = setting("", why="certificate of this controller for etcd")
    controller_etcd_key_file: str = setting("", why="key of that certificate")
    controller_etcd_unsafe_versions: bool = setting(
        False, why="for tests only: take etcd 3.5.0 to 3.5.2, whose members can diverge after a crash"
    )
    enable_elect_unclean_master: bool = setting(
        False, why="choose a master that may lack acknowledged messages when there is no other: they are lost then"
    )

    # Speed
    scan_not_active_broker_interval: int = setting(
        5000, low=10, high=600_000, why="pause between searches for silent brokers, in ms"
    )


UPDATABLE = frozenset(
    {
        "order_message_enable",
        "return_order_topic_config_to_broker",
        "enable_all_topic_list",
        "enable_topic_list",
        "support_acting_master",
        "delete_topic_with_broker_registration",
        "enable_elect_unclean_master",
        "log_level",
    }
)
"""Settings that UPDATE_NAMESRV_CONFIG may change: none of them names a file, an address or a permission."""


class LiveConfig(LiveSettings[NameServerConfig]):
    """The settings of the name server in force now."""

    updatable = UPDATABLE


def load_namesrv_conf(
    path: Path | None = None, overrides: Mapping[str, Any] | None = None, *, files: Files | None = None
) -> NameServerConfig:
    """The settings in a namesrv.conf. UsageError names a key that is unknown, or whose feature we do not have."""
    (config,) = load_together(
        [NameServerConfig],
        path,
        overrides,
        without_effect=WITHOUT_EFFECT,
        not_supported={**dict.fromkeys(NOT_SUPPORTED, ("false",)), "notifyBrokerRoleChanged": ("true",)},
        files=files,
    )
    assert isinstance(config, NameServerConfig)
    return config


NOT_SUPPORTED = frozenset(("clusterTest", "notifyMinBrokerIdChanged", "needWaitForService"))
"""Keys of Apache's name server for features that we do not have yet."""
WITHOUT_EFFECT = frozenset(
    [
        "rocketmqHome",
        "configStorePath",
        "configBlackList",
        "productEnvName",
        "clientRequestThreadPoolNums",
        "defaultThreadPoolNums",
        "clientRequestThreadPoolQueueCapacity",
        "defaultThreadPoolQueueCapacity",
        "unRegisterBrokerQueueCapacity",
        "waitSecondsForService",
        "serverWorkerThreads",
        "serverCallbackExecutorThreads",
        "serverSelectorThreads",
        "serverOnewaySemaphoreValue",
        "serverAsyncSemaphoreValue",
        "serverChannelMaxIdleTimeSeconds",
        "serverSocketSndBufSize",
        "serverSocketRcvBufSize",
        "writeBufferHighWaterMark",
        "writeBufferLowWaterMark",
        "serverSocketBacklog",
        "serverNettyWorkerGroupEnable",
        "serverPooledByteBufAllocatorEnable",
        "enableShutdownGracefully",
        "shutdownWaitTimeSeconds",
        "useEpollNativeSelector",
        "channelNotActiveInterval",
        "clientAsyncSemaphoreValue",
        "clientCallbackExecutorThreads",
        "clientChannelMaxIdleTimeSeconds",
        "clientCloseSocketIfTimeout",
        "clientOnewaySemaphoreValue",
        "clientPooledByteBufAllocatorEnable",
        "clientSocketRcvBufSize",
        "clientSocketSndBufSize",
        "clientWorkerThreads",
        "connectTimeoutMillis",
        "disableCallbackExecutor",
        "disableNettyWorkerGroup",
        "enableReconnectForGoAway",
        "maxReconnectIntervalTimeSeconds",
        "scanAvailableNameSrv",
        "socksProxyConfig",
        # Of Apache's controller: its Raft group, its pools and pauses, its metrics
        "controllerType",
        "controllerDLegerGroup",
        "controllerDLegerPeers",
        "controllerDLegerSelfId",
        "controllerRequestThreadPoolQueueCapacity",
        "controllerThreadPoolNums",
        "electMasterMaxRetryCount",
        "jRaftControllerRPCAddr",
        "jRaftElectionTimeoutMs",
        "jRaftGroupId",
        "jRaftInitConf",
        "jRaftScanWaitTimeoutMs",
        "jRaftServerId",
        "jRaftSnapshotIntervalSecs",
        "jraftConfig",
        "mappedFileSize",
        "processReadEvent",
        "scanInactiveMasterInterval",
        "metricsInDelta",
    ]
)
"""Keys of Apache's name server and controller that are accepted and change nothing here."""
