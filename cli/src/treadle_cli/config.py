"""``treadle config``: which settings are in effect, and where each comes from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast, get_args

import click

import treadle
from treadle_cli.options import config_option, debug_option, find_settings_file, host_options, host_without
from treadle_cli.output import err, out

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from treadle import Host, SecretRef
    from treadle.contracts.offers import Role

__all__ = ["config", "provider_names", "secret_of"]

DEFAULT = "default"


@click.group(short_help="Show the settings in effect, and where they come from.")
@debug_option
def config() -> None:
    """Show the settings of this deployment.

    They come from treadle.yaml: the file that --config or TREADLE_CONFIG names, else the nearest one from the
    working directory upward.
    """


@config.command(short_help="Show which settings file counts.")
@config_option
@debug_option
def path() -> None:
    """Print the path of the settings file that counts; nothing on stdout where there is none."""
    file, _ = find_settings_file()
    if file is None:
        err().line("there is no treadle.yaml from here upward, or none is to be read")
    else:
        out().line(file)


@config.command(short_help="Show every setting in effect.")
@click.option("--origin", is_flag=True, help="Say where each value comes from.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout, origins included.")
@host_options
@debug_option
def show(origin: bool, as_json: bool, without: Sequence[str]) -> None:
    """Show every setting in effect, those that nobody set included.

    An origin is FILE:LINE:COLUMN, an environment variable, "command line" or "default". What a workflow says in its
    own config: is not here; it wins over the file. Of a secret only the reference is shown, and whether it is set.
    """
    file, found_by = find_settings_file()
    host = host_without(without, check_providers=True)
    stderr, stdout = err(), out()
    for problem in (*host.problems(), *host.warnings):
        stderr.line(str(problem) if isinstance(problem, treadle.Problem) else f"warning: {problem}")
    rows = list(_rows(host, without))
    if as_json:
        facts = {"file": file, "file_origin": found_by if file else None, "settings": [row.as_json() for row in rows]}
        stdout.write(json.dumps(facts, indent=2, ensure_ascii=not stdout.is_utf8, default=str) + "\n", raw=True)
        return
    stdout.line(f"file: {file} ({found_by})" if file else "file: none")
    stdout.line()
    lines = [(row.key, row.shown()) for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(2)]
    for row, (key, value) in zip(rows, lines, strict=True):
        tail = f"  {row.origin}" if origin else ""
        stdout.line(f"{key:<{widths[0]}}  {value:<{widths[1]}}{tail}".rstrip())


@dataclass(frozen=True, slots=True)
class _Row:
    """One setting. ``is_set`` is of secrets: whether the reference leads to one."""

    key: str
    value: Any
    origin: str
    is_set: bool | None = None

    def shown(self) -> str:
        if self.is_set is not None:
            return f"{self.value} ({'set' if self.is_set else 'not set'})"
        return self.value if isinstance(self.value, str) else json.dumps(self.value, ensure_ascii=False, default=str)

    def as_json(self) -> dict[str, Any]:
        secret = {} if self.is_set is None else {"set": self.is_set}
        return {"key": self.key, "value": self.value, "origin": self.origin, **secret}


def _rows(host: Host, without: Sequence[str]) -> Iterator[_Row]:
    settings = host.settings

    def plain(*path: str, value: Any) -> _Row:
        origin = None if value is None else settings.place_of(*path)
        return _Row(".".join(path), value, origin or DEFAULT)

    yield _disabled(host, without)
    enabled = settings.plugins.enabled
    yield plain("plugins", "enabled", value=None if enabled is None else list(enabled))
    try:
        provider = host.default_provider()
    except treadle.ConfigurationError:
        provider = None
    place = settings.place_of("provider") if settings.provider else None
    yield _Row("provider", provider, place or DEFAULT)
    yield plain("model", value=settings.model)
    for name in provider_names(host):
        yield from _provider_rows(host, name)
    for role, chosen in settings.roles:
        if chosen is None:
            names = host.registry.names(cast("Role", role))
            yield _Row(f"roles.{role}", names[0] if len(names) == 1 else None, DEFAULT)
        else:
            yield plain("roles", role, value=chosen)
    for field, aliases in settings.aliases:
        for name, target in sorted(aliases.items()):
            yield plain("aliases", field, name, value=target)
    yield from _sandbox_rows(host)
    yield from _block_rows(host, "prices", value=settings.prices)
    yield _Row("tools", list(settings.tools), (settings.place_of("tools") if settings.tools else None) or DEFAULT)
    yield plain("redaction", "keys", value=list(settings.redaction.keys) or None)
    salt = settings.redaction.salt
    salt_place = settings.place_of("redaction", "salt") if salt else None
    yield _Row("redaction.salt", salt and salt.reference, salt_place or DEFAULT, salt.is_set() if salt else None)
    fields = treadle.RunConfig.model_fields
    for name in [*fields, *(each for each in host.registry.all("config_field") if each not in fields)]:
        if name in settings.config:
            yield plain("config", name, value=settings.config[name])
        elif name not in ("provider", "model", "sandbox"):
            yield _Row(f"config.{name}", fields[name].get_default() if name in fields else None, DEFAULT)


def _disabled(host: Host, without: Sequence[str]) -> _Row:
    disabled = host.settings.plugins.disabled
    place = host.settings.place_of("plugins", "disabled") if disabled else None
    origins = [*([place] if place else []), *(["command line"] if without else [])]
    return _Row("plugins.disabled", sorted({*disabled, *without}), ", ".join(origins) or DEFAULT)


def _provider_rows(host: Host, name: str) -> Iterator[_Row]:
    settings = host.settings
    registered = host.get("provider", name)
    if registered.name != name:
        yield _Row(f"providers.{name}.kind", registered.name, settings.place_of("providers", name, "kind") or DEFAULT)
    if entry := settings.providers.get(name):
        yield from _block_rows(host, "providers", name, "limits", value=entry.limits)
        for key in sorted(entry.model_fields_set - entry.settings.keys() - {"kind", "limits"}):
            place = settings.place_of("providers", name, key)
            yield _Row(f"providers.{name}.{key}", getattr(entry, key), place or DEFAULT)
    try:
        model, given = registered.load().settings_model, treadle.provider_values(host, name)
    except treadle.PluginError as error:
        err().line(f"warning: {error}")
        return
    for setting, field in model.model_fields.items():
        each = given.get(setting)
        value = each.value if each else field.get_default(call_default_factory=True)
        if value is None and setting == "default_model":
            value = getattr(registered.offer, "default_model", None)
        key, origin = f"providers.{name}.{setting}", each.origin if each else DEFAULT
        secret = secret_of(field, value)
        if secret is not None:
            yield _Row(key, secret.reference, origin, secret.is_set())
        else:
            yield _Row(key, _discreet(value), origin)


def provider_names(host: Host) -> list[str]:
    """Every provider there is here, by the name that it has here."""
    names = sorted({*host.registry.all("provider"), *host.settings.providers})
    return [name for name in names if host.resolve("provider", name) == name]


def secret_of(field: FieldInfo, given: Any) -> SecretRef | None:
    """The reference that a provider's setting holds, as given or else by default; None where it is no secret."""
    if given is None:
        given = field.get_default(call_default_factory=True)
    if isinstance(given, str) and treadle.SecretRef in (field.annotation, *get_args(field.annotation)):
        return treadle.SecretRef(given)
    return given if isinstance(given, treadle.SecretRef) else None


