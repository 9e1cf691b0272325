"""The positions of consumers: as they tell them, and the least offset of all groups.

Owns        the choice of clients to ask and of groups to count.
Must not know   how clients keep their offsets, the use of the answers.

Departures from RocketMQ 5.3: `filterGroups` leaves groups out of the answer; Apache deletes the offsets of these
groups, in every topic. All clients are asked at once; the remark names the clients that gave no answer.
"""

from __future__ import annotations

from functools import partial

from rocketlake.base.errors import LinkError, RemoteError
from rocketlake.broker.clients.consumers import ConsumerTable
from rocketlake.broker.clients.member import Member
from rocketlake.broker.clients.push import Push
from rocketlake.broker.cold_requests import ColdRequests
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.model.message_queue import MessageQueue
from rocketlake.net.reply_steps import ReplySteps
from rocketlake.net.request import Held, Reply, Request
from rocketlake.protocol.bodies.body import BodyError
from rocketlake.protocol.bodies.offset import ConsumerStatus, CorrectionOffsets
from rocketlake.protocol.command import Command
from rocketlake.protocol.headers.admin_group import CorrectionOffsetHeader
from rocketlake.protocol.headers.client import ConsumerStatusHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.protocol.versions import RESET_PUSH_SINCE, version_name
from rocketlake.store.message_store import MessageStore

__all__ = ["AdminPosition"]

_BEHIND_ALL = 2**63 - 1
"""Java's Long.MAX_VALUE: the compared group is behind every group that counts."""


class AdminPosition:
    """Offsets as members of a group keep them, corrections of a topic's queues."""

    def __init__(
        self,
        consumers: ConsumerTable,
        offsets: OffsetTable,
        store: MessageStore,
        cold_requests: ColdRequests,
        push: Push,
    ) -> None:
        self._consumers = consumers
        self._offsets = offsets
        self._store = store
        self._cold_requests = cold_requests
        self._push = push

    # -- 223 -----------------------------------------------------------------------------------------------------------

    def client_offsets(self, request: Request) -> Held:
        """INVOKE_BROKER_TO_GET_CONSUMER_STATUS: the broker asks each member of the group, or the named one."""
        header = request.header(ConsumerStatusHeader)
        members = self._asked(header)
        question = ConsumerStatusHeader(topic=header.topic, group=header.group)

        def answered(answers: list[Command | LinkError]) -> Reply:
            return _status_reply(members, answers)

        askers = [member.asker for member in members]
        code = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
        return self._push.ask_each(request, askers, lambda: Command.request(code, question), answered)

    def _asked(self, header: ConsumerStatusHeader) -> list[Member]:
        group = self._consumers.find(header.group)
        if group is None:
            raise RemoteError(
                f"No Any Consumer online in the consumer group: [{header.group}]", code=ResponseCode.SYSTEM_ERROR
            )
        members = list(group.members.values())
        if wanted := (header.client_addr or "").strip():
            members = [member for member in members if member.client_id == wanted]
        if not members:
            raise RemoteError(f"The Consumer <{header.group}> <{wanted}> not online", code=ResponseCode.SYSTEM_ERROR)
        for member in members:
            if member.version < RESET_PUSH_SINCE:
                raise RemoteError(
                    f"the client does not support this feature. version={version_name(member.version)}",
                    code=ResponseCode.SYSTEM_ERROR,
                )
        return members

    # -- 308 -----------------------------------------------------------------------------------------------------------

    def correction(self, request: Request) -> ReplySteps:
        """QUERY_CORRECTION_OFFSET: by queue the least offset of all groups, compared with one group."""
        header = request.header(CorrectionOffsetHeader)
        left_out = {name.strip() for name in (header.filter_groups or "").split(",")}
        least: dict[int, int] = {}
        topic = header.topic
        for group in self._offsets.groups_of(topic) - left_out:
            for queue_id, offset in self._offsets.queues(group, topic).items():
                low = partial(self._store.min_offset, topic, queue_id)
                if offset >= (yield from self._cold_requests.read(request, low)):
                    least[queue_id] = min(offset, least.get(queue_id, offset))
                yield
        for queue_id, offset in self._offsets.queues(header.compare_group, header.topic).items():
            if least.get(queue_id, offset) > offset:
                least[queue_id] = _BEHIND_ALL
            yield
        return Reply(body=(yield from CorrectionOffsets(correction_offsets=least).encoding()))


def _status_reply(members: list[Member], answers: list[Command | LinkError]) -> Reply:
    clients: dict[str, dict[MessageQueue, int]] = {}
    silent: list[str] = []
    for member, answer in zip(members, answers, strict=True):
        try:
            if isinstance(answer, LinkError):
                raise answer
            if answer.code != ResponseCode.SUCCESS:
                silent.append(f"{member.client_id}: {answer.remark or f'code {answer.code}'}")
            elif answer.body_bytes:
                clients.setdefault(member.client_id, {}).update(ConsumerStatus.decode(answer.body_bytes).queues)
        except (LinkError, BodyError) as error:
            silent.append(f"{member.client_id}: {error}")
    remark = f"no answer from {len(silent)} of {len(members)} clients: {'; '.join(silent)}" if silent else None
    return Reply(body=ConsumerStatus(clients=clients).encode(), remark=remark)
