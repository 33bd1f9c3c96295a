"""The kernel's dataclasses behave as the standard library's, which is asked for the same beside them."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Mapping
from dataclasses import field
from inspect import signature
from typing import Any, ClassVar

import pytest
from pydantic import TypeAdapter, ValidationError

from treadle import _dataclasses
from treadle._dataclasses import dataclass as ours
from treadle._dataclasses import quick


@pytest.fixture(autouse=True, params=[0, 8], ids=["compiled", "by hand"])
def _few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test is about the first instances of a class, and about the later ones."""
    monkeypatch.setattr(_dataclasses, "_FEW", request.param)


class Shape:
    """The body of a class, for both decorators."""

    kinds: ClassVar[int] = 3
    a: int
    b: str = "b"
    c: Mapping[str, Any] = field(default_factory=dict)
    d: int = field(default=0, compare=False, repr=False)


def made(decorator: Any, **how: Any) -> Any:
    body = {name: value for name, value in vars(Shape).items() if name not in ("__dict__", "__weakref__")}
    return decorator(**how)(type("Shape", (), body))


@ours(frozen=True, slots=True, kw_only=True)
class Point:
    """Of the module, so that it can be pickled."""

    x: int
    y: int = 0


@ours(frozen=True, slots=True)
class Named(Point):
    """Inherits."""

    name: str = ""


@ours(slots=True)
class Checked:
    """Refuses what is below zero."""

    x: int
    twice: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("below zero")
        self.twice = 2 * self.x


WAYS: list[dict[str, bool]] = [
    {"frozen": frozen, "slots": slots, "kw_only": kw_only}
    for frozen in (True, False)
    for slots in (True, False)
    for kw_only in (True, False)
]


@pytest.mark.parametrize("how", WAYS)
def test_it_is_made_compared_shown_and_described_alike(how: dict[str, bool]) -> None:
    mine, theirs = made(ours, **how), made(dataclasses.dataclass, **how)
    assert signature(mine) == signature(theirs)
    assert repr(mine(a=1, c={"k": 2}, d=9)) == repr(theirs(a=1, c={"k": 2}, d=9))
    assert mine(a=1, d=5) == mine(a=1, d=6) != mine(a=2)
    assert mine(a=1) != theirs(a=1)
    assert dataclasses.asdict(mine(a=1)) == dataclasses.asdict(theirs(a=1))
    assert dataclasses.replace(mine(a=1), a=7) == mine(a=7)
    assert mine.__match_args__ == theirs.__match_args__
    assert (mine.__hash__ is None) == (theirs.__hash__ is None)
    assert hasattr(mine(a=1), "__dict__") == hasattr(theirs(a=1), "__dict__")
    assert mine(a=1).c is not mine(a=1).c, "each instance has a default of its own"


@pytest.mark.parametrize("how", WAYS)
def test_wrong_arguments_are_refused_in_the_same_words(how: dict[str, bool]) -> None:
    for arguments in ({}, {"a": 1, "e": 2}):
        said = []
        for decorator in (ours, dataclasses.dataclass):
            with pytest.raises(TypeError) as raised:
                made(decorator, **how)(**arguments)
            said.append(str(raised.value))
        assert said[0] == said[1]


def test_a_frozen_instance_cannot_be_changed() -> None:
    point = Point(x=1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2  # type: ignore[misc]  # that is the test
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x  # type: ignore[misc]  # that is the test
    assert type(point) is Point
    assert hash(point) == hash(Point(x=1))


def test_copies_are_equal_and_frozen() -> None:
    point = Named(x=1, y=2, name="p")
    for other in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):  # noqa: S301 - our own
        assert other == point
        with pytest.raises(dataclasses.FrozenInstanceError):
            other.y = 3  # type: ignore[misc]  # that is the test


def test_heirs_have_all_fields_and_plain_ones_attributes_of_their_own() -> None:
    class Plain(Point):
        def __init__(self) -> None:
            super().__init__(x=4)
            self.more = 5

    @dataclasses.dataclass(frozen=True)
    class Theirs(Point):
        z: int = 0

    assert (Plain().x, Plain().more) == (4, 5)
    assert Theirs(x=1, z=2) == Theirs(x=1, z=2) != Theirs(x=2)
    assert [each.name for each in dataclasses.fields(Named)] == ["x", "y", "name"]


def test_what_is_to_happen_after_it_was_made_happens() -> None:
    assert Checked(3).twice == 6
    with pytest.raises(ValueError, match="below zero"):
        Checked(-1)


def test_pydantic_reads_and_writes_them() -> None:
    adapter = TypeAdapter(Point)
    assert adapter.validate_python({"x": 1, "y": 2}) == Point(x=1, y=2)
    assert adapter.dump_python(Point(x=1)) == {"x": 1, "y": 0}
    with pytest.raises(ValidationError):
        adapter.validate_python({"y": 2})


def test_nothing_is_compiled_before_it_is_used_more_than_a_few_times() -> None:
    unused, used = made(ours, frozen=True, slots=True), made(ours, frozen=True, slots=True)
    for _ in range(9):
        used(1)
    assert vars(unused)["__init__"].__class__ is not vars(used)["__init__"].__class__


def frozen_with_slots() -> Any:
    """A new class at each call, with fields of its own."""

    @ours(frozen=True, slots=True)
    class Shape:
        a: int
        b: str = "b"
        c: Mapping[str, Any] = field(default_factory=dict)
        d: int = field(default=0, compare=False, repr=False)

    return Shape


def test_every_instance_is_made_the_same_way_the_first_and_the_hundredth() -> None:
    kind = frozen_with_slots()
    all_of_them = [kind(1, c={"x": n % 2}) for n in range(100)]
    assert all(each == kind(1, "b", {"x": n % 2}, 7) for n, each in enumerate(all_of_them))
    assert all_of_them[0].c is not all_of_them[2].c
    for _ in range(20):
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
            kind()
        with pytest.raises(TypeError, match="got multiple values for argument 'a'"):
            kind(1, a=2)
        with pytest.raises(TypeError, match="unexpected keyword argument 'e'"):
            kind(1, e=2)
        with pytest.raises(TypeError, match="takes from 2 to 5 positional arguments but 6 were given"):
            kind(1, "b", {}, 0, 5)


def test_a_quick_maker_gives_instances_of_the_class_as_frozen_as_others() -> None:
    kind = frozen_with_slots()
    make = quick(kind)
    one: Any = make(1, d=5)
    assert type(one) is kind
    assert (one, one.d) == (kind(1, "b", {}), 5)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'a'"):
        one.a = 2
    assert copy.copy(quick(Point)(x=3)) == Point(x=3)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        make()
