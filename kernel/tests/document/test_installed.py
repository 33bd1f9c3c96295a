"""What a document needs must be there: providers, config fields, sandboxes and step types of other plugins."""

import re
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from treadle._document import parse_workflow, provider_overrides
from treadle._plugins import Host
from treadle.contracts.offers import ConfigOffer, Offer
from treadle.contracts.step import Reference, Step, StepContext, StepOutcome
from treadle.hookspecs import hookimpl

Problems = Callable[..., list[str]]
NewHost = Callable[..., Host]

TAIL = "\nsteps: [{id: a, type: idle}]\n"


def offering(hook: str, offers: Any) -> object:
    def implementation() -> Any:
        return offers

    return type("Acme", (), {hook: staticmethod(hookimpl(implementation))})


def test_a_provider_that_is_there_is_not_imported(problems: Problems) -> None:
    assert problems("name: x\nconfig: {provider: fake}" + TAIL) == []


def test_a_provider_that_is_not_there(problems: Problems) -> None:
    assert problems("name: x\nconfig: {provider: anthropic}" + TAIL) == [
        "2:20: config.provider: provider 'anthropic' is not installed; pip install treadle-anthropic"
    ]
    assert problems("name: x\nconfig: {provider: fakee}" + TAIL) == [
        "2:20: config.provider: no provider 'fakee'; did you mean 'fake'?"
    ]
    assert problems("name: x\nconfig: {provider: zzz}" + TAIL) == [
        "2:20: config.provider: no provider 'zzz'; there is fake"
    ]


def test_a_config_field_of_a_plugin_is_checked_by_its_type(problems: Problems, host: Host) -> None:
    assert problems("name: x\nconfig: {replies: {a: many}}" + TAIL) == [
        "2:23: config.replies.a: must be a whole number, not 'many'"
    ]
    workflow = parse_workflow("name: x\nconfig: {replies: {a: 1}}" + TAIL, host=host)
    assert provider_overrides(host, workflow.config) == {"fake": {"replies": {"a": 1}}}


def test_a_config_field_of_a_package_that_is_not_installed_names_it(problems: Problems) -> None:
    assert problems("name: x\nconfig:\n  quota: 5" + TAIL) == [
        "3:3: config.quota: config field 'quota' is not installed; pip install treadle-budget"
    ]


def test_plugins_config_fields_are_among_the_close_matches(problems: Problems) -> None:
    assert problems("name: x\nconfig: {replys: {}}" + TAIL) == [
        "2:10: config.replys: unknown field; did you mean 'replies'?"
    ]


def test_a_plugin_that_redefines_a_kernel_field_fails_only_who_uses_it(problems: Problems, new_host: NewHost) -> None:
    clashing = new_host(acme=offering("treadle_config_fields", {"max_retries": ConfigOffer(int, "clash")}))
    assert problems("name: x\nconfig: {stream: true}" + TAIL, clashing) == []
    assert problems("name: x\nconfig: {max_retries: 5}" + TAIL, clashing) == [
        "2:10: config.max_retries: plugin 'acme' redefines this field of the kernel's; disable it with --without acme"
    ]
    assert parse_workflow("name: x" + TAIL, host=clashing).config.max_retries == 3


def test_two_plugins_with_one_config_field(problems: Problems, new_host: NewHost) -> None:
    clashing = new_host(acme=offering("treadle_config_fields", {"replies": ConfigOffer(int, "clash")}))
    assert problems("name: x\nconfig: {replies: 5}" + TAIL, clashing) == [
        (
            "2:10: config.replies: config field 'replies' is offered by plugin 'testing' and by plugin 'acme'; "
            "disable one with --without testing or --without acme"
        )
    ]


def test_a_config_field_whose_type_does_not_import_names_the_plugin(problems: Problems, new_host: NewHost) -> None:
    broken = new_host(acme=offering("treadle_config_fields", {"depth": ConfigOffer("no_such_module:X", "broken")}))
    assert problems("name: x" + TAIL, broken) == []
    assert problems("name: x\nconfig: {depth: 5}" + TAIL, broken) == [
        (
            "2:10: config.depth: config field 'depth' of plugin 'acme' could not be loaded from no_such_module:X: "
            "ModuleNotFoundError: No module named 'no_such_module'; disable it with --without acme, or upgrade it"
        )
    ]


