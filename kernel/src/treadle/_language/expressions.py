"""Expressions: the conditions of a router, and other values computed from the state.

A small part of Python's grammar: literals, ``state`` and ``steps`` with what is in them, comparisons,
``and or not``, ``+ -``, ``a if b else c``, slices, the functions ``len str int float bool abs min max
isinstance`` and harmless methods of text and dictionaries. Nothing is evaluated by Python itself.

    source text  --syntax.py-->  syntax tree  --compiler.py-->  functions over operations.py
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, Self

from treadle._dataclasses import dataclass
from treadle._language.fields import DocumentField
from treadle._language.paths import path_text
from treadle._language.placeholders import Reference
from treadle._language.values import excerpt
from treadle.errors import ExpressionError

if TYPE_CHECKING:
    from treadle._language.compiler import Names, Read

__all__ = ["Expression"]


@dataclass(frozen=True, slots=True)
class Expression(DocumentField):
    """A checked expression. Made by ``compile``; equal if the source is equal.

    ``references`` are the paths it reads, from ``state`` or ``steps`` on, with as many parts as are literal.
    """

    source: str
    references: tuple[Reference, ...] = field(compare=False, repr=False)
    _read: Read = field(compare=False, repr=False)

    _error_code = "expression"
    _json_note = "An expression, such as state.score > 80 and 'red' in state.tags"

    @classmethod
    def compile(cls, source: str) -> Self:
        """Parse and check an expression.

        Raises ExpressionError with the column of what is not in the grammar, and often with what to
        write instead.
        """
        from treadle._language.compiler import Compiler  # only where a document has an expression
        from treadle._language.syntax import ExpressionSource

        text = ExpressionSource(source)
        compiler = Compiler(text)
        tree = text.parse()
        try:
            read = compiler.compile(tree)
        except RecursionError:
            raise text.refusal("the expression is nested too deeply") from None
        references = (Reference(path_text((root, *parts)), root, parts, None) for root, parts in compiler.references)
        return cls(source, tuple(references), read)

    def evaluate(self, names: Names) -> Any:
        """The value, given ``{"state": mapping, "steps": mapping}``. What is missing reads as None.

        Raises ExpressionError where an operation does not work on the values it is given; the text
        says which of them is missing.
        """
        try:
            return self._read(names)
        except ExpressionError:
            raise
        except RecursionError:
            raise ExpressionError(f"{excerpt(self.source)} is nested too deeply to be evaluated") from None
        except Exception as error:  # a pydantic instance may raise anything when it is compared
            raise ExpressionError(f"{excerpt(self.source)} cannot be evaluated: {error}") from error

    @classmethod
    def _from_document(cls, written: str) -> Self:
        return cls.compile(written)

    def _to_document(self) -> str:
        return self.source
