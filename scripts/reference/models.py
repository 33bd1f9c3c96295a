"""Everything that documents and settings take, as tables."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from reference.markdown import cell, table
from treadle import FromEnv, Host, PluginError, RetrySettings, RunConfig, SecretRef, Settings, Step, workflow_schema
from treadle.contracts.offers import ConfigOffer, Role
from treadle.contracts.settings import ProviderEntry
from treadle.fields import ArgumentTree, Expression, StatePath, Template

__all__ = ["page"]

_HEAD = """\
# Fields and settings

What workflow files and `treadle.yaml` take, with everything of Treadle's own installed. `treadle schema` says the
same of your installation, and `treadle config show --origin` which value counts."""

_WORDS: Mapping[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    SecretRef: "`env:NAME` or `file:PATH`",
    Template: "template",
    Expression: "expression",
    StatePath: "state path",
    ArgumentTree: "mapping with templates",
    Any: "anything",
    type(None): "null",
    object: "anything",
}


def page(host: Host) -> str:
    """The page about fields and settings."""
    parts = [
        _HEAD,
        _workflow(host),
        f"## `treadle.yaml`\n\nSee [settings](../settings.md) for what it is for.\n\n{_fields(_settings())}",
        _config(host),
        f"### `retry`\n\nOf a step.\n\n{_fields(_own(RetrySettings))}",
        "## Every step\n\n" + _fields(_own(Step)),
    ]
    for registered, step in _loaded(host, "step_type"):
        fields = [(name, field) for name, field in _own(step) if name not in Step.model_fields]
        parts.append(f"{_title('Step', registered)}\n\n{_fields(fields)}")
    for registered, provider in _loaded(host, "provider"):
        where = f"These stand under `providers.{registered.name}`."
        fields_text = _fields(_own(provider.settings_model), environment=True)
        parts.append(f"{_title('Provider', registered)} {where}\n\n{fields_text}")
    for registered, sandbox in _loaded(host, "sandbox"):
        parts.append(
            f"{_title('Sandbox', registered)} These stand under `sandbox`.\n\n{_fields(_own(sandbox.block_model))}"
        )
    parts.append(_tools(host))
    return "\n\n".join(parts) + "\n"


def _loaded(host: Host, role: Role) -> Iterator[tuple[Any, Any]]:
    """Each offer of the role with what it leads to."""
    for registered in host.registry.all(role).values():
        try:
            yield registered, registered.load()
        except PluginError:  # a package that has its name and no code yet
            continue


def _title(what: str, registered: Any) -> str:
    return f"## {what} `{registered.name}`\n\n{registered.offer.summary}. From `{registered.distribution.name}`."


def _own(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    """Its fields, by the names that are written."""
    yield from ((field.alias or name, field) for name, field in model.model_fields.items())


def _settings(model: type[BaseModel] = Settings, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every key of treadle.yaml; blocks by their own keys."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _settings(field.annotation, f"{prefix}{name}.")
        elif model is Settings and name == "providers":
            yield from _settings(ProviderEntry, "providers.NAME.")
        else:
            yield f"{prefix}{name}", field


def _workflow(host: Host) -> str:
    schema = workflow_schema(host)
    rows = [
        (f"`{name}`", "required" if name in schema["required"] else "", cell(each.get("description", "")))
        for name, each in schema["properties"].items()
    ]
    return f"## A workflow file\n\n{table(('field', '', 'what it is'), rows)}"


def _config(host: Host) -> str:
    rows = list(_rows(_own(RunConfig), environment=False))
    for name, registered in host.registry.all("config_field").items():
        offer = registered.offer
        of = f" of provider `{offer.provider}`" if isinstance(offer, ConfigOffer) and offer.provider else ""
        rows.append(
            (f"`{name}`", _kind(registered.load()), "", f"{cell(offer.summary)}; `{registered.distribution.name}`{of}")
        )
    return f"## `config` of a workflow\n\n{table(('key', 'takes', 'default', 'what it is'), rows)}"


def _tools(host: Host) -> str:
    text = "## Tools"
    for registered, loaded in _loaded(host, "tool"):
        tool = loaded() if isinstance(loaded, type) else loaded
        required = set(tool.parameters.get("required", ()))
        rows = [
            (
                f"`{each}`",
                _schema(schema),
                "required" if each in required else _json(schema.get("default")),
                cell(schema.get("description", "")),
            )
            for each, schema in tool.parameters.get("properties", {}).items()
        ]
        text += f"\n\n### `{registered.name}`\n\n{cell(tool.description)}\n\nFrom `{registered.distribution.name}`.\n\n"
        text += table(("argument", "takes", "default", "what it is"), rows)
    return text


def _fields(fields: Any, *, environment: bool = False) -> str:
    head = ("field", "takes", "default", "what it is")
    rows = list(_rows(fields, environment=environment))
    return table((*head, "environment") if environment else head, rows) if rows else "It has no fields of its own."


def _rows(fields: Any, *, environment: bool) -> Iterator[tuple[str, ...]]:
    for name, field in fields:
        default = "required" if field.is_required() else _json(field.get_default(call_default_factory=True))
        row: tuple[str, ...] = (f"`{name}`", _kind(field.annotation), default, cell(field.description or ""))
        if environment:
            variable = next((each.variable for each in field.metadata if isinstance(each, FromEnv)), None)
            row = (*row, f"`{variable}`" if variable else "")
        yield row


def _json(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, SecretRef):
        return f"`{value.reference}`"
    if isinstance(value, BaseModel):
        return "see below" if isinstance(value, RetrySettings) else ""
    if isinstance(value, frozenset | tuple):
        value = sorted(value) if isinstance(value, frozenset) else list(value)
    if value in ([], {}):
        return ""
    return f"`{json.dumps(value, ensure_ascii=False, default=str)}`"


def _kind(annotation: Any) -> str:
    """A type, in the words of documents."""
    if annotation in _WORDS:
        return _WORDS[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(arguments[0])
    if origin is Literal:
        return ", ".join(f"`{each}`" for each in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_kind(each) for each in arguments if each is not type(None)))
    if origin is not None and issubclass(origin, Mapping):
        return "mapping" if arguments[1] is Any else f"mapping to {_kind(arguments[1])}"
    if origin is not None and issubclass(origin, tuple | list | frozenset | set | typing.Sequence):
        return f"list of {_kind(arguments[0])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"mapping of {', '.join(f'`{field.alias or name}`' for name, field in annotation.model_fields.items())}"
    return getattr(annotation, "__name__", str(annotation)).lower()


def _schema(schema: Mapping[str, Any]) -> str:
    """A type of JSON Schema, in the same words."""
    words = {
        "string": "text",
        "integer": "whole number",
        "number": "number",
        "boolean": "true or false",
        "object": "mapping",
    }
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_schema(each) for each in schema["anyOf"] if each.get("type") != "null")
    if schema.get("type") == "array":
        return f"list of {_schema(schema.get('items', {}))}"
    return words.get(str(schema.get("type")), "anything")
