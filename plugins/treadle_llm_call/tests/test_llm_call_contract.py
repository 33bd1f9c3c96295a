"""The model call is held to the contract of steps."""

from __future__ import annotations

from treadle.testing import check_plugin, check_step
from treadle_llm_call.step import LlmCall


async def test_the_plugin() -> None:
    await check_plugin("treadle_llm_call.plugin", offers={"step_type": ["llm_call", "embed"]})


async def test_a_text() -> None:
    await check_step(
        LlmCall,
        {"system_prompt": "Be brief.", "prompt": "Greet {state.name}", "output": "greeting"},
        state={"name": "Ada"},
        expect={"greeting": "Greet Ada"},
    )


async def test_a_shape() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    await check_step(
        LlmCall,
        {"prompt": "A number", "output": "made", "response_schema": {"type": "json_schema", "schema": schema}},
        replies=['{"n": 3}'],
        expect={"made": {"n": 3}},
    )
