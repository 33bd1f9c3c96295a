"""The kernel stays small enough to be read: a limit on the whole, on each room, and on each module.

`docs/decisions/0012-the-kernels-size.md` says why these, and why the language and the bridges are counted apart.
"""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import pytest

from workspace import ROOT

KERNEL = ROOT / "kernel" / "src" / "treadle"
LIMIT = 10_400
ROOM_LIMIT = 3_100
APART = {"_language": 1_200, "_bridges": 500}
MODULE_LIMIT = 500

IGNORED = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}


def lines_of_code(text: str) -> int:
    """Lines that hold code: not blank, not comment, not docstring (a string that stands as a statement)."""
    documentation: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            assert node.end_lineno is not None
            documentation.update(range(node.lineno, node.end_lineno + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in IGNORED:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - documentation)


def sizes() -> dict[str, int]:
    """Lines of code by module of the kernel; `testing` is for plugin authors and stands apart."""
    modules = (path for path in sorted(KERNEL.rglob("*.py")) if not _is_testing(path))
    return {path.relative_to(KERNEL).as_posix(): lines_of_code(path.read_text(encoding="utf-8")) for path in modules}


def _is_testing(path: Path) -> bool:
    return path.relative_to(KERNEL).parts[0] in {"testing", "testing.py"}


def test_blanks_comments_and_docstrings_do_not_count() -> None:
    text = '''"""Module."""

import os  # counts

# a comment
NAME = """two
lines"""
"""What NAME is for,
at length."""


def main(
    x: int,
) -> None:
    """Doc."""
    print(os, x)
'''
    assert lines_of_code(text) == 7


def test_the_kernel_is_within_its_limit() -> None:
    found = {name: size for name, size in sizes().items() if name.partition("/")[0] not in APART}
    assert len(found) > 10
    assert sum(found.values()) <= LIMIT, f"{sum(found.values())} lines: {found}"


def test_no_room_is_over_its_limit() -> None:
    rooms: dict[str, int] = {}
    for name, size in sizes().items():
        room, _, module = name.partition("/")
        if module:
            rooms[room] = rooms.get(room, 0) + size
    assert len(rooms) > 4
    assert {room: size for room, size in rooms.items() if size > ROOM_LIMIT} == {}


@pytest.mark.parametrize("room", APART)
def test_what_is_counted_apart_has_a_limit_too(room: str) -> None:
    found = {name: size for name, size in sizes().items() if name.startswith(f"{room}/")}
    assert found
    assert sum(found.values()) <= APART[room], f"{sum(found.values())} lines: {found}"


def test_no_module_of_the_kernel_has_more_than_500_lines_of_code() -> None:
    assert {name: size for name, size in sizes().items() if size > MODULE_LIMIT} == {}
