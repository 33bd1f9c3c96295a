"""What a document says of a gate's webhook."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from treadle import ArgumentTree, Right, SecretRef, StepContext, Template, close_match
from treadle.contracts.results import json_value
from treadle_approval.body import json_template, json_text

__all__ = ["SecretText", "Text", "Webhook"]

_REFERENCE = re.compile(r"(?P<scheme>[A-Za-z][\w-]* )?(?P<reference>(?:env|file):\S+)")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A token of RFC 9110, 5.6.2."""

_ADDRESS = re.compile(r"https?://[^\s/?#]", re.IGNORECASE)
_URLS = ("approve_url", "reject_url", "answer_url")
_LONG_FACTS = ("run_id", "step_id", "workflow_name", "timeout_seconds", *_URLS)
"""Names that a gate gives its webhook and that a key of the state is hardly like by chance."""
_ALIKE = 0.85


class SecretText(BaseModel):
    """A text that ends in a secret, given by reference: ``env:NAME``, ``Bearer env:NAME``."""

    model_config = ConfigDict(frozen=True)

    before: str = Field(default="", description="what stands before it, as the name of a scheme")
    secret: SecretRef = Field(description="where it is")

    def reveal(self) -> str:
        """The text.

        :raises CredentialError: the secret is not there.
        """
        return self.before + self.secret.reveal()


def _referred(value: Any) -> Any:
    found = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    return value if found is None else {"before": found["scheme"] or "", "secret": found["reference"]}


Text = Annotated[SecretText | Template, BeforeValidator(_referred)]
"""A template, or a secret by reference."""


class Webhook(BaseModel):
    """Whom a gate tells that it waits."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: Text = Field(description="http(s) address that is sent a POST; a template, or env:NAME")
    headers: Mapping[str, Text] = Field(
        default={}, description="headers; templates, or secrets by reference: env:NAME, Bearer env:NAME"
    )
    body_template: ArgumentTree | Template | None = Field(
        default=None, description="JSON with placeholders, as a text or a mapping; run_id, gate and so on without it"
    )
    timeout: float = Field(
        default=30.0,
        gt=0,
        le=300,
        strict=True,
        description="most seconds for the whole delivery, its further attempts included",
    )
    secret: SecretRef | None = Field(default=None, description="key that signs each delivery, by reference")

    @model_validator(mode="before")
    @classmethod
    def _as_json(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        headers = given.get("headers")
        names = headers if isinstance(headers, Mapping) else {}
        for name in names:
            if not _HEADER.fullmatch(str(name)):
                raise ValueError(f"headers: {str(name)!r} is no name of a header")
        body = given.get("body_template")
        if isinstance(body, Mapping) or (isinstance(body, str) and _is_json(names)):
            return {**given, "body_template": json_template(body)}
        return given

    @field_validator("url")
    @classmethod
    def _has_a_scheme(cls, value: SecretText | Template) -> SecretText | Template:
        if isinstance(value, Template) and not value.references and not _ADDRESS.match(value.source):
            raise ValueError(f"an address begins with http:// or https://, and '{value.source}' does not")
        return value

    def doubts(self, *, asks_for_approval: bool, has_callback: bool) -> Iterator[str]:
        """What placeholders of the body stay as they are written for.

        :param has_callback: whether the config says where `treadle serve` is reached.
        """
        urls = ("approve_url", "reject_url") if asks_for_approval else ("answer_url",)
        told = {} if self.body_template is None else {each.root: each.text for each in self.body_template.references}
        for name, text in told.items():
            stays = f"'{{{text}}}' stays as it is written"
            match = close_match(name, _LONG_FACTS, alike=_ALIKE)
            if name in urls and not has_callback:
                yield f"{stays}: config.callback_url does not say where `treadle serve` is reached"
            elif name in _URLS and name not in urls:
                yield f"{stays}: with these choices the address is {' or '.join(f'{{{each}}}' for each in urls)}"
            elif match is not None and match != name:
                yield f"{stays}, as nothing provides '{name}'; did you mean '{match}'?"

    def rights(self) -> Iterable[Right]:
        """The host that it reaches, as it is written."""
        if isinstance(self.url, Template):
            rest = self.url.source.partition("://")[2]
            host = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
            yield Right(kind="host", name=re.sub(r":\d+$", "", host) or "*")
        else:
            yield Right(kind="host", name="*")

    def body(self, ctx: StepContext, facts: Mapping[str, Any]) -> bytes:
        """What is sent, over the state as others may be told of it."""
        if self.body_template is None:
            return json.dumps(facts).encode("ascii")
        names = {name: "" if value is None else value for name, value in facts.items()}
        how: dict[str, Any] = {"strict": ctx.config.strict_templates, "warn": ctx.warn}
        rendered = self.body_template.render(ctx.told_state, names, **how)
        if isinstance(self.body_template, Template):
            return str(rendered).encode("utf-8", "replace")
        return json_text(json_value(rendered))


def _is_json(headers: Mapping[Any, Any]) -> bool:
    kind = next((value for name, value in headers.items() if str(name).lower() == "content-type"), "application/json")
    return "json" in str(kind).lower()
