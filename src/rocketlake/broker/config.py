"""Settings of the broker.

Owns        names, defaults, ranges; which settings may change while the broker runs; how a broker.conf is read.
Must not know   requests that change settings; the settings of the store (store/config.py), which share the file.

Java names and defaults are those of BrokerConfig, BrokerIdentity and NettyServerConfig in RocketMQ 5.3, except that the
broker listens on this machine only until `bindAddress` says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from rocketlake.base.disk.seam import Files
from rocketlake.base.errors import UsageError
from rocketlake.base.settings.config_file import load_together, setting
from rocketlake.base.settings.live_settings import LiveSettings
from rocketlake.broker.apache_keys import NOT_SUPPORTED, WITHOUT_EFFECT
from rocketlake.broker.updatable import UPDATABLE
from rocketlake.model.topic import Perm
from rocketlake.net.local_address import host_name
from rocketlake.net.server_settings import ServerSettings
from rocketlake.store.config import WITHOUT_EFFECT as STORE_KEYS_WITHOUT_EFFECT
from rocketlake.store.config import StoreConfig

__all__ = ["UPDATABLE", "BrokerConfig", "BrokerRole", "LiveConfig", "load_broker_conf"]

_NAME = re.compile(r"(?=.{1,100}$)[%|\w-]+(\.[%|\w-]+)*", re.ASCII)
FRAME_BYTES_MAX = 4 << 20
"""A slave of Apache reads a frame of its master into a buffer of this size."""
PORT_MAX = 65535
FAST_PORT_STEP = 2
"""The fast (VIP) port is the listening port minus this."""


def _host_name() -> str:
    return host_name() or "DEFAULT_BROKER"


class BrokerRole(Enum):
    """The part of a broker in its group, as its settings say; with a controller that may change."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


