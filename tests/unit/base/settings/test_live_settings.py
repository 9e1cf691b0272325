from __future__ import annotations

from dataclasses import dataclass

import pytest

from rocketlake.base.errors import UsageError
from rocketlake.base.settings.config_file import setting
from rocketlake.base.settings.live_settings import LiveSettings, NotLive


@dataclass(frozen=True)
class Tea:
    sugar_lumps: int = setting(1, java="sugar", low=0, high=5)
    with_milk: bool = setting(False)
    pot_path: str = setting("/pot")


class LiveTea(LiveSettings[Tea]):
    updatable = frozenset({"sugar_lumps", "with_milk"})


def test_a_change_replaces_the_settings_as_a_whole_and_leaves_the_others() -> None:
    live = LiveTea(Tea(pot_path="/blue"))
    before = live.now
    live.update({"sugar": "3"})
    assert (before.sugar_lumps, live.now) == (1, Tea(3, False, "/blue"))


@pytest.mark.parametrize("key", ["potPath", "pot_path", "sugar_lumps", "lemon"])
def test_only_listed_settings_change_by_their_java_names(key: str) -> None:
    live = LiveTea(Tea())
    with pytest.raises(NotLive, match=rf"black list: {key}.*sugar, withMilk"):
        live.update({"withMilk": "true", key: "3"})
    assert live.now == Tea()


def test_a_bad_value_changes_nothing() -> None:
    live = LiveTea(Tea())
    with pytest.raises(UsageError, match="sugar = 6 is out of range"):
        live.update({"withMilk": "true", "sugar": "6"})
    assert live.now == Tea()


def test_settings_are_shown_by_their_java_names() -> None:
    assert LiveTea(Tea()).to_values() == {"sugar": "1", "withMilk": "false", "potPath": "/pot"}
