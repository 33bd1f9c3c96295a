"""Field types for step authors: what a document writes as text and a step gets compiled.

A field of one of these types is parsed when the document loads; a mistake in it is reported at its place, and
the checks know what it reads or writes.
"""

from treadle._language import MISSING, ArgumentTree, Expression, StatePath, Template, compile_arguments, look_up

__all__ = ["MISSING", "ArgumentTree", "Expression", "StatePath", "Template", "compile_arguments", "look_up"]
