"""Which provider a program talks to, from a mapping such as ``os.environ``. Nothing reads the environment by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

import treadle
from treadle_loop.conversations.clients import ProviderClient, given_secret
from treadle_loop.conversations.pricing import Prices
from treadle_loop.errors import AuthError, ConfigurationError, translated
from treadle_loop.retry import RetryingClient, RetryPolicy

__all__ = ["Settings", "build_client"]

_OPENROUTER = "https://openrouter.ai/api/v1"

Model = Annotated[str, Field(min_length=1)]


def _positive(seconds: float | None) -> float | None:
    if seconds is not None and not 0 < seconds < float("inf"):
        raise ValueError("seconds are a number above 0")
    return seconds


class Settings(BaseModel):
    """What :func:`build_client` needs. Each field is the environment variable of the same name in lower case.

    A blank value counts as not set. Keys are shown neither by repr nor by errors.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    llm_provider: Literal["anthropic", "openrouter", "modal", "openai"] = "openrouter"
    llm_max_attempts: Annotated[int, Field(ge=1)] = 3
    llm_timeout_seconds: Annotated[float | None, AfterValidator(_positive)] = None
    anthropic_api_key: SecretStr | None = None
    anthropic_model: Model = "claude-opus-5"
    anthropic_base_url: str | None = None
    openai_api_key: SecretStr | None = None
    openai_model: Model = "gpt-5.1"
    openai_api: Literal["responses", "completions"] = "responses"
    openai_base_url: str | None = None
    openrouter_api_key: SecretStr | None = None
    openrouter_model: Model = "openrouter/free"
    modal_endpoint_url: str | None = None
    modal_endpoint_model: Model | None = None
    modal_proxy_token_id: SecretStr | None = None
    modal_proxy_token_secret: SecretStr | None = None

    @model_validator(mode="before")
    @classmethod
    def _blank_is_unset(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        return {
            name: value.strip() if isinstance(value, str) else value
            for name, value in data.items()
            if value is not None and not (isinstance(value, str) and not value.strip())
        }

    @model_validator(mode="after")
    def _both_tokens_or_none(self) -> Settings:
        if (self.modal_proxy_token_id is None) != (self.modal_proxy_token_secret is None):
            raise ValueError("MODAL_PROXY_TOKEN_ID and MODAL_PROXY_TOKEN_SECRET are given both or not at all")
        return self

    @classmethod
    def from_env(cls, environment: Mapping[str, str]) -> Settings:
        """Settings from a mapping like ``os.environ``; other variables in it are passed over.

        :raises ValidationError: a value will not do (pydantic's, a ``ValueError``); it names the variable.
        """
        if not isinstance(environment, Mapping):
            raise TypeError(f"from_env takes a mapping such as os.environ, not {type(environment).__name__}")
        given = {name: environment[name.upper()] for name in cls.model_fields if name.upper() in environment}
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            raise _told_by_variable(error, given) from None


def _told_by_variable(error: ValidationError, given: Mapping[str, str]) -> ValidationError:
    """The error with the names of variables; where one of a few values is meant, with the one that is like it."""
    told: list[InitErrorDetails] = []
    for each in error.errors(include_url=False, include_input=False):
        text = each["msg"].replace("Input should be ", "it should be ").removeprefix("Value error, ")
        if each["type"] == "literal_error":
            allowed = get_args(Settings.model_fields[str(each["loc"][0])].annotation)
            like = treadle.close_match(given[str(each["loc"][0])].strip().lower(), allowed)
            text += f"; did you mean '{like}'?" if like else ""
        kind = PydanticCustomError("variable", "{text}", {"text": text})
        told.append({"type": kind, "loc": tuple(str(name).upper() for name in each["loc"]), "input": None})
    return ValidationError.from_exception_data("the environment", told, hide_input=True)


def build_client(settings: Settings, *, http_client: Any = None, prices: Any = None) -> RetryingClient:
    """The client that the settings ask for. Close it when it is done with.

    Nothing is opened here and no SDK is imported; the first call does so.

    :param http_client: not taken: a provider keeps its own connections.
    :param prices: what replies cost: prices by model, as under ``prices:`` in ``treadle.yaml``, or price sources of
        your own. Without it treadle-prices is asked, where that is installed; ``()`` for nobody.
    :raises AuthError: the provider's key is not set.
    :raises ConfigurationError: a setting is missing, ``http_client`` is given, or the provider is not installed (the
        message says what to install).
    """
    if http_client is not None:
        raise ConfigurationError(
            f"build_client takes no HTTP client ({type(http_client).__module__}.{type(http_client).__name__}): "
            "providers keep connections of their own",
            hint="leave http_client out; proxies and certificates are taken from HTTPS_PROXY and SSL_CERT_FILE",
        )
    if not isinstance(settings, Settings):
        raise TypeError(f"build_client takes Settings(...), not {type(settings).__name__}")
    client = _BUILDERS[settings.llm_provider](settings, Prices(prices))
    return RetryingClient(client, RetryPolicy(max_attempts=settings.llm_max_attempts))


def _anthropic(settings: Settings, prices: Prices) -> ProviderClient:
    key = _key(settings.anthropic_api_key, "ANTHROPIC_API_KEY", "anthropic")
    given = {"api_key": key, "base_url": settings.anthropic_base_url, "timeout": _silence(settings, 600.0)}
    return _client("anthropic", "anthropic", given, model=settings.anthropic_model, api="messages", prices=prices)


def _openai(settings: Settings, prices: Prices) -> ProviderClient:
    given = {
        "api_key": _key(settings.openai_api_key, "OPENAI_API_KEY", "openai"),
        "base_url": settings.openai_base_url,
        "api": settings.openai_api,
        "timeout": _silence(settings, 300.0),
    }
    return _client("openai", "openai", given, model=settings.openai_model, api=settings.openai_api, prices=prices)


def _openrouter(settings: Settings, prices: Prices) -> ProviderClient:
    given = {
        "api_key": _key(settings.openrouter_api_key, "OPENROUTER_API_KEY", "openrouter"),
        "base_url": _OPENROUTER,
        "timeout": _silence(settings, 300.0),
    }
    return _client(
        "generic_openai", "openrouter", given, model=settings.openrouter_model, api="completions", prices=prices
    )


def _modal(settings: Settings, prices: Prices) -> ProviderClient:
    if settings.modal_endpoint_url is None:
        raise ConfigurationError("provider 'modal' has no address", hint="set MODAL_ENDPOINT_URL")
    if settings.modal_endpoint_model is None:
        raise ConfigurationError("provider 'modal' has no model", hint="set MODAL_ENDPOINT_MODEL")
    given: dict[str, Any] = {
        "base_url": settings.modal_endpoint_url,
        "api_key": None,
        "timeout": _silence(settings, 900.0),
    }
    if settings.modal_proxy_token_id is not None and settings.modal_proxy_token_secret is not None:
        given["headers"] = {  # https://modal.com/docs/guide/webhook-proxy-auth
            "Modal-Key": settings.modal_proxy_token_id.get_secret_value(),
            "Modal-Secret": settings.modal_proxy_token_secret.get_secret_value(),
        }
    return _client(
        "generic_openai",
        "modal",
        given,
        model=settings.modal_endpoint_model,
        api="completions",
        prices=prices,
        parallel_tool_calls=False,
    )


_BUILDERS = {"anthropic": _anthropic, "openai": _openai, "openrouter": _openrouter, "modal": _modal}


def _key(secret: SecretStr | None, variable: str, provider: str) -> treadle.SecretRef:
    if secret is None:
        raise AuthError(
            f"the key of provider '{provider}' is not set",
            provider=provider,
            request_sent=False,
            hint=f"set {variable}",
        )
    return given_secret(secret.get_secret_value(), variable)


def _silence(settings: Settings, otherwise: float) -> float:
    return settings.llm_timeout_seconds if settings.llm_timeout_seconds is not None else otherwise


def _client(
    kind: str,
    name: str,
    given: Mapping[str, Any],
    *,
    model: str,
    api: str,
    prices: Prices,
    parallel_tool_calls: bool | None = None,
) -> ProviderClient:
    """A client of an installed provider.

    :raises ConfigurationError: it is not installed, or does not take what is given.
    """
    try:
        provider_class: type[treadle.Provider] = treadle.default_host().load("provider", kind)
    except treadle.TreadleError as error:
        raise translated(error, provider=name) from error
    try:
        made = provider_class.settings_model.model_validate(
            {setting: value for setting, value in given.items() if value is not None or setting == "api_key"}
        )
    except ValueError as error:
        details = error.errors(include_input=False, include_url=False) if hasattr(error, "errors") else ()
        what = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in details)
        raise ConfigurationError(f"provider '{name}': {what or error}") from error
    provider = provider_class(name, made)
    return ProviderClient(
        provider, name=name, model=model, api=api, kind=kind, prices=prices, parallel_tool_calls=parallel_tool_calls
    )
