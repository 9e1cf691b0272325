"""Public classes whose calls are checked by their own annotations: what does not fit is refused by its name.

Owns        which annotation asks for which check of arguments.py.
Must not know   single classes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from types import UnionType
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
            setattr(kind, name, _checked(method, kind.__name__))
        elif not name.startswith("_") and inspect.iscoroutinefunction(method):
            setattr(kind, name, _awaited(_checked(method, name)))
    return kind


def _checked(method: Callable[..., T], name: str) -> Callable[..., T]:
    # At the first call: a process makes few of all calls, and evaluated annotations cost it time.
    signature = functools.cache(functools.partial(inspect.signature, method, eval_str=True))

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> T:
        form = signature()
        try:
            _self, *given = form.bind(*args, **kwargs).arguments.items()
        except TypeError as error:
            raise UsageError(f"{name}: {error}", hint=f"write {name}{_plain(form)}") from None
        for each, value in given:
            _check(each, value, form.parameters[each].annotation)
        return method(*args, **kwargs)

    return call


def _awaited(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    async def call(*args: Any, **kwargs: Any) -> Any:
        return await method(*args, **kwargs)

    return call


def _plain(form: inspect.Signature) -> inspect.Signature:
    """As the call is written: `(topic, *, everything=False)`."""
    _self, *others = (each.replace(annotation=each.empty) for each in form.parameters.values())
    return inspect.Signature(others)


def _check(name: str, value: Any, kind: Any, low: int = 0) -> None:
    """UsageError unless the value fits this annotation; to one that is not known here every value fits."""
    plain, inner = get_origin(kind) or kind, get_args(kind)
    if plain in (Union, UnionType):
        fitting = (each for each in inner if isinstance(each, type) and isinstance(value, each))
        _check(name, value, next(fitting, inner[0]), low)
    elif plain is Annotated:
        if isinstance(inner[1], range):
            check_number(name, value, inner[1][0], inner[1][-1])
        else:
            _check(name, value, inner[0], low)
    elif plain in (int, float):
        check_number(name, value, low, _INT64_END - 1, kind=plain)
    elif isinstance(plain, type):
        check_kind(name, value, plain)
        if plain in (Collection, list):
            for each in listed(name, value, inner[0], hint=f"give several: [{name.removesuffix('s')}, ...]"):
                _check_fields(name, each)
        elif plain is Mapping:
            for key, each in value.items():
                check_kind(f"a name of {name}", key, inner[0])
                check_kind(f"{name}[{key!r}]", each, inner[1])
        else:
            _check_fields(name, value)


def _check_fields(name: str, value: Any) -> None:
    """The parts of a value that the caller made of others; a number there may be a distance, below 0."""
    fields = [*getattr(value, "__dataclass_fields__", ()), *getattr(value, "__struct_fields__", ())]
    hints = get_type_hints(type(value), include_extras=True) if fields else {}
    for each in fields:
        _check(f"{name}.{each}", getattr(value, each), hints[each], low=-_INT64_END)
