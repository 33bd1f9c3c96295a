"""The ``response_schema`` block: the shape that a reply must have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from treadle import ConfigurationError, Reference
from treadle_loop.shapes import AnyObject, ModelShape, SchemaShape, Shape, check_schema

__all__ = ["ResponseSchema"]

_OF_A_SCHEMA = ("properties", "items", "enum", "anyOf", "oneOf", "allOf", "$ref", "required")


def _checked(schema: dict[str, Any]) -> dict[str, Any]:
    check_schema(schema)
    return schema


class ResponseSchema(BaseModel):
    """Holds the reply to a JSON shape."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    type: Literal["json_object", "json_schema", "pydantic"] = Field(
        default="json_object", description="any JSON object, an inline schema, or a pydantic class"
    )
    schema_: Annotated[dict[str, Any], AfterValidator(_checked)] | None = Field(
        default=None, alias="schema", description="the JSON Schema, with type json_schema"
    )
    model: str | None = Field(
        default=None, min_length=1, description="the class, with type pydantic: package.module:Class"
    )
    name: str | None = Field(default=None, description="the schema's name; the class's or the step's id without it")
    strict: bool = Field(default=True, description="the provider's strict mode, where it has one")
    description: str | None = Field(default=None, description="what the value is for")

    @model_validator(mode="before")
    @classmethod
    def _is_not_the_schema_itself(cls, block: object) -> object:
        if isinstance(block, dict) and "schema" not in block and not block.keys().isdisjoint(_OF_A_SCHEMA):
            raise ValueError("this is a JSON Schema itself; write {type: json_schema, schema: ...} around it")
        return block

    @model_validator(mode="after")
    def _has_what_its_type_needs(self) -> ResponseSchema:
        if self.type == "json_schema" and self.schema_ is None:
            raise ValueError("type json_schema needs a schema")
        if self.type == "pydantic" and self.model is None:
            raise ValueError("type pydantic needs a model, as package.module:Class")
        if self.type != "json_schema" and self.schema_ is not None:
            raise ValueError(f"a schema belongs to type json_schema, not to {self.type}")
        if self.type != "pydantic" and self.model is not None:
            raise ValueError(f"a model belongs to type pydantic, not to {self.type}")
        return self

    def references(self, field: str) -> Iterable[Reference]:
        """The class that it names."""
        if self.model is not None:
            yield Reference(role="object", name=self.model, field=f"{field}.model")

    def shape(self, default_name: str) -> Shape:
        """What replies are held to and read with.

        :param default_name: for a shape that has no name of its own.
        :raises ConfigurationError: the class cannot be loaded, or is no pydantic model.
        """
        if self.schema_ is not None:
            return SchemaShape(
                self.schema_, name=self.name or default_name, strict=self.strict, description=self.description
            )
        if self.model is None:
            return AnyObject(name=self.name or default_name)
        try:
            found = Reference(role="object", name=self.model, field="model").load()
        except (ImportError, AttributeError) as error:
            raise ConfigurationError(f"response_schema.model: cannot load '{self.model}': {error}") from error
        if not (isinstance(found, type) and issubclass(found, BaseModel)):
            raise ConfigurationError(f"response_schema.model: '{self.model}' is not a pydantic model class")
        return ModelShape(found, name=self.name, strict=self.strict, description=self.description)
