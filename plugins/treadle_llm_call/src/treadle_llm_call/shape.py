"""The ``response_schema`` block."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from treadle_loop.shapes import check_schema

__all__ = ["JsonSchemaShape"]

_OF_A_SCHEMA = ("properties", "items", "enum", "anyOf", "oneOf", "allOf", "$ref", "required")


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

    @model_validator(mode="before")
    @classmethod
    def _is_not_the_schema_itself(cls, block: object) -> object:
        if isinstance(block, dict) and "schema" not in block and not block.keys().isdisjoint(_OF_A_SCHEMA):
            raise ValueError("this is a JSON Schema itself; write {type: json_schema, schema: ...} around it")
        return block
