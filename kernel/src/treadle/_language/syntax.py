"""From the text of an expression to Python's syntax tree, with errors that say what to write."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping

from treadle._language.values import excerpt
from treadle.errors import ExpressionError

__all__ = ["ExpressionSource", "construct_name"]

_LONGEST_SOURCE = 10_000

_STRING = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"")

_HINTS = (
    (re.compile(r"\$\{|\{\s*(?:state|steps)\b"), "write state.x without braces"),
    (re.compile(r"&&"), "write `and` for `&&`"),
    (re.compile(r"\|\|"), "write `or` for `||`"),
    (re.compile(r"[=!]=="), "write `==` for `===`, and `!=` for `!==`"),
    (re.compile(r"=[<>]"), "write `>=` and `<=` with the equals sign last"),
    (re.compile(r"(?<![=!<>:])=(?!=)"), "write `==` to compare; an expression sets nothing"),
    (re.compile(r"!(?!=)"), "write `not` for `!`"),
    (re.compile(r"<>"), "write `!=` for `<>`"),
    (re.compile(r"\b(?:AND|OR|NOT)\b"), "write `and`, `or` and `not` in small letters"),
    (re.compile(r"\?"), "write `a if condition else b` for `condition ? a : b`"),
    (re.compile(r"\n"), "put an expression of several lines into parentheses"),
)
"""What people write from the habit of another language, in the order of how sure the sign is."""

_CONSTRUCTS: Mapping[type[ast.AST], str] = {
    ast.Lambda: "a lambda",
    ast.ListComp: "a comprehension",
    ast.SetComp: "a comprehension",
    ast.DictComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
    ast.JoinedStr: "an f-string",
    ast.NamedExpr: "an assignment (:=)",
    ast.Await: "await",
    ast.Yield: "yield",
    ast.YieldFrom: "yield",
    ast.Starred: "a starred value",
    ast.Slice: "a slice",
    ast.Mult: "*",
    ast.MatMult: "@",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitOr: "|",
    ast.BitAnd: "&",
    ast.BitXor: "^",
    ast.Invert: "~",
}


def construct_name(node: ast.AST) -> str:
    """What an error text calls a construct or operator that expressions do not have."""
    return _CONSTRUCTS.get(type(node), type(node).__name__)


class ExpressionSource:
    """The text of one expression: parses it, and points into it from an error."""

    __slots__ = ("_indent", "_stripped", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._stripped = text.strip()
        # Python takes leading space for wrong indentation, and YAML blocks end with a line break.
        self._indent = len(text) - len(text.lstrip())

    def parse(self) -> ast.expr:
        """The syntax tree, not yet checked. Raises ExpressionError if the text is not an expression."""
        if len(self.text) > _LONGEST_SOURCE:
            raise self.refusal(f"the expression is longer than {_LONGEST_SOURCE} characters")
        if not self._stripped:
            raise ExpressionError("the expression is empty", hint="write a condition such as state.x > 1")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(self._stripped, mode="eval").body
        except SyntaxError as error:
            position = (error.lineno or 1, (error.offset or 1) - 1)
            what = "cannot be read: " + (error.msg or "invalid syntax").partition(". ")[0]
            raise self._error(position, what, self._likely_mistake()) from None
        except (RecursionError, MemoryError):
            raise self.refusal("the expression is nested too deeply") from None
        except ValueError as error:
            raise self.refusal(f"the expression cannot be read: {error}") from None

    def refusal(
        self, message: str, *, node: ast.expr | ast.keyword | None = None, hint: str | None = None
    ) -> ExpressionError:
        """An error about the whole expression, or one that points at ``node``."""
        if node is None:
            return self._error(None, message, hint)
        line = self._stripped.split("\n")[node.lineno - 1]
        # The tree counts bytes of UTF-8.
        column = len(line.encode()[: node.col_offset].decode(errors="ignore"))
        return self._error((node.lineno, column), message, hint)

    def failure(self, node: ast.expr, message: str) -> ExpressionError:
        """An error about evaluating ``node``, which shows the whole expression if that is more."""
        whole = ast.get_source_segment(self._stripped, node) == self._stripped
        return ExpressionError(message if whole else f"{message} (in {excerpt(self.text, 200)})")

    def segment(self, node: ast.expr) -> str:
        """The text of one node, on one line and not long."""
        text = " ".join((ast.get_source_segment(self._stripped, node) or "").split())
        return text if len(text) <= 80 else text[:79] + "…"

    def _error(self, position: tuple[int, int] | None, message: str, hint: str | None) -> ExpressionError:
        line, column = position or (0, 0)
        place = f"line {line}, column {column + 1}: " if position else ""
        if line == 1:
            place = f"column {column + self._indent + 1}: "
        error = ExpressionError(f"{place}{message} in expression {excerpt(self.text)}", hint=hint)
        error.offset = column + self._indent if line == 1 else None
        return error

    def _likely_mistake(self) -> str | None:
        code = _STRING.sub("''", self._stripped)
        return next((hint for pattern, hint in _HINTS if pattern.search(code)), None)
