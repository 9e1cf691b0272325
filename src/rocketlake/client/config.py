"""Settings of producers and consumers: frozen values, each with its default, unit, range, Java name and reason.

Owns        ClientConfig (links, routes, timers), ProducerConfig, ConsumerConfig, and the check of their ranges.
Must not know   where settings come from.

Defaults are those of RocketMQ's own client unless the reason says otherwise.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path

from rocketlake.auth.credentials import Credentials
from rocketlake.base.errors import UsageError
from rocketlake.base.settings.arguments import check_kind, check_number, check_text
from rocketlake.base.settings.config_file import setting
from rocketlake.model.topic import TRACE_TOPIC
from rocketlake.net.tls.settings import TlsChoice

SECOND = 1000
MINUTE = 60 * SECOND
KIB = 1024
MIB = 1024 * KIB
DEFAULT_NAMESRV = "127.0.0.1:9876"
TLS_VARIABLE = "ROCKETLAKE_TLS_CONFIG"
"""The file of certificates of all clients of a process that are told nothing else."""


class FirstOffset(Enum):
    """Where a group starts to read a queue in which it never committed; the values are the names on the wire."""

    LAST = "CONSUME_FROM_LAST_OFFSET"
    FIRST = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"

    @classmethod
    def of(cls, value: FirstOffset | str) -> FirstOffset:
        """The value itself, or the one of this name: "last", "first", "timestamp". UsageError for another text."""
        if isinstance(value, FirstOffset):
            return value
        try:
            return cls[value.upper()]
        except (KeyError, AttributeError):  # another text; no text
            raise UsageError(f"from_where={value!r} is not known", hint="use last, first or timestamp") from None


class Ranged:
    """Checks the kind of every setting, and a number against its declared range, once, when the value is made."""

    def __post_init__(self) -> None:
        for entry in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            name, value, told = entry.name, getattr(self, entry.name), entry.metadata
            where, why = type(self).__name__, told["why"]
            if isinstance(entry.default, str):
                check_text(name, value, where=where, means=why)
            elif isinstance(entry.default, bool):
                check_kind(name, value, bool, where=where, hint=f"give {name}=True or {name}=False")
            elif isinstance(entry.default, int):
                check_number(name, value, told.get("low"), told.get("high"), where=where, means=why)
            elif value is not None:
                hint = 'write credentials=Credentials("access key", "secret key"), from rocketlake.auth.credentials'
                check_kind(name, value, Credentials, where=where, hint=hint)


@dataclass(frozen=True)
class ClientConfig(Ranged):
    """How a client instance reaches a cluster."""

    namesrv: str = setting(
        "", java="namesrvAddr", why="name servers host:port;host:port; empty: NAMESRV_ADDR, else 127.0.0.1:9876"
    )
    client_ip: str = setting("", java="clientIP", why="first part of the client id; empty: this machine's address")
    instance_name: str = setting("", java="instanceName", why="second part of the client id; empty: unique")
    route_interval_ms: int = setting(
        30 * SECOND, java="pollNameServerInterval", low=10, why="age at which a route is asked for again"
    )
    heartbeat_interval_ms: int = setting(
        30 * SECOND,
        java="heartbeatBrokerInterval",
        low=10,
        why="pause between heartbeats; a broker forgets a client after 120 s of silence",
    )
    persist_interval_ms: int = setting(
        5 * SECOND,
        java="persistConsumerOffsetInterval",
        low=10,
        why="pause between saves of offsets; what was consumed since comes again after a crash",
    )
    call_timeout_ms: int = setting(
        3 * SECOND,
        java="mqClientApiTimeout",
        low=1,
        why="longest wait for an answer about routes, heartbeats, members or offsets",
    )
    use_tls: bool = setting(
        False,
        java="useTLS",
        why="connections are encrypted; they are, too, if tlsConfigFile or the variable ROCKETLAKE_TLS_CONFIG is set",
    )
    tls_config_file: str = setting(
        "",
        why="file of certificates, as Apache's tls.config.file; empty: ROCKETLAKE_TLS_CONFIG, or with useTLS"
        " /etc/rocketmq/tls.properties if it is there",
    )
    credentials: Credentials | None = setting(
        None, why="access key and secret key of a user; None: those of credentialsFile, else of the environment"
    )
    credentials_file: str = setting(
        "",
        why="file with the lines accessKey: ... and secretKey: ..., as Apache's tools.yml; empty: the variables"
        " ROCKETMQ_ACCESS_KEY and ROCKETMQ_SECRET_KEY, and without them nothing is signed",
    )
    trace: bool = setting(
        False, java="enableTrace", why="tell the trace topic about each send, transaction and listener call"
    )
    trace_topic: str = setting(TRACE_TOPIC, java="traceTopic", why="the topic of message traces")

    @property
    def tls(self) -> TlsChoice:
        """Whether connections are encrypted, and the file of certificates."""
        file = self.tls_config_file or os.environ.get(TLS_VARIABLE, "")
        return TlsChoice(use_tls=self.use_tls or bool(file), file=file)

    @property
    def user(self) -> Credentials | None:
        """What requests are signed with; None: they are not signed. UsageError: the file cannot be read."""
        if self.credentials is not None:
            return self.credentials
        if self.credentials_file:
            return Credentials.from_file(Path(self.credentials_file).expanduser())
        return Credentials.from_environment()

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The name servers to ask, in the order given."""
        text = self.namesrv or os.environ.get("NAMESRV_ADDR", "") or DEFAULT_NAMESRV
        found = tuple(part.strip() for part in text.replace(",", ";").split(";") if part.strip())
        for address in found:
            host, _, port = address.rpartition(":")
            if not host or "/" in host or not port.isdecimal():
                raise _not_an_address(address)
            if not 1 <= int(port) <= 65535:
                raise UsageError(
                    f"{address!r} names port {port}", where="ClientConfig.namesrv", hint="use a port from 1 to 65535"
                )
        if not found:
            raise _not_an_address(text)
        return found


