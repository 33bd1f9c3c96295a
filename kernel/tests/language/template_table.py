"""Templates, the state they are rendered with, and what comes out: the data of the tests and of docs/templates.md.

Each row is the source and the text. ``ERRORS`` holds sources that do not compile, with the beginning of the error;
``STRICT`` and ``WARNINGS`` what a missing value leads to; ``MISFITS`` format specs that do not fit their value.
"""

from typing import Any

STATE: dict[str, Any] = {
    "name": "Ada",
    "price": 1234.5,
    "count": 7,
    "ready": True,
    "nothing": None,
    "empty": "",
    "tags": ["red", "blue"],
    "grid": [[1, 2], [3, 4]],
    "user": {"name": "Bob", "home city": "Paris", "0": "zero", "items": [{"id": 1}]},
    "code": "{name} and {state.name} and {{",
    "caf\u00e9": "composed",
    "cafe\u0301": "decomposed",
    "हिन्दी": "Hindi",
    "half": "\ud83d",
    "party": "🎉",
    "my-key": "dashed",
    "2024": "year",
}

SECTIONS: dict[str, list[tuple[str, str]]] = {
    "References into the state": [
        ("Hello {state.name}!", "Hello Ada!"),
        ("{state.user.name} in {state.user[home city]}", "Bob in Paris"),
        ("{state[user][name]}", "Bob"),
        ("{state.tags[0]}, {state.tags[1]}", "red, blue"),
        ("{state.tags[-1]} {state.tags[+1]}", "blue blue"),
        ("{state.grid[1][0]}", "3"),
        ("{state.user.items[0].id}", "1"),
        ("{state.my-key}", "dashed"),
        ("{state.2024} {state[2024]}", "year "),
    ],
    "Bare names, which are top-level keys of the state": [
        ("Hello {name}!", "Hello Ada!"),
        ("{user.name} {tags[0]} {my-key}", "Bob red dashed"),
        ("{unknown}", "{unknown}"),
        ("{unknown.a[0]!r:>10}", "{unknown.a[0]!r:>10}"),
    ],
    "What values look like": [
        ("{count} {price} {ready} {nothing}", "7 1234.5 True None"),
        ("[{empty}]", "[]"),
        ("{tags}", '["red", "blue"]'),
        ("{user.items}", '[{"id": 1}]'),
        ("{grid[0]}", "[1, 2]"),
    ],
    "Values are never expanded again": [
        ("{code}", "{name} and {state.name} and {{"),
        ("{{{code}}}", "{{name} and {state.name} and {{}"),
    ],
    "Conversions and format specs": [
        ("{name!r} {name!s} {name!a}", "'Ada' Ada 'Ada'"),
        ("{party!a}", "'\\U0001f389'"),
        ("{price:.2f}", "1234.50"),
        ("{price:,.2f}", "1,234.50"),
        ("{count:03d}|{count:>4}|{count:<4}|{count:*^5}", "007|   7|7   |**7**"),
        ("{name:.2}|{name!r:>7}", "Ad|  'Ada'"),
        ("{count: >3}", "  7"),
        ("{name:}", "Ada"),
        ("{ready:>6}", "     1"),
        ("{name!x}", "{name!x}"),
        ("{tags:>40}", '["red", "blue"]'),
        ("{tags!r}", '["red", "blue"]'),
    ],
    "Missing values are empty": [
        ("[{state.missing}]", "[]"),
        ("[{state.missing.deeper[3].still}]", "[]"),
        ("[{state.tags[9]}]", "[]"),
        ("[{state.tags.first}]", "[]"),
        ("[{state.tags.0}]", "[]"),
        ("[{state.user[0]}]", "[]"),
        ("[{user.age}]", "[]"),
        ("[{state.missing:>10}]", "[]"),
    ],
    "An attribute is no value": [
        ("[{state.name.upper}]", "[]"),
        ("[{state.__class__}{name.__class__.__mro__}]", "[]"),
        ("[{state.tags.append}{state.user.keys}]", "[]"),
        ("[{state.name[0]}]", "[]"),
    ],
    "JSON passes unchanged": [
        ('{"a": 1}', '{"a": 1}'),
        ('{ "a": {"b": [1, 2, {}]}}', '{ "a": {"b": [1, 2, {}]}}'),
        ('{"name": "{name}"}', '{"name": "Ada"}'),
        ('{\n  "name": "x"\n}', '{\n  "name": "x"\n}'),
        ("{'name': 1}", "{'name': 1}"),
        ('{"x":{"y":{"z":{name}}}}', '{"x":{"y":{"z":Ada}}}'),
    ],
    "So do CSS, code and HTML": [
        ("p {color: red} b{color:red}", "p {color: red} b{color:red}"),
        ("{x: 1}", "{x: 1}"),
        ("if (a) { b(); } else {c();}", "if (a) { b(); } else {c();}"),
        ("import {a, b} from 'c'", "import {a, b} from 'c'"),
        ("<a href='x'>{</a>", "<a href='x'>{</a>"),
        ("\\frac{1}{2} \\emph{two words}", "\\frac{1}{2} \\emph{two words}"),
        ("{a.b, c.d} {f(x)} {a[0], b} {e.g. this}", "{a.b, c.d} {f(x)} {a[0], b} {e.g. this}"),
        ("{state of mind} {state: 'x'}", "{state of mind} {state: 'x'}"),
    ],
    "Lone braces are braces": [
        ("{", "{"),
        ("}", "}"),
        ("{}", "{}"),
        ("} {", "} {"),
        ("a } b", "a } b"),
        ("}}", "}}"),
        ("}}}", "}}}"),
        ("{ name }", "{ name }"),
        ("{name", "{name"),
        ("{name}}", "Ada}"),
        ("{1} {0.a} {-}", "{1} {0.a} {-}"),
    ],
    "A doubled brace is one brace, and opens an escape that a doubled closing brace ends": [
        ("{{", "{"),
        ("{{}}", "{}"),
        ("{{name}}", "{name}"),
        ("{{state.name}}", "{state.name}"),
        ("{{{name}}}", "{Ada}"),
        ("{{{{name}}}}", "{{name}}"),
        ('{{"a": {{"b": {count}}}}}', '{"a": {"b": 7}}'),
        ("{{a}} }}", "{a} }}"),
        ("{{ }} }} {{ }}", "{ } }} { }"),
        ("{{state.", "{state."),
    ],
    "Keys are compared exactly: the two spellings of one word are two keys": [
        ("{state.caf\u00e9}", "composed"),
        ("{state.cafe\u0301}", "decomposed"),
        ("{cafe\u0301}", "decomposed"),
        ("[{state.name\u0301}]", "[]"),
        ("{state.हिन्दी} {हिन्दी}", "Hindi Hindi"),
    ],
    "Text beyond the basic plane, and text that is no valid Unicode, is text": [
        ("🎉 {party} {state[party]}", "🎉 🎉 🎉"),
        ("{🎉}", "{🎉}"),
        ("\ud83d{half}", "\ud83d\ud83d"),
    ],
    "Nothing at all": [
        ("", ""),
        ("plain", "plain"),
    ],
}
"""By what they show; the page has them in this order."""

