"""Every text in a value is found, whatever holds it."""

from __future__ import annotations

from collections import UserDict
from dataclasses import dataclass
from enum import StrEnum

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from treadle._texts import Texts


class Colour(StrEnum):
    RED = "red"


class Model(BaseModel):
    name: str


@dataclass
class One:
    only: object


@dataclass
class Two:
    first: object
    second: object = "by default"


def wrapped(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.one_of(
        st.lists(inner),
        st.tuples(inner),
        st.dictionaries(st.text(), inner),
        st.builds(UserDict, st.dictionaries(st.text(), inner)),
        st.builds(One, inner),
        st.builds(Two, inner, inner),
    )


VALUES = st.recursive(st.one_of(st.none(), st.integers(), st.booleans(), st.binary(), st.text()), wrapped)


@given(VALUES)
def test_what_is_found_is_what_the_slow_way_finds(value):
    def slowly(each: object) -> list[str]:
        if isinstance(each, str):
            return [each]
        if isinstance(each, dict | UserDict):
            return [text for key, inner in each.items() for text in (key, *slowly(inner))]
        if isinstance(each, list | tuple):
            return [text for inner in each for text in slowly(inner)]
        return [text for inner in getattr(each, "__dict__", {}).values() for text in slowly(inner)]

    assert sorted(Texts().of(value).texts) == sorted(slowly(value))


def test_other_types_are_looked_into_where_their_parts_are_known():
    value = [Colour.RED, Model(name="ada"), object(), Model]
    assert Texts().of(value).texts == ["red"]
    assert Texts({BaseModel: lambda model: [model.name]}).of(value).texts == ["red", "ada"]


def test_what_is_known_is_passed_over_and_what_is_watched_is_given():
    known, fresh = One("old"), One("new")
    found = Texts().of([known, [fresh]], {id(known): known}, (One,))
    assert (found.texts, found.watched) == (["new"], [fresh])
