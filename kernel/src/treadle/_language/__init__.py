"""The small language inside a document: state paths, templates, arguments and expressions.

Each is compiled once, when the document is read, and tells which state it refers to.
"""

from treadle._language.arguments import ArgumentTree, compile_arguments
from treadle._language.expressions import Expression
from treadle._language.paths import MISSING, StatePath, assign, look_up
from treadle._language.templates import Reference, Template

__all__ = [
    "MISSING",
    "ArgumentTree",
    "Expression",
    "Reference",
    "StatePath",
    "Template",
    "assign",
    "compile_arguments",
    "look_up",
]
