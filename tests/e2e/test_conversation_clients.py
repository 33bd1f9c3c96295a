"""Conversations in Python with real providers, against servers on this machine (S004, B2, B5, B9, B10, B13, B14)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from treadle_loop import (
    Agent,
    AuthError,
    ConfigurationError,
    Deps,
    HostedTool,
    ListObserver,
    ModelRequest,
    MultiObserver,
    Registry,
    RetryingClient,
    RetryPolicy,
    Settings,
    ToolSpec,
    Transcript,
    build_client,
    errors,
    final_text,
    run_conversation,
    run_conversation_result,
    run_conversation_result_async,
)

from wire import anthropic_server, openai_server
from wire.anthropic_server import AnthropicServer
from wire.http_server import Bytes, Json, Recorded, Reply
from wire.in_thread import serving
from wire.openai_server import OpenAIServer, completion

SEEDS_PROGRAM = """
import os

from agentloop import (
    Deps, ListObserver, Registry, Settings, Transcript,
    build_client, final_text, run_conversation,
)

transcript = Transcript()
transcript.add_user_message("How many days are in a week? Reply with one digit.")
observer = ListObserver()
client = build_client(Settings.from_env(os.environ))
try:
    run_conversation(transcript, client, Registry([]), Deps(), observer=observer)
    print(final_text(transcript))
    print(observer.kinds())
finally:
    client.close()
