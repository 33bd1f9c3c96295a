"""``treadle info``: versions, and which credentials are set."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from treadle_cli.config import provider_names, secret_of
from treadle_cli.options import debug_option, host_options, host_without
from treadle_cli.output import Channel, out

if TYPE_CHECKING:
    from treadle import Host, ProviderSettings

__all__ = ["info"]


@click.command(short_help="Show versions, and which credentials are set.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
@host_options
@debug_option
def info(as_json: bool, without: Sequence[str]) -> None:
    """Show what is installed here, and which keys and settings of providers are set.

    Of a key no part is ever shown, and no length: only whether it is there.
    """
    facts = {"python": _python(), "distributions": _distributions(), "providers": _providers(host_without(without))}
    stdout = out()
    if as_json:
        stdout.write(json.dumps(facts, indent=2, ensure_ascii=not stdout.is_utf8) + "\n", raw=True)
    else:
        _print(facts, stdout)


def _print(facts: dict[str, Any], stdout: Channel) -> None:
    python = facts["python"]
    stdout.line(f"Python {python['version']} ({python['implementation']}) on {python['platform']}")
    for title, ours in (("treadle", True), ("libraries", False)):
        _print_table(
            title,
            [(each["name"], each["version"]) for each in facts["distributions"] if each["treadle"] is ours],
            stdout,
        )
    rows = [
        (each["name"], "set" if each["set"] else "not set", f"{kind} of {each['provider']}")
        for kind, key in (("key", "credentials"), ("setting", "settings"))
        for each in facts["providers"][key]
    ]
    _print_table("providers", rows, stdout)
    for error in facts["providers"]["errors"]:
        stdout.line()
        stdout.line(error)


def _print_table(title: str, rows: Sequence[tuple[str, ...]], stdout: Channel) -> None:
    if not rows:
        return
    stdout.line()
    stdout.line(f"{title}:")
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        stdout.line(f"  {'  '.join(cells)}".rstrip())


def _python() -> dict[str, str]:
    import platform

    return {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": platform.platform(),
    }


def _distributions() -> list[dict[str, Any]]:
    """Our distributions and everything they ask for, where it is installed."""
    import re
    from importlib.metadata import Distribution, distributions

    installed: dict[str, Distribution] = {}
    for found in distributions():
        installed.setdefault(_normal(found.name), found)
    ours = {name for name in installed if name == "treadle" or name.startswith("treadle-")}
    named = set()
    for name in ours:
        for requirement in installed[name].requires or ():
            match = re.match(r"[\w.-]+", requirement)
            if match:
                named.add(_normal(match[0]))
    return [
        {"name": name, "version": installed[name].version, "treadle": name in ours}
        for name in sorted(ours | (named & installed.keys()))
    ]


def _normal(name: str) -> str:
    import re

    return re.sub(r"[-_.]+", "-", name).lower()


def _providers(host: Host) -> dict[str, list[Any]]:
    """What each provider reads from the environment, by its settings' own declaration and by the settings file."""
    from treadle import PluginError, provider_values

    credentials: list[dict[str, Any]] = []
    settings: list[dict[str, Any]] = []
    errors = [str(error) for error in host.problems()]
    for name in provider_names(host):
        registered = host.get("provider", name)
        try:
            model = registered.load().settings_model
            given = {setting: each.value for setting, each in provider_values(host, name).items()}
        except PluginError as error:
            errors.append(str(error))
            continue
        credentials.extend({"name": ref, "provider": name, "set": is_set} for ref, is_set in _secrets(model, given))
        if registered.name == name:  # the environment speaks to no other
            settings.extend({"name": ref, "provider": name, "set": is_set} for ref, is_set in _variables(model))
    return {"credentials": credentials, "settings": settings, "errors": errors}


def _secrets(model: type[ProviderSettings], given: Mapping[str, Any]) -> list[tuple[str, bool]]:
    from treadle import SecretRef

    found = (secret_of(field, given.get(name)) for name, field in model.model_fields.items())
    return [(each.reference.removeprefix("env:"), each.is_set()) for each in found if isinstance(each, SecretRef)]


def _variables(model: type[ProviderSettings]) -> list[tuple[str, bool]]:
    import os

    from treadle import FromEnv

    return [
        (marker.variable, bool(os.environ.get(marker.variable, "").strip()))
        for field in model.model_fields.values()
        for marker in field.metadata
        if isinstance(marker, FromEnv)
    ]
