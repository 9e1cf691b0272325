"""A slave finds its master and copies its tables."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rocketlake.auth.admin_access import AdminAccess
from rocketlake.base.errors import StoreError
from rocketlake.broker.replicas.master_calls import MasterCalls
from rocketlake.codec.record import decode_records
from rocketlake.model.topic import TopicConfig
from rocketlake.protocol.bodies.group import GroupEntry
from rocketlake.protocol.bodies.replicas import HaStatus
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.admin_topic import DeleteTopicHeader
from rocketlake.protocol.headers.replicas import ExchangeHaHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.durability import Demands, Stage
from rocketlake.store.results import PutMessage
from tests.replica_pair import MASTER, SLAVE, ReplicaPair
from tests.requests import send_header


@pytest.fixture
async def pair() -> AsyncIterator[ReplicaPair]:
    pair = ReplicaPair()
    await pair.start()
    yield pair
    await pair.stop()


async def test_a_slave_hears_of_its_master_when_it_registers(pair: ReplicaPair) -> None:
    known = pair.slave.cluster.master
    assert (known.address, known.ha_address) == (f"{MASTER}:10911", f"{MASTER}:10912")
    assert pair.master.cluster.master.address == ""
    (listed,) = pair.namesrv.routes.brokers().values()
    assert listed.addresses == {0: f"{MASTER}:10911", 1: f"{SLAVE}:10911"}
    await pair.slave.become_master()
    assert known.address == ""


async def test_a_slave_that_starts_before_its_master_asks_again_until_there_is_one() -> None:
    pair = ReplicaPair()
    await pair.namesrv.start()
    await pair.slave.start()
    assert pair.slave.cluster.master.address == ""
    await pair.master.start()
    await pair.clock.run_for(1500)
    assert pair.slave.cluster.master.address == f"{MASTER}:10911"
    await pair.stop()


async def test_a_master_without_slaves_is_not_woken_for_them() -> None:
    pair = ReplicaPair()
    await pair.namesrv.start()
    await pair.master.start()
    await pair.clock.run_for(1000)

    def duties() -> set[str]:
        return {f"{each.name}/{duty}" for each in pair.master.services() for duty in each.duties}

    alone = duties()
    await pair.slave.start()
    await pair.clock.run_for(1000)
    assert duties() - alone == {"leader/look", "table-editions/progress"}
    await pair.stop()


async def test_a_change_is_on_the_slave_before_it_is_answered(pair: ReplicaPair) -> None:
    """Also when the slave's answer takes some hops: the master waits for its receipt."""
    await pair.clock.run_for(100)
    for name in ("New", "Newer"):
        start = pair.clock.monotonic()
        answer = await pair.create_topic(MASTER, name)
        assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)
        assert pair.slave.topics.get(name) == pair.master.topics.get(name) != None  # noqa: E711
        assert pair.clock.monotonic() - start < 0.1
    group = GroupEntry(group_name="g", retry_max_times=7)
    answer = await pair.ask(
        MASTER, Command.request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group.encode())
    )
    assert answer.code == ResponseCode.SUCCESS
    found = pair.slave.groups.find("g")
    assert found is not None and found.retry_max_times == 7
    assert pair.slave.topics.data_version == pair.master.topics.data_version
    assert pair.slave.groups.data_version == pair.master.groups.data_version


async def test_progress_is_copied_once_the_log_of_the_slave_holds_what_it_speaks_of(pair: ReplicaPair) -> None:
    await pair.slave.replicas.stop_following()
    pair.master.topics.put(TopicConfig("T"))
    put = pair.master.store.put(PutMessage("T", 0, b"x" * 500))
    assert put.next_offset > 0
    pair.master.offsets.commit("g", "T", 0, 1)
    pair.master.delay.progress.move(3, 7)
    await pair.clock.run_for(5000)
    assert (pair.slave.offsets.query("g", "T", 0), pair.slave.delay.progress.next_offset(3)) == (-1, 0)
    await pair.slave.replicas.follow()
    await pair.clock.run_for(2000)
    assert (pair.slave.offsets.query("g", "T", 0), pair.slave.delay.progress.next_offset(3)) == (1, 7)
    pair.master.offsets.commit("g", "T", 0, 0)
    await pair.clock.run_for(1000)
    assert pair.slave.offsets.query("g", "T", 0) == 0


