"""RocketLake: RocketMQ in Python, with its data pipeline on Spark.

Owns        the version, the lazy public names, the switch ROCKETLAKE_PURE=1.
Must not know   anything at import: `import rocketlake.store` must not run the client. Start reading at ARCHITECTURE.md.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocketlake.client.calls.send import SendResult
    from rocketlake.client.config import ClientConfig, ConsumerConfig, FirstOffset, ProducerConfig
    from rocketlake.client.consumer.consumer import Consumer
    from rocketlake.client.consumer.listener import ConsumeResult
    from rocketlake.client.consumer.pull import PullConsumer
    from rocketlake.client.consumer.push import PushConsumer
    from rocketlake.client.producer.producer import Producer
    from rocketlake.client.producer.transaction import TransactionEnd, TransactionProducer, TransactionResult
    from rocketlake.model.message import Message, StoredMessage
    from rocketlake.model.message_queue import MessageQueue

__all__ = [
    "ClientConfig",
    "ConsumeResult",
    "Consumer",
    "ConsumerConfig",
    "FirstOffset",
    "Message",
    "MessageQueue",
    "Producer",
    "ProducerConfig",
    "PullConsumer",
    "PushConsumer",
    "SendResult",
    "StoredMessage",
    "TransactionEnd",
    "TransactionProducer",
    "TransactionResult",
    "__version__",
]

__version__ = "0.1.0"

_HOMES = {
    "ClientConfig": "rocketlake.client.config",
    "ConsumeResult": "rocketlake.client.consumer.listener",
    "ConsumerConfig": "rocketlake.client.config",
    "FirstOffset": "rocketlake.client.config",
    "ProducerConfig": "rocketlake.client.config",
    "SendResult": "rocketlake.client.calls.send",
    "Consumer": "rocketlake.client.consumer.consumer",
    "Message": "rocketlake.model.message",
    "MessageQueue": "rocketlake.model.message_queue",
    "Producer": "rocketlake.client.producer.producer",
    "PullConsumer": "rocketlake.client.consumer.pull",
    "PushConsumer": "rocketlake.client.consumer.push",
    "StoredMessage": "rocketlake.model.message",
    "TransactionEnd": "rocketlake.client.producer.transaction",
    "TransactionProducer": "rocketlake.client.producer.transaction",
    "TransactionResult": "rocketlake.client.producer.transaction",
}

if os.environ.get("ROCKETLAKE_PURE") == "1":
    from rocketlake.base import pure_import

    pure_import.install()


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'rocketlake' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
