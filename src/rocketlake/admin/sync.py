"""The blocking twin of the admin library: the same names and arguments, for programs without an event loop.

Owns        the twin. Arguments, types and docstrings are those of the async methods.
Must not know   what is asked: every call runs the async twin on the shared thread and waits (client/loop_thread.py).
"""

from __future__ import annotations

from rocketlake.admin.admin import Admin as AsyncAdmin
from rocketlake.client.loop_thread import Blocking, takes_what, waiting

__all__ = ["Admin"]


class Admin(Blocking[AsyncAdmin]):
    """Blocking twin of rocketlake.admin.Admin: `with Admin(namesrv="127.0.0.1:9876") as admin: admin.topics()`.

    A function given as `drain` or `tell` runs on the client's thread and must not block.
    """

    @takes_what(AsyncAdmin)
    def __init__(self) -> None: ...

    topics = waiting(AsyncAdmin.topics)
    topic = waiting(AsyncAdmin.topic)
    topic_settings = waiting(AsyncAdmin.topic_settings)
    next_offsets = waiting(AsyncAdmin.next_offsets)
    topic_ends = waiting(AsyncAdmin.topic_ends)
    create_topic = waiting(AsyncAdmin.create_topic)
    spread_topic = waiting(AsyncAdmin.spread_topic)
    alter_topic = waiting(AsyncAdmin.alter_topic)
    delete_topic = waiting(AsyncAdmin.delete_topic)
    purge_topic = waiting(AsyncAdmin.purge_topic)
    check_topic_deletion = waiting(AsyncAdmin.check_topic_deletion)
    lite_parent = waiting(AsyncAdmin.lite_parent)
    lite_topic = waiting(AsyncAdmin.lite_topic)
    lite_lag = waiting(AsyncAdmin.lite_lag)
    groups = waiting(AsyncAdmin.groups)
    group = waiting(AsyncAdmin.group)
    create_group = waiting(AsyncAdmin.create_group)
    alter_group = waiting(AsyncAdmin.alter_group)
    delete_group = waiting(AsyncAdmin.delete_group)
    consume_modes = waiting(AsyncAdmin.consume_modes)
    set_consume_mode = waiting(AsyncAdmin.set_consume_mode)
    plan_reset = waiting(AsyncAdmin.plan_reset)
    reset_group = waiting(AsyncAdmin.reset_group)
    brokers = waiting(AsyncAdmin.brokers)
    broker_figures = waiting(AsyncAdmin.broker_figures)
    broker_settings = waiting(AsyncAdmin.broker_settings)
    change_broker = waiting(AsyncAdmin.change_broker)
    messages_by_id = waiting(AsyncAdmin.messages_by_id)
    messages_by_key = waiting(AsyncAdmin.messages_by_key)
    message_at = waiting(AsyncAdmin.message_at)
    messages_between = waiting(AsyncAdmin.messages_between)
    message_life = waiting(AsyncAdmin.message_life)
    open_transactions = waiting(AsyncAdmin.open_transactions)
    check_transaction = waiting(AsyncAdmin.check_transaction)
    waiting_messages = waiting(AsyncAdmin.waiting_messages)
    dead_letter_groups = waiting(AsyncAdmin.dead_letter_groups)
    dead_letters = waiting(AsyncAdmin.dead_letters)
    resend_dead_letters = waiting(AsyncAdmin.resend_dead_letters)
    drop_dead_letters = waiting(AsyncAdmin.drop_dead_letters)
    replica_groups = waiting(AsyncAdmin.replica_groups)
    replica_group = waiting(AsyncAdmin.replica_group)
    master_switches = waiting(AsyncAdmin.master_switches)
    hand_over = waiting(AsyncAdmin.hand_over)
    check_hand_over = waiting(AsyncAdmin.check_hand_over)
    elect_master = waiting(AsyncAdmin.elect_master)
    check_election = waiting(AsyncAdmin.check_election)
    count_lacking = waiting(AsyncAdmin.count_lacking)
    move_replica = waiting(AsyncAdmin.move_replica)
    check_move = waiting(AsyncAdmin.check_move)
    remove_replica = waiting(AsyncAdmin.remove_replica)
    check_removal = waiting(AsyncAdmin.check_removal)
    users = waiting(AsyncAdmin.users)
    policies = waiting(AsyncAdmin.policies)
    create_user = waiting(AsyncAdmin.create_user)
    alter_user = waiting(AsyncAdmin.alter_user)
    delete_user = waiting(AsyncAdmin.delete_user)
    allow = waiting(AsyncAdmin.allow)
    deny = waiting(AsyncAdmin.deny)
    delete_policies = waiting(AsyncAdmin.delete_policies)
    may = waiting(AsyncAdmin.may)
    add_accounts = waiting(AsyncAdmin.add_accounts)
