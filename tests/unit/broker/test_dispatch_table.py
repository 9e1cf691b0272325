from __future__ import annotations

from pathlib import Path

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import InlineWorker
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.broker.dispatch_table import Row
from rocketlake.broker.flow_control import Lane
from rocketlake.protocol.request_code import RequestCode as Code
from rocketlake.store.config import StoreConfig

WHAT_CLIENTS_CALL = {
    Code.SEND_MESSAGE,
    Code.SEND_MESSAGE_V2,
    Code.SEND_BATCH_MESSAGE,
    Code.CONSUMER_SEND_MSG_BACK,
    Code.PULL_MESSAGE,
    Code.LITE_PULL_MESSAGE,
    Code.QUERY_MESSAGE,
    Code.VIEW_MESSAGE_BY_ID,
    Code.QUERY_CONSUMER_OFFSET,
    Code.UPDATE_CONSUMER_OFFSET,
    Code.SEARCH_OFFSET_BY_TIMESTAMP,
    Code.GET_MAX_OFFSET,
    Code.GET_MIN_OFFSET,
    Code.GET_EARLIEST_MSG_STORETIME,
    Code.HEART_BEAT,
    Code.UNREGISTER_CLIENT,
    Code.GET_CONSUMER_LIST_BY_GROUP,
    Code.CHECK_CLIENT_CONFIG,
    Code.LOCK_BATCH_MQ,
    Code.UNLOCK_BATCH_MQ,
    Code.UPDATE_AND_CREATE_TOPIC,
    Code.END_TRANSACTION,
}


@pytest.fixture
async def table() -> dict[Code, Row]:
    broker = Broker(
        BrokerConfig(broker_name="b", listen_port=0, store_root=Path("/s")),
        StoreConfig(),
        files=MemoryFiles(),
        clock=ManualClock(),
        workers=InlineWorker,
    )
    listed = [row for wing in broker.wings for row in wing.rows]
    assert len(listed) == len({row.code for row in listed})
    return {row.code: row for row in listed}


async def test_everything_that_producers_and_push_consumers_call_is_served(table: dict[Code, Row]) -> None:
    assert WHAT_CLIENTS_CALL - table.keys() == set()


async def test_what_destroys_or_reconfigures_is_guarded(table: dict[Code, Row]) -> None:
    """The list of docs/decisions/0004."""
    assert {code for code, row in table.items() if row.needs.takes} == {
        Code.UPDATE_BROKER_CONFIG,
        Code.DELETE_TOPIC_IN_BROKER,
        Code.DELETE_SUBSCRIPTIONGROUP,
        Code.INVOKE_BROKER_TO_RESET_OFFSET,
        Code.CLONE_GROUP_OFFSET,
        Code.UPDATE_AND_GET_GROUP_FORBIDDEN,
        Code.RESUME_CHECK_HALF_MESSAGE,
        Code.DELETE_EXPIRED_COMMITLOG,
        Code.CLEAN_EXPIRED_CONSUMEQUEUE,
        Code.CLEAN_UNUSED_TOPIC,
        Code.CONSUME_MESSAGE_DIRECTLY,
        Code.CHANGE_ROLE,
    }


async def test_one_request_only_is_served_to_nobody_in_particular(table: dict[Code, Row]) -> None:
    """Apache's name servers sign nothing; the handler asks its own name servers whether it is true."""
    assert {code for code, row in table.items() if not row.needs.signed} == {Code.NOTIFY_MIN_BROKER_ID_CHANGE}
    assert [code for code, row in table.items() if row.needs.signed and not row.needs.readers] == []


async def test_sends_and_pulls_are_in_the_lanes_that_limit_them(table: dict[Code, Row]) -> None:
    assert {code for code, row in table.items() if row.lane is Lane.SEND} == {
        Code.SEND_MESSAGE,
        Code.SEND_MESSAGE_V2,
        Code.SEND_BATCH_MESSAGE,
        Code.CONSUMER_SEND_MSG_BACK,
        Code.SEND_REPLY_MESSAGE,
        Code.SEND_REPLY_MESSAGE_V2,
        Code.RECALL_MESSAGE,
    }
    assert {code for code, row in table.items() if row.lane is Lane.PULL} == {
        Code.PULL_MESSAGE,
        Code.LITE_PULL_MESSAGE,
        Code.POP_MESSAGE,
        Code.POP_LITE_MESSAGE,
        Code.NOTIFICATION,
        Code.PEEK_MESSAGE,
    }
