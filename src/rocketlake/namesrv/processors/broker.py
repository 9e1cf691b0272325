"""Requests of brokers (registration, farewell, heartbeat), and of operators about their topics.

Owns        reading a registration, new and old form; the checks on its body.
Must not know   the rules of the route table.

Source: docs/internals/name_server.md.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from rocketlake.base.callbacks import call_each
from rocketlake.base.clock import Clock
from rocketlake.base.errors import RemoteError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.model.route import MASTER_ID
from rocketlake.namesrv.config import LiveConfig
from rocketlake.namesrv.kv_config import ORDER_TOPIC_CONFIG, KVConfig
from rocketlake.namesrv.route_table import Link, Registration, RouteTable
from rocketlake.net.gate.access_gate import AccessGate
from rocketlake.net.reply_steps import ReplySteps
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.bodies.data_version import DataVersionBody
from rocketlake.protocol.bodies.register import RegisterBrokerBody, checking, decoding_register_body
from rocketlake.protocol.bodies.route import RouteBody
from rocketlake.protocol.bodies.stats import KVTable
from rocketlake.protocol.headers.namesrv import (
    AddWritePermReplyHeader,
    BrokerHeartbeatHeader,
    DeleteTopicInNamesrvHeader,
    QueryDataVersionHeader,
    QueryDataVersionReplyHeader,
    RegisterBrokerHeader,
    RegisterBrokerReplyHeader,
    RegisterTopicHeader,
    UnregisterBrokerHeader,
    WipeWritePermReplyHeader,
    WritePermHeader,
)
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["Brokers"]

_log = get_logger("namesrv.brokers")


class Brokers:
    """REGISTER_BROKER, and the other requests that change the route table."""

    def __init__(
        self, routes: RouteTable, kv_config: KVConfig, config: LiveConfig, gate: AccessGate, clock: Clock
    ) -> None:
        self._warnings = RareWarnings(_log, clock=clock)
        self._routes = routes
        self._kv_config = kv_config
        self._config = config
        self._gate = gate
        self.on_heartbeat: list[Callable[[Request, BrokerHeartbeatHeader], object]] = []
        self.has_place: Callable[[Request, str, int, str], bool] = _nobody_has_a_place
        """True if a controller knows the broker of this name and id (0: the master) at this address, and the request
        comes from there."""
        self.has_left: Callable[[str, str], bool] = _nobody_has_left
        """True if the master of this name and address was asked, and is none any more."""

    def register(self, request: Request) -> ReplySteps:
        """Take a broker's topics. The answer tells a slave its master, and each broker the ordered topics."""
        header = request.header(RegisterBrokerHeader)
        body = yield from _reading(request, header)
        if not self._takes_place(request, header, body.topics.version().state_version):
            return Reply(header=RegisterBrokerReplyHeader(), body=self._ordered_topics())
        topics = {}
        for name, entry in body.topics.topics.items():
            topics[name] = entry.to_model()
            yield
        registration = Registration(
            cluster=header.cluster_name,
            address=header.broker_addr,
            name=header.broker_name,
            broker_id=header.broker_id,
            ha_address=header.ha_server_addr,
            timeout_ms=header.heartbeat_timeout_millis,
            acting_master=header.enable_acting_master,
            zone=header.zone_name,
            data_version=body.topics.version(),
            topics=topics,
            mappings=body.topics.topic_queue_mapping_info_map or {},
            filter_servers=body.filter_servers,
        )
        is_new = self._routes.data_version(header.cluster_name, header.broker_addr) is None
        done = yield from self._routes.register(registration, request.asker)
        if done is None:
            raise RemoteError(
                "register broker failed",
                code=ResponseCode.SYSTEM_ERROR,
                hint="send all topics first: this broker is not known yet",
            )
        if is_new:
            _log.info("broker %s (%s, id %d) registered", header.broker_name, header.broker_addr, header.broker_id)
        reply_header = RegisterBrokerReplyHeader(
            ha_server_addr=done.ha_address or None, master_addr=done.master_address or None
        )
        return Reply(header=reply_header, body=self._ordered_topics())

    def unregister(self, request: Request) -> ReplySteps:
        """Forget a broker that leaves."""
        header = request.header(UnregisterBrokerHeader)
        link = self._routes.link_of(header.cluster_name, header.broker_addr)
        self._check_owner(request, link, f"the farewell of broker {header.broker_name} ({header.broker_addr})")
        yield from self._routes.unregister(header.cluster_name, header.broker_addr, header.broker_name)
        _log.info("broker %s (%s, id %d) left", header.broker_name, header.broker_addr, header.broker_id)
        return Reply()

    def query_data_version(self, request: Request) -> Reply:
        """Tell whether the broker's topics changed since its registration; if not, the broker counts as heard."""
        header = request.header(QueryDataVersionHeader)
        known = self._routes.data_version(header.cluster_name, header.broker_addr)
        changed = known is None or known != DataVersionBody.decode(request.body).to_model()
        if not changed:
            self._routes.heard(header.cluster_name, header.broker_addr)
        body = None if known is None else DataVersionBody.from_model(known).encode()
        return Reply(header=QueryDataVersionReplyHeader(changed=changed), body=body)

    def heartbeat(self, request: Request) -> Reply:
        """The broker is alive."""
        header = request.header(BrokerHeartbeatHeader)
        self._routes.heard(header.cluster_name, header.broker_addr)
        call_each(self.on_heartbeat, request, header)
        return Reply()

    def wipe_write_perm(self, request: Request) -> ReplySteps:
        """Stop producers from choosing a broker name."""
        name = request.header(WritePermHeader).broker_name
        touched = yield from self._routes.wipe_write_perm(name)
        _log.info("write permission of broker %s wiped by %s, %d topics", name, request.address, touched)
        return Reply(header=WipeWritePermReplyHeader(wipe_topic_count=touched))

    def add_write_perm(self, request: Request) -> ReplySteps:
        """Let producers choose a broker name again."""
        name = request.header(WritePermHeader).broker_name
        touched = yield from self._routes.add_write_perm(name)
        _log.info("write permission of broker %s added by %s, %d topics", name, request.address, touched)
        return Reply(header=AddWritePermReplyHeader(add_topic_count=touched))

    def delete_topic(self, request: Request) -> ReplySteps:
        """Forget a topic, everywhere or in one cluster."""
        header = request.header(DeleteTopicInNamesrvHeader)
        yield from self._routes.delete_topic(header.topic, header.cluster_name)
        _log.info("topic %s deleted by %s (cluster %s)", header.topic, request.address, header.cluster_name or "any")
        return Reply()

    def register_topic(self, request: Request) -> ReplySteps:
        """Add the queues of one topic without a whole registration; a broker that is not known must register first."""
        topic = request.header(RegisterTopicHeader).topic
        queues = [entry.to_model() for entry in RouteBody.decode(request.body).queue_datas]
        if queues and not self._routes.add_topic(topic, queues):
            raise RemoteError(
                f"broker {queues[0].broker_name} is not registered",
                code=ResponseCode.SYSTEM_ERROR,
                hint="start that broker with the address of this name server, then send the topic again",
            )
        yield
        return Reply(body=self._ordered_topics())

    def _takes_place(self, request: Request, header: RegisterBrokerHeader, epoch: int) -> bool:
        """A living broker keeps its address and id, unless a controller has replaced it: it may hang, or be cut off.

        The controller in this name server knows that. Without one the epoch of the new master must be above that of the
        old one, and the old one must be none any more. A takeover from the same machine is allowed, and logged.
        False: it comes from the master of an older epoch. One that hung goes on and does not know yet that it has a
        successor; it registers again with its next role. Raises AccessRefused.
        """
        name, address = header.broker_name, header.broker_addr
        what = f"to register broker {name} (id {header.broker_id}) at {address}"
        self._check_owner(request, self._routes.link_of(header.cluster_name, address), what)
        holder = self._routes.holder(name, header.broker_id)
        if holder is None or holder[0] == address:
            return True
        known, link = holder
        if self.has_place(request, name, header.broker_id, address):
            return True
        before = self._routes.data_version(header.cluster_name, known) if header.broker_id == MASTER_ID else None
        if before is not None and before.state_version < epoch and self.has_left(name, known):
            return True
        self._check_owner(request, link, f"{what}, where {known} is alive,")
        if before is not None and before.state_version > epoch:
            newest = before.state_version
            _log.info("%s is not the master of broker %s any more: epoch %d, not %d", address, name, newest, epoch)
            return False
        self._warnings.warn(
            f"{name}/{header.broker_id}",
            "broker %s (id %d) is at %s now, told by %s, and the one at %s is still alive: if these are two brokers,"
            " producers and consumers lose one of them; give each a brokerName of its own",
            name,
            header.broker_id,
            address,
            request.address,
            known,
        )
        return True

    def _check_owner(self, request: Request, link: Link | None, what: str) -> None:
        """Let only the host of the living broker, or an administrator, go on."""
        host = request.asker.remote[0]
        if link is not None and link.remote[0] != host:
            self._gate.check_host(host, what)

    def _ordered_topics(self) -> bytes | None:
        if not self._config.now.return_order_topic_config_to_broker:
            return None
        values = self._kv_config.namespace(ORDER_TOPIC_CONFIG)
        return KVTable(table=values).encode() if values is not None else None


def _nobody_has_a_place(_request: Request, _name: str, _broker_id: int, _address: str) -> bool:
    """There is no controller in this name server."""
    return False


def _nobody_has_left(_name: str, _address: str) -> bool:
    """No old master was asked."""
    return False


def _reading(request: Request, header: RegisterBrokerHeader) -> Generator[None, None, RegisterBrokerBody]:
    body = request.body
    if header.body_crc32 != 0 and (yield from checking(body)) != header.body_crc32:
        raise RemoteError("crc32 not match", code=ResponseCode.SYSTEM_ERROR)
    return (yield from decoding_register_body(body, compressed=header.compressed, version=request.command.version))
