"""Every slip that can be made in an example is told, on the line where it was made, and none ends in a traceback.

What is due for each kind of slip:

    misspelt key    of a field: an unknown field at the key, with the right name as hint (a step's type: that it is
                    missing, at the step); of the state: a warning where the key is read; of free data: nothing
    dropped key     a field that must be there: that it is missing, at its block; an output that is read: a warning
                    where it is read; else nothing
    wrong type      of a field: a problem at the value; of free data: nothing
    doubled key     a problem at the second that names the line of the first
    wrong indent    where the text is no YAML any more: a syntax error at the line or the one after it; where what it
                    says is another: a problem, unless it only says so in a text; else nothing
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import treadle
from treadle import DocumentError, Host, Problem
from treadle._document.reading import Marks, Span, read
from workspace import ROOT

EXAMPLES = sorted(
    each
    for each in (ROOT / "examples").rglob("*.yaml")
    # Agents are no workflows: plugins/treadle_agent mutates them. Those of plugins need their plugins installed.
    if each.name not in ("broken.yaml", "treadle.yaml") and not {"agents", "plugins"} & set(each.parts)
)
TEXTS = {each.relative_to(ROOT).as_posix(): each.read_text(encoding="utf-8") for each in EXAMPLES}
REQUIRED = {
    "agent", "name", "steps", "id", "type", "prompt", "tool_name", "expression", "target", "schema", "items", "until"
}  # fmt: skip
BODIES = {"step", "steps", "workflow_inline", "workflow_path"}


@dataclass(frozen=True)
class Key:
    """A key of an example: its path, where it stands, and where its value does."""

    file: str
    path: tuple[str | int, ...]
    key: Span
    value: Span
    in_flow: bool

    @property
    def name(self) -> str:
        return str(self.path[-1])

    @property
    def is_free(self) -> bool:
        """Whether any name and any value would do here."""
        within = self.path[:-1]
        return within[:1] in (("state",), ("state_schema",)) or bool({"tool_args", "schema", "input"} & set(within))

    @property
    def is_body(self) -> bool:
        """Whether it is what a step runs: without it the step says which ones there may be."""
        return self.name in BODIES and len(self.path) > 1

    @property
    def is_type(self) -> bool:
        """Whether it is the type of a step."""
        return self.name == "type" and self.path[0] == "steps" and (self.path[-2] == "step" or self.path[-3] == "steps")

    def __str__(self) -> str:
        return f"{self.file}:{self.key.line}:{self.name}"


def keys_of(file: str) -> list[Key]:
    text = TEXTS[file]
    _, marks, _ = read(text, file)

    def walk(marks: Marks, path: tuple[str | int, ...]) -> Iterator[Key]:
        in_flow = text[offset(text, *marks.place[:2])] in "{["
        for name, below in marks.children.items():
            here = (*path, name)
            if isinstance(name, str):
                value = below.place if isinstance(below, Marks) else below
                yield Key(file, here, marks.keys[name], value, in_flow)
            if isinstance(below, Marks):
                yield from walk(below, here)

    return list(walk(marks, ()))


def offset(text: str, line: int, column: int) -> int:
    return sum(len(each) for each in text.splitlines(keepends=True)[: line - 1]) + column - 1


KEYS = [key for file in TEXTS for key in keys_of(file)]
every_key = pytest.mark.parametrize("key", KEYS, ids=str)


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="module")
def host() -> Host:
    return Host.discover()


def problems_of(text: str, host: Host) -> list[Problem]:
    try:
        found = list(treadle.parse_workflow(text, host=host).warnings)
    except DocumentError as error:
        found = list(error.problems)
        assert found
    assert all(each.line and each.column and each.message for each in found)
    return found


def at(problems: list[Problem], line: int, column: int) -> list[Problem]:
    return [each for each in problems if (each.line, each.column) == (line, column)]


def readers(text: str, name: str) -> set[int]:
    """The lines on which a state key is read."""
    pattern = re.compile(rf"state\.{name}\b|\{{{name}\b")
    return {number for number, line in enumerate(text.splitlines(), 1) if pattern.search(line.partition(" # ")[0])}


def written_in(file: str) -> set[str]:
    """What the steps of an example write."""
    text = TEXTS[file]
    outputs = (each.value for each in KEYS if each.file == file and each.name == "output")
    return {text[slice(*(offset(text, *each[at : at + 2]) for at in (0, 2)))].partition(".")[0] for each in outputs}


@pytest.mark.parametrize("file", TEXTS)
def test_the_examples_are_right(file: str, host: Host) -> None:
    assert problems_of(TEXTS[file], host) == []
    assert len(keys_of(file)) > 5


@every_key
def test_a_misspelt_key(key: Key, host: Host) -> None:
    text, wrong = TEXTS[key.file], f"{key.name[:-1]}x{key.name[-1:]}"
    start = offset(text, *key.key[:2])
    found = problems_of(text[:start] + wrong + text[start + len(key.name) :], host)
    if key.path[0] == "state" and len(key.path) == 2:
        due = readers(text, key.name) if key.name not in written_in(key.file) else set()
        assert due <= {each.line for each in found if each.code in ("nothing-provides", "unknown-placeholder")}
    elif key.is_type:
        assert "the field 'type' is missing" in {each.message for each in found}
    elif not key.is_free:
        (unknown,) = [each for each in at(found, *key.key[:2]) if each.code == "unknown-field"]
        assert unknown.hint == f"did you mean '{key.name}'?"
        assert unknown.fix in (key.name, None)
        assert (unknown.end_line, unknown.end_column) == (key.key.line, key.key.column + len(wrong))


@every_key
def test_a_dropped_key(key: Key, host: Host) -> None:
    text = TEXTS[key.file]
    start, end = offset(text, *key.key[:2]), offset(text, *key.value[2:4])
    if key.in_flow:
        before, after = text[:start], text[end:]
        if after.lstrip().startswith(","):
            after = after.lstrip()[1:].lstrip()
        else:
            before = before.rstrip().removesuffix(",")
        mutated = before + after
    else:
        mutated = text[:start] + ("\n" if text[end - 1] == "\n" else "") + text[end:]
    found = problems_of(mutated, host)
    _, marks, _ = read(mutated, key.file)
    if key.is_body and not key.is_free:
        assert any("is given by one of" in each.message for each in found)
    elif key.name in REQUIRED and not key.is_free:
        missing = [each for each in found if each.message == f"the field '{key.name}' is missing"]
        block = marks.value(key.path[:-1])
        assert [each.line for each in missing] == [block[0]]
    elif key.name == "output" and key.path[0] == "steps":
        root = text[slice(*(offset(text, *key.value[at : at + 2]) for at in (0, 2)))].partition(".")[0]
        others = [each for each in KEYS if each.file == key.file and each.path[2:] == ("output",) and each != key]
        written = {text[offset(text, *each.value[:2]) :].partition(".")[0].split()[0] for each in others}
        if root not in written and root not in value_at(text, ()).get("state", {}):
            assert readers(text, root) <= {each.line for each in found if each.code == "nothing-provides"}
    elif key.name == "tool_args":
        lacking = [each for each in found if re.fullmatch(r"\w+: argument '\w+' is missing(; .*)?", each.message)]
        assert {each.line for each in lacking} == {key.key.line - 1}, "at the tool's name, on the line above"
    elif not key.is_free:
        assert [each for each in found if each.severity == "error" and each.code != "wrong-type"] == []


@every_key
def test_a_value_of_the_wrong_type(key: Key, host: Host) -> None:
    text = TEXTS[key.file]
    end = offset(text, *key.value[2:4])
    is_scalar = not isinstance(value_at(text, key.path), dict | list)
    wrong = ("[[1]]" if is_scalar else "12") + ("\n" if text[end - 1] == "\n" else "")
    colon = text.index(":", offset(text, *key.key[:2]) + len(key.name)) + 1
    found = problems_of(f"{text[:colon]} {wrong}{text[end:]}", host)
    if not key.is_free and key.name not in ("schema", "items"):
        due = [
            each
            for each in found
            if each.line == key.key.line and (each.column or 0) > key.key.column and each.severity == "error"
        ]
        assert {each.code for each in due} <= {"wrong-type", "bad-value"}
        assert due, [str(each) for each in found]


def value_at(text: str, path: tuple[str | int, ...]) -> Any:
    value, _, _ = read(text, "f")
    for part in path:
        value = value[part]
    return value


@every_key
def test_a_doubled_key(key: Key, host: Host) -> None:
    text = TEXTS[key.file]
    end = offset(text, *key.value[2:4])
    if key.in_flow:
        mutated, line = f"{text[:end]}, {key.name}: again{text[end:]}", key.value.end_line
    else:
        end = text.index("\n", end - 1) + 1 if text[end - 1] != "\n" else end
        mutated = f"{text[:end]}{' ' * (key.key.column - 1)}{key.name}: again\n{text[end:]}"
        line = text.count("\n", 0, end) + 1
    found = problems_of(mutated, host)
    (doubled,) = [each for each in found if each.code == "duplicate-key"]
    assert doubled.line == line
    assert doubled.message == f"the key '{key.name}' already stands on line {key.key.line}"


def lines() -> list[tuple[str, int, int]]:
    return [
        (file, number, by)
        for file, text in TEXTS.items()
        for number, line in enumerate(text.splitlines(), 1)
        for by in (1, -1)
        if line.strip() and not line.lstrip().startswith("#") and (by > 0 or line.startswith(" "))
    ]


@pytest.mark.parametrize(("file", "number", "by"), lines())
def test_a_wrong_indent(file: str, number: int, by: int, host: Host) -> None:
    text = TEXTS[file]
    changed = text.splitlines(keepends=True)
    changed[number - 1] = " " + changed[number - 1] if by > 0 else changed[number - 1][1:]
    mutated = "".join(changed)
    found = problems_of(mutated, host)
    try:
        data, _, _ = read(mutated, file)
    except DocumentError:
        following = next((n for n, line in enumerate(changed[number:], number + 1) if line.strip()), number)
        assert all(each.code == "yaml-syntax" for each in found)
        assert {each.line for each in found} <= {number, following}
        return
    before, _, _ = read(text, file)
    if data == before:
        assert found == []
    elif not differ_in_texts_only(before, data):
        assert found


def differ_in_texts_only(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(differ_in_texts_only(one[each], other[each]) for each in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(differ_in_texts_only, one, other))
    return one == other or (isinstance(one, str) and isinstance(other, str))
