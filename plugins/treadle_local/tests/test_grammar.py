"""Schemas as llama.cpp's grammar takes them."""

from __future__ import annotations

import re

import pytest

from treadle_local.grammar import grammar_pattern, grammar_schema


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("^abc$", "^abc$"),
        (r"^\d{2}-\w+$", "^[0-9]{2}-[A-Za-z0-9_]+$"),
        (r"^[\d.]+$", "^[0-9.]+$"),
        (r"^a\.b\$$", r"^a\.b\$$"),
        ("^(?:a|b)$", "^(?:a|b)$"),
        ("^[^a$]$", "^[^a$]$"),
    ],
)
def test_a_pattern_is_put_into_words_the_grammar_knows(pattern: str, expected: str) -> None:
    assert grammar_pattern(pattern) == expected


@pytest.mark.parametrize("pattern", [r"^\d+$", r"^[\w-]+$", r"^a?\d\s$", r"^[\d.]+$"])
def test_a_rewritten_pattern_matches_only_what_the_old_one_does(pattern: str) -> None:
    rewritten = grammar_pattern(pattern)
    assert rewritten is not None
    matched = [text for text in ("12", "a-b", "1.5", "a1 ", "1\n", "", "x!") if re.fullmatch(rewritten, text)]
    assert matched
    assert all(re.search(pattern, text) for text in matched)


@pytest.mark.parametrize(
    "pattern",
    [
        "abc",
        "^abc",
        "abc$",
        "$",
        "^(?=a)b$",
        "^(?!x).*$",
        r"^\bfoo$",
        r"^\p{L}$",
        "^a$|^b$",
        "^($",
        "^[$",
        "^a+?$",
        r"^a\$",
    ],
)
def test_a_pattern_beyond_the_grammar_is_left_out(pattern: str) -> None:
    assert grammar_pattern(pattern) is None
    assert grammar_schema({"type": "string", "pattern": pattern}) == {"type": "string"}


def test_only_the_keyword_is_touched_not_data_or_a_property_of_that_name() -> None:
    schema = {
        "type": "object",
        "properties": {"pattern": {"type": "string", "pattern": "x"}},
        "enum": [{"pattern": "x"}],
        "default": {"pattern": "x"},
        "anyOf": [{"pattern": "x"}, True],
    }
    assert grammar_schema(schema) == {
        "type": "object",
        "properties": {"pattern": {"type": "string"}},
        "enum": [{"pattern": "x"}],
        "anyOf": [{}, True],
    }
