"""The settings and the parts that every consumer of a group has.

Owns        the settings that all consumers share (names, types and defaults stand here only), and the parts made of
            these settings.
Must not know   how messages reach the user (push.py, pull.py).

Constructors take `**settings: Unpack[...]`, so that type checkers and editors know each argument. `spelled_out` makes
`help()` and `inspect.signature` list them, too.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypedDict, TypeVar, cast

from rocketlake.base.clock import Clock
from rocketlake.base.disk.seam import Files
from rocketlake.base.logs import get_logger
from rocketlake.base.service import Service
from rocketlake.base.settings.arguments import check_number
from rocketlake.base.settings.forms import AsyncForms
from rocketlake.client.config import ClientConfig, ConsumerConfig, FirstOffset
from rocketlake.client.consumer.allocate import Allocate, averagely
from rocketlake.client.consumer.filters import check_filters
from rocketlake.client.consumer.first_offset import TIMESTAMP_BACK_MS, StartPolicy
from rocketlake.client.consumer.queue_access import QueueAccess
from rocketlake.client.consumer.rebalance import Rebalance
from rocketlake.client.hooks import Hooks
from rocketlake.client.instance import ClientInstance, check_settings, client_settings
from rocketlake.client.user_functions import check_function
from rocketlake.model import names
from rocketlake.model.subscription import Subscription

__all__ = ["ConsumerSettings", "GroupConsumer", "PushSettings", "spelled_out", "with_defaults"]

log = get_logger(__name__)
START_SECONDS = 3.0
F = TypeVar("F", bound=Callable[..., None])


class LinkSettings(TypedDict, total=False):
    """The settings of every consumer."""

    namesrv: str | None
    """Name servers `host:port;host:port`. None: those of `client_config`, else NAMESRV_ADDR, else 127.0.0.1:9876."""
    config: ConsumerConfig | None
    """How the consumer pulls, runs listeners and retries."""
    client_config: ClientConfig | None
    """How the consumer reaches the cluster."""
    instance: ClientInstance | None
    """A client instance to share; it must be started."""
    hooks: Hooks | None
    """Functions to be called before and after each batch of messages."""
    clock: Clock | None
    """Another clock, for tests."""


class MemberSettings(LinkSettings, total=False):
    """The settings of every consumer that chooses where a new group starts."""

    from_where: FirstOffset | str
    """Where a new group starts: "last", "first", "timestamp"."""


class ConsumerSettings(MemberSettings, total=False):
    """The settings of every consumer that has queues of its own."""

    timestamp_ms: int | None
    """Epoch ms that go with "timestamp". None: half an hour ago."""
    allocate: Allocate
    """How the members of the group share the queues."""


class PushSettings(ConsumerSettings, total=False):
    """The settings of a push consumer, and of a consumer that stands on one."""

    orderly: bool
    """Keep the order of each queue: one message of a queue at a time."""
    broadcasting: bool
    """Every member reads all queues and keeps its offsets in a file of its own."""
    files: Files | None
    """Another disk, for tests."""


_DEFAULTS: PushSettings = {
    "from_where": FirstOffset.LAST, "allocate": averagely, "orderly": False, "broadcasting": False,
}  # fmt: skip
"""The default of every other setting is None."""


def with_defaults(given: LinkSettings) -> PushSettings:
    """The settings that were given, and the defaults of the others."""
    return {**_DEFAULTS, **given}


def spelled_out(settings: type[LinkSettings]) -> Callable[[F], F]:
    """For an `__init__` with `**settings`: list the settings as its arguments, refuse other names."""
    keywords = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_DEFAULTS.get(name),
            annotation=getattr(hint, "__forward_arg__", hint),
        )
        for name, hint in settings.__annotations__.items()
    ]

    def decorate(init: F) -> F:
        plain = inspect.signature(init)
        own = [each for each in plain.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        signature = plain.replace(parameters=[*own, *keywords])

        @functools.wraps(init)
        def checked(self: object, /, *args: Any, **kwargs: Any) -> None:
            if unknown := kwargs.keys() - signature.parameters.keys():
                raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument {min(unknown)!r}")
            links = {name: kwargs.get(name) for name in ("client_config", "instance", "hooks")}
            check_settings(kwargs.get("config"), ConsumerConfig, **links)
            init(self, *args, **kwargs)

        checked.__signature__ = signature  # type: ignore[attr-defined]
        return cast(F, checked)

    return decorate


class GroupConsumer(AsyncForms, Service):
    """A member of a consumer group: its client instance, its subscriptions, where it starts."""

    def __init__(self, kind: str, group: str, told: PushSettings, *, has_stable_id: bool = False) -> None:
        """`told`: see `with_defaults`. `has_stable_id`: the client id is the same after a restart."""
        super().__init__(f"{kind} {group}")
        names.check_group(group)
        self.group = group
        self.config = told.get("config") or ConsumerConfig()
        self.hooks = told.get("hooks") or Hooks()
        instance = told.get("instance")
        settings = client_settings(told.get("client_config"), told.get("namesrv"))
        if has_stable_id and not settings.instance_name:
            settings = replace(settings, instance_name="DEFAULT")
        self._own_instance = instance is None
        self.instance = instance or ClientInstance(settings, clock=told.get("clock"))
        self._clock = self.instance.clock
        self._access = QueueAccess(self.instance, group)
        self.from_where = FirstOffset.of(told["from_where"])
        since = told.get("timestamp_ms")
        if since is not None:
            check_number("timestamp_ms", since, 0, means="milliseconds since 1970: int(moment.timestamp() * 1000)")
        self._start_policy = StartPolicy(
            self.from_where,
            self._clock.now_ms() - TIMESTAMP_BACK_MS if since is None else since,
            self._access.end_of,
            self._access.by_time,
        )
        self._allocate = told["allocate"]
        check_function("allocate", self._allocate, takes="(client_id, queues, client_ids)")
        self._subscriptions: dict[str, Subscription] = {}
        self._rounds: list[asyncio.Task[None]] = []

    async def _join(self) -> None:
        """Learn the brokers of our topics, so that the first heartbeat reaches them before the first round."""
        for topic in sorted(self._subscriptions):
            if not await self.instance.refresh_route(topic) and not topic.startswith(names.RETRY_PREFIX):
                log.warning(
                    "topic %s has no route yet; group %s waits for it (`rocketlake topic list` shows all names)",
                    topic, self.group,
                )  # fmt: skip
        await check_filters(self.instance, self.group, self._subscriptions.values())
        await self.instance.heartbeat()

    async def _begin_rounds(self, rebalance: Rebalance) -> None:
        """Begin the rounds and wait for the first: what is sent after `start()` must not lie before a first position.

        Brokers that are away delay a start by START_SECONDS at most; their queues begin in a later round.
        """
        self._rounds.append(self.keep("rebalance", rebalance.run))
        if not await rebalance.next_ended(START_SECONDS) and self.is_running:
            log.warning(
                "group %s has started without the positions of all its queues: brokers did not answer within %s s",
                self.group, START_SECONDS,
            )  # fmt: skip

    async def _end_rounds(self) -> None:
        for task in self._rounds:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
