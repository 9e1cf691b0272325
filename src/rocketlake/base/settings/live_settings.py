"""Settings that change while their server runs.

Owns        the settings in force, how several of them change at once.
Must not know   single settings; the asker of a change, the answer to a refused one.

Why there is a list of settings that may change and not of those that may not:
docs/decisions/0004-admin-requests-from-this-machine.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from rocketlake.base.errors import UsageError
from rocketlake.base.settings.config_file import java_name, load, setting_texts

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["LiveSettings", "NotLive"]

C = TypeVar("C", bound="DataclassInstance")


class NotLive(UsageError):
    """A setting that cannot change while the server runs, or that there is not."""


class LiveSettings(Generic[C]):
    """The settings in force now; `now` is replaced as a whole when one changes."""

    updatable: ClassVar[frozenset[str]] = frozenset()
    """Settings that may change, by their Python names; a subclass says which."""

    def __init__(self, config: C) -> None:
        self.now = config

    def update(self, values: Mapping[str, str]) -> None:
        """Change settings by Java name, all or none. NotLive if one may not change, UsageError for a bad value."""
        field_names = {java_name(field): field.name for field in fields(self.now) if field.name in self.updatable}
        refused = sorted(values.keys() - field_names.keys())
        if refused:
            raise NotLive(
                f"Can not update config in black list: {', '.join(refused)[:200]}",
                hint=f"change one of these: {', '.join(sorted(field_names))}; for others edit the file and restart",
            )
        changed = load(type(self.now), overrides=values)
        self.now = replace(self.now, **{field_names[key]: getattr(changed, field_names[key]) for key in values})

    def to_values(self) -> dict[str, str]:
        """Every setting by its Java name, as text."""
        return setting_texts(self.now)
