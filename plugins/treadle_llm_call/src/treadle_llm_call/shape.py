"""The ``response_schema`` block."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from treadle_loop.shapes import check_schema

__all__ = ["JsonSchemaShape"]


def _checked(schema: dict[str, Any]) -> dict[str, Any]:
    check_schema(schema)
    return schema


class JsonSchemaShape(BaseModel):
    """Holds the reply to a JSON Schema."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    type: Literal["json_schema"] = Field(description="how the shape is given")
    schema_: Annotated[dict[str, Any], AfterValidator(_checked)] = Field(alias="schema", description="the JSON Schema")
    name: str | None = Field(default=None, description="the schema's name; the step's id without it")
    strict: bool = Field(default=True, description="the provider's strict mode, where it has one")
    description: str | None = Field(default=None, description="what the value is for")