async def test_progress_is_copied_once_no_new_master_takes_back_what_it_speaks_of(pair: ReplicaPair) -> None:
    """A slave whose log was cut would else call delayed messages delivered whose copies it has no more."""
    durability = pair.slave.store.durability
    durability.demand(Demands(durability.demands.acks, (Stage.CONFIRMED,)))
    put = pair.master.store.put(PutMessage("T", 0, b"x" * 500))
    pair.master.delay.progress.move(3, 7)
    await pair.clock.run_for(5000)
    assert pair.slave.store.max_physical_offset == put.next_offset
    assert pair.slave.delay.progress.next_offset(3) == 0
    durability.advance(Stage.CONFIRMED, put.next_offset)
    await pair.clock.run_for(1000)
    assert pair.slave.delay.progress.next_offset(3) == 7


async def test_a_topic_made_by_its_first_send_is_on_the_slave_before_the_send_is_answered(pair: ReplicaPair) -> None:
    """The master vanishes behind the answer: the slave, as master, knows the topic and has the message."""
    await pair.clock.run_for(1000)
    command = Command.request(RequestCode.SEND_MESSAGE_V2, send_header(topic="Used"), b"kept")
    answer = await pair.ask(MASTER, command)
    assert answer.code == ResponseCode.SUCCESS
    pair.vanish_master()
    assert pair.slave.topics.get("Used") is not None
    await pair.slave.become_master()
    await pair.clock.run_for(100)
    assert pair.slave.store.max_offset("Used", 0) == 1
    again = await pair.ask(SLAVE, command)
    assert again.code == ResponseCode.SUCCESS