@dataclass(frozen=True, slots=True)
class BrokerConfig(ServerSettings):
    """Settings of one broker."""

    # Behaviour: the names of this broker
    broker_name: str = setting(_host_name, why="name of a master and its slaves in routes")
    cluster_name: str = setting("DefaultCluster", java="brokerClusterName", why="cluster to which the broker belongs")
    broker_id: int = setting(0, low=0, why="0 is the master of its brokerName; each slave has a number of its own")
    broker_role: BrokerRole = setting(
        BrokerRole.ASYNC_MASTER,
        why="SYNC_MASTER answers a send when slaves have it, too, ASYNC_MASTER before; SLAVE copies its master",
    )
    region_id: str = setting("DefaultRegion", why="put into every message and answer as MSG_REGION")

    # Behaviour: addresses
    listen_host: str = setting(
        "127.0.0.1", java="bindAddress", why="the address to listen on; 0.0.0.0 opens the broker to the network"
    )
    listen_port: int = setting(10911, low=0, high=65535, why="0 takes any free port")
    fast_listen_port: int = setting(
        -1,
        low=-1,
        high=65535,
        why="a second port, for producers (VIP channel) and Apache's slaves (topics); -1: listenPort - 2, 0: none",
    )
    grpc_port: int = setting(
        -1, java="grpcServerPort", low=-1, high=65535, why="port of a gRPC proxy beside this broker; 0: any, -1: none"
    )
    advertised_host: str = setting(
        "",
        java="brokerIP1",
        why="address that clients are told; empty: bindAddress, or this machine's if that is 0.0.0.0",
    )
    namesrv_addresses: tuple[str, ...] = setting(
        (), java="namesrvAddr", why="name servers to register with, host:port;host:port"
    )
    register_interval_ms: int = setting(
        30_000, java="registerNameServerPeriod", low=1, why="pause between registrations; used within 10 s to 60 s"
    )
    single_topic_register: bool = setting(
        True,
        java="enableSingleTopicRegister",
        why="tell name servers of a changed topic alone; needed where deleteTopicWithBrokerRegistration=true",
    )
    register_timeout_ms: int = setting(
        24_000, java="registerBrokerTimeoutMills", low=1, why="longest wait for one name server"
    )

    # Behaviour: replicas
    ha_listen_port: int = setting(
        0, low=-1, high=65535, why="where slaves of this broker connect; 0: listenPort + 1, -1: nowhere, it has none"
    )
    ha_advertised_host: str = setting(
        "", java="brokerIP2", why="address that slaves of this broker are told; empty: that of clients"
    )
    ha_master_address: str = setting(
        "", why="host:haListenPort of the master that a slave follows; empty: name servers tell it"
    )
    in_sync_replicas: int = setting(
        2, low=1, high=64, why="with SYNC_MASTER a send is answered when so many brokers, this one included, have it"
    )
    slave_timeout_ms: int = setting(
        3000, java="slaveTimeout", low=1, why="a send that waits longer for slaves is answered FLUSH_SLAVE_TIMEOUT"
    )
    ha_gap_bytes_max: int = setting(
        256 << 20,
        java="haMaxGapNotInSync",
        low=0,
        why="a slave that lacks more of the log does not count; without enough slaves sends do not wait for them",
    )
    ha_batch_bytes: int = setting(
        32 * 1024, java="haTransferBatchSize", low=256, high=FRAME_BYTES_MAX - 64, why="bytes of the log in one frame"
    )
    ha_heartbeat_ms: int = setting(
        5000, java="haSendHeartbeatInterval", low=1, why="master and slave say something to each other this often"
    )
    ha_silence_ms: int = setting(
        20_000, java="haHousekeepingInterval", low=1, why="a slave or a master that is silent for longer is given up"
    )
    ha_flow_control: bool = setting(
        False, java="haFlowControlEnable", why="send each slave no more than maxHaTransferByteInSecond"
    )
    ha_bytes_per_second: int = setting(
        100 << 20, java="maxHaTransferByteInSecond", low=1024, why="bytes a second for each slave, with flow control"
    )
    sync_from_last_file: bool = setting(
        False, why="an empty slave gets the newest log file only, and lacks all older messages"
    )
    ha_copies_from: int = setting(
        -1, low=-1, why="an empty slave of an Apache master asks for the log from this offset on; -1: its last file"
    )
    controller_mode: bool = setting(
        False, java="enableControllerMode", why="a controller gives this broker its id and role; brokerId is not used"
    )
    controller_addresses: tuple[str, ...] = setting(
        (), java="controllerAddr", why="controllers of this group, host:port;host:port"
    )
    all_ack_in_sync: bool = setting(
        True,
        java="allAckInSyncStateSet",
        why="with a controller: each replica in step has a message before its send is answered; false loses some",
    )
    min_in_sync_replicas: int = setting(
        0,
        low=0,
        high=64,
        why="with a controller: fewer replicas in step answer no send; 0: 2 of them, this one included",
    )
    election_priority: int = setting(
        2**31 - 1,
        java="brokerElectionPriority",
        low=0,
        high=2**31 - 1,
        why="of replicas with equal logs the one with the lowest number becomes the master",
    )
    controller_heartbeat_ms: int = setting(
        200, java="brokerHeartbeatInterval", low=10, why="pause between two heartbeats to each controller"
    )
    controller_silence_ms: int = setting(
        1000,
        java="controllerHeartBeatTimeoutMills",
        low=100,
        why="a controller counts this broker as dead after so long without a heartbeat",
    )
    controller_poll_ms: int = setting(
        1000, java="syncBrokerMetadataPeriod", low=10, why="pause between two looks at what the controller has recorded"
    )
    in_sync_stall_ms: int = setting(
        1000,
        java="haMaxTimeSlaveNotCatchup",
        low=10,
        why="a replica in step that holds up acks for longer leaves the set, with a controller",
    )
    ha_connections_max: int = setting(64, low=1, why="most connections of slaves")
    ha_allow_unauthenticated: bool = setting(
        False,
        why="with users: slaves that cannot say who they are, as Apache's, get the log, and so does any stranger",
    )
    ha_use_tls: bool = setting(
        True,
        java="haUseTLS",
        why="false: the stream of the log is plain, whatever else is encrypted; in a group with a broker of Apache's",
    )
    ha_reports_flushed: bool = setting(
        False, why="this slave tells its master what is on its disk; false: what it has, as in RocketMQ"
    )

    # Behaviour: files
    store_root: Path = setting(
        Path("~/store"), java="storePathRootDir", why="folder of messages and tables; ~ is the home folder"
    )
    offset_save_interval_ms: int = setting(
        5000, java="flushConsumerOffsetInterval", low=10, why="pause between saves of the tables that changed"
    )
    offset_version_step: int = setting(
        500, java="consumerOffsetUpdateVersionStep", low=1, why="so many commits of offsets make a new data version"
    )
    delay_version_step: int = setting(
        200,
        java="delayOffsetUpdateVersionStep",
        low=1,
        why="so many deliveries of delayed messages make a new data version",
    )

    # Behaviour: topics and groups
    permission: int = setting(
        Perm.READ | Perm.WRITE,
        java="brokerPermission",
        low=0,
        high=7,
        why="2: write, 4: read, 6: both; no topic allows more than that",
    )
    auto_create_topic: bool = setting(
        True, java="autoCreateTopicEnable", why="a topic is made when a producer first sends to it"
    )
    default_topic_queues: int = setting(
        8, java="defaultTopicQueueNums", low=1, high=1024, why="most queues of a topic that its first send makes"
    )
    auto_create_group: bool = setting(
        True, java="autoCreateSubscriptionGroup", why="a consumer group is made when a consumer first uses it"
    )
    topics_max: int = setting(100_000, low=1, why="most topics; one more is refused")
    queues_max: int = setting(
        1_000_000, low=1, why="most queues of all topics together; a topic that would make more is refused"
    )
    topic_queues_max: int = setting(
        65_536, low=1, high=65_536, why="most queues of one topic; one with more is refused"
    )
    groups_max: int = setting(100_000, low=1, why="most consumer groups; one more is refused")
    cluster_topic: bool = setting(True, java="clusterTopicEnable", why="the topic named as the cluster can be used")
    broker_topic: bool = setting(True, java="brokerTopicEnable", why="the topic named as the broker can be used")
    trace_topic_enabled: bool = setting(False, java="traceTopicEnable", why="make the topic of message traces")
    trace_topic: str = setting("RMQ_SYS_TRACE_TOPIC", java="msgTraceTopicName", why="the topic of message traces")
    trace_on: bool = setting(True, java="traceOn", why="clients are told that they may send traces")

    # Behaviour: sending, pulling, clients
    start_accept_send_ms: int = setting(
        0, java="startAcceptSendRequestTimeStamp", low=0, why="sends are refused before this time, epoch ms"
    )
    producer_sequences_max: int = setting(
        10_000,
        low=1,
        why="most tasks of queries whose replays are known; the batch unused for longest is forgotten, then refused",
    )
    producer_sequence_keep_ms: int = setting(
        7 * 24 * 3_600_000,
        low=1000,
        why="time after its last message for which a query's last batch is known; counted while the broker runs",
    )
    long_polling_enabled: bool = setting(
        True, java="longPollingEnable", why="a pull waits as long as its consumer allows"
    )
    short_polling_ms: int = setting(
        1000, java="shortPollingTimeMills", low=1, why="how long a pull waits when longPollingEnable=false"
    )
    slave_read_enabled: bool = setting(
        False,
        java="slaveReadEnable",
        why="slaves serve pulls, and a master sends consumers that are far behind to the slave their group names",
    )
    offset_check_in_slave: bool = setting(
        False,
        java="offsetCheckInSlave",
        why="a slave says itself that an offset is outside of a queue, and does not leave that to its master",
    )
    lite_pull_enabled: bool = setting(True, java="litePullMessageEnable", why="serve lite pull consumers")
    property_filter_enabled: bool = setting(
        False, java="enablePropertyFilter", why="serve SQL92 filters on message properties"
    )
    notify_consumer_changes: bool = setting(
        True, java="notifyConsumerIdsChangedEnable", why="tell consumers at once when their group changes"
    )
    lock_in_strict_mode: bool = setting(
        False, why="a lock of an ordered queue counts when more than half of totalReplicas brokers have it"
    )
    total_replicas: int = setting(
        1, low=1, high=1000, why="brokers of this brokerName, the master included; asked for by lockInStrictMode only"
    )
    audit_topic_enabled: bool = setting(
        False,
        java="auditTopicEnable",
        why="a master stores each line of its audit.jsonl in the topic RMQ_SYS_AUDIT_TOPIC, too",
    )

    store_replies: bool = setting(
        True, java="storeReplyMessageEnable", why="store the answers to request messages that their clients have taken"
    )
    waiting_replies_max: int = setting(
        10_000,
        java="replyThreadPoolQueueCapacity",
        low=1,
        why="answers to request messages that wait for the word of their clients; above it they are refused as busy",
    )

    # Behaviour: messages for a time
    recall_enabled: bool = setting(
        True, java="recallMessageEnable", why="producers may take back messages that wait for their time"
    )
    recall_when_not_writeable: bool = setting(
        True,
        java="allowRecallWhenBrokerNotWriteable",
        why="recalls are taken though brokerPermission holds no write bit",
    )

    # Behaviour: transactions
    reject_transactions: bool = setting(
        False, java="rejectTransactionMessage", why="refuse half messages of transactions"
    )
    transaction_timeout_ms: int = setting(
        6000, java="transactionTimeOut", low=0, why="age of an undecided half message at which its producer is asked"
    )
    transaction_checks_max: int = setting(
        15, java="transactionCheckMax", low=1, why="so many questions to producers, then a half message is given up"
    )
    transaction_check_interval_ms: int = setting(
        30_000, java="transactionCheckInterval", low=10, why="pause between searches for undecided half messages"
    )
    transaction_op_bytes_max: int = setting(
        4096, java="transactionOpMsgMaxSize", low=1, high=1 << 20, why="bytes of ends of transactions in one op message"
    )
    transaction_op_interval_ms: int = setting(
        3000,
        java="transactionOpBatchInterval",
        low=1,
        why="longest time until an end is noted on disk by an op message",
    )

    # Behaviour: pops
    retry_topic_v2: bool = setting(
        False,
        java="enableRetryTopicV2",
        why="popped messages come again through %RETRY%group+topic instead of %RETRY%group_topic",
    )
    pop_retry_percent: int = setting(
        20,
        java="popFromRetryProbability",
        low=0,
        high=100,
        why="of a hundred pops so many look for messages that come again first",
    )
    priority_retry_percent: int = setting(
        20,
        java="popFromRetryProbabilityForPriority",
        low=0,
        high=100,
        why="the same for topics of messages with priorities",
    )
    priority_ascends: bool = setting(True, java="priorityOrderAsc", why="a higher queue has a higher priority")
    shows_retry_topic: bool = setting(
        False,
        java="popResponseReturnActualRetryTopic",
        why="consumers see the retry topic of a message that comes again",
    )
    lite_topics_max: int = setting(
        2_000_000, java="maxLmqConsumeQueueNum", low=1, why="most lite topics of all parents together"
    )
    lite_subscriptions_max: int = setting(
        100_000, java="maxLiteSubscriptionCount", low=1, why="most lite topics of all subscribers together"
    )
    lite_life_min_ms: int = setting(
        900_000, java="minLiteTTl", low=0, why="a lite topic expires no sooner, whatever lite.topic.expiration says"
    )
    lite_check_interval_ms: int = setting(
        120_000, java="liteTtlCheckInterval", low=100, why="pause between searches for lite topics that have expired"
    )
    held_pops_max: int = setting(100_000, java="maxPopPollingSize", low=1, why="most pops that wait at once")
    held_pops_of_queue_max: int = setting(
        1024, java="popPollingSize", low=1, why="most pops of one group that wait at one queue"
    )
    revive_interval_ms: int = setting(
        1000, java="reviveInterval", low=10, why="pause between searches for popped messages that must come again"
    )

    # Speed
    request_body_bytes_max: int = setting(
        1 << 20, low=1 << 16, why="largest body of a request that is no send, such as a list of topics or a heartbeat"
    )
    unfinished_bytes_max: int = setting(
        256 << 20,
        low=1 << 24,
        why="most bytes of incomplete requests, of all links together; above it the link with the largest is closed",
    )
    held_pulls_max: int = setting(
        100_000, java="pullThreadPoolQueueCapacity", low=1, why="most pulls that wait at once, of all clients"
    )
    held_pulls_of_one_max: int = setting(
        50_000, low=1, why="most pulls, or pops, that wait at once, of one user, or one host on a broker without users"
    )
    memberships_max: int = setting(
        400_000, low=1, why="most memberships of connected clients in groups; one more is refused"
    )
    memberships_of_one_max: int = setting(
        200_000, low=1, why="the same of one user, or of one host on a broker without users"
    )
    waiting_sends_max: int = setting(
        10_000, java="sendThreadPoolQueueCapacity", low=1, why="most sends that wait for the disk at once"
    )
    fast_failure: bool = setting(
        True,
        java="brokerFastFailureEnable",
        why="a request that waited too long before it was looked at is answered busy",
    )
    send_age_max_ms: int = setting(
        200, java="waitTimeMillsInSendQueue", low=1, why="age above which a send is answered busy"
    )
    pull_age_max_ms: int = setting(
        5000, java="waitTimeMillsInPullQueue", low=1, why="age above which a pull is answered busy"
    )
    heartbeat_age_max_ms: int = setting(
        31_000, java="waitTimeMillsInHeartbeatQueue", low=1, why="age above which a heartbeat is answered busy"
    )
    admin_age_max_ms: int = setting(
        5000, java="waitTimeMillsInAdminBrokerQueue", low=1, why="age above which any other request is answered busy"
    )

    def validate(self) -> None:
        """UsageError for names that cannot become a topic and a part of a file name, and for settings that disagree."""
        for name, value in (("brokerName", self.broker_name), ("brokerClusterName", self.cluster_name)):
            if _NAME.fullmatch(value) is None:
                raise UsageError(
                    f"setting {name} = {value[:100]!r} is no name",
                    hint="use letters, digits, _, - and single dots, at most 100 characters",
                )

        if self.audit_topic_enabled and not self.authorization_enabled:
            raise UsageError(
                "setting auditTopicEnable: without rules everybody could read who did what",
                hint="set authenticationEnabled=true and authorizationEnabled=true, or leave it out",
            )
        if self.controller_mode:
            self._check_controller_mode()
        elif self.min_in_sync_replicas > 1:
            raise UsageError(
                f"setting minInSyncReplicas = {self.min_in_sync_replicas} is kept with a controller only",
                hint="set enableControllerMode=true and controllerAddr, or leave it out and set brokerRole=SYNC_MASTER",
            )
        elif (self.broker_role is BrokerRole.SLAVE) != (self.broker_id > 0):
            raise UsageError(
                f"setting brokerRole = {self.broker_role.value} does not go with brokerId = {self.broker_id}",
                hint="give a slave a brokerId above 0 and brokerRole=SLAVE, and a master brokerId=0",
            )
        if self.ha_silence_ms <= self.ha_heartbeat_ms:
            raise UsageError(
                f"setting haHousekeepingInterval = {self.ha_silence_ms} is not above"
                f" haSendHeartbeatInterval = {self.ha_heartbeat_ms}",
                hint="set it to several times haSendHeartbeatInterval",
            )
        if self.lock_in_strict_mode and self.total_replicas == 1:
            raise UsageError(
                "setting lockInStrictMode = true has no effect with totalReplicas = 1",
                hint="set totalReplicas to the number of brokers of this brokerName, or leave lockInStrictMode out",
            )
        self._check_ports()

    def _check_ports(self) -> None:
        taken: dict[int, str] = {}
        ports = {"listenPort": self.listen_port, "fastListenPort": self.fast_port, "haListenPort": self.ha_port}
        for name, port in (ports | {"grpcServerPort": max(0, self.grpc_port)}).items():
            hint = f"give {name} a port of its own; fastListenPort=0, haListenPort=-1 and grpcServerPort=-1 open none"
            if port and port > PORT_MAX:
                raise UsageError(f"setting {name} = {port} is no port, they end at {PORT_MAX}", hint=hint)
            if port and taken.setdefault(port, name) != name:
                raise UsageError(f"settings {taken[port]} and {name} are both {port}", hint=hint)

    def _check_controller_mode(self) -> None:
        if not self.controller_addresses:
            raise UsageError(
                "setting enableControllerMode = true needs a controller",
                hint="set controllerAddr to the addresses of the controllers, host:port;host:port",
            )
        if self.broker_id:
            raise UsageError(
                f"setting brokerId = {self.broker_id} does not go with enableControllerMode = true",
                hint="leave brokerId out: the controller gives the id",
            )

    @property
    def copies_min(self) -> int:
        """With a controller: replicas in step, this one included, below which no send is answered."""
        return self.min_in_sync_replicas or (2 if self.all_ack_in_sync else 1)

    @property
    def store_folder(self) -> Path:
        """`store_root` with the home folder filled in."""
        return self.store_root.expanduser()

    @property
    def fast_port(self) -> int | None:
        """The port of the fast listener; None: there is none."""
        if self.fast_listen_port == -1:
            return self.listen_port - FAST_PORT_STEP if self.listen_port > FAST_PORT_STEP else None
        return self.fast_listen_port or None

    @property
    def ha_port(self) -> int | None:
        """The port for slaves, 0 for any free one; None: there is none."""
        if self.ha_listen_port == 0:
            return self.listen_port + 1 if self.listen_port else 0
        return None if self.ha_listen_port < 0 else self.ha_listen_port


class LiveConfig(LiveSettings[BrokerConfig]):
    """The settings of the broker in force now."""

    updatable = UPDATABLE


def load_broker_conf(
    path: Path | None = None, overrides: Mapping[str, Any] | None = None, *, files: Files | None = None
) -> tuple[BrokerConfig, StoreConfig]:
    """The settings in a broker.conf. UsageError names a key that is unknown, or asks for a feature that is missing."""
    broker, store = load_together(
        [BrokerConfig, StoreConfig],
        path,
        overrides,
        without_effect=WITHOUT_EFFECT | STORE_KEYS_WITHOUT_EFFECT,
        not_supported=NOT_SUPPORTED,
        files=files,
    )
    return broker, store
