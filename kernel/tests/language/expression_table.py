"""Expressions, the data they read, and what they give: the data of the tests and of docs/expressions.md.

``REFUSED`` holds expressions that do not compile, with a part of the error; ``LIMITS`` more of them, too long to be
printed; ``FAILURES`` those that fail on the data, with the whole error.
"""

from typing import Any

from pydantic import BaseModel


class Report(BaseModel):
    """A value that a step keeps in the state as it is: it is read by its fields, and by nothing else."""

    score: int = 90

    @property
    def secret(self) -> str:
        """No field, so no expression sees it."""
        return "never"


NAMES: dict[str, Any] = {
    "state": {
        "score": 85,
        "name": " Ada ",
        "tags": ["red", "blue"],
        "user": {"name": "Bob", "items": 5, "true": "key"},
        "report": Report(),
        "none": None,
        "pair": (1, 2),
        "format": "json",
    },
    "steps": {"draft": {"output": "text", "status": "success"}},
}

SECTIONS: dict[str, list[tuple[str, Any]]] = {
    "Comparing": [
        ("state.score > 80", True),
        ("80 < state.score <= 85", True),
        ("90 < state.score < state.missing", False),
        ("state.name == ' Ada '", True),
        ("state.tags == ['red', 'blue']", True),
        ("'red' in state.tags and 'x' not in state.tags", True),
        ("'name' in state.user", True),
        ("'d' in state.name", True),
        ("state.missing is None and state.none is None", True),
        ("state.score is 85, state.score is 85.0, state.score is not 85", (True, False, False)),
    ],
    "Combining": [
        ("state.score == 85 and not state.none", True),
        ("state.none or 'default'", "default"),
        ("state.score and state.tags and 0 and state.name", 0),
        ("'high' if state.score > 80 else 'low'", "high"),
        ("-state.score + 5 - +3", -83),
        ("state.name + '!'", " Ada !"),
        ("state.tags + ['green']", ["red", "blue", "green"]),
    ],
    "Literals": [
        ("true, false, null, True, False, None", (True, False, None, True, False, None)),
        ("[1, 'a', (2.5,)]", [1, "a", (2.5,)]),
        ("{'a': state.score}['a']", 85),
    ],
    "Reading": [
        ("steps.draft.output == 'text' and steps['draft'].status", "success"),
        ("state['user']['name']", "Bob"),
        ("state.tags[-1], state.tags[+0], state.tags[7]", ("blue", "red", None)),
        ("state.tags[:1], state.tags[-1:], state.tags[::-1]", (["red"], ["blue"], ["blue", "red"])),
        ("state.name[1], state.name[1:3], state.name[99]", ("A", "Ad", None)),
        ("state.pair[1]", 2),
        ("state.user.true", "key"),
        ("state.format == 'json'", True),
        ("state.report.score", 90),
    ],
    "What is missing is None": [
        ("state.missing", None),
        ("state.missing.deeper[3]['x']", None),
        ("state.missing[:2]", None),
        ("state.name.upper", None),
        ("state.report.secret, state.report['model_dump']", (None, None)),
    ],
    "Functions": [
        ("len(state.tags), len(state.name), len(state.user)", (2, 5, 3)),
        ("int('7') + int('ff', 16), float('1.5'), str(7), bool([])", (262, 1.5, "7", False)),
        ("abs(-2), min(state.pair), max(1, state.score, 3)", (2, 1, 85)),
        ("isinstance(state.score, int), isinstance(state.name, (int, list))", (True, False)),
    ],
    "Methods": [
        ("state.name.strip().lower().startswith('a')", True),
        ("str(state.score).replace('8', '9')", "95"),
        ("state.user.name.join(state.tags)", "redBobblue"),
        ("state.tags.count('red') + state.tags.index('blue')", 2),
        ("state.get('score'), state.user.get('x', 7), state.get('x')", (85, 7, None)),
        ("state.user.keys()[0], len(state.user.values())", ("name", 3)),
    ],
    "A key wins over a method, unless it is called": [
        ("state.user.items", 5),
        ("state.user.items()", [("name", "Bob"), ("items", 5), ("true", "key")]),
    ],
    "Space around it, and lines within parentheses": [
        ("  state.score\n", 85),
        ("(state.score\n > 80)", True),
    ],
}
"""By what they show; the page has them in this order."""

EVALUATED = [row for rows in SECTIONS.values() for row in rows]

ALLOWED = "; allowed are literals, state.x, steps.id.output, comparisons, and, or, not, +, -,"

