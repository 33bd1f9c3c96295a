"""A delta's ``tool_calls`` on their way into the assembly."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.assembly import ToolCallAssembly
from treadle_openai.convert import tool_call_fragment


@pytest.mark.parametrize("fragment", [{}, {"function": None}, {"index": "0", "function": {"arguments": 3}}, {"id": 4}])
def test_a_fragment_of_odd_types_breaks_nothing(fragment: dict[str, Any]) -> None:
    assembly = ToolCallAssembly()
    assembly.add(index=0, call_id="a", tool_name="f", arguments="{}")
    assembly.add(**tool_call_fragment(fragment, "openai"))
    assert [part.arguments for part in assembly.parts()] == [{}]


def test_arguments_that_come_as_an_object_are_taken_as_its_text() -> None:
    assembly = ToolCallAssembly()
    assembly.add(**tool_call_fragment({"id": "a", "function": {"name": "f", "arguments": {"x": 1}}}, "openai"))
    assert [part.arguments for part in assembly.parts()] == [{"x": 1}]
