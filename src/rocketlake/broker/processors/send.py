"""SEND_MESSAGE, SEND_MESSAGE_V2, SEND_BATCH_MESSAGE: a producer hands in messages.

Owns        the order of the steps of a send.
Must not know   the checks (rights/send.py), the message and the answer (sends/), how a message is stored.

A send passes here once. It goes on in sends/single.py or sends/batch.py: at once, or when its topic is on disk if it is
the first send to a new topic.
"""

from __future__ import annotations

from functools import partial

from rocketlake.broker.rights.send import SendRights
from rocketlake.broker.sends.batch import BatchSends
from rocketlake.broker.sends.copy_room import has_retry_room
from rocketlake.broker.sends.single import SingleSends
from rocketlake.broker.topics.auto_create import AutoCreate
from rocketlake.broker.topics.table import TopicTable
from rocketlake.codec import property_text
from rocketlake.model.names import dead_letter_topic, group_of_retry_topic, is_retry_topic
from rocketlake.net.request import Handler, Held, Reply, Request
from rocketlake.protocol.headers.send import SendHeader, read_send_header
from rocketlake.protocol.request_code import RequestCode

__all__ = ["Send"]


class Send:
    """Takes messages of producers, and of consumers that put a message into their retry topic themselves."""

    def __init__(
        self,
        rights: SendRights,
        topics: TopicTable,
        auto_create: AutoCreate,
        single: SingleSends,
        batch: BatchSends,
    ) -> None:
        self._rights = rights
        self._topics = topics
        self._auto_create = auto_create
        self.single = single
        self._batch = batch

    def send(self, request: Request) -> Reply | Held:
        """Serve any code of the family."""
        header = read_send_header(request.command)
        self._rights.check(header.topic)
        topic = self._topics.get(header.topic) or self._auto_create.for_send(header)
        dead_letters = None
        if header.batch or request.code == RequestCode.SEND_BATCH_MESSAGE:
            put: Handler = partial(self._batch.put, header=header)
        else:
            if is_retry_topic(topic.name) and self._is_last_try(header, request.command.version):
                group = group_of_retry_topic(topic.name)
                dead_letters = self._auto_create.for_group(dead_letter_topic(group), 1)
            put = partial(self.single.put, header=header, dead_letters=dead_letters)
        target = dead_letters or topic
        if target.name in self._topics.unsaved:
            return self._auto_create.once_saved(target.name, request, put)
        return put(request)

    def _is_last_try(self, header: SendHeader, version: int) -> bool:
        if self._rights.is_spent(header, version):
            return True
        properties = property_text.decode((header.properties or "").encode())
        self.single.incoming.add_properties(properties)
        return not has_retry_room(properties, header.topic)
