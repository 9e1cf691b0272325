"""Every response code of the remoting protocol.

Owns        the numbers and their meaning for the asker.
Must not know   the handlers that answer with them.

Source: ResponseCode and RemotingSysResponseCode in docs/internals/wire.md.
"""

from __future__ import annotations

from enum import IntEnum


class ResponseCode(IntEnum):
    """The outcome of a request. The names are Java's, so that a search finds both code bases."""

    # Broker to broker forwarding
    RPC_TIME_OUT = -1006
    RPC_SEND_TO_CHANNEL_FAILED = -1004
    RPC_ADDR_IS_NULL = -1002
    RPC_UNKNOWN = -1000

    # General
    SUCCESS = 0  # done
    SYSTEM_ERROR = 1  # any failure without a code of its own
    SYSTEM_BUSY = 2  # flow control: try again later
    REQUEST_CODE_NOT_SUPPORTED = 3  # no handler for this request code
    TRANSACTION_FAILED = 4

    # Send
    FLUSH_DISK_TIMEOUT = 10  # stored, but the disk was late
    SLAVE_NOT_AVAILABLE = 11  # stored, but there is no slave; or asked of a slave
    FLUSH_SLAVE_TIMEOUT = 12  # stored, but the slave was late
    MESSAGE_ILLEGAL = 13  # size, properties, topic length
    SERVICE_NOT_AVAILABLE = 14  # the store does not take writes now
    VERSION_NOT_SUPPORTED = 15
    NO_PERMISSION = 16  # permissions, disabled group, refused settings
    TOPIC_NOT_EXIST = 17  # broker and name server
    TOPIC_EXIST_ALREADY = 18

    # Pull and query
    PULL_NOT_FOUND = 19  # no message yet
    PULL_RETRY_IMMEDIATELY = 20  # no message matched: go on from nextBeginOffset
    PULL_OFFSET_MOVED = 21  # illegal offset, use nextBeginOffset
    QUERY_NOT_FOUND = 22  # offset, key or KV entry missing
    SUBSCRIPTION_PARSE_FAILED = 23  # the filter expression does not parse
    SUBSCRIPTION_NOT_EXIST = 24  # consumer not registered for the topic
    SUBSCRIPTION_NOT_LATEST = 25  # the broker knows an older subscription
    SUBSCRIPTION_GROUP_NOT_EXIST = 26  # unknown consumer group
    FILTER_DATA_NOT_EXIST = 27  # SQL filter not compiled
    FILTER_DATA_NOT_LATEST = 28  # SQL filter older than the request
    INVALID_PARAMETER = 29  # queue ids, names

    # Transactions (declared only)
    TRANSACTION_SHOULD_COMMIT = 200
    TRANSACTION_SHOULD_ROLLBACK = 201
    TRANSACTION_STATE_UNKNOW = 202
    TRANSACTION_STATE_GROUP_WRONG = 203

    # Client state
    NO_BUYER_ID = 204
    NOT_IN_CURRENT_UNIT = 205
    CONSUMER_NOT_ONLINE = 206  # the client is not connected here
    CONSUME_MSG_TIMEOUT = 207  # a client asked through the broker did not answer
    NO_MESSAGE = 208  # pop: offset not in the queue
    POLLING_FULL = 209  # pop polling table full
    POLLING_TIMEOUT = 210  # pop long polling ended empty
    BROKER_NOT_EXIST = 211
    BROKER_DISPATCH_NOT_COMPLETE = 212
    BROADCAST_CONSUMPTION = 213
    FLOW_CONTROL = 215  # the client waits a moment

    # Later additions
    NOT_LEADER_FOR_QUEUE = 501  # static topics
    ILLEGAL_OPERATION = 604  # transactions, recall handles
    GO_AWAY = 1500  # this server is shutting down, reconnect

    # Controller
    CONTROLLER_FENCED_MASTER_EPOCH = 2000
    CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH = 2001
    CONTROLLER_INVALID_MASTER = 2002
    CONTROLLER_INVALID_REPLICAS = 2003
    CONTROLLER_MASTER_NOT_AVAILABLE = 2004
    CONTROLLER_INVALID_REQUEST = 2005
    CONTROLLER_BROKER_NOT_ALIVE = 2006
    CONTROLLER_NOT_LEADER = 2007
    CONTROLLER_BROKER_METADATA_NOT_EXIST = 2008
    CONTROLLER_INVALID_CLEAN_BROKER_METADATA = 2009
    CONTROLLER_BROKER_NEED_TO_BE_REGISTERED = 2010
    CONTROLLER_MASTER_STILL_EXIST = 2011
    CONTROLLER_ELECT_MASTER_FAILED = 2012
    CONTROLLER_ALTER_SYNC_STATE_SET_FAILED = 2013
    CONTROLLER_BROKER_ID_INVALID = 2014
    CONTROLLER_JRAFT_INTERNAL_ERROR = 2015
    CONTROLLER_BROKER_LIVE_INFO_NOT_EXISTS = 2016

    # Lite topics
    LMQ_QUOTA_EXCEEDED = 2017
    LITE_SUBSCRIPTION_QUOTA_EXCEEDED = 2018

    # Users
    USER_NOT_EXIST = 3001
    POLICY_NOT_EXIST = 3002


def response_name(code: int) -> str:
    """The name of a response code for logs and errors, or `RESPONSE_<n>` for an unknown one."""
    known = ResponseCode._value2member_map_.get(code)
    return known.name if isinstance(known, ResponseCode) else f"RESPONSE_{code}"