REFUSED: list[tuple[str, str]] = [
    ("", "the expression is empty; write a condition such as state.x > 1"),
    ("score > 1", "column 1: unknown name score in expression 'score > 1'; write state.score"),
    ("stat.x > 1", "column 1: unknown name stat in expression 'stat.x > 1'; did you mean state?"),
    ("  score > 1", "column 3: unknown name score in expression '  score > 1'; write state.score"),
    ("'é' + é", "column 7: unknown name é in expression \"'é' + é\"; write state.é"),
    ("(1 +\n  x)", "line 2, column 3: unknown name x in expression"),
    ("undefined", "unknown name undefined in expression 'undefined'; write None, True or False"),
    ("{state.x} > 1", "column 1: a set is not allowed in expression '{state.x} > 1'; write state.x without braces"),
    ("${state.x}", "; write state.x without braces"),
    ("state.x = 5", "; write `==` to compare; an expression sets nothing"),
    ("state.x === 5", "; write `==` for `===`"),
    ("state.x && 1", "; write `and` for `&&`"),
    ("state.x || 1", "; write `or` for `||`"),
    ("!state.x", "; write `not` for `!`"),
    ("state.x <> 1", "; write `!=` for `<>`"),
    ("state.x => 1", "; write `>=` and `<=` with the equals sign last"),
    ("state.x AND 1", "; write `and`, `or` and `not` in small letters"),
    ("state.x ? 1 : 2", "; write `a if condition else b`"),
    ("state.x\n> 1", "; put an expression of several lines into parentheses"),
    ("state.x == '&&' 1", "column 1"),
    ("state._x", "column 1: a name that begins with an underscore (_x) is not allowed"),
    ("state.__class__", "a name that begins with an underscore (__class__) is not allowed"),
    ("state['_x']", "column 7: a key that begins with an underscore ('_x') is not allowed"),
    ("__import__", "column 1: a name that begins with an underscore (__import__) is not allowed"),
    ("state.mro", "column 1: the attribute mro is not allowed in expression 'state.mro'; a key of"),
    ("state.x.format_map(state)", "method format_map() is not allowed"),
    ("state.x.format(1)",
     "column 1: method format() is not allowed in expression 'state.x.format(1)'; the methods are strip, "),
    ("state.x.append(1)", "method append() is not allowed"),
    ("'a'.upper()", "column 1: the method upper() of something other than a name, a path or a call"),
    ("(state.a or state.b).upper()", "the method upper() of something other than a name, a path or"),
    ("[1].x", "an attribute of something other than state, steps or a call is not allowed"),
    ("eval('1')", "column 1: unknown function eval in expression \"eval('1')\"; the functions are len, "),
    ("len", "column 1: len without a call is not allowed in expression 'len'; write len(...), or"),
    ("isinstance(state.x, set)", "column 21: this second argument of isinstance is not allowed"),
    ("len()", "column 1: wrong number of arguments (0) for len() in expression 'len()'"),
    ("len(state.x, 1)", "wrong number of arguments (2) for len()"),
    ("state.x.lower(1)", "wrong number of arguments (1) for lower()"),
    ("int(state.x, base=2)", "column 14: a keyword argument is not allowed"),
    ("min(*state.x)", "column 5: a starred value is not allowed"),
    ("state.x * 2", "column 1: the operator * is not allowed in expression 'state.x * 2'; of this"),
    ("state.x / 2", "the operator / is not allowed"),
    ("2 ** 99", "the operator ** is not allowed"),
    ("~state.x", "the operator ~ is not allowed"),
    ("state.x | state.y", "the operator | is not allowed"),
    ("lambda: 1", "column 1: a lambda is not allowed in expression 'lambda: 1'" + ALLOWED),
    ("[x for x in state.y]", "column 1: a comprehension is not allowed"),
    ("f'{state.x}'", "an f-string is not allowed"),
    ("(x := 1)", "column 2: an assignment (:=) is not allowed"),
    ("{**state.x}", "** in a dictionary is not allowed"),
    ("{state.x: 1}", "column 2: a dictionary key that is not a literal is not allowed"),
    ("state[state.x]", "column 7: a computed subscript is not allowed"),
    ("state.x[1.5]", "a computed subscript is not allowed"),
    ("state.x[::0]", "a slice with a step of 0 is not allowed"),
    ("(lambda: 1)()", "a call of something other than a function or method is not allowed"),
    ("b'x'", "a literal of type bytes is not allowed"),
    ("1j", "a literal of type complex is not allowed"),
]  # fmt: skip

LIMITS: list[tuple[str, str]] = [
    ("1\0", "null bytes"),
    ("'\ud800'", "surrogates not allowed"),
    ("state.x" + " " * 10_000, "the expression is longer than 10000 characters"),
    ("(" * 500 + "1" + ")" * 500, "nest"),
    ("-" * 9_999 + "1", "nest"),
    ("not " * 2_000 + "1", "nest"),
    ("-" * 100 + "1", "column 65: more than 64 levels of nesting"),
]

FAILURES: list[tuple[str, str]] = [
    ("state.gone > 80", "state.gone is missing, so `state.gone > 80` cannot be compared"),
    ("1 < 2 < state.tags[5]", "state.tags[5] is missing, so `1 < 2 < state.tags[5]` cannot be compared"),
    ("state.none > 80", "state.none is None, so `state.none > 80` cannot be compared"),
    ("'x' in state.gone", "state.gone is missing, so `'x' in state.gone` cannot be compared"),
    ("state.score and state.gone > 80",
     "state.gone is missing, so `state.gone > 80` cannot be compared (in 'state.score and state.gone > 80')"),
    ("len(state.gone)", "state.gone is missing, so `len(state.gone)` cannot be evaluated"),
    ("state.gone.lower()", "state.gone is missing, so `state.gone.lower()` cannot be evaluated"),
    ("state.score.lower()", "`state.score.lower()` cannot be evaluated: a number has no method lower()"),
    ("state.report.get('a')", "`state.report.get('a')` cannot be evaluated: an instance of Report has no method get()"),
    ("state.name > 5", "`state.name > 5` cannot be compared: they are text and a number"),
    ("state.name + 1", "`state.name + 1` cannot be evaluated: they are text and a number"),
    ("'a' in state.score", "`'a' in state.score` cannot be compared: they are text and a number"),
    ("state.tags + 'green'", "`state.tags + 'green'` cannot be evaluated: they are a list and text"),
    ("-state.name", "`-state.name` cannot be evaluated: it is text"),
    ("len(state.score)", "`len(state.score)` cannot be evaluated: it is a number"),
    ("int(state.name)", "`int(state.name)` cannot be evaluated: ' Ada ' is no whole number"),
    ("float('x')", "`float('x')` cannot be evaluated: 'x' is no number"),
    ("state.tags.index('x')", "`state.tags.index('x')` cannot be evaluated: 'x' is not in list"),
]  # fmt: skip
