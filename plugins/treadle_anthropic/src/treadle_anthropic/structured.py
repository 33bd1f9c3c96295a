"""How a reply is held to a shape: natively, by a forced tool, or in words.

The API's own way is ``output_config.format``, on the models that have it and for schemas that its dialect can
say. Older models are made to call a tool whose input has the shape, and that input is the reply's text. Where a
tool cannot be forced (other tools are there, the model thinks, a hosted tool cites, which formats exclude) or the
shape is not an object, the shape is asked for in the system prompt. The reply is text of JSON in every case.
https://platform.claude.com/docs/en/build-with-claude/structured-outputs
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from treadle.messages import ModelRequest, OutputSchema
from treadle_anthropic.models import Traits
from treadle_anthropic.schema import format_schema, input_schema, input_schema_problem

__all__ = ["Shaping", "shaping_of"]


@dataclass(frozen=True, slots=True)
class Shaping:
    """What a request carries so that its reply has the shape; all of it None where none is asked for."""

    format: Mapping[str, Any] | None = None
    tool: Mapping[str, Any] | None = None
    words: str | None = None

    @property
    def tool_name(self) -> str | None:
        """The tool whose input is the reply."""
        return None if self.tool is None else str(self.tool["name"])


def shaping_of(request: ModelRequest, traits: Traits) -> Shaping:
    """The way that this request and this model leave open."""
    output = request.output
    if output is None:
        return Shaping()
    if output.schema is None:
        return Shaping(words=_words("one JSON object", output))
    if traits.takes_formats and not request.hosted_tools:
        schema = format_schema(output.schema)
        if schema is not None:
            return Shaping(format={"type": "json_schema", "schema": schema})
    elif not request.tools and not request.hosted_tools and request.reasoning is None and _is_object(output.schema):
        name = re.sub(r"[^a-zA-Z0-9_-]", "_", output.name)[:64] or "reply"
        description = output.description or "Give the answer in this shape."
        return Shaping(
            tool={"name": name, "description": description, "input_schema": input_schema(output.schema)},
        )
    return Shaping(words=_words("JSON of this schema", output))


def _is_object(schema: Mapping[str, Any]) -> bool:
    """Whether a tool's input can have the shape."""
    says_so = schema.get("type") == "object" or "properties" in schema
    return says_so and input_schema_problem("", schema) is None


def _words(what: str, output: OutputSchema) -> str:
    text = f"Answer with {what} and nothing else: no words before or after it, and no Markdown fence around it."
    if output.description:
        text += f"\nIt is: {output.description}"
    if output.schema is not None:
        text += "\n" + json.dumps(output.schema, ensure_ascii=False, default=dict)
    return text
