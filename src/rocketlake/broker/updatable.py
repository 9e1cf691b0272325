"""The settings of the broker that may change while it runs.

Owns        their names.
Must not know   the settings (config.py), requests that change them.
"""

from __future__ import annotations

__all__ = ["UPDATABLE"]

UPDATABLE = frozenset(
    {
        "permission",
        "auto_create_topic",
        "trace_on",
        "start_accept_send_ms",
        "long_polling_enabled",
        "short_polling_ms",
        "slave_read_enabled",
        "offset_check_in_slave",
        "lite_pull_enabled",
        "lite_life_min_ms",
        "lite_check_interval_ms",
        "property_filter_enabled",
        "reject_transactions",
        "recall_enabled",
        "recall_when_not_writeable",
        "store_replies",
        "transaction_timeout_ms",
        "transaction_checks_max",
        "transaction_check_interval_ms",
        "transaction_op_bytes_max",
        "transaction_op_interval_ms",
        "retry_topic_v2",
        "pop_retry_percent",
        "priority_retry_percent",
        "priority_ascends",
        "shows_retry_topic",
        "held_pops_of_queue_max",
        "fast_failure",
        "send_age_max_ms",
        "pull_age_max_ms",
        "heartbeat_age_max_ms",
        "admin_age_max_ms",
        "log_level",
    }
)
"""Settings that UPDATE_BROKER_CONFIG may change: none of them names a file, an address or who may do what."""
