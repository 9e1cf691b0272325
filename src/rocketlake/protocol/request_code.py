"""Every request code of the remoting protocol, by family, with the peer that serves it.

Owns        the numbers.
Must not know   headers, handlers, the codes we serve (broker/dispatch_table.py, namesrv/dispatch_table.py).

Source: RequestCode in docs/internals/wire.md. Codes above 32767 travel in JSON headers only.
"""

from __future__ import annotations

from enum import IntEnum


class RequestCode(IntEnum):
    """The code of a request. The names are Java's, so that a search finds both code bases."""

    # Messages, offsets, clients
    SEND_MESSAGE = 10  # broker
    PULL_MESSAGE = 11  # broker (main port)
    QUERY_MESSAGE = 12  # broker
    QUERY_BROKER_OFFSET = 13  # declared by Java, served by no server
    QUERY_CONSUMER_OFFSET = 14  # broker
    UPDATE_CONSUMER_OFFSET = 15  # broker
    UPDATE_AND_CREATE_TOPIC = 17  # broker
    UPDATE_AND_CREATE_TOPIC_LIST = 18  # broker
    GET_ALL_TOPIC_CONFIG = 21  # broker
    GET_TOPIC_CONFIG_LIST = 22  # declared by Java, served by no server
    GET_TOPIC_NAME_LIST = 23  # declared by Java, served by no server
    UPDATE_BROKER_CONFIG = 25  # broker, container
    GET_BROKER_CONFIG = 26  # broker, container
    TRIGGER_DELETE_FILES = 27  # declared by Java, served by no server
    GET_BROKER_RUNTIME_INFO = 28  # broker
    SEARCH_OFFSET_BY_TIMESTAMP = 29  # broker
    GET_MAX_OFFSET = 30  # broker
    GET_MIN_OFFSET = 31  # broker
    GET_EARLIEST_MSG_STORETIME = 32  # broker
    VIEW_MESSAGE_BY_ID = 33  # broker
    HEART_BEAT = 34  # broker
    UNREGISTER_CLIENT = 35  # broker
    CONSUMER_SEND_MSG_BACK = 36  # broker
    END_TRANSACTION = 37  # broker
    GET_CONSUMER_LIST_BY_GROUP = 38  # broker
    CHECK_TRANSACTION_STATE = 39  # client
    NOTIFY_CONSUMER_IDS_CHANGED = 40  # client
    LOCK_BATCH_MQ = 41  # broker
    UNLOCK_BATCH_MQ = 42  # broker
    GET_ALL_CONSUMER_OFFSET = 43  # broker
    GET_ALL_DELAY_OFFSET = 45  # broker
    CHECK_CLIENT_CONFIG = 46  # broker
    GET_CLIENT_CONFIG = 47  # declared by Java, served by no server
    GET_TIMER_CHECK_POINT = 60  # broker
    GET_TIMER_METRICS = 61  # broker

    # Name server
    PUT_KV_CONFIG = 100  # name server
    GET_KV_CONFIG = 101  # name server
    DELETE_KV_CONFIG = 102  # name server
    REGISTER_BROKER = 103  # name server
    UNREGISTER_BROKER = 104  # name server
    GET_ROUTEINFO_BY_TOPIC = 105  # name server
    GET_BROKER_CLUSTER_INFO = 106  # name server

    # Administration
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200  # broker
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201  # broker
    GET_TOPIC_STATS_INFO = 202  # broker
    GET_CONSUMER_CONNECTION_LIST = 203  # broker
    GET_PRODUCER_CONNECTION_LIST = 204  # broker
    WIPE_WRITE_PERM_OF_BROKER = 205  # name server
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206  # name server
    DELETE_SUBSCRIPTIONGROUP = 207  # broker
    GET_CONSUME_STATS = 208  # broker
    SUSPEND_CONSUMER = 209  # declared by Java, served by no server
    RESUME_CONSUMER = 210  # declared by Java, served by no server
    RESET_CONSUMER_OFFSET_IN_CONSUMER = 211  # declared by Java, served by no server
    RESET_CONSUMER_OFFSET_IN_BROKER = 212  # declared by Java, served by no server
    ADJUST_CONSUMER_THREAD_POOL = 213  # declared by Java, served by no server
    WHO_CONSUME_THE_MESSAGE = 214  # declared by Java, served by no server
    DELETE_TOPIC_IN_BROKER = 215  # broker
    DELETE_TOPIC_IN_NAMESRV = 216  # name server
    REGISTER_TOPIC_IN_NAMESRV = 217  # name server
    GET_KVLIST_BY_NAMESPACE = 219  # name server
    RESET_CONSUMER_CLIENT_OFFSET = 220  # client
    GET_CONSUMER_STATUS_FROM_CLIENT = 221  # client
    INVOKE_BROKER_TO_RESET_OFFSET = 222  # broker
    INVOKE_BROKER_TO_GET_CONSUMER_STATUS = 223  # broker
    GET_TOPICS_BY_CLUSTER = 224  # name server
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST = 225  # broker

    # Later additions
    QUERY_TOPIC_CONSUME_BY_WHO = 300  # broker
    REGISTER_FILTER_SERVER = 301  # declared by Java, served by no server
    REGISTER_MESSAGE_FILTER_CLASS = 302  # declared by Java, served by no server
    QUERY_CONSUME_TIME_SPAN = 303  # broker
    GET_SYSTEM_TOPIC_LIST_FROM_NS = 304  # name server
    GET_SYSTEM_TOPIC_LIST_FROM_BROKER = 305  # broker
    CLEAN_EXPIRED_CONSUMEQUEUE = 306  # broker
    GET_CONSUMER_RUNNING_INFO = 307  # broker, client
    QUERY_CORRECTION_OFFSET = 308  # broker
    CONSUME_MESSAGE_DIRECTLY = 309  # broker, client
    SEND_MESSAGE_V2 = 310  # broker
    GET_UNIT_TOPIC_LIST = 311  # name server
    GET_HAS_UNIT_SUB_TOPIC_LIST = 312  # name server
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = 313  # name server
    CLONE_GROUP_OFFSET = 314  # broker
    VIEW_BROKER_STATS_DATA = 315  # broker
    CLEAN_UNUSED_TOPIC = 316  # broker
    GET_BROKER_CONSUME_STATS = 317  # broker
    UPDATE_NAMESRV_CONFIG = 318  # name server
    GET_NAMESRV_CONFIG = 319  # name server
    SEND_BATCH_MESSAGE = 320  # broker
    QUERY_CONSUME_QUEUE = 321  # broker
    QUERY_DATA_VERSION = 322  # name server
    RESUME_CHECK_HALF_MESSAGE = 323  # broker
    SEND_REPLY_MESSAGE = 324  # broker
    SEND_REPLY_MESSAGE_V2 = 325  # broker
    PUSH_REPLY_MESSAGE_TO_CLIENT = 326  # client
    ADD_WRITE_PERM_OF_BROKER = 327  # name server
    GET_ALL_PRODUCER_INFO = 328  # broker
    DELETE_EXPIRED_COMMITLOG = 329  # broker
    QUERY_TOPICS_BY_CONSUMER = 343  # broker
    QUERY_SUBSCRIPTION_BY_CONSUMER = 345  # broker
    GET_TOPIC_CONFIG = 351  # broker
    GET_SUBSCRIPTIONGROUP_CONFIG = 352  # broker
    UPDATE_AND_GET_GROUP_FORBIDDEN = 353  # broker
    CHECK_ROCKSDB_CQ_WRITE_PROGRESS = 354  # broker
    EXPORT_ROCKSDB_CONFIG_TO_JSON = 355  # broker
    LITE_PULL_MESSAGE = 361  # broker (main port)
    RECALL_MESSAGE = 370  # broker
    QUERY_ASSIGNMENT = 400  # broker
    SET_MESSAGE_REQUEST_MODE = 401  # broker
    GET_ALL_MESSAGE_REQUEST_MODE = 402  # broker

    # Replication and static topics
    UPDATE_AND_CREATE_STATIC_TOPIC = 513  # broker
    GET_BROKER_MEMBER_GROUP = 901  # name server
    ADD_BROKER = 902  # container
    REMOVE_BROKER = 903  # container
    BROKER_HEARTBEAT = 904  # name server, controller
    NOTIFY_MIN_BROKER_ID_CHANGE = 905  # broker
    EXCHANGE_BROKER_HA_INFO = 906  # broker
    GET_BROKER_HA_STATUS = 907  # broker
    RESET_MASTER_FLUSH_OFFSET = 908  # broker

    # Controller
    CONTROLLER_ALTER_SYNC_STATE_SET = 1001  # controller
    CONTROLLER_ELECT_MASTER = 1002  # controller
    CONTROLLER_REGISTER_BROKER = 1003  # controller
    CONTROLLER_GET_REPLICA_INFO = 1004  # controller
    CONTROLLER_GET_METADATA_INFO = 1005  # controller
    CONTROLLER_GET_SYNC_STATE_DATA = 1006  # controller
    GET_BROKER_EPOCH_CACHE = 1007  # broker
    NOTIFY_BROKER_ROLE_CHANGED = 1008  # broker
    UPDATE_CONTROLLER_CONFIG = 1009  # controller
    GET_CONTROLLER_CONFIG = 1010  # controller
    CLEAN_BROKER_DATA = 1011  # controller
    CONTROLLER_GET_NEXT_BROKER_ID = 1012  # controller
    CONTROLLER_APPLY_BROKER_ID = 1013  # controller

    # Cold data
    UPDATE_COLD_DATA_FLOW_CTR_CONFIG = 2001  # broker
    REMOVE_COLD_DATA_FLOW_CTR_CONFIG = 2002  # broker
    GET_COLD_DATA_FLOW_CTR_INFO = 2003  # broker
    SET_COMMITLOG_READ_MODE = 2004  # broker

    # Users and ACLs
    AUTH_CREATE_USER = 3001  # broker
    AUTH_UPDATE_USER = 3002  # broker
    AUTH_DELETE_USER = 3003  # broker
    AUTH_GET_USER = 3004  # broker
    AUTH_LIST_USER = 3005  # broker
    AUTH_CREATE_ACL = 3006  # broker
    AUTH_UPDATE_ACL = 3007  # broker
    AUTH_DELETE_ACL = 3008  # broker
    AUTH_GET_ACL = 3009  # broker
    AUTH_LIST_ACL = 3010  # broker

    # POP consumption (do not fit the 16 bit code of a binary header)
    POP_MESSAGE = 200050  # broker (main port)
    ACK_MESSAGE = 200051  # broker
    PEEK_MESSAGE = 200052  # broker (main port)
    CHANGE_MESSAGE_INVISIBLETIME = 200053  # broker
    NOTIFICATION = 200054  # broker (main port)
    POLLING_INFO = 200055  # broker (main port)
    POP_ROLLBACK = 200056  # broker
    POP_LITE_MESSAGE = 200070  # broker
    LITE_SUBSCRIPTION_CTL = 200071  # broker
    NOTIFY_UNSUBSCRIBE_LITE = 200073  # client
    GET_BROKER_LITE_INFO = 200074  # broker
    GET_PARENT_TOPIC_INFO = 200075  # broker
    GET_LITE_TOPIC_INFO = 200076  # broker
    GET_LITE_CLIENT_INFO = 200077  # broker
    GET_LITE_GROUP_INFO = 200078  # broker
    TRIGGER_LITE_DISPATCH = 200079  # broker
    BATCH_ACK_MESSAGE = 200151  # broker

    # RocketLake's own; Apache's servers answer that they do not support them
    GET_NEWER_TABLES = 290001  # broker
    GET_PRODUCER_SEQUENCES = 290011  # broker
    GET_DELETED_TOPICS = 290012  # broker
    CHANGE_ROLE = 290013  # broker
    GET_RECORD_MARK = 290014  # broker
    CHECK_LIFE = 290015  # broker
    GET_WAITING_MESSAGES = 290016  # broker
    GET_HALF_MESSAGES = 290017  # broker
    CONTROLLER_GET_GROUPS = 290002  # controller
    CONTROLLER_GET_SWITCHES = 290003  # controller

    # ACL 1.0, gone since 5.3.3
    UPDATE_AND_CREATE_ACL_CONFIG = 50  # broker up to 5.3.2
    DELETE_ACL_CONFIG = 51  # broker up to 5.3.2
    GET_BROKER_CLUSTER_ACL_INFO = 52  # broker up to 5.3.2
    UPDATE_GLOBAL_WHITE_ADDRS_CONFIG = 53  # broker up to 5.3.2
    GET_BROKER_CLUSTER_ACL_CONFIG = 54  # broker up to 5.3.2


def request_name(code: int) -> str:
    """The name of a request code for logs, or `REQUEST_<n>` when nobody knows it."""
    known = RequestCode._value2member_map_.get(code)
    return known.name if isinstance(known, RequestCode) else f"REQUEST_{code}"
