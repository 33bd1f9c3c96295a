"""How a compiled piece of the language becomes a field of a pydantic model.

Nothing here imports pydantic until pydantic itself asks for a schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from treadle.errors import StepError

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

__all__ = ["DocumentField"]


class DocumentField:
    """Base of the types that a document writes down as text, or as a mapping.

    As a pydantic field such a type accepts what the document says or an instance, reports its own
    error as an ordinary validation error, and is dumped as what the document said.
    """

    __slots__ = ()

    _error_code: ClassVar[str]
    _written_as: ClassVar[type] = str
    _wrong_type_error: ClassVar[Literal["string_type", "dict_type"]] = "string_type"
    _json_type: ClassVar[str] = "string"
    _json_note: ClassVar[str]
    """What the text means, for who writes a document; the JSON Schema of a model has it as a comment."""

    @classmethod
    def _from_document(cls, written: Any) -> Self:
        """Compile what the document says, or raise a StepError."""
        raise NotImplementedError

    def _to_document(self) -> Any:
        """What the document said."""
        raise NotImplementedError

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> CoreSchema:
        from pydantic_core import PydanticCustomError, PydanticKnownError, core_schema

        def read(written: object) -> object:
            if isinstance(written, cls):
                return written
            if not isinstance(written, cls._written_as):
                raise PydanticKnownError(cls._wrong_type_error)
            try:
                return cls._from_document(written)
            except StepError as error:
                # Without a context pydantic leaves the braces of the text alone.
                raise PydanticCustomError(cls._error_code, str(error)) from error

        return core_schema.no_info_plain_validator_function(
            read,
            serialization=core_schema.plain_serializer_function_ser_schema(cls._to_document),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        # A description would be lost where the field has its own.
        return {"type": cls._json_type, "$comment": cls._json_note}
