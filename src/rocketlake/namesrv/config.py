"""Settings of the name server.

Owns        names, defaults, ranges; the settings that may change while the server runs; reading a namesrv.conf.
Must not know   the requests that change settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocketlake.auth.admin_access import AdminAccess
from rocketlake.base.disk.seam import Files
from rocketlake.base.settings.config_file import load_together, setting
from rocketlake.base.settings.live_settings import LiveSettings

__all__ = ["UPDATABLE", "LiveConfig", "NameServerConfig", "load_namesrv_conf"]


@dataclass(frozen=True, slots=True)
class NameServerConfig:
    """Settings of one name server; Java names are those of NamesrvConfig and NettyServerConfig."""

    # Behaviour
    listen_host: str = setting(
        "127.0.0.1", java="bindAddress", why="the address to listen on; 0.0.0.0 opens it to the network"
    )
    listen_port: int = setting(9876, low=0, high=65535, why="0 takes any free port")
    kv_config_path: Path = setting(
        Path.home() / "namesrv" / "kvConfig.json", java="kvConfigPath", why="file of the KV settings"
    )
    admin_access: AdminAccess = setting(
        AdminAccess.LOOPBACK, why="hosts that may change routes, topics and settings (docs/decisions/0004)"
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
        not_supported=dict.fromkeys(NOT_SUPPORTED, ("false",)),
        files=files,
    )
    assert isinstance(config, NameServerConfig)
    return config


NOT_SUPPORTED = frozenset(
    ("clusterTest", "enableControllerInNamesrv", "notifyMinBrokerIdChanged", "needWaitForService", "useTLS")
)
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
    ]
)
"""Keys of Apache's name server that are accepted and change nothing here: thread pools and buffers we do not have."""