def test_a_sandbox_block_without_a_sandbox_names_the_package(problems: Problems) -> None:
    assert problems("name: x\nconfig: {sandbox: {enabled: true}}" + TAIL) == [
        "2:19: config.sandbox: config.sandbox needs a sandbox, and none is installed; pip install treadle-sandbox"
    ]


def test_the_sandbox_block_is_read_by_the_installed_sandbox(
    problems: Problems, new_host: NewHost, plugins: SimpleNamespace
) -> None:
    boxed = new_host(box=plugins.BoxPlugin())
    assert problems("name: x\nconfig: {sandbox: {enabled: true}}" + TAIL, boxed) == []
    assert problems("name: x\nconfig:\n  sandbox:\n    enabled: perhaps\n    allowed_comands: [ls]" + TAIL, boxed) == [
        "4:14: config.sandbox.enabled: must be true or false, not 'perhaps'",
        "5:5: config.sandbox.allowed_comands: unknown field; did you mean 'allowed_commands'?",
    ]


def test_two_sandboxes_are_one_too_many(problems: Problems, new_host: NewHost, plugins: SimpleNamespace) -> None:
    both = new_host(box=plugins.BoxPlugin(), acme=offering("treadle_sandboxes", {"other": Offer(plugins.Box, "other")}))
    assert problems("name: x\nconfig: {sandbox: {}}" + TAIL, both) == [
        (
            "2:19: config.sandbox: config.sandbox needs a sandbox, and several are installed: box, other; "
            "choose one under roles.sandbox in treadle.yaml, or leave the others out with --without"
        )
    ]


def test_a_step_type_that_needs_a_role_says_so(problems: Problems, new_host: NewHost, plugins: SimpleNamespace) -> None:
    text = "name: x\nsteps: [{id: a, type: boxed}]"
    assert problems(text) == [
        "2:23: steps.a.type: step type 'boxed' needs a sandbox, and none is installed; pip install treadle-sandbox"
    ]
    assert problems(text, new_host(box=plugins.BoxPlugin())) == []


def test_a_step_type_that_does_not_import_names_the_plugin(problems: Problems, new_host: NewHost) -> None:
    host = new_host(acme=offering("treadle_step_types", {"shout": Offer("json:Shout", "broken")}))
    assert problems("name: x\nsteps: [{id: a, type: shout}]", host) == [
        (
            "2:23: steps.a.type: step type 'shout' of plugin 'acme' could not be loaded from json:Shout: "
            "AttributeError: module 'json' has no attribute 'Shout'; disable it with --without acme, or upgrade it"
        )
    ]


def test_a_step_type_that_is_no_step_names_the_plugin(problems: Problems, new_host: NewHost) -> None:
    host = new_host(acme=offering("treadle_step_types", {"shout": Offer("json:dumps", "wrong")}))
    assert problems("name: x\nsteps: [{id: a, type: shout}]", host) == [
        "2:23: steps.a.type: step type 'shout' of plugin 'acme' is not a subclass of Step"
    ]


def test_two_plugins_with_one_step_type(problems: Problems, new_host: NewHost) -> None:
    host = new_host(acme=offering("treadle_step_types", {"idle": Offer("json:dumps", "clash")}))
    assert problems("name: x\nsteps: [{id: a, type: idle}]", host) == [
        (
            "2:23: steps.a.type: step type 'idle' is offered by plugin 'testing' and by plugin 'acme'; "
            "disable one with --without testing or --without acme"
        )
    ]
    # A close match that is itself offered twice is named without an owner.
    assert problems("name: x\nsteps: [{id: a, type: idel}]", host) == [
        "2:23: steps.a.type: no step type 'idel'; did you mean 'idle'?"
    ]


