"""Every field, flag and name that AgentLoom 0.5 documents, and what became of it. `docs/agentloom.md` shows this table.

A row says ``same``, ``better`` or ``different`` and names the test that proves it, or ``later``: then the field is
refused when the file loads, until the package comes that brings it. `test_table.py` holds rows to that. When a
package arrives its rows fail there: give them a verdict and a test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["ADDED", "ROWS", "WAITING", "Row", "shown"]

Verdict = Literal["same", "better", "different", "later"]


@dataclass(frozen=True)
class Row:
    """One field.

    :param place: ``llm_call.prompt``; the word before the dot is a step type, ``step``, ``retry``, ``config``,
        ``sandbox``, ``top``, ``result``, ``step result``, ``usage``, or a command.
    :param note: what is to be known of it; for one that comes later, the package that brings it.
    :param proof: the test, a function of this folder.
    """

    place: str
    verdict: Verdict
    note: str = ""
    proof: str = ""


def _rows(where: str, names: str, verdict: Verdict, proof: str, note: str = "") -> list[Row]:
    return [Row(f"{where}.{name}", verdict, note, proof) for name in names.split()]


def _later(where: str, names: str, package: str) -> list[Row]:
    return [Row(f"{where}.{name}", "later", package) for name in names.split()]


_CALL = "test_a_call_sends_what_the_file_says_and_writes_the_reply"
_AGENT = "test_an_agent_takes_a_turn_by_its_file"
_TALKS = "test_steps_and_agents_go_on_with_a_conversation_of_the_state"
_NAMES = "test_json_has_agentlooms_names"
_ATTACHED = "test_attachments_go_with_the_prompt_of_a_call_and_of_an_agent"
_TOOLS = "test_the_built_in_tools_give_what_they_gave"
_SANDBOX = "test_an_enabled_sandbox_holds_the_tools"
_RECORDINGS = "test_recordings_have_agentlooms_flags"
_MOCK = "test_the_mock_provider_plays_the_file_and_gives_its_default_elsewhere"
_ROUTES = "test_the_first_true_condition_wins_and_the_others_branches_are_skipped"
_RUNS = "test_a_run_is_recorded_listed_and_gone_on_with"
_GATES = "test_a_gate_tells_waits_and_goes_on_as_it_is_answered"
_SERVER = "test_the_callback_server_has_agentlooms_routes"
_FLAGS = "test_the_flags_of_run_override_the_config"

_SUBWORKFLOW = "test_a_subworkflow_starts_from_and_gives_back_what_the_table_says"

ROWS: tuple[Row, ...] = (
    *_rows("top", "name version description config state state_schema steps", "same", _CALL),
    Row(
        "config.provider",
        "same",
        "`treadle.yaml` may name another default than `openai`",
        "test_without_a_provider_it_is_openai_with_its_small_model",
    ),
    Row(
        "config.model",
        "different",
        "the default is the provider's own; `gpt-4o-mini` for `openai`",
        "test_without_a_provider_it_is_openai_with_its_small_model",
    ),
    Row(
        "config.max_retries",
        "better",
        "it holds for every step without a `retry.max_retries` of its own",
        "test_config_max_retries_is_that_of_steps_without_their_own",
    ),
    Row("config.timeout", "better", "it bounds the run; status `timeout`", "test_config_timeout_ends_the_run"),
    Row("config.max_concurrent_steps", "same", "1 to 1024", "test_no_more_steps_run_at_once_than_allowed"),
    Row("config.stream", "same", "", "test_config_stream_streams_every_call_but_those_that_say_otherwise"),
    Row(
        "config.on_step_failure", "same", "", "test_continue_runs_what_depends_on_a_failed_step_and_the_run_has_failed"
    ),
    Row("config.strict_outputs", "same", "", "test_a_shared_output_is_a_warning_and_an_error_where_outputs_are_strict"),
    *_rows("config", "responses_file latency_ms", "same", _MOCK),
    Row("config.latency_model", "same", "", "test_the_latency_models_have_their_names"),
    Row("config.sandbox", "same", "the block; see `sandbox`", _TOOLS),
    Row(
        "config.budget_usd",
        "better",
        "what a call may cost is reserved before it; failed attempts count, and so does what was spent before a resume",
        "test_a_budget_ends_the_run_and_says_what_was_spent",
    ),
    *_later("config", "capture_prompts", "treadle-otel"),
    Row("sandbox.enabled", "better", "a command runs without a shell, and a refusal is not tried again", _SANDBOX),
    *_rows(
        "sandbox",
        "allowed_paths readable_paths writable_paths allow_network allowed_schemes max_write_bytes "
        "allow_internal_webhook_targets deny_internal_hosts",
        "same",
        _SANDBOX,
    ),
    *_rows(
        "sandbox",
        "allowed_commands danger_opt_in",
        "better",
        _SANDBOX,
        "more launchers are known, by other names, versions and links too",
    ),
    Row("sandbox.allowed_domains", "better", "a refusal names entries that are no host", _SANDBOX),
    *_rows("step", "id type depends_on output", "same", _CALL),
    Row(
        "step.timeout",
        "better",
        "running into it is a failure: dependents are skipped",
        "test_the_timeout_is_per_attempt_and_a_step_that_ran_into_it_has_failed",
    ),
    Row("step.retry", "same", "see `retry`", _CALL),
    Row(
        "retry.max_retries",
        "same",
        "`config.max_retries` without it",
        "test_which_errors_of_a_provider_are_tried_again",
    ),
    *_rows("retry", "backoff_base backoff_max", "same", "test_the_waits_grow_from_one_second_up_to_the_most"),
    Row("retry.jitter", "same", "a server's `Retry-After` is kept as it is", "test_jitter_is_a_quarter_either_way"),
    Row(
        "retry.retryable_status_codes",
        "better",
        "without it the provider's own table; given, it decides alone",
        "test_retryable_status_codes_decide_alone",
    ),
    *_rows("llm_call", "prompt system_prompt model temperature max_tokens", "same", _CALL),
    Row("llm_call.stream", "same", "", "test_config_stream_streams_every_call_but_those_that_say_otherwise"),
    Row(
        "llm_call.response_schema",
        "same",
        "",
        "test_a_reply_without_the_shape_is_asked_for_again_within_the_attempt",
    ),
    *_rows("llm_call", "tools tool_choice", "same", "test_the_model_calls_declared_tools_until_it_answers"),
    Row(
        "llm_call.max_tool_iterations",
        "same",
        "",
        "test_at_the_most_iterations_the_last_text_is_the_answer_and_nothing_more_runs",
    ),
    Row("llm_call.thinking", "same", "", "test_thinking_asks_for_reasoning_and_keeps_it_out_of_the_state"),
    Row("llm_call.conversation", "better", "`{key: ..., store: ...}` goes on in the next run", _TALKS),
    Row("llm_call.speaker", "same", "", _TALKS),
    Row("llm_call.attachments", "better", "the bytes tell the type; fetchers of other schemes are plugins", _ATTACHED),
    Row("router.conditions", "better", "checked when the file loads, and joins run", _ROUTES),
    Row(
        "router.default",
        "same",
        "",
        "test_without_a_true_condition_it_is_the_default_and_a_missing_key_fails_a_comparison",
    ),
    Row(
        "tool.tool_name",
        "better",
        "`validate` warns of one that is not there",
        "test_a_tool_that_is_not_there_fails_when_it_is_reached_and_only_then",
    ),
    Row("tool.tool_args", "better", "lists and mappings render as JSON", "test_templates_paths_and_writes"),
    Row("tool.file_read", "same", "", _TOOLS),
    Row("tool.file_write", "same", "", _TOOLS),
    Row("tool.shell_command", "same", "", _TOOLS),
    Row("tool.http_request", "same", "", "test_http_request_gives_status_headers_and_body"),
    *_rows("agent", "agent prompt", "same", _AGENT),
    Row("agent.conversation", "better", "`{key: ..., store: ...}` goes on in the next run", _TALKS),
    Row("agent.attachments", "better", "the bytes tell the type; fetchers of other schemes are plugins", _ATTACHED),
    *_rows(
        "agent file",
        "name description model system_prompt temperature max_tokens tools loop_policy output_schema constraints",
        "same",
        _AGENT,
    ),
    Row("agent file.memory", "same", "", _TALKS),
    Row("subworkflow.workflow_path", "better", "also looked for beside the file that names it", _SUBWORKFLOW),
    Row("subworkflow.workflow_inline", "better", "checked with the workflow around it, as files are", _SUBWORKFLOW),
    Row("subworkflow.isolated_state", "better", "without it, its own `state:` is for what is not there", _SUBWORKFLOW),
    Row("subworkflow.input", "better", "rendered, and `state.key` passes the value", _SUBWORKFLOW),
    Row("subworkflow.return_keys", "better", "a missing key is a warning", _SUBWORKFLOW),
    Row("approval_gate.notify", "better", "JSON stays JSON whatever the values are; can be signed; sent once", _GATES),
    *_rows("approval_gate", "timeout_seconds on_timeout", "better", _GATES, "enforced, across restarts"),
    Row(
        "embed.inputs",
        "better",
        "a wrong path is found when the file loads",
        "test_embed_writes_vectors_and_its_own_output_says_how_many",
    ),
    *_rows("embed", "model dimensions", "same", "test_embed_writes_vectors_and_its_own_output_says_how_many"),
    *_rows(
        "result",
        "workflow_name status step_results final_state total_duration_ms total_tokens error run_id annotations",
        "same",
        _NAMES,
    ),
    Row("result.total_cost_usd", "different", "null where a price is unknown, never 0", _NAMES),
    *_rows(
        "step result",
        "step_id output error error_classification duration_ms token_usage model provider attachment_count "
        "time_to_first_token_ms reasoning_content",
        "same",
        _NAMES,
    ),
    Row("step result.status", "better", "`cancelled` is one more", _NAMES),
    Row("step result.cost_usd", "different", "null where a price is unknown, never 0", _NAMES),
    Row("step result.prompt_metadata", "same", "`finish_reason` is a field of the step result", _NAMES),
    *_rows("usage", "prompt_tokens completion_tokens reasoning_tokens total_tokens", "same", _NAMES),
    *_rows("run", "--state --provider --model --stream --json", "same", _FLAGS),
    Row("run.--budget", "same", "", "test_a_budget_ends_the_run_and_says_what_was_spent"),
    *_later("run", "--lite", "treadle-otel"),
    Row(
        "run.--checkpoint",
        "better",
        "every run is recorded as it goes, a killed one too; refuses where it cannot be",
        _RUNS,
    ),
    Row("run.--checkpoint-dir", "same", "holds `journal.db`", _RUNS),
    *_rows("run", "--mock-responses --record --record-tools", "same", _RECORDINGS),
    Row("validate.FILE", "better", "every problem in one pass, tools looked up", "test_validate_finds_every_problem"),
    Row("visualize.--format", "better", "`ascii` and `mermaid`, and more", "test_visualize_has_agentlooms_formats"),
    Row(
        "info.info", "better", "says whether a key is set, and shows nothing of it", "test_info_shows_no_part_of_a_key"
    ),
    *_rows("replay", "--recording --state --json --allow-default-fallback", "same", _RECORDINGS),
    *_later("replay", "--observability", "treadle-otel"),
    *_rows("resume", "--provider --model --json --stream", "same", _RUNS),
    Row("resume.--checkpoint-dir", "same", "holds `journal.db`", _RUNS),
    *_rows("resume", "--approve --reject", "better", _GATES, "they may name a gate, and several can be given"),
    *_later("resume", "--lite", "treadle-otel"),
    Row("runs.--checkpoint-dir", "same", "holds `journal.db`", _RUNS),
    Row("runs.--json", "same", "", _RUNS),
    Row("history.--runs-dir", "same", "holds `journal.db`", _RUNS),
    *_rows(
        "history",
        "--workflow --provider --since --until --min-cost --max-cost --limit --json",
        "same",
        _RUNS,
        "the same command as `treadle runs`",
    ),
    Row("callback-server.--checkpoint-dir", "same", "holds `journal.db`", _SERVER),
    Row("callback-server.--host", "different", "127.0.0.1; another address needs a token", _SERVER),
    Row("callback-server.--port", "same", "", _SERVER),
    Row("callback-server.--token", "different", "a reference, as env:NAME; header `X-Treadle-Token`", _SERVER),
    *_later("callback-server", "--lite", "treadle-otel"),
    *_rows("agent inspect", "--json", "same", "test_agent_inspect_prints_what_the_agent_is"),
)

WAITING: dict[str, set[str]] = {}
"""Fields that come later and are known already, to say what is missing."""

ADDED = {
    "top": {"requires"},
    "step types": {"foreach", "loop"},
    "step": {"budget_usd", "when"},
    "config": {"callback_url", "strict_templates", "unknown_price"},
    "approval_gate": {"choices", "question"},
    "retry": {"max_wait"},
    "sandbox": {"max_body_bytes", "max_output_bytes"},
    "usage": {"cache_read_tokens", "cache_write_tokens"},
    "result": {"budget_usd", "pending", "warnings"},
    "step result": {"attempts", "finish_reason", "pending", "reason"},
}
"""What is ours: not in AgentLoom."""

_WHERE = {
    "top": "top level",
    "step": "every step",
    "retry": "`retry:`",
    "config": "`config:`",
    "sandbox": "`config.sandbox:`",
    "agent file": "the file of an `agent`",
    "tool": "`tool`, and the built-in tools",
    "result": "`--json`",
    "step result": "`--json`, `step_results`",
    "usage": "`--json`, `token_usage`",
}
_COMMANDS = ("run", "validate", "visualize", "info", "replay", "resume", "runs", "history", "callback-server",
             "agent inspect")  # fmt: skip


def shown() -> str:
    """The table as the page has it: fields with one verdict and one note share a line."""
    lines = ["| where | field | | |", "| --- | --- | --- | --- |"]
    groups: dict[tuple[str, str, str], list[str]] = {}
    for row in ROWS:
        where, _, name = row.place.partition(".")
        groups.setdefault((where, row.verdict, row.note), []).append(name)
    for (where, verdict, note), names in groups.items():
        place = _WHERE.get(where) or (f"`treadle {where}`" if where in _COMMANDS else f"`{where}`")
        fields = ", ".join(f"`{name}`" for name in names)
        if verdict == "later":
            verdict, note = "not there yet", f"comes with {note}"
        lines.append(f"| {place} | {fields} | {verdict} | {note} |")
    return "\n".join(lines) + "\n"
