"""``dataclass`` as the standard library has it, with methods that are made when they are first used.

:func:`dataclasses.dataclass` compiles up to eight methods for each class. The kernel has over a hundred such classes,
of which one command of the terminal makes instances of a few: compiling was a fifth of the time that ``treadle
validate`` took. Here ``__init__`` is left to the standard library when some instances have been made, and the other
methods are the same for every class. Type checkers see the original.

``InitVar`` and the rarer arguments (``order``, ``unsafe_hash``, ``init=False`` and the like) are not known here.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

__all__ = ["dataclass", "quick"]

Made = TypeVar("Made")
P = ParamSpec("P")

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, kw_only=False, eq=True):
        """See :func:`dataclasses.dataclass`."""
        if cls is None:
            return lambda decorated: _make(decorated, frozen, slots, kw_only, eq)
        return _make(cls, frozen, slots, kw_only, eq)


_set = object.__setattr__


def quick(made: Callable[P, Made]) -> Callable[P, Made]:
    """What makes instances of a class in half the time, for those of which a run makes some at every step.

    For classes that are frozen, have slots and no ``__post_init__``. An instance is filled as one of a class that has
    the same slots and is not frozen, and gets its own class when it is.
    """
    own: Any = made

    def freeze(self: Any) -> None:
        self.__class__ = own

    return type(
        own.__name__,
        (),
        {"__slots__": own.__slots__, "__init__": _compiled(own, thaw=True, then=freeze), "__post_init__": freeze},
    )


def _make(cls: type, frozen: bool, slots: bool, kw_only: bool, eq: bool) -> Any:
    own = set(cls.__dict__)
    if "__eq__" in own and cls.__dict__["__hash__"] is None:
        own.remove("__hash__")  # Python put it there
    cls.__doc__ = cls.__doc__ or cls.__name__  # without one, the standard library inspects the signature to write it
    # A heir of a frozen class must say that it is frozen, and then has two methods compiled for nothing.
    heir = frozen and any(dataclasses.is_dataclass(base) for base in cls.__bases__)
    make = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only, frozen=heir)
    made: Any = make(cls)
    params = made.__dataclass_params__  # a class that inherits from this one goes by them
    params.init, params.repr, params.eq, params.frozen = True, True, eq, frozen
    methods: dict[str, Any] = {"__init__": _Init(made), "__repr__": _repr}
    if eq:
        made.__dataclass_key__ = _Key(made)
        methods |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
        if slots:
            methods |= {"__getstate__": _getstate, "__setstate__": _setstate}
    for name in methods.keys() - own:
        setattr(made, name, methods[name])
    return made


_FEW = 8
"""Instances before an ``__init__`` is compiled. Of most classes a command of the terminal makes fewer."""


class _Init:
    """Stands for ``__init__`` until it is needed often."""

    def __init__(self, made: Any) -> None:
        self._made = made
        self._left = _FEW

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        self._left -= 1
        if self._left >= 0 and isinstance(instance, self._made):  # Python 3.13 asks for a signature with the class
            return functools.partial(_fill_one, self._made, instance)
        init = self._made.__init__ = _init_of(self._made)
        return init if instance is None else init.__get__(instance)


def _fill_one(made: Any, instance: Any, *args: Any, **values: Any) -> None:
    """What the compiled ``__init__`` does, field by field; it is asked where the arguments do not fit."""
    fields = dataclasses.fields(made)
    places = [each.name for each in fields if each.init and not each.kw_only]
    given = values | dict(zip(places, args, strict=False))
    fits = len(args) <= len(places) and len(given) == len(args) + len(values)
    for each in fields:
        if each.init and each.name in given:
            value = given.pop(each.name)
        elif each.default is not dataclasses.MISSING:
            value = each.default
        elif each.default_factory is not dataclasses.MISSING:
            value = each.default_factory()
        else:
            fits = fits and not each.init
            continue
        _set(instance, each.name, value)
    if given or not fits:
        _compiled(made)(instance, *args, **values)
    elif hasattr(made, "__post_init__"):
        instance.__post_init__()


class _Key:
    """Stands for the function that gives what instances are compared and hashed by, until it is needed."""

    def __init__(self, made: Any) -> None:
        self._made = made

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        names = [each.name for each in dataclasses.fields(self._made) if each.compare]
        key: Any = attrgetter(*names) if len(names) > 1 else lambda each: tuple(getattr(each, name) for name in names)
        self._made.__dataclass_key__ = staticmethod(key)
        return key


def _init_of(made: Any) -> Any:
    """The class's ``__init__``.

    An instance that is frozen and has slots is filled as one of a class that has the same slots and is not frozen, and
    then gets its own class: half the time that it takes to go around ``__setattr__`` for each field.
    """
    if not made.__dataclass_params__.frozen or made.__bases__ != (object,) or "__slots__" not in vars(made):
        return _compiled(made)
    if hasattr(made, "__post_init__"):
        return _compiled(made)
    init = _compiled(made, thaw=True)
    open_class = type(made.__name__, (), {"__slots__": made.__slots__, "__setattr__": _set})

    @functools.wraps(init)
    def fill(self: Any, *args: Any, **values: Any) -> None:
        if self.__class__ is not made:
            _compiled(made)(self, *args, **values)
            return
        _set(self, "__class__", open_class)
        init(self, *args, **values)
        self.__class__ = made

    return fill


@functools.cache
def _compiled(made: Any, *, thaw: bool = False, then: Any = None) -> Any:
    """What the standard library makes of the fields."""
    fields = dataclasses.fields(made)
    body: dict[str, Any] = {name: getattr(made, name) for name in ("__doc__", "__module__", "__qualname__")}
    body["__annotations__"] = {each.name: each.type for each in fields}
    for each in fields:
        own: dict[str, Any] = {"default": each.default, "default_factory": each.default_factory}
        own = {name: default for name, default in own.items() if default is not dataclasses.MISSING}
        body[each.name] = dataclasses.field(**own, init=each.init, kw_only=bool(each.kw_only))
    then = then or getattr(made, "__post_init__", None)
    if then is not None:
        body["__post_init__"] = then
    make = dataclasses.dataclass(
        frozen=made.__dataclass_params__.frozen and not thaw, repr=False, eq=False, match_args=False
    )
    return vars(make(type(made.__name__, (), body)))["__init__"]


# Shared by every class. What is said and raised is what the standard library says and raises.


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    key = self.__dataclass_key__
    return key(self) == key(other)


def _hash(self: Any) -> int:
    return hash(self.__dataclass_key__(self))


def _refuse_to_set(self: Any, name: str, value: Any) -> None:
    if _is_frozen(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    _set(self, name, value)


def _refuse_to_delete(self: Any, name: str) -> None:
    if _is_frozen(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _is_frozen(instance: Any, name: str) -> bool:
    """A plain class that inherits from a frozen one may have attributes of its own."""
    return "__dataclass_fields__" in vars(type(instance)) or name in instance.__dataclass_fields__


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        _set(self, each.name, value)