"""


@pytest.fixture
def openai() -> Iterator[OpenAIServer]:
    with serving(OpenAIServer) as server:
        yield server


@pytest.fixture
def anthropic() -> Iterator[AnthropicServer]:
    with serving(AnthropicServer) as server:
        yield server


def environment(server: OpenAIServer, **more: str) -> dict[str, str]:
    given = {"LLM_PROVIDER": "openai", "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.api}
    return {**given, "OPENAI_API": "completions", **more}


def claude(server: AnthropicServer) -> dict[str, str]:
    return {"LLM_PROVIDER": "anthropic", "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url}


def asked(text: str = "hi") -> Transcript:
    transcript = Transcript()
    transcript.add_user_message(text)
    return transcript


def converse(given: Mapping[str, str], tools: Any = (), *, transcript: Transcript | None = None, **more: Any) -> Any:
    client = build_client(Settings.from_env(given))
    quick = RetryingClient(client.client, client.policy, sleep=lambda seconds: None)
    try:
        return run_conversation_result(transcript or asked(), quick, Registry(tools), Deps(), **more)
    finally:
        client.close()


# --- the seed ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", ["responses", "completions"])
def test_the_seeds_program_with_its_import_changed_prints_what_the_seed_prints(
    openai: OpenAIServer, tmp_path: Path, api: str
) -> None:
    whole = Json(completion("7")) if api == "completions" else Json(openai_server.response(openai_server.message("7")))
    openai.reply(whole)
    program = tmp_path / "days.py"
    program.write_text(SEEDS_PROGRAM.replace("from agentloop import", "from treadle_loop import"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program)],
        env={**os.environ, **environment(openai, OPENAI_API=api)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("7\n['request', 'response']\n", "", 0)
    (body,) = openai.bodies()
    assert body["model"] == "gpt-5.1"
    assert openai.last.path == ("/v1/chat/completions" if api == "completions" else "/v1/responses")


def test_an_agent_from_the_environment_answers_with_a_tool(openai: OpenAIServer) -> None:
    openai.reply(Json(completion(None, tool_calls=[openai_server.call("f", '{"n": 2}')])), Json(completion("four")))
    double = ToolSpec("f", "doubles", {"type": "object", "properties": {"n": {}}}, lambda deps, n: 2 * n)
    with Agent.from_env(environment(openai), [double], system="be brief") as agent:
        result = agent.run_result("twice two?")
    assert result.text == "four"
    first, second = openai.bodies()
    assert [each["role"] for each in first["messages"]] == ["system", "user"]
    assert second["messages"][-1]["content"] == "4"
    usage = result.summary.usage
    assert (usage.input_tokens, usage.output_tokens, usage.input_includes_cached) == (18, 6, True)


def test_what_a_responses_reply_thought_goes_back_as_it_came(openai: OpenAIServer) -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "opaque"}
    call = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "f",
        "arguments": "{}",
        "status": "completed",
    }
    openai.reply(
        Json(openai_server.response(thought, call)), Json(openai_server.response(openai_server.message("done")))
    )
    tool = ToolSpec("f", "d", {"type": "object", "properties": {}}, lambda deps: "ok")
    result = converse(environment(openai, OPENAI_API="responses"), [tool])
    assert result.text == "done"
    first, second = openai.bodies()
    assert first["store"] is False
    assert [each["encrypted_content"] for each in second["input"] if each.get("type") == "reasoning"] == ["opaque"]
    again = Transcript.model_validate_json(result.transcript.model_dump_json())
    assert again == result.transcript


# --- one client, many calls ----------------------------------------------------------------------------


def test_a_client_keeps_one_pool_over_many_calls_in_any_thread_and_closes_it(openai: OpenAIServer) -> None:
    client = build_client(Settings.from_env(environment(openai)))
    request = ModelRequest(messages=tuple(asked().messages))
    for _ in range(20):
        assert client.complete(request).text == "hello"
    assert openai.accepted == 1, "one connection, used again and again"
    with ThreadPoolExecutor(8) as pool:
        assert {each.text for each in pool.map(client.complete, [request] * 80)} == {"hello"}
    assert openai.accepted <= 9
    client.close()
    client.close()
    until(lambda: openai.connections == 0)
    assert not named_threads("treadle-client")
    with pytest.raises(RuntimeError, match="has been closed"):
        client.complete(request)


def until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.01)


def named_threads(name: str) -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith(name)]


def test_a_client_that_was_never_used_has_nothing_to_close(openai: OpenAIServer) -> None:
    client = build_client(Settings.from_env(environment(openai)))
    assert not named_threads("treadle-client")
    client.close()


def test_a_thousand_synchronous_runs_leave_no_thread_socket_or_task_behind(openai: OpenAIServer) -> None:
    def answer(request: Recorded) -> Reply:
        if request.json["messages"][-1]["role"] == "user":
            return Json(completion(None, tool_calls=[openai_server.call("f"), openai_server.call("f", call_id="c2")]))
        return Json(completion("done"))

    tool = ToolSpec("f", "d", {"type": "object", "properties": {}}, lambda deps: "ok", timeout_seconds=60)
    given = environment(openai)
    converse(given)  # imports, and what lives as long as the process
    sockets, threads = open_sockets(), named_threads("")
    client = build_client(Settings.from_env(given))
    for n in range(500):
        openai.reply(answer, answer)
        assert run_conversation_result(asked(), client, Registry([tool]), Deps()).text == "done"
        if n % 10 == 0:  # and clients of their own
            converse(given)
    assert client.client._portal._nursery.child_tasks == frozenset(), "no task is left over"
    client.close()
    for _ in range(450):
        openai.reply(answer, answer)
    client = build_client(Settings.from_env(given))
    with client.client, ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(run_conversation_result, asked(), client, Registry([tool]), Deps()) for _ in range(450)]
        assert {run.result().text for run in runs} == {"done"}
    until(lambda: openai.connections == 0)
    until(lambda: open_sockets() <= sockets)
    # trio's own worker threads are kept for ten seconds, for the next one who needs one.
    assert [each for each in named_threads("") if not each.startswith("Trio thread")] == [
        each for each in threads if not each.startswith("Trio thread")
    ]


def open_sockets() -> int:
    links = Path("/proc/self/fd").iterdir()
    return sum(os.path.realpath(each).rpartition("/")[2].startswith("socket:") for each in links)


def test_a_cancelled_conversation_ends_its_request_and_leaves_the_client_usable(openai: OpenAIServer) -> None:
    import trio

    class Never(Bytes):
        async def send(self, connection: Any, request: Recorded) -> bool:
            await trio.sleep_forever()
            return False

    openai.reply(Never(b""))
    client = build_client(Settings.from_env(environment(openai)))

    async def run() -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_conversation_result_async, asked(), client, Registry([]), Deps())
            await trio.to_thread.run_sync(until, lambda: len(openai.requests) == 1)
            nursery.cancel_scope.cancel()
        text: str = (await run_conversation_result_async(asked(), client, Registry([]), Deps())).text
        return text

    try:
        assert trio.run(run) == "hello"
        until(lambda: openai.disconnects == 1)
    finally:
        client.close()


def test_a_client_serves_asyncio_too(openai: OpenAIServer) -> None:
    import asyncio

    client = build_client(Settings.from_env(environment(openai)))

    async def run() -> list[str]:
        runs = [run_conversation_result_async(asked(), client, Registry([]), Deps()) for _ in range(5)]
        return [each.text for each in await asyncio.gather(*runs)]

    try:
        assert asyncio.run(run()) == ["hello"] * 5
    finally:
        client.close()


def test_closing_a_client_ends_a_call_that_is_under_way(openai: OpenAIServer) -> None:
    class Never(Bytes):
        async def send(self, connection: Any, request: Recorded) -> bool:
            import trio

            await trio.sleep_forever()
            return False

    openai.reply(Never(b""))
    client = build_client(Settings.from_env(environment(openai)))
    request = ModelRequest(messages=tuple(asked().messages))
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(client.complete, request)
        until(lambda: len(openai.requests) == 1)
        client.close()
        with pytest.raises(RuntimeError, match="closed while this was under way"):
            call.result()


# --- settings ------------------------------------------------------------------------------------------


def test_the_defaults_are_those_of_agentloop() -> None:
    settings = Settings.from_env({})
    assert (settings.llm_provider, settings.llm_max_attempts, settings.llm_timeout_seconds) == ("openrouter", 3, None)
    assert (settings.anthropic_model, settings.openai_model, settings.openai_api) == (
        "claude-opus-5",
        "gpt-5.1",
        "responses",
    )
    assert settings.openrouter_model == "openrouter/free"


def test_a_blank_value_is_unset_and_other_variables_are_passed_over() -> None:
    settings = Settings.from_env(
        {"OPENAI_API_KEY": "  ", "OPENAI_MODEL": "", "PATH": "/bin", "LLM_PROVIDER": " modal "}
    )
    assert (settings.openai_api_key, settings.openai_model, settings.llm_provider) == (None, "gpt-5.1", "modal")


@pytest.mark.parametrize(
    "wrong",
    [
        {"LLM_PROVIDER": "other"},
        {"LLM_MAX_ATTEMPTS": "0"},
        {"LLM_MAX_ATTEMPTS": "many"},
        {"LLM_TIMEOUT_SECONDS": "0"},
        {"LLM_TIMEOUT_SECONDS": "soon"},
        {"LLM_TIMEOUT_SECONDS": "nan"},
        {"OPENAI_API": "chat"},
        {"MODAL_PROXY_TOKEN_ID": "only-one"},
    ],
)
def test_a_value_that_will_not_do_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings.from_env(wrong)
    assert next(iter(wrong)) in str(caught.value)
    assert "pydantic.dev" not in str(caught.value)


def test_a_variable_with_a_misspelt_value_is_named_and_no_key_in_the_wrong_place_is_shown() -> None:
    with pytest.raises(ValidationError) as caught:
        Settings.from_env({"LLM_PROVIDER": "opnai", "LLM_MAX_ATTEMPTS": "many", "OPENAI_API": "sk-secret"})
    assert [line.removesuffix(" [type=variable]").strip() for line in str(caught.value).splitlines()] == [
        "3 validation errors for the environment",
        "LLM_PROVIDER",
        "it should be 'anthropic', 'openrouter', 'modal' or 'openai'; did you mean 'openai'?",
        "LLM_MAX_ATTEMPTS",
        "it should be a valid integer, unable to parse string as an integer",
        "OPENAI_API",
        "it should be 'responses' or 'completions'",
    ]


def test_settings_are_frozen_refuse_unknown_fields_and_show_no_key() -> None:
    settings = Settings.from_env({"OPENAI_API_KEY": "sk-secret"})
    with pytest.raises(ValidationError, match="frozen"):
        settings.openai_model = "x"
    with pytest.raises(ValidationError, match="Extra inputs"):
        Settings(colour="red")  # type: ignore[call-arg]
    client = build_client(Settings.from_env({"LLM_PROVIDER": "openai", "OPENAI_API_KEY": "sk-secret"}))
    assert "sk-secret" not in repr(settings) + repr(client) + repr(client.client._provider.settings)


@pytest.mark.parametrize(
    ("provider", "variable"),
    [
        ("openai", "OPENAI_API_KEY"),
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("openrouter", "OPENROUTER_API_KEY"),
    ],
)
def test_a_missing_key_is_an_error_before_any_request(
    provider: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "of the process, not of the mapping")
    with pytest.raises(AuthError, match=f"the key of provider '{provider}' is not set; set {variable}") as caught:
        build_client(Settings.from_env({"LLM_PROVIDER": provider}))
    assert caught.value.request_sent is False


def test_what_is_missing_or_not_taken_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="provider 'modal' has no address; set MODAL_ENDPOINT_URL"):
        build_client(Settings.from_env({"LLM_PROVIDER": "modal"}))
    with pytest.raises(ConfigurationError, match="set MODAL_ENDPOINT_MODEL"):
        build_client(Settings.from_env({"LLM_PROVIDER": "modal", "MODAL_ENDPOINT_URL": "http://127.0.0.1"}))
    with pytest.raises(ConfigurationError, match="takes no HTTP client"):
        build_client(Settings.from_env({"OPENROUTER_API_KEY": "k"}), http_client=object())
    with pytest.raises(ConfigurationError, match="provider 'modal': base_url"):
        build_client(
            Settings.from_env({"LLM_PROVIDER": "modal", "MODAL_ENDPOINT_URL": "nowhere", "MODAL_ENDPOINT_MODEL": "m"})
        )


def test_a_provider_that_is_not_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import treadle
    from treadle._plugins import Host

    monkeypatch.setattr(treadle, "default_host", lambda: Host.of({}))
    with pytest.raises(ConfigurationError, match="openai"):
        build_client(Settings.from_env({"LLM_PROVIDER": "openai", "OPENAI_API_KEY": "k"}))


def test_openrouter_is_the_compatible_api_at_its_address() -> None:
    client = build_client(Settings.from_env({"OPENROUTER_API_KEY": "k", "LLM_TIMEOUT_SECONDS": "7"})).client
    assert (client.name, client.model, client.api) == ("openrouter", "openrouter/free", "completions")
    settings = client._provider.settings
    assert (settings.base_url, settings.timeout) == ("https://openrouter.ai/api/v1", 7.0)


def test_the_longest_silences_are_those_of_agentloop() -> None:
    keys = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "OPENROUTER_API_KEY": "k"}
    modal = {"MODAL_ENDPOINT_URL": "http://127.0.0.1", "MODAL_ENDPOINT_MODEL": "m"}
    timeouts = {
        name: build_client(Settings.from_env({"LLM_PROVIDER": name, **keys, **modal})).client._provider.settings.timeout
        for name in ("openai", "openrouter", "modal", "anthropic")
    }
    assert timeouts == {"openai": 300.0, "openrouter": 300.0, "modal": 900.0, "anthropic": 600.0}


def test_modal_has_its_proxy_tokens_and_no_parallel_calls(openai: OpenAIServer) -> None:
    given = {
        "LLM_PROVIDER": "modal",
        "MODAL_ENDPOINT_URL": openai.api,
        "MODAL_ENDPOINT_MODEL": "llama",
        "MODAL_PROXY_TOKEN_ID": "id",
        "MODAL_PROXY_TOKEN_SECRET": "secret",
    }
    tool = ToolSpec("f", "d", {"type": "object", "properties": {}}, lambda deps: "ok")
    assert converse(given, [tool]).text == "hello"
    assert openai.last.json["parallel_tool_calls"] is False
    assert openai.last.json["model"] == "llama"
    assert (openai.last.headers["modal-key"], openai.last.headers["modal-secret"]) == ("id", "secret")


# --- failures ------------------------------------------------------------------------------------------


def test_a_failure_is_tried_again_here_and_not_by_the_sdk(openai: OpenAIServer) -> None:
    openai.reply(openai_server.failure("busy", status=429, retry_after="1"), Json(completion("done")))
    observer = ListObserver()
    result = converse(environment(openai), observer=observer)
    assert observer.kinds() == ["request", "retry", "response"]
    assert len(openai.requests) == 2
    assert result.summary.retry_wait_seconds == 1.0


@pytest.mark.parametrize(
    ("reply", "kind", "phase"),
    [
        (openai_server.failure("no", status=401), errors.AuthError, "status"),
        (openai_server.failure("no", status=403), errors.AuthError, "status"),
        (openai_server.failure("no", status=400), errors.BadRequestError, "status"),
        (openai_server.failure("maximum context length is 9", status=400), errors.ContextLengthExceeded, "status"),
        (openai_server.failure("no", status=404), errors.ModelNotFound, "status"),
        (openai_server.failure("no", status=402), errors.InsufficientCredits, "status"),
        (
            openai_server.failure("no", code="insufficient_quota", status=429),
            errors.InsufficientCredits,
            "status",
        ),
        (openai_server.failure("no", status=429), errors.RateLimited, "status"),
        (openai_server.failure("no", status=500), errors.ProviderUnavailable, "status"),
        (openai_server.failure("no", status=529), errors.ProviderUnavailable, "status"),
        (openai_server.failure("no", status=409), errors.ProviderUnavailable, "status"),
        (openai_server.failure("no", status=408), errors.ProviderTimeout, "status"),
        (Bytes(b"<html>"), errors.ResponseInvalid, "body"),
        (openai_server.failure("slow", code="rate_limit_exceeded", status=200), errors.RateLimited, "body"),
    ],
)
def test_failures_have_their_class_phase_and_log(
    openai: OpenAIServer, reply: Reply, kind: type[errors.ProviderError], phase: str
) -> None:
    openai.reply(*[reply] * 3)
    with pytest.raises(errors.ProviderError) as caught:
        converse(environment(openai))
    error = caught.value
    assert type(error) is kind
    assert (error.phase, error.request_sent, error.provider) == (phase, True, "openai")
    assert error.attempts == len(openai.requests) == (3 if error.retryable else 1)
    assert [each.error_type for each in error.attempt_log] == [kind.__name__] * error.attempts
    assert error.summary is not None
    assert error.summary.error_attempts_sent == error.attempts


def test_a_redirect_is_not_followed_and_names_the_host_alone(openai: OpenAIServer) -> None:
    openai.reply(Bytes(b"", 302, {"location": "http://other.example/v1?key=1"}))
    with pytest.raises(errors.UnexpectedRedirect) as caught:
        converse(environment(openai))
    assert caught.value.redirect_host == "other.example"
    assert len(openai.requests) == 1


def test_a_server_that_is_not_there_was_sent_nothing() -> None:
    given = {"LLM_PROVIDER": "openai", "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    with pytest.raises(errors.ProviderError) as caught:
        converse(given)
    assert (caught.value.phase, caught.value.request_sent) == ("connect", False)
    assert caught.value.summary is not None
    assert caught.value.summary.error_attempts_sent == 0


def test_the_attempts_are_as_many_as_the_settings_say(openai: OpenAIServer) -> None:
    openai.reply(*[openai_server.failure("busy", status=503)] * 5)
    with pytest.raises(errors.ProviderUnavailable):
        converse(environment(openai, LLM_MAX_ATTEMPTS="2"))
    assert len(openai.requests) == 2
    assert build_client(Settings.from_env(environment(openai))).policy == RetryPolicy()


# --- notes on providers --------------------------------------------------------------------------------


def test_chat_completions_arguments_and_ids_are_read_as_they_come(openai: OpenAIServer) -> None:
    calls = [
        openai_server.call("f", "", call_id=""),
        openai_server.call("f", "[1]", call_id="same"),
        openai_server.call("f", "{", call_id="same"),
    ]
    openai.reply(Json(completion(None, tool_calls=calls)), Json(completion("done")))
    tool = ToolSpec("f", "d", {"type": "object", "properties": {}}, lambda deps: "ran")
    transcript = asked()
    converse(environment(openai), [tool], transcript=transcript)
    found = transcript.messages[1].tool_calls
    assert len({each.id for each in found}) == 3
    assert all(each.id for each in found)
    assert [(each.arguments, each.parse_error is not None) for each in found] == [({}, False), ({}, True), ({}, True)]
    assert [each.is_error for each in transcript.messages[2].tool_results] == [False, True, True]
    assert openai.bodies()[0]["max_completion_tokens"] == 16_000


def test_chat_completions_take_one_system_message_first_and_four_stop_strings(openai: OpenAIServer) -> None:
    client = build_client(Settings.from_env(environment(openai)))
    messages = tuple(asked().messages)
    try:
        client.complete(ModelRequest(messages=messages, system="be brief", stop_sequences=("a", "b", "c", "d")))
        with pytest.raises(errors.BadRequestError, match="at most 4 stop sequences"):
            client.complete(ModelRequest(messages=messages, stop_sequences=("a", "b", "c", "d", "e")))
    finally:
        client.close()
    assert [each["role"] for each in openai.last.json["messages"]] == ["system", "user"]
    assert len(openai.requests) == 1


@pytest.mark.parametrize("model", ["o1", "o3", "o4-mini"])
def test_models_that_take_no_choice_of_parallel_calls_are_not_sent_one(openai: OpenAIServer, model: str) -> None:
    tool = ToolSpec("f", "d", {"type": "object", "properties": {}}, lambda deps: "ok")
    client = build_client(Settings.from_env(environment(openai, OPENAI_MODEL=model)))
    try:
        client.complete(ModelRequest(messages=tuple(asked().messages), tools=(tool,), parallel_tool_calls=True))
    finally:
        client.close()
    assert "parallel_tool_calls" not in openai.last.json


def test_the_responses_api_ignores_stop_strings_and_says_so(
    openai: OpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    client = build_client(Settings.from_env(environment(openai, OPENAI_API="responses", OPENAI_MODEL="gpt-4o")))
    try:
        client.complete(ModelRequest(messages=tuple(asked().messages), stop_sequences=("x",)))
    finally:
        client.close()
    assert "stop_sequences are ignored" in caplog.text


def test_hosted_tools_are_for_anthropic_and_responses_alone(openai: OpenAIServer, anthropic: AnthropicServer) -> None:
    search = HostedTool("web_search", {"allowed_domains": ["example.com"]})
    for given in (environment(openai, OPENAI_API="responses"), claude(anthropic)):
        client = build_client(Settings.from_env(given))
        assert client.hosted_tools == ("web_search",)
        client.close()
    with pytest.raises(ConfigurationError, match="client 'openai' cannot run the hosted tool 'web_search'"):
        converse(environment(openai), hosted_tools=[search])
    assert openai.requests == []
    assert converse(claude(anthropic), hosted_tools=[search]).text == "hello"
    assert anthropic.last.json["tools"][0]["allowed_domains"] == ["example.com"]


def test_claudes_thinking_goes_back_as_it_came_also_from_a_stored_transcript(anthropic: AnthropicServer) -> None:
    blocks = [anthropic_server.thinking("hm"), anthropic_server.redacted(), anthropic_server.tool_use("f")]
    anthropic.reply(
        Json(anthropic_server.message(*blocks)),
        Json(anthropic_server.message(anthropic_server.text("one"))),
        Json(anthropic_server.message(anthropic_server.text("two"))),
    )
    tool = ToolSpec("f", "d", {"type": "object", "properties": {}}, lambda deps: "ok")
    result = converse(claude(anthropic), [tool])
    assert anthropic.last.json["messages"][1]["content"] == blocks
    stored = Transcript.model_validate(json.loads(result.transcript.model_dump_json()))
    stored.add_user_message("and?")
    assert converse(claude(anthropic), [tool], transcript=stored).text == "two"
    assert anthropic.last.json["messages"][1]["content"] == blocks


def test_another_provider_is_not_sent_what_is_claudes(anthropic: AnthropicServer, openai: OpenAIServer) -> None:
    anthropic.reply(
        Json(anthropic_server.message(anthropic_server.thinking("hm"), anthropic_server.text("one"))),
    )
    transcript = asked()
    converse(claude(anthropic), transcript=transcript)
    transcript.add_user_message("and?")
    assert converse(environment(openai), transcript=transcript).text == "hello"
    assert "signature" not in json.dumps(openai.last.json)


def test_a_turn_that_claude_pauses_is_continued_without_a_user_message(anthropic: AnthropicServer) -> None:
    searching = anthropic_server.search("q", "https://example.com/a")
    anthropic.reply(
        Json(anthropic_server.message(*searching, stop_reason="pause_turn")),
        Json(anthropic_server.message(anthropic_server.text("found"))),
    )
    result = converse(claude(anthropic), hosted_tools=[HostedTool("web_search")])
    assert [each["role"] for each in anthropic.last.json["messages"]] == ["user", "assistant"]
    assert anthropic.last.json["messages"][1]["content"] == searching
    assert [each.role for each in result.transcript.messages] == ["user", "assistant"]
    assert (result.text, result.summary.iterations) == ("found", 2)


def test_run_conversation_returns_the_transcript_itself(openai: OpenAIServer) -> None:
    transcript = asked()
    client = build_client(Settings.from_env(environment(openai)))
    try:
        assert run_conversation(transcript, client, Registry([]), Deps()) is transcript
    finally:
        client.close()
    assert final_text(transcript) == "hello"


def test_tuning_that_an_api_lacks_is_left_out_with_a_warning(
    openai: OpenAIServer, anthropic: AnthropicServer, caplog: pytest.LogCaptureFixture
) -> None:
    search = HostedTool("web_search", {"dynamic_filtering": True, "search_context_size": "low", "max_uses": 2})
    assert converse(claude(anthropic), hosted_tools=[search]).text == "hello"
    assert "search_context_size" in caplog.text
    caplog.clear()
    assert converse(environment(openai, OPENAI_API="responses"), hosted_tools=[search]).text == "hello"
    assert "dynamic_filtering is ignored" in caplog.text
    assert openai.last.json["tools"][0]["search_context_size"] == "low"


def test_claude_ignores_a_temperature_where_it_takes_none_and_says_so(
    anthropic: AnthropicServer, caplog: pytest.LogCaptureFixture
) -> None:
    client = build_client(Settings.from_env(claude(anthropic)))
    try:
        client.complete(ModelRequest(messages=tuple(asked().messages), temperature=0.5))
    finally:
        client.close()
    assert "temperature" not in anthropic.last.json
    assert "temperature" in caplog.text


@pytest.mark.parametrize("api", ["responses", "completions"])
def test_an_observer_that_defines_on_text_delta_sees_the_text_as_it_is_written(openai: OpenAIServer, api: str) -> None:
    class Typing:
        def __init__(self) -> None:
            self.pieces: list[str] = []

        def on_text_delta(self, text: str) -> None:
            self.pieces.append(text)

    alone, among = Typing(), Typing()
    given = environment(openai, OPENAI_API=api)
    assert converse(given, observer=alone).text == "".join(alone.pieces) == "hello"
    assert openai.last.json["stream"] is True
    assert converse(given, observer=MultiObserver(ListObserver(), among)).text == "".join(among.pieces) == "hello"
    assert len(among.pieces) > 1 or api == "responses"
    converse(given, observer=MultiObserver(ListObserver()))
    assert not openai.last.json.get("stream")
