"""Public classes whose calls are checked by their own annotations: what does not fit is refused by its name.

Owns        which annotation asks for which check of arguments.py.
Must not know   single classes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from rocketlake.base.errors import UsageError
from rocketlake.base.settings.arguments import check_kind, check_number, listed

__all__ = ["Int32", "checked"]

T = TypeVar("T")
_INT64_END = 1 << 63
Int32 = Annotated[int, range(1 << 31)]
"""A whole number that travels in 32 bits; a plain `int` is one of 64. No argument is below 0."""


def checked(kind: type[T]) -> type[T]:
    """Lets `__init__` and the public async methods of a class raise UsageError for arguments of other kinds."""
    for name, method in list(vars(kind).items()):
        if name == "__init__":
            setattr(kind, name, _plain(method, kind.__name__))
        elif not name.startswith("_") and inspect.iscoroutinefunction(method):
            setattr(kind, name, _awaited(method))
    return kind


def _plain(method: Callable[..., None], name: str) -> Callable[..., None]:
    given = _arguments(method, name)

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> None:
        bound = given(args, kwargs)
        method(*bound.args, **bound.kwargs)

    return call


def _awaited(method: Callable[..., Any]) -> Callable[..., Any]:
    given = _arguments(method, method.__name__)

    @functools.wraps(method)
    async def call(*args: Any, **kwargs: Any) -> Any:
        bound = given(args, kwargs)
        return await method(*bound.args, **bound.kwargs)

    return call


def _arguments(method: Callable[..., Any], name: str) -> Callable[..., inspect.BoundArguments]:
    """The arguments of one call by their names, each checked."""
    signature = inspect.signature(method)
    hints = functools.cache(functools.partial(get_type_hints, method, include_extras=True))

    def given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise UsageError(f"{name}: {error}", hint=f"write {_form(name, signature)}") from None
        for each, value in bound.arguments.items():
            if each in hints():
                _check(each, value, hints()[each])
        return bound

    return given


def _form(name: str, signature: inspect.Signature) -> str:
    """The call as it is written, without annotations: `topic(topic, *, everything=False)`."""
    _, *others = (each.replace(annotation=each.empty) for each in signature.parameters.values())
    return name + str(signature.replace(parameters=others, return_annotation=signature.empty))


def _check(name: str, value: Any, kind: Any, low: int = 0) -> None:
    """UsageError unless the value fits this annotation; one of a kind that is not known here fits all."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if value is None and NoneType in inner:
            return
        kinds = [each for each in inner if each is not NoneType]
        _check(
            name, value, next((each for each in kinds if _is_class(each) and isinstance(value, each)), kinds[0]), low
        )
    elif origin is Annotated:
        if isinstance(inner[1], range):
            check_number(name, value, inner[1][0], inner[1][-1])
        else:
            _check(name, value, inner[0], low)
    elif kind in (int, float):
        check_number(name, value, low, _INT64_END - 1, kind=kind)
    elif origin is Callable:
        if not callable(value):
            raise UsageError(f"{name} is a function, not {type(value).__name__}", hint="give the function, uncalled")
    elif origin in (Collection, list):
        hint = f"give several: [{name.removesuffix('s')}, ...]"
        check_kind(name, value, origin, hint=hint)
        for each in listed(name, value, inner[0], hint=hint):
            _check_fields(name, each, inner[0])
    elif origin is Mapping:
        check_kind(name, value, Mapping, hint=f"give {name} as a dict")
        listed(f"the names of {name}", value, inner[0], hint="give them as text")
        listed(f"the values of {name}", value.values(), inner[1], hint="give them as text")
    elif _is_class(kind):
        check_kind(name, value, kind)
        _check_fields(name, value, kind)


def _is_class(kind: Any) -> bool:
    return isinstance(kind, type) and not getattr(kind, "_is_protocol", False)


def _check_fields(name: str, value: Any, kind: type) -> None:
    """The parts of a value that the caller made of others; a number there may be a distance, below 0."""
    fields = [*getattr(kind, "__dataclass_fields__", ()), *getattr(kind, "__struct_fields__", ())]
    hints = get_type_hints(kind, include_extras=True) if fields else {}
    for each in fields:
        _check(f"{name}.{each}", getattr(value, each), hints[each], low=-_INT64_END)