def _block_rows(host: Host, *path: str, value: Mapping[str, Any] | None) -> Iterator[_Row]:
    """Each value in a block that plugins read; of what it leaves out they know."""
    if value is None and path[0] != "providers":
        yield _Row(".".join(path), None, DEFAULT)
    for name, inner in (value or {}).items():
        if isinstance(inner, Mapping) and inner:
            yield from _block_rows(host, *path, name, value=inner)
        else:
            yield _Row(".".join((*path, name)), inner, host.settings.place_of(*path, name) or DEFAULT)


def _discreet(value: Any) -> Any:
    """A setting without what may be a secret: values of headers, users and queries of addresses."""
    if isinstance(value, Mapping):
        return dict.fromkeys(value, "***")
    if isinstance(value, str) and "://" in value:
        return re.sub(r"\?.*", "?***", re.sub(r"//[^/@]*@", "//***@", value))
    return value


def _sandbox_rows(host: Host) -> Iterator[_Row]:
    block = host.settings.sandbox
    if block is None:
        yield _Row("sandbox", None, DEFAULT)
        return
    for name, value in host.sole("sandbox", "sandbox:").load().block_model.model_validate(block):
        place = host.settings.place_of("sandbox", name) if name in block else None
        yield _Row(f"sandbox.{name}", value, place or DEFAULT)