def _not_an_address(text: str) -> UsageError:
    hint = "write host:port;host:port, without http://" if "/" in text else "write host:port;host:port"
    return UsageError(f"{text!r} is not a name server address", where="ClientConfig.namesrv", hint=hint)


@dataclass(frozen=True)
class ProducerConfig(Ranged):
    """How a producer sends."""

    send_timeout_ms: int = setting(
        3 * SECOND, java="sendMsgTimeout", low=1, why="longest time of a send, all its attempts together"
    )
    retries: int = setting(
        2, java="retryTimesWhenSendFailed", low=0, high=16, why="so many more attempts, on other brokers"
    )
    attempt_timeout_ms: int = setting(
        0,
        java="sendMsgMaxTimeoutPerRequest",
        low=-1,
        why="longest time of one attempt while another broker may take the message; 0: an equal share of what is left;"
        " -1: all of it",
    )
    retry_when_not_stored_ok: bool = setting(
        False,
        java="retryAnotherBrokerWhenNotStoreOK",
        why="also send again a message that is stored but not flushed or copied",
    )
    avoid_slow_brokers: bool = setting(
        False, java="sendLatencyFaultEnable", why="pass over brokers whose last send was slow or failed"
    )
    compress_over_bytes: int = setting(
        4 * KIB, java="compressMsgBodyOverHowmuch", low=0, why="bodies of this size or more are compressed"
    )
    compression: str = setting("zlib", java="compressType", why="zlib, lz4 or zstd; old consumers know zlib only")
    compression_level: int = setting(
        5, java="compressLevel", low=0, high=22, why="a higher level makes bodies smaller and takes longer"
    )
    message_bytes_max: int = setting(
        4 * MIB, java="maxMessageSize", low=1, why="largest body; the broker has a limit of its own"
    )
    batch_bytes_max: int = setting(
        MIB,
        low=1,
        why="a batch is split into requests of at most this size",
    )
    auto_batch: bool = setting(
        False, java="autoBatch", why="gather messages that are sent at the same time into batches in the background"
    )
    auto_batch_delay_ms: int = setting(
        10, java="batchMaxDelayMs", low=0, high=30 * SECOND, why="longest wait of a background batch for more messages"
    )
    auto_batch_bytes_max: int = setting(
        32 * KIB, java="batchMaxBytes", low=1, high=2 * MIB, why="a background batch goes out when it holds so much"
    )
    auto_batch_total_bytes_max: int = setting(
        32 * MIB,
        java="totalBatchMaxBytes",
        low=1,
        why="with background batches: most bytes on their way at once; a send beyond them waits for room",
    )
    pending_sends_max: int = setting(
        10_000, java="backPressureForAsyncSendNum", low=1, why="most send_nowait calls on their way at once"
    )
    transaction_threads: int = setting(16, low=1, high=1000, why="threads for plain functions of transactions")
    pending_checks_max: int = setting(
        2000,
        java="checkRequestHoldMax",
        low=1,
        why="most questions of brokers about transactions that are worked on at once",
    )
    delay_level_max: int = setting(
        18,
        low=1,
        high=1000,
        why="highest delay level; above 18 only if messageDelayLevel of all brokers has more levels",
    )
    drain_ms: int = setting(10 * SECOND, low=0, why="longest wait of stop() for running check functions")
    template_topic: str = setting("TBW102", java="createTopicKey", why="topic after which brokers model a new one")
    new_topic_queues: int = setting(
        4, java="defaultTopicQueueNums", low=1, why="queues asked for when a broker makes a topic by its first send"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.auto_batch_bytes_max > self.auto_batch_total_bytes_max:
            raise UsageError(
                f"auto_batch_bytes_max={self.auto_batch_bytes_max} is more than all background batches may hold,"
                f" auto_batch_total_bytes_max={self.auto_batch_total_bytes_max}",
                where="ProducerConfig",
                hint="lower auto_batch_bytes_max, or raise auto_batch_total_bytes_max",
            )


@dataclass(frozen=True)
class ConsumerConfig(Ranged):
    """How a push consumer (and what stands on it) pulls, runs listeners and retries."""

    concurrency: int = setting(20, java="consumeThreadMax", low=1, high=1000, why="most calls of the listener at once")
    batch_size: int = setting(
        1, java="consumeMessageBatchMaxSize", low=1, high=1024, why="most messages in one call of the listener"
    )
    pull_batch_size: int = setting(
        32, java="pullBatchSize", low=1, high=1024, why="most messages asked for in one pull"
    )
    pull_bytes: int = setting(256 * KIB, java="pullBatchSizeInBytes", low=1, why="most bytes asked for in one pull")
    pull_interval_ms: int = setting(0, java="pullInterval", low=0, high=65535, why="pause between two pulls of a queue")
    queue_messages_max: int = setting(
        1000, java="pullThresholdForQueue", low=1, high=65535, why="most messages in hand of a queue"
    )
    queue_bytes_max: int = setting(
        100 * MIB, java="pullThresholdSizeForQueue", low=1, why="most bytes in hand of a queue (Java: in MiB)"
    )
    topic_messages_max: int = setting(
        -1,
        java="pullThresholdForTopic",
        low=-1,
        why="most messages in hand of a topic, shared by its queues; -1: no such limit",
    )
    span_max: int = setting(
        2000,
        java="consumeConcurrentlyMaxSpan",
        low=1,
        high=65535,
        why="a queue is pulled no further than this ahead of its oldest message in hand",
    )
    flow_control_pause_ms: int = setting(50, low=1, why="pause before a queue with too much in hand is looked at again")
    error_pause_ms: int = setting(
        SECOND, java="pullTimeDelayMillsWhenException", low=1, why="pause after a failed pull of a queue"
    )
    hold_ms: int = setting(
        15 * SECOND,
        java="brokerSuspendMaxTimeMillis",
        low=1,
        why="longest time that a broker holds a pull without messages",
    )
    pull_timeout_ms: int = setting(
        30 * SECOND,
        java="consumerTimeoutMillisWhenSuspend",
        low=1,
        why="longest wait for the answer to a pull; longer than hold_ms",
    )
    reconsume_max: int = setting(
        -1, java="maxReconsumeTimes", low=-1, why="retries before the dead letters; -1: 16, orderly: no end"
    )
    retry_delay_level: int = setting(
        0,
        low=-1,
        high=18,
        why="delay of a failed message; 0: by its count of retries, -1: to the dead letters",
    )
    suspend_ms: int = setting(
        SECOND,
        java="suspendCurrentQueueTimeMillis",
        low=10,
        high=30 * SECOND,
        why="orderly: a queue's pause after a failure",
    )
    local_retry_ms: int = setting(
        5 * SECOND, low=1, why="pause before a message that could not be sent back is consumed again here"
    )
    consume_timeout_ms: int = setting(
        15 * MINUTE,
        java="consumeTimeout",
        low=1,
        why="a message whose listener runs longer is sent back (Java: minutes); no popped one is renewed for longer",
    )
    rebalance_interval_ms: int = setting(
        20 * SECOND, low=10, why="longest pause between rounds; a broker's notice begins one at once"
    )
    rebalance_retry_ms: int = setting(SECOND, low=1, why="pause after a round that could not finish")
    lock_interval_ms: int = setting(
        20 * SECOND, low=10, why="orderly: pause between renewals of locks; brokers drop them after 60 s"
    )
    lock_valid_ms: int = setting(
        30 * SECOND, low=10, why="orderly: time after which a lock that was not renewed is not trusted"
    )
    continuous_ms: int = setting(60 * SECOND, low=1, why="orderly: most time one queue keeps a worker")
    idle_pull_max_ms: int = setting(
        120 * SECOND, low=1, why="a queue that was not pulled for this long is left and taken anew"
    )
    drain_ms: int = setting(
        10 * SECOND,
        java="awaitTerminationMillisWhenShutdown",
        low=0,
        why="longest wait of stop() for running listeners",
    )
    client_rebalance: bool = setting(
        True,
        java="clientRebalance",
        why="members share the queues among themselves; false: the broker says which, and whether they are popped",
    )
    pop_invisible_ms: int = setting(
        MINUTE,
        java="popInvisibleTime",
        low=5 * SECOND,
        high=300 * SECOND,
        why="a popped message comes again after this time, unless it is acknowledged or its time was renewed",
    )
    pop_batch_size: int = setting(32, java="popBatchNums", low=1, high=32, why="most messages asked for in one pop")
    pop_queue_messages_max: int = setting(
        96, java="popThresholdForQueue", low=1, why="most popped messages in hand of one broker and topic"
    )
    offsets_dir: str = setting(
        "", java="rocketmq.client.localOffsetStoreDir", why="broadcasting: offset files; default ~/.rocketmq_offsets"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pull_timeout_ms <= self.hold_ms:
            what = f"pull_timeout_ms={self.pull_timeout_ms} is not longer than hold_ms={self.hold_ms}"
            raise UsageError(
                what + ": a held pull would always time out",
                where="ConsumerConfig",
                hint="raise pull_timeout_ms, or lower hold_ms",
            )

    def reconsume_limit(self, *, orderly: bool) -> int:
        """Retries before a message goes to the dead letters."""
        if self.reconsume_max >= 0:
            return self.reconsume_max
        return 0x7FFFFFFF if orderly else 16
