"""RocketLake: RocketMQ in Python, with its data pipeline on Spark.

Owns        the version, the lazy public names, the switch ROCKETLAKE_PURE=1.
Must not know   anything at import: `import rocketlake.store` must not run the client. Start reading at ARCHITECTURE.md.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocketlake.client.calls.reply import reply_to
    from rocketlake.client.calls.send import SendResult
    from rocketlake.client.config import ClientConfig, ConsumerConfig, FirstOffset, ProducerConfig
    from rocketlake.client.consumer.consumer import Consumer
    from rocketlake.client.consumer.listener import ConsumeResult
    from rocketlake.client.consumer.manual_ack import Delivery, manual_ack
    from rocketlake.client.consumer.payload import Payload
    from rocketlake.client.consumer.pops.lite import LiteSimpleConsumer
    from rocketlake.client.consumer.pops.simple import SimpleConsumer
    from rocketlake.client.consumer.pull import PullConsumer
    from rocketlake.client.consumer.push import PushConsumer
    from rocketlake.client.dead_letters import DeadLetters
    from rocketlake.client.errors import (
        BatchFailed,
        HandleExpired,
        LinkError,
        NoReply,
        NoRoute,
        NotRunning,
        RemoteError,
        RocketLakeError,
        SendFailed,
        TooManySends,
        UsageError,
    )
    from rocketlake.client.hooks import Hooks
    from rocketlake.client.producer.producer import Producer
    from rocketlake.client.producer.transaction import TransactionEnd, TransactionProducer, TransactionResult
    from rocketlake.model.message import Message, StoredMessage
    from rocketlake.model.message_queue import MessageQueue

__all__ = [
    "BatchFailed",
    "ClientConfig",
    "ConsumeResult",
    "Consumer",
    "ConsumerConfig",
    "DeadLetters",
    "Delivery",
    "FirstOffset",
    "HandleExpired",
    "Hooks",
    "LinkError",
    "LiteSimpleConsumer",
    "Message",
    "MessageQueue",
    "NoReply",
    "NoRoute",
    "NotRunning",
    "Payload",
    "Producer",
    "ProducerConfig",
    "PullConsumer",
    "PushConsumer",
    "RemoteError",
    "RocketLakeError",
    "SendFailed",
    "SendResult",
    "SimpleConsumer",
    "StoredMessage",
    "TooManySends",
    "TransactionEnd",
    "TransactionProducer",
    "TransactionResult",
    "UsageError",
    "__version__",
    "manual_ack",
    "reply_to",
]

__version__ = "0.1.0"

_ERRORS = "rocketlake.client.errors"
_HOMES = {
    "BatchFailed": _ERRORS,
    "HandleExpired": _ERRORS,
    "LinkError": _ERRORS,
    "NoReply": _ERRORS,
    "NoRoute": _ERRORS,
    "NotRunning": _ERRORS,
    "RemoteError": _ERRORS,
    "RocketLakeError": _ERRORS,
    "SendFailed": _ERRORS,
    "TooManySends": _ERRORS,
    "UsageError": _ERRORS,
    "Hooks": "rocketlake.client.hooks",
    "ClientConfig": "rocketlake.client.config",
    "ConsumeResult": "rocketlake.client.consumer.listener",
    "ConsumerConfig": "rocketlake.client.config",
    "FirstOffset": "rocketlake.client.config",
    "ProducerConfig": "rocketlake.client.config",
    "SendResult": "rocketlake.client.calls.send",
    "Consumer": "rocketlake.client.consumer.consumer",
    "DeadLetters": "rocketlake.client.dead_letters",
    "Delivery": "rocketlake.client.consumer.manual_ack",
    "Payload": "rocketlake.client.consumer.payload",
    "LiteSimpleConsumer": "rocketlake.client.consumer.pops.lite",
    "Message": "rocketlake.model.message",
    "MessageQueue": "rocketlake.model.message_queue",
    "Producer": "rocketlake.client.producer.producer",
    "PullConsumer": "rocketlake.client.consumer.pull",
    "PushConsumer": "rocketlake.client.consumer.push",
    "SimpleConsumer": "rocketlake.client.consumer.pops.simple",
    "StoredMessage": "rocketlake.model.message",
    "TransactionEnd": "rocketlake.client.producer.transaction",
    "TransactionProducer": "rocketlake.client.producer.transaction",
    "TransactionResult": "rocketlake.client.producer.transaction",
    "manual_ack": "rocketlake.client.consumer.manual_ack",
    "reply_to": "rocketlake.client.calls.reply",
}

if os.environ.get("ROCKETLAKE_PURE") == "1":
    from rocketlake.base import pure_import

    pure_import.install()


if not TYPE_CHECKING:  # a checker would take any misspelt name for one of ours

    def __getattr__(name: str) -> Any:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'rocketlake' has no attribute {name!r}")
        import importlib

        return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
