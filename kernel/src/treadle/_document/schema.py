"""JSON Schemas of workflow files and of ``treadle.yaml``, as this installation understands them: for editors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from treadle._document.envelope import Envelope, config_model
from treadle._plugins.registry import Registered, cause_of
from treadle._settings.blocks import models_of
from treadle.contracts.config import RunConfig
from treadle.contracts.offers import Role
from treadle.contracts.settings import AliasSettings, Settings
from treadle.contracts.step import Step
from treadle.errors import NotInstalledError, PluginError, TreadleError

if TYPE_CHECKING:
    from treadle._plugins import Host

__all__ = ["settings_schema", "workflow_schema"]

Schema = dict[str, Any]
LeftOut = Callable[[PluginError], object]

_STEP_ID = Step.model_json_schema()["properties"]["id"]["pattern"]
# Where editors check, in JavaScript, \w is ASCII; ids may be of every script.
_PORTABLE_STEP_ID = r"^[^\x00-/:-@\[-^`{-\x7f]([^\x00-/:-@\[-^`{-\x7f]|[.-])*$"


class _Generator(GenerateJsonSchema):
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> Schema:
        """A type that JSON Schema has no words for takes anything; the other fields keep their schemas."""
        return {}


def workflow_schema(host: Host, *, left_out: LeftOut = lambda error: None) -> Schema:
    """The JSON Schema (2020-12) of a workflow file: the envelope, every installed step type and config field.

    It is made for completion in editors; ``docs/schema.md`` says how. The same plugins give the same schema.

    :param left_out: told of each plugin, step type and config field that is broken or offered twice, and that the
        schema therefore does not have.
    """
    steps = dict(_models(_offers(host, "step_type"), _step_model, left_out))
    reference, defs, config = _describe(host, [Envelope, Step, *steps.values()], left_out)
    whole, step = defs.pop(_key(reference(Envelope))), defs[_key(reference(Step))]
    offers = {name: each for name, each in _offers(host, "step_type").items() if name in steps}
    # Of the fields that every step has, only these two are there before the type says where the others are.
    common = {"id": step["properties"]["id"], "type": step["properties"]["type"] | _names(offers)}
    for name, model in steps.items():
        _describe_step(name, defs[_key(reference(model))], model, host)
        for field in defs[_key(reference(model))]["properties"].values():
            _describe_child(field, reference(Step), offers)
    what = "A step. Its type says which further fields it has."
    step |= {"title": "step", "description": what, "properties": common, "required": list(common)}
    step["allOf"] = [_if("type", name, reference(model)) for name, model in steps.items()] or [{}]  # may not be empty
    del step["additionalProperties"]  # its type refuses what is unknown
    whole["properties"]["version"]["type"] = ["string", "number"]  # `version: 1.0` is a number in YAML
    whole["properties"]["config"] = config | {"description": "how the workflow runs"}
    whole["properties"]["steps"]["items"] = reference(Step)
    what = "A workflow, with what the plugins installed here add to it."
    return {**_head("workflow"), **whole, "title": "Treadle workflow", "description": what, "$defs": defs}


def settings_schema(host: Host, *, left_out: LeftOut = lambda error: None) -> Schema:
    """The JSON Schema (2020-12) of ``treadle.yaml``: as :func:`workflow_schema`, with every provider's settings."""
    providers = host.registry.all("provider")
    kinds = dict(_models(providers, lambda provider: provider.settings_model, left_out))
    blocks = {name: _block_models(host, name, left_out) for name in ("prices", "limits")}
    models = [Settings, *kinds.values(), *(each for block in blocks.values() for each in block)]
    reference, defs, config = _describe(host, models, left_out)
    whole, entry = defs.pop(_key(reference(Settings))), defs["ProviderEntry"]
    fields, own = whole["properties"], defs[_key(config)]["properties"]
    for name in ("provider", "model", "sandbox"):
        fields[name] = own.pop(name) | {"description": fields[name]["description"]}
    fields["config"] = config | {"description": fields["config"]["description"]}
    for name, field in (("prices", fields["prices"]), ("limits", entry["properties"]["limits"])):
        if blocks[name]:
            field["allOf"] = [reference(model) for model in blocks[name]]
    _suggest(entry["properties"]["kind"], providers)
    for role, field in defs["RoleSettings"]["properties"].items():
        _suggest(field, _offers(host, role))
    for role, field in zip(AliasSettings().by_role(), defs["AliasSettings"]["properties"].values(), strict=True):
        _suggest(field["additionalProperties"], _offers(host, role))
    for model in kinds.values():
        defs[_key(reference(model))]["properties"] |= entry["properties"]
    entry["allOf"] = [_if("kind", name, reference(model)) for name, model in kinds.items()] or [{}]
    to_entry = {"$ref": "#/$defs/ProviderEntry"}
    fields["providers"]["additionalProperties"] = to_entry | {"required": ["kind"]}
    of_kind = {name: {"if": {"not": {"required": ["kind"]}}, "then": reference(kinds[name])} for name in kinds}
    fields["providers"]["properties"] = {name: to_entry | of_kind.get(name, {}) for name in providers}
    what = "The settings of a deployment, with those of the plugins installed here."
    return {**_head("settings"), **whole, "title": "Treadle settings", "description": what, "$defs": defs}


