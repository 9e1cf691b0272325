"""Java enums in bodies: a name, or the number of the name.

Owns        the names of each enum in Java's order, the change of a number in a body into its name.
Must not know   the meaning of a name.

Java's clients write names. Others (rocketmq-client-cpp) write ordinals, and Java reads both. Our structs hold names: a
member of type `Annotated[str, JavaEnum(...)]` that came as a number gets its name here, before msgspec looks at types.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, get_args, get_type_hints

import msgspec

__all__ = [
    "ConsumeFromWhere",
    "ConsumeResult",
    "ConsumeType",
    "JavaEnum",
    "MessageModel",
    "MessageRequestMode",
    "RetryPolicyType",
    "TopicFilterType",
    "name_ordinals",
]


@dataclass(frozen=True, slots=True)
class JavaEnum:
    """The names of an enum, in the order of their ordinals."""

    names: tuple[str, ...]

    def name(self, value: Any) -> Any:
        """The name of an ordinal; another value is left as it is, for msgspec to judge."""
        if type(value) is int and 0 <= value < len(self.names):
            return self.names[value]
        return value


ConsumeType = Annotated[str, JavaEnum(("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP"))]
MessageModel = Annotated[str, JavaEnum(("BROADCASTING", "CLUSTERING"))]
ConsumeFromWhere = Annotated[
    str,
    JavaEnum(
        (
            "CONSUME_FROM_LAST_OFFSET",
            "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
            "CONSUME_FROM_MIN_OFFSET",
            "CONSUME_FROM_MAX_OFFSET",
            "CONSUME_FROM_FIRST_OFFSET",
            "CONSUME_FROM_TIMESTAMP",
        )
    ),
]
ConsumeResult = Annotated[
    str,
    JavaEnum(("CR_SUCCESS", "CR_LATER", "CR_ROLLBACK", "CR_COMMIT", "CR_THROW_EXCEPTION", "CR_RETURN_NULL")),
]
MessageRequestMode = Annotated[str, JavaEnum(("PULL", "POP"))]
RetryPolicyType = Annotated[str, JavaEnum(("EXPONENTIAL", "CUSTOMIZED"))]
TopicFilterType = Annotated[str, JavaEnum(("SINGLE_TAG", "MULTI_TAG"))]


def name_ordinals(kind: Any, value: Any) -> Any:
    """`value`, a plain JSON value that shall become `kind`, with names for ordinals; objects are changed in place."""
    enum, members, each = _look_at(kind)
    if enum is not None:
        return enum.name(value)
    if isinstance(value, dict):
        for key in value if each is not None else value.keys() & members.keys():
            value[key] = name_ordinals(members.get(key, each), value[key])
    elif isinstance(value, list) and each is not None:
        return [name_ordinals(each, member) for member in value]
    return value


@cache
def _look_at(kind: Any) -> tuple[JavaEnum | None, dict[str, Any], Any]:
    """The work to do on a value of a type: (the enum it is, types of struct members by wire name, type of each
    element of a list or a map); only types that hold an enum, so that other bodies cost no time."""
    for entry in getattr(kind, "__metadata__", ()):
        if isinstance(entry, JavaEnum):
            return entry, {}, None
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = get_type_hints(kind, include_extras=True)
        fields = [(field.encode_name, hints[field.name]) for field in msgspec.structs.fields(kind)]
        return None, {name: hint for name, hint in fields if _holds_enum(hint)}, None
    arguments = [argument for argument in get_args(kind) if argument is not type(None)]
    if type(None) in get_args(kind) and len(arguments) == 1:
        return _look_at(arguments[0])
    return None, {}, next((argument for argument in arguments[-1:] if _holds_enum(argument)), None)


def _holds_enum(kind: Any) -> bool:
    enum, members, each = _look_at(kind)
    return enum is not None or bool(members) or each is not None
