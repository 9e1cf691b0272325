"""The door for programs that speak to brokers themselves: single requests, without a producer or consumer around them.

Owns        the names that `rocketlake.spark` may take from the client.
Must not know   how spark uses them.

Only names that stand here are used above: an import contract (pyproject.toml) closes the client's other modules to
`rocketlake.spark`.
"""

from __future__ import annotations

from rocketlake.client.calls import offset as offset_calls
from rocketlake.client.calls.answer import SENT_TO_THE_SAME_QUEUE, STORED_UNSURELY, ask, is_of_slave, refusal
from rocketlake.client.calls.own_link import OwnLink
from rocketlake.client.calls.pull import PreparedPulls, PullAnswer, PullStatus, pull, query_messages
from rocketlake.client.calls.reach import net_client
from rocketlake.client.calls.route import NameServers
from rocketlake.client.calls.send import Outgoing, Sender, not_safe
from rocketlake.client.calls.transaction import TransactionEnd, end_of_check
from rocketlake.client.config import ClientConfig
from rocketlake.client.consumer.damage import DAMAGE
from rocketlake.client.errors import BatchFailed, NoRoute
from rocketlake.client.instance import ClientInstance
from rocketlake.client.member import Answer
from rocketlake.client.producer.message_check import TAG_SEPARATOR
from rocketlake.client.producer.producer import Producer
from rocketlake.client.producer.queue_choice import java_hash
from rocketlake.client.routes import subscribe_view
from rocketlake.net.client import Way

__all__ = [
    "DAMAGE",
    "SENT_TO_THE_SAME_QUEUE",
    "STORED_UNSURELY",
    "TAG_SEPARATOR",
    "Answer",
    "BatchFailed",
    "ClientConfig",
    "ClientInstance",
    "NameServers",
    "NoRoute",
    "Outgoing",
    "OwnLink",
    "PreparedPulls",
    "Producer",
    "PullAnswer",
    "PullStatus",
    "Sender",
    "TransactionEnd",
    "Way",
    "ask",
    "end_of_check",
    "is_of_slave",
    "java_hash",
    "net_client",
    "not_safe",
    "offset_calls",
    "pull",
    "query_messages",
    "refusal",
    "subscribe_view",
]