def _head(what: str) -> Schema:
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"urn:treadle:schema:{what}"}


def _key(reference: Schema) -> str:
    return str(reference["$ref"]).removeprefix("#/$defs/")


def _if(field: str, value: str, then: Schema) -> Schema:
    return {"if": {"properties": {field: {"const": value}}, "required": [field]}, "then": then}


def _offers(host: Host, role: Role) -> dict[str, Registered]:
    found: dict[str, Registered] = {}
    for name in host.names(role):
        with suppress(TreadleError):  # offered twice, which is told, or an alias of what is not there
            found[name] = host.get(role, name)
    return found


def _models(
    offers: Mapping[str, Registered], model_of: Callable[[Any], type[BaseModel]], left_out: LeftOut
) -> Iterator[tuple[str, Any]]:
    """The model of each offer that has a usable one."""
    for name, registered in offers.items():
        try:
            model = model_of(registered.load())
            model.model_json_schema(schema_generator=_Generator)
        except PluginError as error:
            left_out(error)
        except Exception as error:  # what a stranger's type raises of its schema
            whose = f"{registered.role.replace('_', ' ')} '{name}' of plugin {registered.owner}"
            left_out(PluginError(f"{whose} has no JSON Schema: {cause_of(error)}"))
        else:
            yield name, model


def _block_models(host: Host, name: str, left_out: LeftOut) -> list[type[BaseModel]]:
    """The models of what reads a block of the settings; none where nothing is installed that does."""
    try:
        return list(models_of(host, name))
    except NotInstalledError:
        return []
    except PluginError as error:
        left_out(error)
        return []


def _step_model(loaded: Any) -> type[Step]:
    if issubclass(loaded, Step):
        return cast(type[Step], loaded)
    raise TypeError("it is not a subclass of Step")


def _describe(host: Host, models: Iterable[Any], left_out: LeftOut) -> tuple[Callable[[Any], Schema], Schema, Schema]:
    """References to the schemas of the models, the definitions to which they lead, and a config block's reference."""
    broken: dict[str, PluginError] = {}
    config = config_model(host, host.registry.all("config_field"), broken.__setitem__)
    blocks: list[Any] = []
    try:
        blocks.append(host.sole("sandbox", "config.sandbox").load().block_model)
    except NotInstalledError:
        pass  # any mapping then
    except PluginError as error:
        broken["sandbox"] = error
    for problem in (*host.problems(), *broken.values()):
        left_out(problem)
    wanted: list[tuple[Any, Any]] = [(each, "validation") for each in (config, *blocks, *models)]
    references, described = models_json_schema(wanted, schema_generator=_Generator)
    _polish(described)
    defs: Schema = described["$defs"]
    block = defs[_key(references[config, "validation"])]
    block["title"] = "config"
    for name in broken.keys() - RunConfig.model_fields.keys():
        del block["properties"][name]
    _suggest(block["properties"]["provider"], _offers(host, "provider"))
    for each in blocks:
        block["properties"]["sandbox"]["anyOf"] = [references[each, "validation"], {"type": "null"}]
    return lambda model: references[model, "validation"], defs, references[config, "validation"]