def test_checking_a_file_loads_no_trio() -> None:
    program = (
        "import sys\n"
        "from treadle._plugins import Host\n"
        "from treadle._document import build_workflow\n"
        "from treadle.errors import DocumentError\n"
        "try: build_workflow({'name': 'x', 'steps': [{'id': 'a', 'type': 'b'}]}, host=Host.of({}))\n"
        "except DocumentError as error: print(error)\n"
        "print([each for each in ('trio', 'structlog', 'httpx2', 'click') if each in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "steps.a.type: no step type 'b'\n[]\n"


class Runless(Step):
    """Lacks run."""


class Idle(Step):
    async def run(self, ctx: StepContext) -> StepOutcome:
        return StepOutcome()


class Misspelt(Idle):
    words: "Tmplate"  # type: ignore[name-defined]  # noqa: F821


class Slipping(Idle):
    """Each of its methods fails where the step's id is its name."""

    def _slip(self, method: str) -> Any:
        return () if self.id != method else self.nothing_here  # type: ignore[attr-defined]

    def reads(self) -> Any:
        return self._slip("reads")

    def writes(self) -> Any:
        yield from self._slip("writes")

    def targets(self) -> Any:
        return self._slip("targets")

    def target_fields(self) -> Any:
        return dict(self._slip("target_fields"))

    def references(self) -> Any:
        return self._slip("references")

    def conversations(self) -> Any:
        return self._slip("conversations")

    def model_requests(self, config: object) -> Any:
        return self._slip("model_requests")

    def check_document(self, check: object) -> None:
        self._slip("check_document")


def faulty(new_host: NewHost) -> Host:
    kinds = {"runless": Runless, "misspelt": Misspelt, "slipping": Slipping}
    offers = {name: Offer(kind, "Faulty") for name, kind in kinds.items()}
    return new_host(acme=offering("treadle_step_types", offers))


@pytest.mark.parametrize(("kind", "cause"), [("runless", "TypeError: "), ("misspelt", "PydanticUserError: ")])
def test_a_class_that_is_no_whole_step_type_is_its_plugins_fault(
    problems: Problems, new_host: NewHost, kind: str, cause: str
) -> None:
    text = f"name: x\nsteps:\n- {{id: a, type: {kind}}}\n- {{id: b, type: nobody}}"
    found = problems(text, faulty(new_host))
    assert found[0].startswith(f"3:17: steps.a.type: step type '{kind}' of plugin 'acme' cannot be used: {cause}")
    assert found[0].endswith("; disable it with --without acme, or upgrade it")
    assert "\n" not in found[0]
    assert len(found) == 2  # the mistakes of the document are told too


@pytest.mark.parametrize(
    "method",
    [
        "reads", "writes", "targets", "target_fields", "references", "conversations", "model_requests",
        "check_document",
    ],
)  # fmt: skip
def test_a_method_of_a_step_type_that_raises_is_its_plugins_fault(
    problems: Problems, new_host: NewHost, method: str
) -> None:
    (found,) = problems(f"name: x\nsteps: [{{id: {method}, type: slipping}}]", faulty(new_host))
    assert f"steps.{method}.type: step type 'slipping' of plugin 'acme' fails in {method}(): AttributeError: " in found
    assert re.search(r"[(/]test_installed\.py:\d+\); disable it with", found)


class Fork(Idle):
    """Goes to one of two steps."""

    short: str
    long: str

    def targets(self) -> dict[str, str]:
        return {self.short: "short", self.long: "long"}

    def target_fields(self) -> dict[str, str]:
        return {"short": self.short, "long": self.long}


def test_a_target_field_that_is_missing_is_told_once(problems: Problems, new_host: NewHost) -> None:
    host = new_host(acme=offering("treadle_step_types", {"fork": Offer(Fork, "Forks")}))
    text = "name: x\nsteps:\n- {id: a, type: fork, short: b}\n- {id: b, type: idle, depends_on: [a]}"
    (missing,) = problems(text, host)
    assert "'long' is missing" in missing
    (empty,) = problems(text.replace("short: b", "short: b, long: ''"), host)
    assert "steps.a.long: no step ''" in empty


class Handy(Idle):
    """Calls a tool."""

    def references(self) -> list[Reference]:
        return [Reference(role="tool", name="wave", field="id")]


def test_two_sandboxes_are_told_where_a_tool_would_need_one(new_host: NewHost, plugins: SimpleNamespace) -> None:
    sandboxes = {name: Offer(plugins.Box, name) for name in ("one", "two")}
    host = new_host(
        boxes=offering("treadle_sandboxes", sandboxes),
        acme=offering("treadle_step_types", {"handy": Offer(Handy, "Handy")}),
        wave=offering("treadle_tools", {"wave": Offer("wave:Wave", "Wave")}),
    )
    (warning,) = parse_workflow("name: x\nsteps: [{id: a, type: handy}]", host=host).warnings
    assert warning.message == "the run needs a sandbox, and several are installed: one, two"
    assert warning.hint is not None
    assert "roles.sandbox in treadle.yaml" in warning.hint
