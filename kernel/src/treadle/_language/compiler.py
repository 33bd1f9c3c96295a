"""From a checked syntax tree to nested functions that read data.

Only what has a branch in this module exists in an expression; anything else is refused when the
document is read. No name, attribute or method of Python is reached by a name from the document.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from treadle._language.operations import (
    FUNCTIONS,
    METHODS,
    TYPES,
    Step,
    add,
    call_method,
    follow,
    is_same,
    is_within,
)
from treadle._language.paths import MISSING, Part, look_up
from treadle._language.syntax import ExpressionSource, construct_name
from treadle._language.values import SCALARS, excerpt, kind_of
from treadle._suggest import close_match
from treadle.errors import ExpressionError

__all__ = ["Compiler", "Names", "Read"]

Names = Mapping[str, Any]
Read = Callable[[Names], Any]
Explain = Callable[[Names, Exception], ExpressionError]

_ROOTS = ("state", "steps")
_CONSTANTS: Mapping[str, Any] = {"true": True, "false": False, "null": None}
_DEEPEST_NESTING = 64
_NEVER_READ = {"mro", "format_map"}
_FUNCTION_NAMES = ", ".join([*FUNCTIONS, "isinstance"])

_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: is_within,
    ast.NotIn: lambda left, right: not is_within(left, right),
    ast.Is: is_same,
    ast.IsNot: lambda left, right: not is_same(left, right),
}
_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {ast.Add: add, ast.Sub: operator.sub}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.Not: operator.not_,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}

_ALLOWED = (
    "allowed are literals, state.x, steps.id.output, comparisons, and, or, not, +, -, a if b else c, "
    f"slices, some methods of text and dictionaries, and {_FUNCTION_NAMES}"
)


class _Path:
    """Reads the value some steps below another; a missing one as None."""

    __slots__ = ("_base", "_find", "_steps")

    def __init__(self, base: Read, steps: Sequence[Step]) -> None:
        self._base = base
        self._steps = steps
        self._find: Callable[[Any, Any], Any] = look_up if all(isinstance(step, str) for step in steps) else follow

    def __call__(self, names: Names) -> Any:
        value = self._find(self._base(names), self._steps)
        return None if value is MISSING else value

    def is_missing(self, names: Names) -> bool:
        return self._find(self._base(names), self._steps) is MISSING


class Compiler:
    """Checks and compiles one expression; collects the paths it reads in ``references``."""

    def __init__(self, source: ExpressionSource) -> None:
        self.references: dict[tuple[str, tuple[Part, ...]], None] = {}
        self._source = source
        self._depth = 0

    def compile(self, node: ast.expr) -> Read:
        """The function that evaluates ``node``. Raises ExpressionError for what is not allowed."""
        self._depth += 1
        if self._depth > _DEEPEST_NESTING:
            raise self._source.refusal(f"more than {_DEEPEST_NESTING} levels of nesting", node=node)
        read = self._compiled(node)
        self._depth -= 1
        return read

    def _compiled(self, node: ast.expr) -> Read:
        match node:
            case ast.Constant(value=value):
                return self._constant(node, value)
            case ast.Name() | ast.Attribute() | ast.Subscript():
                return self._chain(node)
            case ast.Compare():
                return self._comparison(node)
            case ast.BoolOp(op=op, values=values):
                return _either(self._all(values), stop_at=isinstance(op, ast.Or))
            case ast.UnaryOp():
                return self._unary(node)
            case ast.BinOp():
                return self._binary(node)
            case ast.IfExp():
                return self._choice(node)
            case ast.Call(func=ast.Name(id=name)):
                return self._function(node, name)
            case ast.Call(func=ast.Attribute() as method):
                return self._method(node, method)
            case ast.List(elts=elements):
                reads = self._all(elements)
                return lambda names: [read(names) for read in reads]
            case ast.Tuple(elts=elements):
                reads = self._all(elements)
                return lambda names: tuple(read(names) for read in reads)
            case ast.Dict():
                return self._dictionary(node)
            case ast.Call():
                raise self._refused(node, "a call of something other than a function or method", _ALLOWED)
            case ast.Set():
                raise self._refused(node, "a set", "write state.x without braces")
            case _:
                raise self._refused(node, construct_name(node), _ALLOWED)

    def _all(self, nodes: Sequence[ast.expr]) -> list[Read]:
        return [self.compile(node) for node in nodes]

    def _constant(self, node: ast.expr, value: object) -> Read:
        if not isinstance(value, SCALARS):
            raise self._refused(node, f"a literal of type {type(value).__name__}", _ALLOWED)
        return lambda names: value

    def _chain(self, node: ast.expr, then: tuple[Part, ...] = ()) -> Read:
        """A name with attributes and subscripts; ``then`` is a key that is known to be read next."""
        steps: list[Step] = []
        outer = node
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            outer = node
            steps.append(self._attribute(node) if isinstance(node, ast.Attribute) else self._key(node))
            node = node.value
        steps.reverse()
        if isinstance(node, ast.Name):
            if node.id not in _ROOTS:
                return self._constant_name(node, alone=not steps)
            self.references[node.id, _literal_parts((*steps, *then))] = None
            root = node.id
            return _Path(lambda names: names.get(root, MISSING), steps)
        if isinstance(outer, ast.Attribute) and not isinstance(node, ast.Call):
            raise self._refused(outer, "an attribute of something other than state, steps or a call")
        return _Path(self.compile(node), steps)

    def _attribute(self, node: ast.Attribute) -> str:
        if node.attr.startswith("_"):
            raise self._refused(node, f"a name that begins with an underscore ({node.attr})")
        if node.attr in _NEVER_READ:
            raise self._refused(node, f"the attribute {node.attr}", f'a key of this name is read as ["{node.attr}"]')
        return node.attr

    def _key(self, node: ast.Subscript) -> Step:
        match node.slice:
            case ast.Constant(value=str(key)):
                if key.startswith("_"):
                    raise self._refused(node.slice, f"a key that begins with an underscore ({excerpt(key)})")
                return key
            case ast.Slice(lower=lower, upper=upper, step=step):
                if step is not None and self._integer(step) == 0:
                    raise self._refused(step, "a slice with a step of 0")
                return slice(*(bound and self._integer(bound) for bound in (lower, upper, step)))
            case key:
                return self._integer(key)

    def _integer(self, node: ast.expr) -> int:
        match node:
            case ast.Constant(value=int(number)) if not isinstance(number, bool):
                return number
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
                return -number
            case ast.UnaryOp(op=ast.UAdd(), operand=ast.Constant(value=int(number))):
                return number
        raise self._refused(node, "a computed subscript", "a subscript is a whole number or text in quotes")

    def _constant_name(self, node: ast.Name, *, alone: bool) -> Read:
        name = node.id
        if name in _CONSTANTS and alone:
            value = _CONSTANTS[name]
            return lambda names: value
        if name in FUNCTIONS or name in TYPES or name == "isinstance":
            raise self._refused(node, f"{name} without a call", f"write {name}(...), or state.{name} for a key")
        if name in {"undefined", "nil", "none", "NULL", "TRUE", "FALSE"}:
            raise self._source.refusal(f"unknown name {name}", node=node, hint="write None, True or False")
        if name.startswith("_"):
            raise self._refused(node, f"a name that begins with an underscore ({name})")
        meant = close_match(name, ("state", "steps"), alike=0.8)
        hint = f"did you mean {meant}?" if meant else f"write state.{name}"
        raise self._source.refusal(f"unknown name {name}", node=node, hint=hint)

    def _comparison(self, node: ast.Compare) -> Read:
        operands = [node.left, *node.comparators]
        first, *others = self._all(operands)
        pairs = [(_COMPARISONS[type(op)], read) for op, read in zip(node.ops, others, strict=True)]
        explain = self._explainer(node, operands, [first, *others], "compared")
        (compare, second), *more = pairs

        def single(names: Names) -> Any:
            left, right = first(names), second(names)
            try:
                return compare(left, right)
            except Exception as error:
                raise explain(names, error) from error

        def chained(names: Names) -> Any:
            left, result = first(names), True
            for compare, read in pairs:
                right = read(names)
                try:
                    result = compare(left, right)
                except Exception as error:
                    raise explain(names, error) from error
                if not result:
                    break
                left = right
            return result

        return chained if more else single

    def _unary(self, node: ast.UnaryOp) -> Read:
        if type(node.op) not in _UNARY:
            raise self._refused(node, f"the operator {construct_name(node.op)}")
        return self._call(node, _UNARY[type(node.op)], [node.operand])

    def _binary(self, node: ast.BinOp) -> Read:
        if type(node.op) not in _BINARY:
            hint = "of this kind there are + and - only, and `or` and `and` for `|` and `&`"
            raise self._refused(node, f"the operator {construct_name(node.op)}", hint)
        return self._call(node, _BINARY[type(node.op)], [node.left, node.right])

    def _choice(self, node: ast.IfExp) -> Read:
        test, chosen, otherwise = self._all([node.test, node.body, node.orelse])
        return lambda names: chosen(names) if test(names) else otherwise(names)

    def _dictionary(self, node: ast.Dict) -> Read:
        keys = [key for key in node.keys if key is not None]
        if len(keys) < len(node.keys):
            raise self._refused(node, "** in a dictionary")
        for key in keys:
            if not isinstance(key, ast.Constant):
                raise self._refused(key, "a dictionary key that is not a literal")
        entries = list(zip(self._all(keys), self._all(node.values), strict=True))
        return lambda names: {key(names): value(names) for key, value in entries}

    def _function(self, node: ast.Call, name: str) -> Read:
        if name == "isinstance":
            return self._type_test(node)
        function = FUNCTIONS.get(name)
        if function is None:
            hint = f"the functions are {_FUNCTION_NAMES}"
            raise self._source.refusal(f"unknown function {name}", node=node, hint=hint)
        self._check_arguments(node, name, function.least, function.most)
        return self._call(node, function.call, node.args)

    def _type_test(self, node: ast.Call) -> Read:
        self._check_arguments(node, "isinstance", 2, 2)
        wanted = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
        types: list[type] = []
        for name in wanted:
            if not isinstance(name, ast.Name) or name.id not in TYPES:
                raise self._refused(name, "this second argument of isinstance", f"the types are {', '.join(TYPES)}")
            types.append(TYPES[name.id])
        value, kinds = self.compile(node.args[0]), tuple(types)
        return lambda names: isinstance(value(names), kinds)

    def _method(self, node: ast.Call, func: ast.Attribute) -> Read:
        name = func.attr
        method = METHODS.get(name)
        if method is None:
            hint = f"the methods are {', '.join(METHODS)}"
            raise self._source.refusal(f"method {name}() is not allowed", node=node, hint=hint)
        if not isinstance(func.value, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
            raise self._refused(node, f"the method {name}() of something other than a name, a path or a call")
        self._check_arguments(node, name, method.least, method.most)
        match node.args:
            case [ast.Constant(value=str(key)), *_] if name == "get":
                base = self._chain(func.value, then=(key,))
            case _:
                base = self.compile(func.value)
        arguments = self._all(node.args)
        explain = self._explainer(node, [func.value, *node.args], [base, *arguments], "evaluated")

        def call(names: Names) -> Any:
            value, values = base(names), [read(names) for read in arguments]
            try:
                return call_method(value, name, values)
            except Exception as error:
                raise explain(names, error) from error

        return call

    def _check_arguments(self, node: ast.Call, name: str, least: int, most: int | None) -> None:
        if node.keywords:
            raise self._source.refusal("a keyword argument is not allowed", node=node.keywords[0])
        count = len(node.args)
        if count < least or (most is not None and count > most):
            raise self._source.refusal(f"wrong number of arguments ({count}) for {name}()", node=node)

    def _call(self, node: ast.expr, operate: Callable[..., Any], operands: list[ast.expr]) -> Read:
        reads = self._all(operands)
        explain = self._explainer(node, operands, reads, "evaluated")

        def call(names: Names) -> Any:
            values = [read(names) for read in reads]
            try:
                return operate(*values)
            except Exception as error:
                raise explain(names, error) from error

        return call

    def _explainer(self, node: ast.expr, operands: list[ast.expr], reads: list[Read], verb: str) -> Explain:
        """A function that says why ``node`` failed: which operand is missing, or of which types they are."""
        source = self._source

        def explain(names: Names, error: Exception) -> ExpressionError:
            failed = f"`{source.segment(node)}` cannot be {verb}"
            for operand, read in zip(operands, reads, strict=True):
                if not isinstance(operand, ast.Constant) and read(names) is None:
                    missing = "missing" if isinstance(read, _Path) and read.is_missing(names) else "None"
                    return source.failure(node, f"{source.segment(operand)} is {missing}, so {failed}")
            if isinstance(error, RecursionError):
                return source.failure(node, f"{failed}: a value is nested too deeply")
            if isinstance(error, TypeError):
                kinds = " and ".join(kind_of(read(names)) for read in reads)
                return source.failure(node, f"{failed}: {'it is' if len(reads) == 1 else 'they are'} {kinds}")
            return source.failure(node, f"{failed}: {error}")

        return explain

    def _refused(self, node: ast.expr, what: str, hint: str | None = None) -> ExpressionError:
        return self._source.refusal(f"{what} is not allowed", node=node, hint=hint)


def _literal_parts(steps: Sequence[Step]) -> tuple[Part, ...]:
    """The steps up to the first slice."""
    parts: list[Part] = []
    for step in steps:
        if isinstance(step, slice):
            break
        parts.append(step)
    return tuple(parts)


def _either(reads: list[Read], *, stop_at: bool) -> Read:
    """``or`` of values if it stops at a true one, ``and`` if it stops at a false one."""

    def evaluate(names: Names) -> Any:
        value = None
        for read in reads:
            value = read(names)
            if bool(value) is stop_at:
                break
        return value

    return evaluate
