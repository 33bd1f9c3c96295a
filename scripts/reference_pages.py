"""Writes docs/reference/*.md and the README's table of packages, from the code.

usage: reference_pages.py [--check]

With --check nothing is written, and the exit code is 1 where a page is not what would be written.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping

import click

from generated import main
from reference import api, models
from reference.markdown import cell, table
from treadle import Host, errors
from treadle_cli.main import treadle_command
from workspace import KERNEL, META, ROOT, Distribution, distributions

REFERENCE = ROOT / "docs" / "reference"
README = ROOT / "README.md"
_BLOCK = re.compile(r"<!-- table: packages -->\n.*?<!-- end -->", re.DOTALL)
_MADE = "<!-- Written by scripts/reference_pages.py; change the code instead. -->\n\n"


def cli_page() -> str:
    """Every command with its help, as it prints it."""
    text = (
        "# The command `treadle`\n\n"
        "What each command says with `--help`. Those of packages are there when the package is installed.\n"
    )
    for path, command in _commands("treadle", treadle_command, None):
        shown = command.get_help(click.Context(command, info_name=path, terminal_width=100, max_content_width=100))
        text += f"\n## {path}\n\n```text\n{_stripped(shown)}\n```\n"
    return _MADE + text


def _commands(path: str, command: click.Command, parent: click.Context | None) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(command, info_name=path, parent=parent)
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                yield from _commands(f"{path} {name}", found, context)


def _stripped(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines())


def exceptions_page() -> str:
    """The tree of exceptions, and what each means."""
    head = (
        "# Exceptions\n\nWhat is raised on purpose, and what is worth another attempt. The messages about documents\n"
        "have [codes](../errors.md).\n"
    )
    tree = (errors.__doc__ or "").split("\n\n")[1]
    rows = [
        (f"`{name}`", cell(each.__doc__ or ""), "transient" if each.transient else "permanent", str(each.exit_code))
        for name, each in vars(errors).items()
        if isinstance(each, type) and issubclass(each, errors.TreadleError)
    ]
    return f"{_MADE}{head}\n```text\n{tree}\n```\n\n{table(('exception', 'means', 'by default', 'exit code'), rows)}\n"


def packages_page(dists: list[Distribution]) -> str:
    """Every package, what it offers and what it needs."""
    meta = dists[0].project
    extras: Mapping[str, list[str]] = meta["optional-dependencies"]
    rows = []
    for dist in dists[1:]:
        offers = "; ".join(f"{role.replace('_', ' ')} {_names(names)}" for role, names in dist.offers.items())
        needs = [each for each in dist.project.get("dependencies", []) if not each.startswith(KERNEL)]
        way = ", ".join(f"`treadle[{extra}]`" for extra, asked in extras.items() if _asks(asked, dist.name))
        usual = "yes" if _asks(meta["dependencies"], dist.name) else way
        rows.append(
            (f"`{dist.name}`", dist.project["version"], cell(dist.project["description"]), offers, _names(needs), usual)
        )
    head = (
        "# Packages\n\n"
        f"`pip install {META}` brings those that say *yes* in the last column; an extra brings one more. Each can be\n"
        f"installed alone, and brings `{KERNEL}`.\n"
    )
    columns = ("package", "version", "what for", "offers", "needs besides the kernel", f"with `{META}`")
    return f"{_MADE}{head}\n{table(columns, rows)}\n"


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _asks(requirements: list[str], name: str) -> bool:
    return any(re.split(r"[<>=!~ ;\[]", each)[0] == name for each in requirements)


def readme(dists: list[Distribution]) -> str:
    """The README with its table of packages."""
    rows = [(f"`{dist.name}`", dist.project["description"]) for dist in dists[1:]]
    text = README.read_text(encoding="utf-8")
    if not _BLOCK.search(text):
        raise ValueError("README.md has lost the comments around its table of packages")
    return _BLOCK.sub(lambda _: f"<!-- table: packages -->\n{table(('package', 'what for'), rows)}\n<!-- end -->", text)


def pages() -> dict[str, str]:
    """Each page of the reference by name."""
    dists = distributions()
    host = Host.discover(without=_strangers())
    return {
        "cli": cli_page(),
        "exceptions": exceptions_page(),
        "hooks": _MADE + api.page(),
        "messages": _MADE + api.messages_page(),
        "packages": packages_page(dists),
        "settings": _MADE + models.page(host),
        "testing": _MADE + api.testing_page(),
    }


def _strangers() -> list[str]:
    """Plugins that happen to be installed here and are not ours."""
    ours = {dist.name for dist in distributions()}
    return [each.name for each in Host.discover().reports if each.distribution.name not in ours]


if __name__ == "__main__":
    files = {REFERENCE / f"{name}.md": text for name, text in pages().items()}
    sys.exit(main({**files, README: readme(distributions())}, description="Write the reference from the code."))