RENDERED = [row for rows in SECTIONS.values() for row in rows]

ERRORS: list[tuple[str, str]] = [
    ("{state.", "'{state.' at column 1 of the template: the reference goes wrong after '{state'"),
    ("{state.}", "'{state.}' at column 1 of the template: the reference goes wrong after '{state'"),
    ("{state..a}", "'{state..a}' at column 1 of the template: the reference goes wrong after '{state'"),
    ("{state.a b}", "'{state.a b}' at column 1 of the template: the reference goes wrong after '{state.a'"),
    ("{state.a", "'{state.a' at column 1 of the template: the reference is not closed by }; a reference looks"),
    ("{state.a: b}", "'{state.a: b}' at column 1 of the template: the reference goes wrong after '{state.a'"),
    ("{state.a!x}", "'{state.a!x}' at column 1 of the template: the reference goes wrong after '{state.a'"),
    ("{state.🎉}", "'{state.🎉}' at column 1 of the template: the reference goes wrong after '{state'"),
    ("{state[", "'{state[' at column 1 of the template: the reference goes wrong after '{state'"),
    ("{state[a", "'{state[a' at column 1 of the template: the reference goes wrong after '{state'"),
    ("{state[]}", "'{state[]}' at column 1 of the template: the reference goes wrong after '{state'"),
    ("one\ntwo {state.x\n}", "'{state.x' at line 2, column 5 of the template: the reference is not closed"),
    ("{name.", "'{name.' at column 1 of the template: the reference goes wrong after '{name'"),
    ("{name.a b\n}", "'{name.a b' at line 1, column 1 of the template: the reference goes wrong after '{name.a'"),
    ("{e.g. and so on", "'{e.g. and so on' at column 1 of the template: the reference goes wrong after '{e.g'"),
    ("{name[0", "'{name[0' at column 1 of the template: the reference goes wrong after '{name'"),
    ("{count:99999}", "'{count:99999}' at column 1 of the template: a width or precision above 10000 is not allowed"),
    (
        "{price:.10001f}",
        "'{price:.10001f}' at column 1 of the template: a width or precision above 10000 is not",
    ),
]

STRICT: list[tuple[str, str]] = [
    ("{state.missing}", "'state.missing' is missing: 'state' has no 'missing'"),
    ("{state.missing.x.y}", "'state.missing.x.y' is missing: 'state' has no 'missing'"),
    ("{state.user.age.x}", "'state.user.age.x' is missing: 'state.user' has no 'age'"),
    ("{state.tags[9]}", "'state.tags[9]' is missing: 'state.tags' has no [9]"),
    ("{state.name.upper}", "'state.name.upper' is missing: 'state.name' is text and has no 'upper'"),
    ("{user.age}", "'user.age' is missing: 'user' has no 'age'"),
    ("{unknown}", "'unknown' is missing: the state has no 'unknown'"),
]

WARNINGS: list[tuple[str, list[str]]] = [
    ("{name} {unknown}", []),
    (
        "{state.a} {state.a} {user.b}",
        [
            "'state.a' is missing: 'state' has no 'a'; it is rendered as empty text",
            "'user.b' is missing: 'user' has no 'b'; it is rendered as empty text",
        ],
    ),
    (
        "{tags:>5}",
        [("'tags' is a list, to which no conversion or format spec applies; it is rendered as plain text")],
    ),
]

MISFITS: list[tuple[str, str]] = [
    ("{name:.2f}", "format spec '.2f' does not fit 'name', which is text"),
    ("{state.price:d}", "format spec 'd' does not fit 'state.price', which is a number"),
    ("{nothing:>4}", "format spec '>4' does not fit 'nothing', which is None"),
]
