"""Changes are told by the watch at once, and by the look when the watch is silent, cancelled or gone."""

from __future__ import annotations

from rocketlake.controller.registers.register import ABSENT
from tests.unit.controller.etcd.scripted import World, play


class Told:
    """What was told since the last look at this list."""

    def __init__(self, world: World, prefix: str = "") -> None:
        self.keys: list[set[str]] = []
        world.register.watch(prefix, lambda keys: self.keys.append(set(keys)))

    def take(self) -> list[set[str]]:
        taken, self.keys = self.keys, []
        return taken


async def started(world: World, prefix: str = "") -> Told:
    """The register watches at member a."""
    told = Told(world, prefix)
    await world.register.start()
    await world.clock.sleep(0.5)
    assert world.a.asked[-1] == "/v3/watch"
    assert told.take() == [set()]  # nobody else tells what changed between a caller's first read and the first look
    return told


def test_a_change_is_told_at_once() -> None:
    async def story(world: World) -> None:
        told = await started(world)
        world.keys.put({b"/r/g/a": b"1", b"/r/h/1": b"why"})
        await world.clock.sleep(0.001)
        assert told.take() == [{"g/a", "h/1"}]
        world.keys.put({b"/r/g/a": None})
        await world.clock.sleep(0.001)
        assert told.take() == [{"g/a"}]

    play(story)


def test_a_watch_is_told_of_its_prefix_only_and_not_after_it_ended() -> None:
    async def story(world: World) -> None:
        told = await started(world, "g/")
        keys: list[object] = []
        end = world.register.watch("", keys.append)
        end()
        await world.register.swap("h/1", ABSENT, b"1")
        await world.register.swap("g/1", ABSENT, b"1")
        await world.clock.sleep(0.001)
        assert (told.take(), keys) == ([{"g/1"}], [])

    play(story)


def test_the_look_tells_what_a_silent_watch_does_not_and_another_member_watches_then() -> None:
    async def story(world: World) -> None:
        told = await started(world)
        world.a.is_silent_watch = True
        world.keys.put({b"/r/g/a": b"1"})
        await world.clock.sleep(1)
        assert told.take() == [{"g/a"}]
        await world.clock.sleep(1.2)
        assert told.take() == [set()]  # a removal may have been missed
        assert "/v3/watch" in world.peers[1].asked
        world.keys.put({b"/r/g/b": b"1"})
        await world.clock.sleep(0.001)
        assert told.take() == [{"g/b"}]

    play(story)


def test_a_cancelled_watch_is_ended_although_its_connection_stays() -> None:
    async def story(world: World) -> None:
        told = await started(world)
        watching = world.a.links[-1]
        watching.line({"canceled": True, "cancel_reason": "etcdserver: no leader"})
        await world.clock.sleep(0.001)
        assert told.take() == [set()]
        await world.clock.sleep(0.2)
        assert "/v3/watch" in world.peers[1].asked

    play(story)


def test_a_watch_at_a_member_that_fell_behind_is_ended() -> None:
    async def story(world: World) -> None:
        told = await started(world)
        world.a.term = 4
        world.keys.put({b"/r/g/a": b"1"})
        await world.clock.sleep(0.001)
        assert told.take() == [set()]

    play(story)


def test_a_dead_member_is_left_for_another_and_a_change_meanwhile_is_told() -> None:
    async def story(world: World) -> None:
        told = await started(world)
        world.hosts["a"].crash()
        await world.clock.sleep(0.01)
        world.keys.put({b"/r/g/a": b"1"})
        await world.clock.sleep(1.2)
        assert told.take()[:2] == [set(), {"g/a"}]
        assert world.register.health.is_green

    play(story)


def test_health_is_red_while_etcd_is_out_of_reach_and_changes_are_told_when_it_is_back() -> None:
    async def story(world: World) -> None:
        told = await started(world)
        for host in world.hosts.values():
            host.crash()
        await world.clock.sleep(5)
        assert "no failover while etcd is out of reach" in world.register.health.troubles["etcd-watch"].reason
        told.take()
        world.keys.put({b"/r/g/a": b"1"})
        world.hosts = {name: world.net.host(name) for name in world.hosts}
        await world.listen()
        await world.clock.sleep(2)
        assert {"g/a"} in told.take()
        assert world.register.health.is_green
        world.keys.put({b"/r/g/a": b"2"})
        await world.clock.sleep(0.001)
        assert {"g/a"} in told.take()

    play(story)


def test_a_register_that_is_started_before_etcd_watches_when_etcd_is_up() -> None:
    async def story(world: World) -> None:
        for host in world.hosts.values():
            host.crash()
        told = Told(world)
        await world.register.start()
        await world.clock.sleep(20)
        world.hosts = {name: world.net.host(name) for name in world.hosts}
        await world.listen()
        await world.clock.sleep(1.5)
        assert told.take() == [set()]
        world.keys.put({b"/r/g/a": b"1"})
        await world.clock.sleep(0.001)
        assert told.take() == [{"g/a"}]

    play(story)