async def test_a_slave_that_does_not_copy_is_named_and_not_waited_for_a_second_time(pair: ReplicaPair) -> None:
    await pair.clock.run_for(1000)
    pair.net.partition(MASTER, SLAVE)
    first = await pair.create_topic(MASTER, "A")
    assert (first.code, "slave 1 has not copied it" in (first.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
    assert "A" in pair.master.topics
    start = pair.clock.monotonic()
    second = await pair.create_topic(MASTER, "B")
    assert (second.code, pair.clock.monotonic() - start < 0.5) == (ResponseCode.SUCCESS, True)
    pair.net.heal()
    await pair.clock.run_for(15_000)
    assert {"A", "B"} <= {topic.name for topic in pair.slave.topics.all()}


async def test_the_first_send_to_a_topic_is_answered_in_time_when_a_slave_cannot_save_it(pair: ReplicaPair) -> None:
    await pair.clock.run_for(1000)
    pair.net.partition(MASTER, SLAVE)
    for topic in ("A", "B"):
        start = pair.clock.monotonic()
        command = Command.request(RequestCode.SEND_MESSAGE_V2, send_header(topic=topic), b"kept")
        assert (await pair.ask(MASTER, command)).code == ResponseCode.SUCCESS
        assert pair.clock.monotonic() - start < 1.2
    refused = await pair.create_topic(MASTER, "D")
    assert refused.code == ResponseCode.SYSTEM_ERROR, "who changes settings hears that the slave lacks them"


async def test_an_answer_without_topics_or_a_damaged_one_deletes_nothing_and_turns_health_red(
    pair: ReplicaPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pair.create_topic(MASTER, "Kept")
    version = pair.slave.topics.data_version
    for bad in (
        b"{}",
        b'{"topicConfigTable":{}}',
        b'{"topicConfigTable":{"A":7}}',
        b"\xff\x00",
        b'{"topicConfigTable"',
    ):
        taken = pair.slave.copies.settings[0]
        with pytest.raises(StoreError):
            list(taken.take(bad))
        assert "Kept" in pair.slave.topics and pair.slave.topics.data_version == version

    async def nothing(*_asked: object) -> bytes:
        return b'{"topicConfigTable":{}}'

    monkeypatch.setattr(MasterCalls, "table", nothing)
    pair.master.topics.put(TopicConfig("More"))
    await pair.clock.run_for(3000)
    assert "not believed" in str(pair.slave.health.troubles)
    assert "Kept" in pair.slave.topics
    monkeypatch.undo()
    await pair.clock.run_for(2000)
    assert pair.slave.health.is_green and "More" in pair.slave.topics


async def test_the_status_of_the_stream_is_told_and_a_word_of_a_new_master_is_heard(pair: ReplicaPair) -> None:
    await pair.clock.run_for(1000)
    command = Command.request(RequestCode.GET_BROKER_HA_STATUS)
    of_master = HaStatus.decode((await pair.ask(MASTER, command)).body_bytes)
    of_slave = HaStatus.decode((await pair.ask(SLAVE, command)).body_bytes)
    assert (of_master.master, of_master.in_sync_slaves, len(of_master.connections)) == (True, 1, 1)
    assert of_slave.client is not None and of_slave.client.master_addr == f"{MASTER}:10912"
    question = Command.request(RequestCode.EXCHANGE_BROKER_HA_INFO, ExchangeHaHeader())
    told = (await pair.ask(MASTER, question)).header(ExchangeHaHeader)
    assert (told.master_address, told.master_ha_address) == (f"{MASTER}:10911", f"{MASTER}:10912")
    # A stranger is not believed: the slave asks the name server.
    lie = ExchangeHaHeader(master_address="10.6.6.6:1", master_ha_address="10.6.6.6:2")
    pair.slave.cluster.master.forget()
    await pair.ask(SLAVE, Command.request(RequestCode.EXCHANGE_BROKER_HA_INFO, lie))
    await pair.clock.run_for(100)
    assert pair.slave.cluster.master.address == f"{MASTER}:10911"


async def test_a_deleted_topic_has_no_messages_on_a_slave_that_becomes_the_master() -> None:
    """Neither when it was made anew at once, nor when the slave makes it anew later."""
    pair = ReplicaPair(admin_access=AdminAccess.ANY)
    await pair.start()
    for name in ("Gone", "Anew"):
        await pair.create_topic(MASTER, name)
        await pair.ask(MASTER, Command.request(RequestCode.SEND_MESSAGE_V2, send_header(topic=name), b"old"))
    await pair.clock.run_for(2000)
    for name in ("Gone", "Anew"):
        command = Command.request(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicHeader(topic=name))
        assert (await pair.ask(MASTER, command)).code == ResponseCode.SUCCESS
    await pair.create_topic(MASTER, "Anew")
    await pair.ask(MASTER, Command.request(RequestCode.SEND_MESSAGE_V2, send_header(topic="Anew"), b"new"))
    await pair.clock.run_for(3000)
    pair.vanish_master()
    await pair.slave.become_master()
    assert "Gone" not in pair.slave.topics
    assert pair.slave.store.queues.queue_ids("Gone") == []
    read = pair.slave.store.get("Anew", 0, 0, 10, 1 << 20)  # type: ignore[arg-type]
    assert [bytes(message.body) for message in decode_records(b"".join(read.slices))] == [b"new"]
    await pair.stop()


async def test_a_master_that_stops_in_order_is_a_plain_line_at_its_slave(
    pair: ReplicaPair, caplog: pytest.LogCaptureFixture
) -> None:
    await pair.clock.run_for(2000)
    await pair.master.stop()
    await pair.clock.run_for(100)
    said = [record for record in caplog.records if "table-copies/settings" in record.getMessage()]
    assert [record.levelname for record in said] == ["WARNING"]
    assert "waits for a peer" in said[0].getMessage()
    assert said[0].exc_info is None


async def test_a_slave_counts_producer_sequences_from_where_its_master_had_saved_them(pair: ReplicaPair) -> None:
    """So a slave that becomes the master reads the end of its log only."""
    await pair.create_topic(MASTER, "T")
    for first in (0, 3):
        assert await pair.send_batch(first, 3) == 0
        await pair.clock.run_for(12_000)
    place = pair.slave.sending.sequences.log_offset
    assert place is not None and 0 < place == pair.master.store.max_physical_offset
    assert await pair.send_batch(6, 3) == 0
    await pair.clock.run_for(100)
    pair.vanish_master()
    await pair.slave.become_master()
    assert [await pair.send_batch(first, 3, SLAVE) for first in (0, 3, 6, 9)] == [3, 3, 3, 0]


async def test_a_slave_that_may_be_elected_is_waited_for_while_it_is_away(pair: ReplicaPair) -> None:
    await pair.slave.stop()
    assert (await pair.create_topic(MASTER, "A")).code == ResponseCode.SUCCESS
    pair.master.ground.editions.expect(lambda: [1], lambda _broker_id, _mark: True)
    answer = await pair.create_topic(MASTER, "B")
    assert (answer.code, "slave 1 has not copied it" in (answer.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)


async def test_a_slave_refuses_changes_that_its_masters_next_copy_would_take_back(pair: ReplicaPair) -> None:
    await pair.clock.run_for(1000)
    refused = await pair.create_topic(SLAVE, "Lost")
    assert (refused.code, "ask the master of b" in (refused.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
    assert "Lost" not in pair.slave.topics
    await pair.slave.become_master()
    assert (await pair.create_topic(SLAVE, "Kept")).code == ResponseCode.SUCCESS
