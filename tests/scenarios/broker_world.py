"""A whole broker in one process for scenario files: disk and network in memory, time moved by hand.

Each name that a scenario gives a pull (p1, p2) is a request of its own; clients c1, c2 are chosen by `as=`. What the
broker sends while a command runs is heard at its end, in order: `answer p1 FOUND next=1 bodies=[hello] waited_ms=400`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

from rocketlake.auth.admin_access import AdminAccess
from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import InlineWorker
from rocketlake.broker.broker import Broker
from rocketlake.broker.config import BrokerConfig
from rocketlake.codec import property_text
from rocketlake.codec.record import decode_records
from rocketlake.codec.record_batch import encode_batch
from rocketlake.model import property_names as names
from rocketlake.model import sys_flag
from rocketlake.model.group import CustomizedRetry, GroupConfig, RetryPolicy
from rocketlake.model.message import Message, StoredMessage
from rocketlake.model.message_id import RecallHandle, offset_message_id, parse_offset_message_id
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.subscription import parse_subscription
from rocketlake.model.topic import TopicConfig
from rocketlake.net.client import NetClient
from rocketlake.net.memory_net import MemoryNet
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.bodies.heartbeat import ConsumerEntry, Heartbeat, ProducerEntry, SubscriptionEntry
from rocketlake.protocol.bodies.lock import LockBody
from rocketlake.protocol.bodies.queue_map import QueueEntry
from rocketlake.protocol.bodies.transaction import HalfMessages
from rocketlake.protocol.bodies.waiting import TimerMetrics
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.admin_topic import DeleteTopicHeader
from rocketlake.protocol.headers.offset import UpdateOffsetHeader
from rocketlake.protocol.headers.pull import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND, PullHeader
from rocketlake.protocol.headers.send import PushReplyHeader, RecallHeader, SendBackHeader, SendHeaderV2
from rocketlake.protocol.headers.transaction import (
    CheckTransactionHeader,
    EndTransactionHeader,
    HalfMessagesHeader,
    ResumeCheckHeader,
)
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.config import StoreConfig
from tests.pops import PopClient, Popped

HOUR_MS = 3_600_000
_FOR_EVER_MS = 1e9
_ENDS = {
    "commit": sys_flag.TRANSACTION_COMMIT,
    "rollback": sys_flag.TRANSACTION_ROLLBACK,
    "unknown": sys_flag.TRANSACTION_NONE,
}
_HOST = "10.0.0.100"
_STORE = StoreConfig(
    commit_log_file_bytes=256 * 1024,
    consume_queue_file_bytes=2000,
    index_slots=10,
    index_entries=100,
    flush_least_pages=0,  # every flush, twice a second, takes all there is
)

Outcome = Coroutine[Any, Any, list[str]]


class BrokerWorld:
    """One broker "b" and its clients. Used from a test that is not async: it runs a loop of its own."""

    def __init__(self, flush_disk_type: str = "ASYNC_FLUSH", *, write_pool: bool = False, **settings: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._settings = settings
        self._store_config = replace(
            _STORE, flush_disk_type=flush_disk_type, write_pool_enabled=write_pool, write_pool_buffers=2
        )
        self._clock = ManualClock()
        self._files = MemoryFiles(clock=self._clock)
        self._net = MemoryNet(clock=self._clock)
        self._clients: dict[str, NetClient] = {}
        self._waiting: set[asyncio.Task[None]] = set()
        self._heard: list[str] = []
        self._offsets = {"nowhere": 10_000_000}
        self._handles = {"nonsense": "AAAA"}
        """Recall handles of sends by name; "" if the answer had none."""
        self._popped: dict[str, tuple[PopClient, Popped]] = {}
        self._refusing: set[str] = set()
        self._halves: dict[str, tuple[int, int]] = {"nowhere": (10_000_000, 0)}
        """(physical offset, half queue offset) of half messages by name; one that is checked gets that of its copy."""
        self._broker: Broker
        self._loop.run_until_complete(self._start())

    def close(self) -> None:
        """Stop everything."""
        self._loop.run_until_complete(self._close())
        self._loop.close()

    def do(self, verb: str, words: list[str], options: dict[str, str]) -> list[str]:
        """Run one command of a scenario; the lines heard."""
        command: Callable[..., Outcome] = getattr(self, verb)
        if "as" in options:
            options["client"] = options.pop("as")

        async def run() -> list[str]:
            lines = await command(*words, **options)
            await self._clock.settle()
            heard, self._heard = self._heard, []
            return lines + heard

        return self._loop.run_until_complete(run())

    # -- commands ------------------------------------------------------------------------------------------------------

    async def tick(self, ms: str) -> list[str]:
        """Let time pass."""
        await self._clock.run_for(int(ms))
        return []

    async def topic(
        self, name: str, queues: str = "1", perm: str = "6", order: str = "no", type: str = "UNSPECIFIED"
    ) -> list[str]:
        """Make a topic; `type`: of its messages."""
        count, attributes = int(queues), {"message.type": type}
        self._broker.topics.put(
            TopicConfig(
                name, read_queues=count, write_queues=count, perm=int(perm), order=order == "yes", attributes=attributes
            )
        )
        return []

    async def delete_topic(self, name: str) -> list[str]:
        """Delete a topic."""
        header = DeleteTopicHeader(topic=name)
        return _failure(await self._ask(Command.request(RequestCode.DELETE_TOPIC_IN_BROKER, header)))

    async def group(self, name: str, **members: str) -> list[str]:
        """Make a group; members are attributes of GroupConfig, `pauses` (ms) its retry policy."""
        config = GroupConfig(name)
        if "pauses" in members:
            pauses = tuple(map(int, members.pop("pauses").split(",")))
            config.retry_policy = RetryPolicy(customized=CustomizedRetry(pauses))
        for member, text in members.items():
            setattr(config, member, text == "yes" if text in ("yes", "no") else int(text))
        self._broker.groups.put(config)
        return []

    async def consumer(self, group: str, topic: str, tags: str = "*", version: str = "1", model: str = "CLUSTERING", client: str = "c1") -> list[str]:  # fmt: skip  # noqa: E501
        """A consumer's heartbeat."""
        wanted = parse_subscription(topic, tags.replace("|", " || "), version=int(version))
        body = Heartbeat(
            client_id=client,
            consumers=[
                ConsumerEntry(
                    group_name=group,
                    consume_type="CONSUME_PASSIVELY",
                    message_model=model,
                    consume_from_where="CONSUME_FROM_FIRST_OFFSET",
                    subscriptions=[SubscriptionEntry.from_model(wanted)],
                )
            ],
        )
        return _failure(await self._ask(Command.request(RequestCode.HEART_BEAT, body=body.encode()), client))

    async def lock(self, group: str, topic: str, client: str = "c1") -> list[str]:
        """Take queue 0 of a topic for an ordered consumer."""
        queue = QueueEntry.from_model(MessageQueue(topic, "b", 0))
        body = LockBody(consumer_group=group, client_id=client, queues=[queue])
        return _failure(await self._ask(Command.request(RequestCode.LOCK_BATCH_MQ, body=body.encode()), client))

    async def send(
        self,
        topic: str,
        body: str = "x",
        queue: str = "0",
        tag: str = "",
        delay: str = "",
        retried: str = "",
        limit: str = "",
        flag: str = "0",
        template: str = "TBW102",
        wanted_queues: str = "4",
        properties: str = "",
        name: str = "",
    ) -> list[str]:
        """Send a message; `name` remembers where it was stored, for `send_back`."""
        pairs = dict(pair.split(":") for pair in properties.split(",") if pair)
        pairs |= {key: value for key, value in ((names.TAGS, tag), (names.DELAY, delay)) if value}
        header = self._header(topic, queue, flag, template, wanted_queues, pairs)
        header.reconsume_times = int(retried) if retried else None
        header.max_reconsume_times = int(limit) if limit else None
        answer = await self._ask(Command.request(RequestCode.SEND_MESSAGE_V2, header, body.encode()))
        return self._stored(answer, name)

    async def recall(self, name: str, topic: str = "T") -> list[str]:
        """Take back the message that was sent under this name."""
        header = RecallHeader(topic=topic, recall_handle=self._handles[name])
        answer = await self._ask(Command.request(RequestCode.RECALL_MESSAGE, header))
        return _failure(answer) or ["recalled"]

    async def waiting(self) -> list[str]:
        """How many messages wait for their time, by topic, as slaves of RocketMQ ask."""
        answer = await self._ask(Command.request(RequestCode.GET_TIMER_METRICS))
        counts = TimerMetrics.decode(answer.body_bytes).timing_count if answer.code == 0 else {}
        return _failure(answer) or [f"{topic} waiting={each.count}" for topic, each in sorted(counts.items())]

    async def handle(self, name: str) -> list[str]:
        """The recall handle of this send, in plain words."""
        if not self._handles[name]:
            return ["no handle"]
        topic, broker, due, _id = RecallHandle.of_text(self._handles[name])
        return [f"handle of {topic} at {broker} due in {int(due) - self._clock.now_ms()} ms"]

    async def send_batch(
        self, topic: str, bodies: str, queue: str = "0", properties: str = "", inner: str = ""
    ) -> list[str]:
        """Send several messages in one request; `inner`: properties of the last of them."""
        pairs = dict(pair.split(":") for pair in properties.split(",") if pair)
        header = self._header(topic, queue, "0", "TBW102", "4", pairs)
        header.batch = True
        messages = [Message(topic, body.encode()) for body in bodies.split(",")]
        messages[-1].properties |= dict(pair.split(":") for pair in inner.split(",") if pair)
        batch = encode_batch(messages)
        answer = await self._ask(Command.request(RequestCode.SEND_BATCH_MESSAGE, header, batch))
        return self._stored(answer, "")

    async def producer(self, group: str, client: str = "c1") -> list[str]:
        """A producer's heartbeat."""
        body = Heartbeat(client_id=client, producers=[ProducerEntry(group_name=group)])
        return _failure(await self._ask(Command.request(RequestCode.HEART_BEAT, body=body.encode()), client))

    async def reply(self, to: str, body: str, topic: str = "C_REPLY_TOPIC", client: str = "c1") -> list[str]:
        """A consumer answers a message of the client `to`; `to=nobody` names none."""
        pairs = {names.MESSAGE_TYPE: "reply", names.CORRELATION_ID: "17", names.TTL: "3000"}
        pairs |= {} if to == "nobody" else {names.REPLY_TO_CLIENT: to}
        header = self._header(topic, "0", "0", "TBW102", "4", pairs)
        answer = await self._ask(Command.request(RequestCode.SEND_REPLY_MESSAGE_V2, header, body.encode()), client)
        return self._stored(answer, "") if (answer.fields or {}).get("msgId") != "0" else ["handed on"]

    async def refuses(self, client: str) -> list[str]:
        """From now on this client takes no answer."""
        self._refusing.add(client)
        return []

    async def half(
        self, topic: str, name: str, queue: str = "0", group: str = "p", born_ago: str = "0", properties: str = ""
    ) -> list[str]:
        """Send the half message `name` (it is its body too), remember its place for `end`."""
        pairs = {names.TRANSACTION_PREPARED: "true", names.PRODUCER_GROUP: group}
        pairs |= dict(pair.split(":") for pair in properties.split(",") if pair)
        header = self._header(topic, queue, "0", "TBW102", "4", pairs)
        header.born_timestamp -= int(born_ago)
        answer = await self._ask(Command.request(RequestCode.SEND_MESSAGE_V2, header, name.encode()))
        stored = self._stored(answer, name)
        if answer.code == ResponseCode.SUCCESS:
            self._halves[name] = (self._offsets[name], int((answer.fields or {})["queueOffset"]))
        return stored

    async def name_place(self, name: str, place: str) -> list[str]:
        """Remember where the half message `name` lies now, for `end`."""
        self._halves[place] = self._halves[name]
        return []

    async def end(
        self, how: str, name: str, group: str = "p", offset: str = "", check: str = "no", id: str = ""
    ) -> list[str]:
        """End the transaction of a half message; `check=yes`: because the broker asked."""
        physical_offset, half_offset = self._halves[name]
        header = EndTransactionHeader(
            producer_group=group,
            tran_state_table_offset=int(offset or half_offset),
            commit_log_offset=physical_offset,
            commit_or_rollback=_ENDS[how],
            from_transaction_check=check == "yes",
            transaction_id=id or None,
        )
        answer = await self._ask(Command.request(RequestCode.END_TRANSACTION, header))
        return _failure(answer) or ["ended"]

    async def resume(self, name: str) -> list[str]:
        """An administrator has a half message checked again."""
        header = ResumeCheckHeader(msg_id=offset_message_id(_HOST, 10911, self._offsets[name]))
        return _failure(await self._ask(Command.request(RequestCode.RESUME_CHECK_HALF_MESSAGE, header))) or ["resumed"]

    async def transactions(self, given_up: str = "no", dead: str = "no") -> list[str]:
        """Transactions without an end, for an administrator."""
        header = HalfMessagesHeader(given_up=given_up == "yes", is_dead=dead == "yes")
        answer = await self._ask(Command.request(RequestCode.GET_HALF_MESSAGES, header))
        halves = HalfMessages.decode(answer.body_bytes).halves if answer.code == 0 else []
        lines = [f"{each.topic} of {each.group} checks={each.checked} producers={each.producers}" for each in halves]
        return _failure(answer) or lines or ["no transactions"]

    async def send_back(self, name: str, group: str, level: str = "0", limit: str = "", error: str = "") -> list[str]:
        """A consumer could not handle the message that was sent, or pulled, under this name."""
        header = SendBackHeader(offset=self._offsets[name], group=group, delay_level=int(level))
        header.last_error = error or None
        header.max_reconsume_times = int(limit) if limit else None
        answer = await self._ask(Command.request(RequestCode.CONSUMER_SEND_MSG_BACK, header))
        return _failure(answer) or ["taken back"]

    async def pull(
        self,
        name: str,
        topic: str,
        queue: str = "0",
        offset: str = "0",
        group: str = "g",
        tags: str = "*",
        subscribed: str = "no",
        version: str = "1",
        wait_ms: str = "0",
        count: str = "32",
        commit: str = "",
        expression_type: str = "TAG",
        lite: str = "no",
        client: str = "c1",
    ) -> list[str]:
        """Pull; `subscribed=yes` uses the subscription of the heartbeat instead of `tags`."""
        flags = PULL_SUSPEND if int(wait_ms) else 0
        flags |= PULL_COMMIT_OFFSET if commit else 0
        flags |= 0 if subscribed == "yes" else PULL_SUBSCRIPTION
        header = PullHeader(
            consumer_group=group,
            topic=topic,
            queue_id=int(queue),
            queue_offset=int(offset),
            max_msg_nums=int(count),
            sys_flag=flags,
            commit_offset=int(commit or 0),
            suspend_timeout_millis=int(wait_ms),
            sub_version=int(version),
            subscription=tags.replace("|", " || "),
            expression_type=expression_type,
        )
        code = RequestCode.LITE_PULL_MESSAGE if lite == "yes" else RequestCode.PULL_MESSAGE
        command = Command.request(code, header)
        held_before, began = len(self._broker.reading.hold), self._clock.now_ms()
        task = self._loop.create_task(self._hear_pull(name, command, client, began))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)
        await self._clock.settle()
        return [f"held {name}"] if len(self._broker.reading.hold) > held_before else []

    async def pop(
        self,
        name: str,
        topic: str = "T",
        group: str = "g",
        queue: str = "-1",
        tags: str = "*",
        invisible_ms: str = "60000",
        wait_ms: str = "0",
        count: str = "32",
        order: str = "no",
        attempt: str = "",
        client: str = "c1",
    ) -> list[str]:
        """Pop; the messages are acknowledged by their bodies."""
        popper = PopClient("", group, topic)
        popper.clock = self._clock  # type: ignore[assignment]
        header = popper.pop_header(int(invisible_ms), int(wait_ms), queue_id=int(queue), max_msg_nums=int(count))
        header.exp, header.order, header.attempt_id = tags.replace("|", " || "), order == "yes", attempt or None
        held_before, began = len(self._broker.popping.hold), self._clock.now_ms()

        async def hear() -> None:
            answer = await self._ask(Command.request(RequestCode.POP_MESSAGE, header), client)
            found = popper.popped(answer) if answer.code == 0 else []
            self._popped |= {each.body: (popper, each) for each in found}
            bodies = f"FOUND bodies=[{','.join(_describe_message(each.message) for each in found)}]"
            waited = f" waited_ms={waited_ms}" if (waited_ms := self._clock.now_ms() - began) else ""
            self._heard.append(f"answer {name} {bodies if found else ResponseCode(answer.code).name}{waited}")

        task = self._loop.create_task(hear())
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)
        await self._clock.settle()
        return [f"held {name}"] if len(self._broker.popping.hold) > held_before else []

    async def ack(self, body: str, client: str = "c1") -> list[str]:
        """Acknowledge a message that was popped last with this body."""
        popper, popped = self._popped[body]
        return _failure(await self._ask(Command.request(RequestCode.ACK_MESSAGE, popper.ack_header(popped)), client))

    async def keep(self, body: str, ms: str, suspend: str = "no", client: str = "c1") -> list[str]:
        """Change the invisible time of a popped message."""
        popper, popped = self._popped[body]
        header = popper.change_header(popped, int(ms), suspend=suspend == "yes")
        command = Command.request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
        return _failure(await self._ask(command, client))

    async def hang_up(self, client: str = "c1") -> list[str]:
        """The client's connection breaks."""
        await self._clients.pop(client).close()
        await self._clock.settle()
        self._heard = [line for line in self._heard if not line.startswith("lost ")]
        return []

    async def held(self) -> list[str]:
        """How many pulls wait."""
        return [f"holding {len(self._broker.reading.hold)}"]

    async def topics(self, name: str) -> list[str]:
        """What the broker knows of a topic."""
        topic = self._broker.topics.get(name)
        if topic is None:
            return [f"no topic {name}"]
        return [f"topic {name} queues={topic.read_queues}/{topic.write_queues} perm={topic.perm}"]

    async def committed(self, group: str, topic: str) -> list[str]:
        """The offset of a group in queue 0."""
        return [f"committed {self._broker.offsets.query(group, topic, 0)}"]

    async def commit(self, group: str, topic: str, offset: str) -> list[str]:
        """A consumer says how far it is in queue 0."""
        header = UpdateOffsetHeader(consumer_group=group, topic=topic, queue_id=0, commit_offset=int(offset))
        answer = await self._ask(Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, header))
        return _failure(answer) or ([answer.remark] if answer.remark else [])

    async def reset(self, group: str, topic: str, offset: str) -> list[str]:
        """An administrator sends the group to another offset of queue 0."""
        self._broker.offsets.assign_reset(group, topic, 0, int(offset))
        return []

    async def forbid(self, group: str, topic: str) -> list[str]:
        """The group may not read the topic."""
        self._broker.groups.set_read_forbidden(group, topic, forbidden=True)
        return []

    async def setting(self, **values: str) -> list[str]:
        """Change settings by their Java names."""
        self._broker.config.update(values)
        return []

    async def delay_offsets(self) -> list[str]:
        """How far the delay levels are delivered."""
        waiting = self._broker.delay.schedule.waiting()
        return [f"level {level} delivered={offset} of={end}" for level, (offset, end) in sorted(waiting.items())]

    async def role(self, name: str) -> list[str]:
        """`role slave`, `role master`: change the role of the broker while it runs."""
        if name == "slave":
            await self._broker.become_slave(1)
        else:
            await self._broker.become_master()
        return []

    async def restart(self, down_ms: str = "0") -> list[str]:
        """Stop the broker cleanly and start it again on the same disk, some time later."""
        await self._close()
        self._heard = [line for line in self._heard if not line.startswith("lost ")]
        await self._clock.run_for(int(down_ms))
        await self._start()
        return []

    async def crash(self) -> list[str]:
        """Lose power: what was not synced is gone; then start again."""
        after = self._files.power_cut()
        await self._close()
        self._files = after
        self._heard.clear()
        await self._start()
        return []

    # -- inside --------------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        config = BrokerConfig(
            broker_name="b", cluster_name="C", listen_host=_HOST, listen_port=10911,
            fast_listen_port=0, store_root=Path("/store"),
            admin_access=AdminAccess.ANY, **self._settings,
        )  # fmt: skip
        self._broker = Broker(
            config,
            self._store_config,
            files=self._files,
            clock=self._clock,
            network=self._net.host(_HOST),
            workers=InlineWorker,
        )
        await self._broker.start()

    async def _close(self) -> None:
        for client in self._clients.values():
            await client.close()
        self._clients.clear()
        await asyncio.gather(*self._waiting)
        await self._broker.stop()

    async def _ask(self, command: Command, client: str = "c1") -> Command:
        net = self._clients.get(client)
        if net is None:
            network = self._net.host(f"10.0.0.{client[1:]}")
            handlers = {
                RequestCode.CHECK_TRANSACTION_STATE: lambda request: self._hear_check(client, request),
                RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: lambda request: self._hear_reply(client, request),
            }
            net = self._clients[client] = NetClient(None, self._clock, handlers, network=network)
        return await net.invoke(f"{_HOST}:10911", command, _FOR_EVER_MS)

    def _header(
        self, topic: str, queue: str, flag: str, template: str, wanted_queues: str, pairs: dict[str, str]
    ) -> SendHeaderV2:
        return SendHeaderV2(
            producer_group="p",
            topic=topic,
            default_topic=template,
            default_topic_queue_nums=int(wanted_queues),
            queue_id=int(queue),
            sys_flag=int(flag),
            born_timestamp=self._clock.now_ms(),
            flag=0,
            properties="".join(f"{key}\x01{value}\x02" for key, value in pairs.items()),
        )

    def _stored(self, answer: Command, name: str) -> list[str]:
        failure = _failure(answer)
        if failure:
            return failure
        fields = answer.fields or {}
        ids = fields["msgId"].split(",")
        if name:
            self._offsets[name] = parse_offset_message_id(ids[0])[2]
            self._handles[name] = fields.get("recallHandle", "")
        count = f" count={len(ids)}" if len(ids) > 1 else ""
        return [f"stored queue={fields['queueId']} offset={fields['queueOffset']}{count}"]

    async def _hear_pull(self, name: str, command: Command, client: str, began: int) -> None:
        try:
            answer = await self._ask(command, client)
        except Exception as error:
            self._heard.append(f"lost {name} {type(error).__name__}")
            return
        self._heard.append(self._describe(name, answer, self._clock.now_ms() - began))

    def _hear_check(self, client: str, request: Request) -> Reply:
        header = request.header(CheckTransactionHeader)
        (message,) = decode_records(request.body)
        name = message.body.decode()
        self._halves[name] = (header.commit_log_offset, header.tran_state_table_offset)
        times = message.properties[names.TRANSACTION_CHECK_TIMES]
        self._heard.append(f"asked {client} about {name} to={message.topic}/{message.queue_id} times={times}")
        return Reply()

    def _hear_reply(self, client: str, request: Request) -> Reply:
        if client in self._refusing:
            return Reply(ResponseCode.SYSTEM_ERROR, remark="process reply message fail")
        properties = property_text.decode((request.header(PushReplyHeader).properties or "").encode())
        number, at = properties[names.CORRELATION_ID], properties[names.PUSH_REPLY_TIME]
        assert int(at) == self._clock.now_ms()
        self._heard.append(f"{client} has the answer {request.body.decode()} to {number}")
        return Reply()

    def _describe(self, name: str, answer: Command, waited_ms: int) -> str:
        fields = answer.fields or {}
        code = ResponseCode(answer.code).name
        if "nextBeginOffset" not in fields:
            kind = f" forbidden={fields['forbiddenType']}" if "forbiddenType" in fields else ""
            return f"answer {name} {code}{kind}"
        words = [f"answer {name} {'FOUND' if answer.code == 0 else code} next={fields['nextBeginOffset']}"]
        if answer.code == 0:
            messages = decode_records(answer.body_bytes)
            self._offsets[name] = messages[-1].physical_offset
            words.append(f"bodies=[{','.join(map(_describe_message, messages))}]")
        if waited_ms:
            words.append(f"waited_ms={waited_ms}")
        return " ".join(words)


def _describe_message(message: StoredMessage) -> str:
    text = message.body.decode()
    if message.reconsume_times:
        text += f"/try{message.reconsume_times}"
    if message.retry_topic:
        text += f"/from-{message.retry_topic}"
    if names.LAST_ERROR in message.properties:
        text += f"/{message.properties[names.LAST_ERROR]}"
    return text


def _failure(answer: Command) -> list[str]:
    return [] if answer.code == 0 else [f"refused {ResponseCode(answer.code).name}"]
