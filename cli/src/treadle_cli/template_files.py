"""A new plugin package, made of the files in ``template``.

The template is six packages that work as they stand. What is particular to them are four spellings of one name, which
are replaced: the package (``acme_step``), the distribution (``acme-step``), the class (``AcmeStep``) and the name that
users type (``my_step``, in addresses ``my-step``). ``common`` holds what the six have in common.
"""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from treadle import ConfigurationError

__all__ = ["KINDS", "Kind", "new_files", "refuse_name", "write_files"]

TEMPLATE = Path(__file__).parent / "template"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of plugin: what it offers by role (names as the template has them), in words, and what trying it takes."""

    offers: Mapping[str, str]
    description: str
    needs: tuple[str, ...] = ()


KINDS: Mapping[str, Kind] = {
    "step": Kind({"step_type": "my_step"}, "Step `my_step`"),
    "tool": Kind({"tool": "my_tool"}, "Tool `my_tool`", ("treadle-tools",)),
    "provider": Kind({"provider": "my_provider"}, "Provider `my_provider`", ("treadle-llm-call",)),
    "trim_policy": Kind(
        {"trim_policy": "my_trim_policy", "step_type": "my_trim_policy_preview"}, "Trim policy `my_trim_policy`"
    ),
    "attachment_fetcher": Kind(
        {"attachment_fetcher": "my-attachment-fetcher", "tool": "my_attachment_fetcher_preview"},
        "Attachment fetcher `my_attachment_fetcher`",
        ("treadle-tools",),
    ),
    "sandbox": Kind({"sandbox": "my_sandbox"}, "Sandbox `my_sandbox`", ("treadle-tools",)),
}


def refuse_name(name: str) -> None:
    """Say what is wrong with the name of a new plugin.

    :raises ConfigurationError: it is no name, or one that would stand in the way of another package.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*", name):
        raise ConfigurationError(
            f"{name!r} is no name for a plugin",
            hint="use lower-case letters and digits in words joined by - or _, beginning with a letter, "
            "such as acme-weather",
        )
    package = name.replace("-", "_")
    if keyword.iskeyword(package) or keyword.issoftkeyword(package):
        raise ConfigurationError(f"'{package}' is a word of Python", hint="choose another, such as acme-weather")
    if package == "treadle" or package.startswith("treadle_"):
        raise ConfigurationError(
            "names that begin with treadle are Treadle's own", hint="begin with a name of yours, such as acme-weather"
        )
    if package in sys.stdlib_module_names or find_spec(package) is not None:
        raise ConfigurationError(
            f"there is a package '{package}' already, which the new one would hide", hint="choose another name"
        )


def new_files(kind: str, package: str, *, offered: str | None = None, ours: bool = False) -> dict[str, bytes]:
    """The files of a new plugin by path.

    :param package: what it is imported as; the distribution is called the same with hyphens.
    :param offered: the name that users type; the package's without it.
    :param ours: for Treadle's own repository, which says once for all how packages are tested.
    """
    offered = offered or package
    chosen = KINDS[kind]
    own = {**_spellings("kind", package, offered), **_spellings(kind, package, offered)}
    offers = "\n".join(f'{role} = ["{_replaced(name, own)}"]' for role, name in chosen.offers.items())
    needs = "".join(f', "{each}>=0.1,<0.2"' for each in ("treadle-cli", *chosen.needs))
    words = {
        **own,
        'a_role = ["my_kind"]': offers,
        ', "a_need"': needs,
        "a_description": _replaced(chosen.description, own),
        "a_kind": kind,
    }
    files: dict[str, bytes] = {}
    for part in ("common", kind):
        for source in sorted((TEMPLATE / part).rglob("*")):
            name = source.relative_to(TEMPLATE / part).as_posix()
            if source.is_dir() or "__pycache__" in source.parts:
                continue
            data = source.read_bytes()
            if ours and name.startswith("examples/"):
                continue
            if name == "pyproject.toml":
                shared, marker, others = data.partition(b"# --- outside Treadle's own repository ---\n")
                assert marker, "the template's pyproject.toml says no more where our own packages end"
                if ours:
                    data = shared.rstrip() + b"\n"
                else:  # without the table of offers, which only our own tests hold to the hooks
                    data = shared.partition(b"# What it offers, by role.")[0] + others
            files[_replaced(name, words)] = _filled(data, words)
    return files


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a new plugin into a folder that is not there yet.

    :raises ConfigurationError: something is there already, or it cannot be written.
    """
    if folder.is_symlink() or folder.exists():
        raise ConfigurationError(f"{folder} is there already", hint="choose another name, or say --path DIR")
    try:
        for name, data in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    except OSError as error:
        raise ConfigurationError(f"{error.filename or folder} cannot be written: {error.strerror}") from error


def _spellings(kind: str, package: str, offered: str) -> dict[str, str]:
    """What stands in the template for a kind -> what stands there in a new plugin."""
    class_name = "".join(word.capitalize() for word in offered.split("_"))
    return {
        f"acme_{kind}": package,
        f"acme-{kind.replace('_', '-')}": package.replace("_", "-"),
        f"Acme{''.join(word.capitalize() for word in kind.split('_'))}": class_name,
        f"my_{kind}": offered,
        f"my-{kind.replace('_', '-')}": offered.replace("_", "-"),
        f"MY_{kind.upper()}": offered.upper(),
    }


def _filled(data: bytes, words: Mapping[str, str]) -> bytes:
    try:
        return _replaced(data.decode("utf-8"), words).encode("utf-8")
    except UnicodeDecodeError:  # a picture
        return data


def _replaced(text: str, words: Mapping[str, str]) -> str:
    # In one go: a new name may hold words of the template itself.
    pattern = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    return re.sub(pattern, lambda found: words[found[0]], text)
