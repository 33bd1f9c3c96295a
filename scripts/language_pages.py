"""Fills the tables of docs/templates.md, docs/expressions.md and docs/paths.md from the data of the tests.

usage: language_pages.py [--check]

The prose of the pages is written by hand. What stands between `<!-- table: NAME -->` and `<!-- end -->` is made here,
of the tables in kernel/tests/language, which the tests hold to be true. With --check nothing is written, and the exit
code is 1 where a page is not what would be written.
"""

from __future__ import annotations

import json
import re
import runpy
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from generated import main
from treadle._language import MISSING
from treadle._language.operations import FUNCTIONS, METHODS, TYPES
from workspace import ROOT

TESTS = ROOT / "kernel" / "tests" / "language"
PAGES = {"templates": "template_table", "expressions": "expression_table", "paths": "path_table"}

_BLOCK = re.compile(r"<!-- table: (\w+) -->\n.*?<!-- end -->", re.DOTALL)


def code(text: str) -> str:
    """Text as a code span in a cell of a table. What cannot be seen is written as an escape, and space as a dot."""
    if not text:
        return "*nothing*"
    text = re.sub(r"^ +| +$|  +", lambda found: "·" * len(found[0]), text)
    shown = "".join(_visible(character) for character in text).replace("|", "\\|")
    fence = "`" * (max((len(run) for run in re.findall("`+", shown)), default=0) + 1)
    space = " " if "`" in shown else ""
    return f"{fence}{space}{shown}{space}{fence}"


def _visible(character: str) -> str:
    if character == "\n":
        return "\\n"
    hidden = not character.isprintable() or "\u0300" <= character <= "\u036f"
    return f"\\u{ord(character):04x}" if hidden and character != " " else character


def value(thing: Any) -> str:
    """A value of the state or of an expression, as people write it down."""
    if thing is MISSING:
        return "missing"
    return code(written(thing))


def written(thing: Any) -> str:
    """A value in the notation of the pages: JSON, with True, False and None as expressions write them."""
    if isinstance(thing, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {written(each)}" for key, each in thing.items()) + "}"
    if isinstance(thing, list | tuple):
        return "[" + ", ".join(map(written, thing)) + "]"
    if isinstance(thing, str):
        return json.dumps(thing, ensure_ascii=False)
    if hasattr(thing, "model_dump"):
        return f"{type(thing).__name__}({written(thing.model_dump())})"
    return str(thing)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; its cells are Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def state(data: dict[str, Any]) -> str:
    """What the rows read."""
    return table(("key", "value"), [(code(key), value(each)) for key, each in data.items()])


def sections(head: Sequence[str], titled: dict[str, list[tuple[str, Any]]], show: Any) -> str:
    """One table for each section."""
    parts = [f"**{title}**\n\n{table(head, [(code(a), show(b)) for a, b in rows])}" for title, rows in titled.items()]
    return "\n\n".join(parts)


def template_tables(data: dict[str, Any]) -> dict[str, str]:
    """Of docs/templates.md."""
    warned = [(code(text), "<br>".join(map(code, said)) or "*no warning*") for text, said in data["WARNINGS"]]
    return {
        "state": state(data["STATE"]),
        "rendered": sections(("template", "text"), data["SECTIONS"], code),
        "errors": table(("template", "error"), [(code(a), code(_begun(b))) for a, b in data["ERRORS"]]),
        "warnings": table(("template", "warnings"), warned),
        "strict": table(("template", "error"), [(code(a), code(b)) for a, b in data["STRICT"]]),
        "misfits": table(("template", "error"), [(code(a), code(b)) for a, b in data["MISFITS"]]),
    }


def expression_tables(data: dict[str, Any]) -> dict[str, str]:
    """Of docs/expressions.md."""
    functions = [(code(f"{name}()"), _count(each.least, each.most)) for name, each in FUNCTIONS.items()]
    functions.append((code("isinstance()"), f"2; the second is one of {', '.join(TYPES)}, or several in parentheses"))
    kinds = {"str": "text", "list": "lists", "Mapping": "mappings"}
    methods = [
        (
            code(f".{name}()"),
            ", ".join(kinds[owner.__name__] for owner in each.owners if owner.__name__ in kinds),
            _count(each.least, each.most),
        )
        for name, each in METHODS.items()
    ]
    return {
        "state": state(data["NAMES"]["state"]),
        "steps": state(data["NAMES"]["steps"]),
        "evaluated": sections(("expression", "value"), data["SECTIONS"], value),
        "refused": table(("expression", "the error says"), [(code(a), code(_begun(b))) for a, b in data["REFUSED"]]),
        "failures": table(("expression", "error"), [(code(a), code(b)) for a, b in data["FAILURES"]]),
        "functions": table(("function", "arguments"), functions),
        "methods": table(("method", "of", "arguments"), methods),
    }


def path_tables(data: dict[str, Any]) -> dict[str, str]:
    """Of docs/paths.md."""
    return {
        "parsed": table(("path", "parts"), [(code(a), value(b)) for a, b in data["PARSED"]]),
        "malformed": table(("path", "error"), [(code(a), code(b)) for a, b in data["MALFORMED"]]),
        "state": state(data["STATE"]),
        "read": table(("path", "value"), [(code(a), value(b)) for a, b in data["READ"]]),
        "written": table(
            ("`a` holds", "9 is written to", "`a` then holds"),
            [(value(before), code(path), value(after)) for before, path, after in data["WRITTEN"]],
        ),
        "not_written": table(
            ("`a` holds", "written to", "error"),
            [(value(before), code(path), code(error)) for before, path, error in data["NOT_WRITTEN"]],
        ),
        "arguments_state": state(data["ARGUMENTS_STATE"]),
        "passed": table(("argument", "passed"), [(value(a), value(b)) for a, b in data["PASSED"]]),
    }


def _begun(text: str) -> str:
    return text if text.startswith(";") else f"{text} ..."


def _count(least: int, most: int | None) -> str:
    return f"{least} or more" if most is None else str(least) if least == most else f"{least} to {most}"


def render(name: str) -> str:
    """The page of that name as it should be.

    :raises ValueError: it asks for a table that there is not, or leaves one out.
    """
    data = runpy.run_path(str(TESTS / f"{PAGES[name]}.py"))
    makers = {"templates": template_tables, "expressions": expression_tables, "paths": path_tables}
    tables = makers[name](data)
    page = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    asked = _BLOCK.findall(page)
    if sorted(asked) != sorted(tables):
        raise ValueError(f"docs/{name}.md has the tables {sorted(asked)}, and there are {sorted(tables)}")
    return _BLOCK.sub(lambda found: f"<!-- table: {found[1]} -->\n{tables[found[1]]}\n<!-- end -->", page)


if __name__ == "__main__":
    sys.exit(
        main(
            {ROOT / "docs" / f"{name}.md": render(name) for name in PAGES},
            description="Fill the tables of the pages about the small language.",
        )
    )