def _describe_step(name: str, schema: Schema, model: type[Step], host: Host) -> None:
    """Name the step type in the schema of its model, and the installed things where a field names one."""
    properties = schema["properties"]
    names = properties["type"].setdefault("enum", [])
    names.append(name)  # a class may serve under several
    schema["title"] = names[0]
    kinds = {name: each.get("type", "") for name, each in properties.items()}
    made_up: Schema = {name: name for name, kind in kinds.items() if "string" in kind}
    made_up |= {name: [name] for name, kind in kinds.items() if "array" in kind}
    # Only a step knows which of its fields name what is installed: it is asked as if it had been written.
    with suppress(Exception):  # made-up values may be too much for it, and then nothing is suggested
        for reference in model.model_construct(**made_up).references():
            field = schema
            for part in reference.field.split("."):
                field = field["items"] if part.isdecimal() else field["properties"][part]
            if reference.role != "file" and reference.role != "object":
                _suggest(field, _offers(host, reference.role))


def _describe_child(field: Schema, step: Schema, offers: Mapping[str, Registered]) -> None:
    """A field with a workflow in it, which says so in its own schema: ``workflow``, ``steps`` or ``step``."""
    form = field.pop("x-treadle-form", None)
    if form == "workflow":
        _set_type(field, {"$ref": "#"})
    elif form == "steps":
        _set_type(field, {"type": "array", "items": step, "minItems": 1})
    elif form == "step":  # it needs no id, which the schema of any other step demands
        kind = {**_names(offers), "description": "the step type"}
        _set_type(field, {"type": "object", "properties": {"type": kind}, "required": ["type"]})


def _set_type(field: Schema, schema: Schema) -> None:
    for key in ("anyOf", "type", "items", "additionalProperties", "minItems"):
        field.pop(key, None)
    field["anyOf"] = [schema, {"type": "null"}]


def _names(offers: Mapping[str, Registered]) -> Schema:
    return {"enum": list(offers), "enumDescriptions": [each.offer.summary for each in offers.values()]}


def _suggest(field: Schema, offers: Mapping[str, Registered]) -> None:
    """Let editors offer the names, and take others."""
    if offers and _names(offers) not in field.get("anyOf", ()):
        field["anyOf"] = [_names(offers), *field.get("anyOf", [{"type": field.pop("type", "string")}])]


def _polish(schema: Schema) -> None:
    """Leave what editors show and insert well."""
    first, *others = schema.get("anyOf", [{}])
    if others == [{"type": "null"}] and isinstance(first.get("type"), str) and not first.keys() & {"enum", "const"}:
        schema |= {**first, **schema, "type": [first["type"], "null"]}
        del schema["anyOf"]
    if note := schema.pop("$comment", None):
        schema["description"] = f"{schema['description']}. {note}" if "description" in schema else note
    if schema.get("default", "") is None or isinstance(schema.get("default"), dict | list):
        del schema["default"]  # an editor would write it down, null included
    if schema.get("pattern") == _STEP_ID:
        schema["pattern"] = _PORTABLE_STEP_ID
    below = [each for key in ("properties", "$defs") for each in schema.get(key, {}).values()]
    below += [
        *schema.get("anyOf", ()),
        *schema.get("oneOf", ()),
        schema.get("items"),
        schema.get("additionalProperties"),
    ]
    for each in below:
        if isinstance(each, dict):
            _polish(each)
