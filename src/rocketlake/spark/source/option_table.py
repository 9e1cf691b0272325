"""Every option of a read of format("rocketmq"), and the answers to options of other connectors.

Owns        names and their one-line descriptions (docs/how-to/spark_source.md lists the same).
Must not know   how a value is read (options.py).

Names are those of Spark's Kafka source where it has the same option, so that its users find their way.
"""

from __future__ import annotations

from rocketlake.spark.option_values import OptionNames
from rocketlake.spark.places.settings import STORE_OPTIONS

__all__ = ["DESCRIPTIONS", "NAMES"]

DESCRIPTIONS: dict[str, str] = {
    "namesrvAddr": "name servers, `host:port;host:port` (required; alias `nameServer`)",
    "tlsConfigFile": "file of certificates, on each worker at this path; connections are encrypted then",
    "credentialsFile": "file with accessKey and secretKey of a user, on driver and workers at this path",
    "subscribe": "topics, comma separated; exactly one of `subscribe`, `subscribePattern`, `assign` is required",
    "subscribePattern": "regular expression for whole topic names, looked at again while the stream runs",
    "assign": 'single queues, `{"topic": {"broker": [0, 1]}}`; queues made later do not join',
    "includeSystemTopics": "`true`: the pattern also takes RocketMQ's own, retry and dead-letter topics; "
    "default `false`",
    "startingOffsets": "`earliest`, `latest`, `group` or JSON; stream: default `latest`, batch: default `earliest`",
    "startingTimestamp": "first message stored at or after this time, epoch ms or ISO-8601; goes before "
    "`startingOffsetsByTimestamp`, and that before `startingOffsets`",
    "startingOffsetsByTimestamp": "the same per topic or queue, as JSON",
    "startingOffsetsByTimestampStrategy": "a time after a queue's last message: `latest` (default) starts at its end, "
    "`error` stops",
    "startingGroup": "consumer group whose offsets `group` means in `startingOffsets`; default `consumerGroup`",
    "endingOffsets": "`latest`, `group` (batch only) or JSON, -1 = latest; batch: default `latest`, stream: default "
    "no end",
    "endingTimestamp": "read what was stored before this time; goes before `endingOffsetsByTimestamp`, and that before "
    "`endingOffsets`",
    "endingOffsetsByTimestamp": "the same per topic or queue, as JSON",
    "endingGroup": "batch only: consumer group whose offsets `group` means in `endingOffsets`",
    "maxOffsetsPerTrigger": "stream only: most messages of a micro-batch, shared by size of backlog",
    "maxBytesPerTrigger": "stream only: about so many bytes per micro-batch, like `64m`; sizes are measured by samples",
    "minOffsetsPerTrigger": "stream only: wait for at least so many messages before a micro-batch",
    "maxTriggerDelay": "stream only: wait no longer than this for `minOffsetsPerTrigger`; default `15m`",
    "failOnDataLoss": "`true` (default): stop with an error when wanted messages are gone or damaged; `false`: "
    "count them and go on",
    "lossTable": "folder (seen by driver and workers) or `s3://bucket/folder` that gets one JSON file per lost range or"
    " damaged message",
    "tags": "tag expression filtered by the broker, `TagA || TagB`; default `*`",
    "filter.sql92": "SQL92 expression on properties, evaluated by the broker (`enablePropertyFilter=true` there)",
    "pushDown": "batch: `true` takes conditions from Spark, for DataFrames used for one query only; default `false`",
    "keyIndex": "batch with `pushDown`: `true` looks `keys` and `msgId` up in the brokers' key index; default `false`",
    "columns": "`full` (default), `core`, or names of columns, comma separated",
    "includeProperties": "`false` drops the `properties` column; default `true`",
    "consumerGroup": "stream: name of this query at the broker; keeps its first offsets and shows its progress",
    "offsetStore": "stream: folder (seen by the driver) or `s3://bucket/folder` that keeps the first offsets; best in"
    " the checkpoint",
    "minPartitions": "split large ranges until there are at least so many Spark tasks",
    "maxRecordsPerPartition": "split ranges so that no Spark task reads more messages than this",
    "maxBytesPerPartition": "split ranges so that no Spark task reads much more than this, like `128m`",
    "pullBatchSize": "messages asked for per pull, 1 to 1024; the broker may give fewer; default 256",
    "pullTimeoutMs": "wait for one answer of a broker; default 10000",
    "brokerWait": "how long a broker or name server that cannot be reached is asked again, with growing pauses; "
    "default `2m`",
    "fetchOffset.numRetries": "tries again after a broker refused an answer; default 5",
    "fetchOffset.retryIntervalMs": "pause before the first such try; default 500",
}

_NO_SECRETS = (
    "set 'credentialsFile' to sign; a secret must never stand in an option: Spark shows options in plans and logs"
)

# Names of Kafka's and of other RocketMQ connectors -> the cure here.
_ELSEWHERE: dict[str, str] = {
    "kafka.bootstrap.servers": "name the RocketMQ name servers in 'namesrvAddr'",
    "nameserveraddress": "use 'namesrvAddr'",
    "endpoints": "5.x proxies are not supported yet; name the name servers in 'namesrvAddr'",
    "topic": "use 'subscribe'",
    "topics": "use 'subscribe'",
    "subexpression": "use 'tags'",
    "tag": "use 'tags'",
    "sql": "use 'filter.sql92'",
    "filter": "use 'filter.sql92' or 'tags'",
    "group": "use 'consumerGroup'",
    "kafka.group.id": "use 'consumerGroup'",
    "groupidprefix": "use 'consumerGroup'",
    "includeheaders": "headers are the 'properties' column; 'includeProperties' = true (default) or false",
    "endingoffsetsbytimestampstrategy": "a time after the last message always means the queue's end there",
    "maxfilespertrigger": "use 'maxOffsetsPerTrigger' or 'maxBytesPerTrigger'",
    "kafkaconsumer.polltimeoutms": "use 'pullTimeoutMs'",
    "enable.auto.commit": "Spark's checkpoint keeps the offsets; 'consumerGroup' shows the progress at the broker",
    "auto.offset.reset": "use 'startingOffsets'",
    "path": "load() takes no path; name the topics in 'subscribe'",
    "accesskey": _NO_SECRETS,
    "secretkey": _NO_SECRETS,
}

NAMES = OptionNames("rocketmq", DESCRIPTIONS | STORE_OPTIONS, {"nameserver": "namesrvAddr"}, _ELSEWHERE)
