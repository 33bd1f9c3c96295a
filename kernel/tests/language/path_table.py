"""State paths, and what is passed for arguments: the data of the tests and of docs/paths.md."""

from typing import Any

from pydantic import BaseModel

from treadle._language import MISSING


class Report(BaseModel):
    """A value that a step keeps in the state as it is: it is read by its fields, and by nothing else."""

    title: str = "T"

    @property
    def secret(self) -> str:
        """No field, so no path leads to it."""
        return "never"


PARSED: list[tuple[str, tuple[str | int, ...]]] = [
    ("a", ("a",)),
    ("items[0].name", ("items", 0, "name")),
    ("m[0][1]", ("m", 0, 1)),
    ("results[-1]", ("results", -1)),
    ("a.0.two words.é-_", ("a", "0", "two words", "é-_")),
    ("state.a", ("state", "a")),
    ("cafe\u0301", ("cafe\u0301",)),
]

MALFORMED: list[tuple[str, str]] = [
    ("", "the state path is empty"),
    (".a", "state path '.a' has an empty segment"),
    ("a..b", "state path 'a..b' has an empty segment"),
    ("a.", "state path 'a.' has an empty segment"),
    ("[0]", "state path '[0]' has an empty segment"),
    ("a.[0]", "state path 'a.[0]' has an empty segment"),
    ("a[x]", "state path 'a[x]' has '[x]' where an index like [0] or [-1] belongs"),
    ("a[]", "state path 'a[]' has '[]' where an index like [0] or [-1] belongs"),
    ("a[0]b", "state path 'a[0]b' has 'b' where an index like [0] or [-1] belongs"),
    ("a[0", "state path 'a[0' has '[0' where an index like [0] or [-1] belongs"),
    ("a[٣]", "state path 'a[٣]' has '[٣]' where an index like [0] or [-1] belongs"),
    ("a]", "state path 'a]' has a ']' in the name 'a]'"),
    ("{state.a}", "state path '{state.a}' has a '{' in the name '{state'"),
    (" a", "state path ' a' has a space or control character at an end of the name ' a'"),
    ("a\x00", "state path 'a\\x00' has a space or control character at an end of the name 'a\\x00'"),
]

STATE: dict[str, Any] = {"a": [{"b": None}], "t": [1, 2], "s": "text", "r": Report(), "items": 1}

READ: list[tuple[str, Any]] = [
    ("a[0].b", None),
    ("t[-1]", 2),
    ("r.title", "T"),
    ("items", 1),
    ("x", MISSING),
    ("a[1]", MISSING),
    ("a[-2]", MISSING),
    ("a.0", MISSING),
    ("a.append", MISSING),
    ("s[0]", MISSING),
    ("s.upper", MISSING),
    ("r.secret", MISSING),
    ("r.__class__", MISSING),
    ("a[0].b.c", MISSING),
    ("keys", MISSING),
]

WRITTEN: list[tuple[Any, str, Any]] = [
    (MISSING, "a", 9),
    ([1], "a", 9),
    (MISSING, "a.b.c", {"b": {"c": 9}}),
    ({"x": 1}, "a.b", {"x": 1, "b": 9}),
    ({"b": [1, {"c": 2}]}, "a.b[1].c", {"b": [1, {"c": 9}]}),
    ([1, 2], "a[-1]", [1, 9]),
    ([{}], "a[0].x.y", [{"x": {"y": 9}}]),
]
"""What the key `a` holds, where 9 is written, and what it holds then."""

NOT_WRITTEN: list[tuple[Any, str, str]] = [
    ([1, 2], "a[2]",
     ("cannot write 'a[2]': 'a' has length 2, so [2] is out of range; "
      "a list is not grown by an index; write the whole list to 'a'")),
    ({"b": []}, "a.b[-1]",
     ("cannot write 'a.b[-1]': 'a.b' has length 0, so [-1] is out of range; "
      "a list is not grown by an index; write the whole list to 'a.b'")),
    ({"b": "x"}, "a.b.c", "cannot write 'a.b.c': 'a.b' is text, which has no parts"),
    (None, "a.b", "cannot write 'a.b': 'a' is None, which has no parts"),
    (5, "a[0]", "cannot write 'a[0]': 'a' is a number, which has no parts"),
    ([1], "a.b", "cannot write 'a.b': 'a' is a list; use an index, as in a[0]"),
    ({}, "a[0]", "cannot write 'a[0]': 'a' is a mapping, which has names and no indices"),
    (MISSING, "a[0]", "cannot write 'a[0]': 'a' is missing, so it has no [0]; write the whole list to 'a' first"),
    (Report(), "a.title",
     "cannot write 'a.title': 'a' is an instance of Report, which is not written into; write a whole new value to 'a'"),
]  # fmt: skip

ARGUMENTS_STATE: dict[str, Any] = {"user": {"name": "Ada", "tags": ["a", "b"]}, "n": 3, "none": None}

PASSED: list[tuple[Any, Any]] = [
    ({"q": "Hello {state.user.name}", "n": 5}, {"q": "Hello Ada", "n": 5}),
    ("state.user.tags", ["a", "b"]),
    ("state.user.tags[-1]", "b"),
    ("state.none", None),
    ("see state.n", "see state.n"),
    ("state.n is a path", "state.n is a path"),
    (" state.n", " state.n"),
    ("state.", "state."),
    ("state", "state"),
    ("n", "n"),
    ([["{n}", ["state.n"]], True, None, 1.5], [["3", [3]], True, None, 1.5]),
    ({"a": {"value": "{n} state.n", "template": False}}, {"a": "{n} state.n"}),
    ({"a": {"value": ["{n}"], "template": False}}, {"a": ["{n}"]}),
    ({"a": {"value": "{n}", "template": True}}, {"a": {"value": "3", "template": True}}),
    ({"a": {"value": "{n}", "template": False, "b": 1}}, {"a": {"value": "3", "template": False, "b": 1}}),
    ({"{n}": 1}, {"{n}": 1}),
    ('{"json": [1]}', '{"json": [1]}'),
]
