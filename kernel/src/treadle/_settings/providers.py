"""A provider's settings from the deployment, the workflow and the environment, the last winning."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from treadle.contracts.provider import FromEnv, ProviderSettings
from treadle.errors import ConfigurationError

__all__ = ["build_settings"]


def build_settings(
    model: type[ProviderSettings],
    overrides: Mapping[str, Any],
    *,
    name: str,
    environment: Mapping[str, str] = os.environ,
) -> ProviderSettings:
    """Settings of the provider ``name``.

    :raises ConfigurationError: a value is not valid; the message says where it came from.
    """
    values, origins = dict(overrides), dict.fromkeys(overrides, "config")
    for field_name, field in model.model_fields.items():
        for marker in field.metadata:
            text = environment.get(marker.variable, "").strip() if isinstance(marker, FromEnv) else ""
            if text:
                values[field_name], origins[field_name] = text, marker.variable
    try:
        return model.model_validate(values)
    except ValidationError as error:
        details = error.errors(include_url=False)[0]
        field_name = str(details["loc"][0]) if details["loc"] else ""
        place = origins.get(field_name, f"providers.{name}")
        where = f"{place}: " if place == field_name else f"{place}: setting '{field_name}' of provider '{name}': "
        raise ConfigurationError(f"{where}{details['msg'].removeprefix('Value error, ')}") from error
