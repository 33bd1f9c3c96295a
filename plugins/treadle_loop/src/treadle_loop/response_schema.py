"""The ``response_schema`` block: the shape that a reply must have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

from treadle import ConfigurationError, Reference

if TYPE_CHECKING:
    from treadle_loop.shapes import Shape

__all__ = ["ResponseSchema"]

# Shapes bring the reading of replies along: they are imported where a step asks for one.

_OF_A_SCHEMA = ("properties", "items", "enum", "anyOf", "oneOf", "allOf", "$ref", "required")


def _checked(schema: dict[str, Any]) -> dict[str, Any]:
    from treadle_loop.shapes import check_schema

    check_schema(schema)
    return schema


class _Block(BaseModel):
    """What the three ways of giving a shape have in common."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)

    name: str | None = Field(
        default=None, description="the schema's name; that of the class or else the step's id without it"
    )
    strict: bool = Field(default=True, description="the provider's strict mode, where it has one")
    description: str | None = Field(default=None, description="what the value is for")

    def references(self, field: str) -> Iterable[Reference]:
        """What it names outside the document."""
        return ()

    def shape(self, default_name: str) -> Shape:
        """What replies are held to and read with.

        :param default_name: for a shape that has no name of its own.
        :raises ConfigurationError: the class cannot be loaded, or is no pydantic model.
        """
        raise NotImplementedError


class ObjectBlock(_Block):
    """Holds the reply to being a JSON object."""

    type: Literal["json_object"] = Field(default="json_object", description="any JSON object")

    @field_validator("type", mode="before")
    @classmethod
    def _is_a_type(cls, given: object) -> object:
        if given != "json_object":
            raise ValueError(f"must be json_object, json_schema or pydantic, not {given!r}")
        return given

    @model_validator(mode="before")
    @classmethod
    def _is_not_the_schema_itself(cls, block: object) -> object:
        if isinstance(block, dict) and not block.keys().isdisjoint(_OF_A_SCHEMA):
            raise ValueError("this is a JSON Schema itself; write {type: json_schema, schema: ...} around it")
        return block

    def shape(self, default_name: str) -> Shape:
        """Any JSON object."""
        from treadle_loop.shapes import AnyObject

        return AnyObject(name=self.name or default_name)


class SchemaBlock(_Block):
    """Holds the reply to a JSON Schema."""

    type: Literal["json_schema"] = Field(description="an inline JSON Schema")
    schema_: Annotated[dict[str, Any], AfterValidator(_checked)] = Field(alias="schema", description="the JSON Schema")

    def shape(self, default_name: str) -> Shape:
        """The schema."""
        from treadle_loop.shapes import SchemaShape

        return SchemaShape(
            self.schema_, name=self.name or default_name, strict=self.strict, description=self.description
        )


class ModelBlock(_Block):
    """Holds the reply to a pydantic class."""

    type: Literal["pydantic"] = Field(description="a pydantic class")
    model: str = Field(min_length=1, description="the class: package.module:Class, or with a dot before it")

    def references(self, field: str) -> Iterable[Reference]:
        """The class."""
        yield Reference(role="object", name=self.model, field=f"{field}.model")

    def shape(self, default_name: str) -> Shape:
        """The class, imported."""
        from treadle_loop.shapes import TypeShape

        try:
            found = Reference(role="object", name=self.model, field="model").load()
        except (ImportError, AttributeError) as error:
            raise ConfigurationError(f"response_schema.model: cannot load '{self.model}': {error}") from error
        if not (isinstance(found, type) and issubclass(found, BaseModel)):
            raise ConfigurationError(f"response_schema.model: '{self.model}' is not a pydantic model class")
        return TypeShape(found, name=self.name, strict=self.strict, description=self.description)


def _type_of(block: Any) -> str:
    """Which of the blocks is meant, so that what is wrong with it is told in its terms."""
    if not isinstance(block, dict):
        return getattr(block, "type", "json_object")
    if block.get("type") in ("json_schema", "pydantic"):
        return str(block["type"])
    if "type" not in block:
        return "json_schema" if "schema" in block else "pydantic" if "model" in block else "json_object"
    return "json_object"


ResponseSchema = Annotated[
    Annotated[ObjectBlock, Tag("json_object")]
    | Annotated[SchemaBlock, Tag("json_schema")]
    | Annotated[ModelBlock, Tag("pydantic")],
    Discriminator(_type_of),
]
"""The block; its ``type`` says which."""
