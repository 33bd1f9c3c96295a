"""Arguments of the built-in tools: one model each, which both checks a call and is the schema that a model sees."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from treadle import ToolError

__all__ = ["ToolArguments", "parse_arguments", "schema_of"]


class ToolArguments(BaseModel):
    """Base of a tool's arguments."""

    model_config = ConfigDict(extra="forbid", frozen=True)


ArgumentsT = TypeVar("ArgumentsT", bound=ToolArguments)


def parse_arguments(tool_name: str, model: type[ArgumentsT], arguments: Mapping[str, Any]) -> ArgumentsT:
    """The arguments, checked.

    An optional argument that is null counts as not given, as models send it. A text that is a number is a number
    where one is wanted, as a template gives it.

    :raises ToolError: permanent, naming the tool and everything that is wrong with the arguments.
    """
    fields = model.model_fields
    given = {
        name: value
        for name, value in arguments.items()
        if value is not None or name not in fields or fields[name].is_required()
    }
    try:
        return model.model_validate(given)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        problems = dict.fromkeys(_problem(model, detail["loc"], detail["type"], detail["msg"]) for detail in details)
        raise ToolError(f"{tool_name}: {'; '.join(problems)}", transient=False) from error


def _problem(model: type[ToolArguments], loc: tuple[int | str, ...], kind: str, text: str) -> str:
    name = str(loc[0])
    if kind == "missing":
        return f"argument '{name}' is missing"
    if kind == "extra_forbidden":
        names = list(model.model_fields)
        near = get_close_matches(name, names, n=1)
        remedy = f"did you mean '{near[0]}'?" if near else f"it takes {', '.join(names)}"
        return f"unknown argument '{name}'; {remedy}"
    # The rest of a place names the keys within a mapping; the branches of a union are no place in the arguments.
    inner = "".join(f".{part}" for part in loc[1:] if part != "[key]")
    text = text.removeprefix("Value error, ")
    return f"argument '{name}{inner}': {text[:1].lower()}{text[1:]}"


def schema_of(model: type[ToolArguments]) -> dict[str, Any]:
    """The model's JSON Schema without the titles and the docstring that pydantic adds, which a model need not read."""
    schema = model.model_json_schema()
    schema.pop("title", None)
    schema.pop("description", None)
    for argument in schema["properties"].values():
        argument.pop("title", None)
    return schema
