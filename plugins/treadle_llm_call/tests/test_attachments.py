"""Attachments of a model call: fetched, sent in order with this turn, refused where no provider takes them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import trio

import treadle
import treadle_attachments.plugin
from treadle import (
    AttachmentRequest,
    Conversation,
    DocumentError,
    Host,
    MediaPart,
    ModelRequest,
    Sandbox,
    SystemMessage,
    TextPart,
    UserMessage,
)
from treadle.contracts.provider import Features
from treadle.testing import FakeSandbox, offering, reply, run_workflow, scripted
from treadle_cli.rights import rights_json
from treadle_llm_call import plugin

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8
DATA = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
NO_RETRY = {"retry": {"max_retries": 0}}


def seeing(*replies: Any, media: tuple[str, ...] = ("image",), by_url: tuple[str, ...] = ()) -> Any:
    """A provider that takes such attachments."""
    features = Features(streaming=True, media=frozenset(media), media_by_url=frozenset(by_url))
    return type("Seeing", (scripted(*replies),), {"features": features})


def plugins(provider: Any, **more: object) -> dict[str, object]:
    double = offering({"provider": {"scripted": provider}})
    return {"llm_call": plugin, "double": double, "attachments": treadle_attachments.plugin, **more}


def document(*attachments: Any, state: Mapping[str, Any] | None = None, **step: Any) -> dict[str, Any]:
    base = {"id": "look", "type": "llm_call", "prompt": "What is it?", "output": "said"}
    return {
        "name": "t",
        "config": {"provider": "scripted"},
        "state": dict(state or {}),
        "steps": [{**base, "attachments": list(attachments), **step}],
    }


async def run(provider: Any, *attachments: Any, sandbox: Sandbox | None = None, **options: Any) -> Any:
    more = options.pop("plugins", {})
    box = FakeSandbox() if sandbox is None else sandbox
    return await run_workflow(document(*attachments, **options), plugins=plugins(provider, **more), sandbox=box)


def parts(request: ModelRequest) -> tuple[Any, ...]:
    message = request.messages[-1]
    assert isinstance(message, UserMessage)
    return message.parts


async def test_attachments_follow_the_prompt_in_their_order_and_are_counted() -> None:
    provider = seeing("a cat", media=("image", "pdf", "audio"))
    sandbox = FakeSandbox(files={"in/05.pdf": b"%PDF-1.4"}, urls={"https://p.test/a.jpg": b"\xff\xd8\xff"})
    result = await run(
        provider,
        {"source": "https://p.test/{state.name}"},
        {"type": "pdf", "source": "in/05.pdf"},
        {"source": " {state.inline}\n"},
        {"type": "audio", "source": "data:audio/x-wav;base64,aGVsbG8="},
        sandbox=sandbox,
        state={"name": "a.jpg", "inline": DATA},
    )
    assert result.status == "success", result.error
    assert parts(provider.requests[0]) == (
        TextPart(text="What is it?"),
        MediaPart(type="image", media_type="image/jpeg", data=b"\xff\xd8\xff"),
        MediaPart(type="pdf", media_type="application/pdf", data=b"%PDF-1.4"),
        MediaPart(type="image", media_type="image/png", data=PNG),
        MediaPart(type="audio", media_type="audio/wav", data=b"hello"),
    )
    assert result.step_results["look"].to_json()["attachment_count"] == 4
    assert [purpose for purpose, _ in sandbox.requests] == ["attachment"]


async def test_they_are_fetched_at_once_and_kept_in_order(autojump_clock: Any) -> None:
    class Waiting:
        schemes: ClassVar[frozenset[str]] = frozenset({"wait"})

        async def fetch(self, request: AttachmentRequest, sandbox: Sandbox) -> MediaPart:
            name = request.source.partition("://")[2]
            await trio.sleep(float(name))
            return MediaPart(type="image", media_type="image/png", data=name.encode())

    provider = seeing("ok")
    more = {"wait": offering({"attachment_fetcher": {"wait": Waiting}})}
    result = await run(provider, *({"source": f"wait://{n}"} for n in (9, 5, 7)), plugins=more)
    assert [part.data for part in parts(provider.requests[0])[1:]] == [b"9", b"5", b"7"]
    assert result.total_duration_ms == pytest.approx(9000, abs=50)


async def test_an_address_for_the_provider_is_sent_as_it_is() -> None:
    provider = seeing("ok", by_url=("image",))
    await run(provider, {"source": "https://p.test/a", "fetch": "provider"})
    assert parts(provider.requests[0])[1] == MediaPart(type="image", url="https://p.test/a")


@pytest.mark.parametrize(
    ("attachment", "message"),
    [
        ({"source": "{state.nothing}"}, "attachments.1: the source is empty: '{state.nothing}' gave nothing"),
        ({"source": "b.png"}, "attachments.1: 'b.png': there is no such file"),
        (
            {"source": "https://p.test/b"},
            "attachments.1: 'https://p.test/b' could not be downloaded: the server answer",
        ),
        ({"source": "secret.png"}, "attachments.1: the sandbox refuses the path secret.png"),
        (
            {"source": DATA, "type": "pdf", "media_type": "application/pdf"},
            "attachments.1: 'data:image/png;base64,...' is image/png, which contradicts type: pdf; set type: image",
        ),
        (
            {"source": DATA.partition(",")[2], "media_type": "application/pdf"},
            "is application/pdf, which contradicts type: image; set type: pdf",
        ),
        ({"source": "s4://a/b"}, "no attachment fetcher 's4'; "),
    ],
)
async def test_one_that_cannot_be_had_fails_the_step_without_a_retry_or_a_call(attachment: Any, message: str) -> None:
    provider = seeing("never", media=("image", "pdf"))
    result = await run(provider, {"source": DATA}, attachment, sandbox=FakeSandbox(refuses=["secret"]))
    look = result.step_results["look"]
    assert (look.status, look.attempts) == ("failed", 1)
    assert message in (look.error or "")
    assert provider.requests == []


async def test_a_download_that_may_go_well_later_is_tried_again(autojump_clock: Any) -> None:
    class Flaky(FakeSandbox):
        async def _send(self, purpose: Any, request: Any) -> Any:
            answer = await super()._send(purpose, request)
            return replace(answer, status_code=503) if len(self.requests) == 1 else answer

    sandbox = Flaky(urls={"https://p.test/a": PNG})
    result = await run(seeing("ok"), {"source": "https://p.test/a"}, sandbox=sandbox)
    assert (result.status, result.step_results["look"].attempts) == ("success", 2)


async def test_without_a_sandbox_the_step_fails_and_says_what_to_install() -> None:
    result = await run_workflow(document({"source": DATA}), plugins=plugins(seeing("never")))
    look = result.step_results["look"]
    assert (look.attempts, look.error) == (
        1,
        "attachments.0: attachments are read through a sandbox, and none is installed; pip install treadle-sandbox",
    )


# --- what a provider takes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attachment", "message"),
    [
        ({"type": "pdf", "source": "a.pdf"}, "attachments of type pdf"),
        ({"type": "audio", "source": "{state.x}"}, "attachments of type audio"),
        ({"source": "https://p.test/a", "fetch": "provider"}, "attachments of type image by URL"),
    ],
)
def test_what_the_provider_cannot_take_is_told_when_the_document_loads(attachment: Any, message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        treadle.build_workflow(document(attachment, state={"x": "a.wav"}), host=Host.of(plugins(seeing())))


async def test_one_that_turns_out_to_be_for_the_provider_to_fetch_fails_before_a_request() -> None:
    provider = seeing("never")
    state = {"url": "https://p.test/a"}
    result = await run(provider, {"source": "{state.url}", "fetch": "provider"}, state=state)
    look = result.step_results["look"]
    assert (look.attempts, look.error_classification) == (1, "permanent")
    assert "attachments of type image by URL" in (look.error or "")
    assert provider.requests == []


# --- conversations ----------------------------------------------------------------------------------------


class Notebook:
    """Keeps a conversation as it comes."""

    async def begin(self, ctx: Any, *, key: str, turn: UserMessage | None, **_: Any) -> Conversation:
        kept = [UserMessage.of(text) for text in ctx.state.get(key, [])]
        return Conversation(messages=(SystemMessage(text="S"), *kept, *([turn] if turn else [])), handle=key)

    def commit(self, ctx: Any, conversation: Conversation, answer: Any) -> Mapping[str, Any]:
        turns = [each for each in conversation.messages if isinstance(each, UserMessage)]
        assert all(len(each.parts) == 1 for each in turns)
        return {conversation.handle: [each.text for each in turns]}


NOTEBOOK = {"notebook": offering({"memory": {"notebook": Notebook}})}


async def test_in_a_conversation_they_go_with_this_turn_and_are_not_kept() -> None:
    provider = seeing("one", "two")
    flow = document({"source": DATA}, conversation="state.chat")
    flow["steps"].append(
        {"id": "more", "type": "llm_call", "prompt": "And?", "conversation": "state.chat", "depends_on": ["look"]}
    )
    result = await run_workflow(flow, plugins=plugins(provider, **NOTEBOOK), sandbox=FakeSandbox())
    assert result.status == "success", result.error
    assert [type(part) for part in parts(provider.requests[0])] == [TextPart, MediaPart]
    assert [len(each.parts) for each in provider.requests[1].messages if isinstance(each, UserMessage)] == [1, 1]
    assert result.final_state["chat"] == ["What is it?", "And?"]


async def test_a_conversation_step_without_a_prompt_sends_none_and_fetches_none() -> None:
    provider, sandbox = seeing("ok"), FakeSandbox()
    options: Any = {"conversation": "state.chat", "prompt": None, "state": {"chat": ["Hello"]}}
    result = await run(provider, {"source": "a.png"}, sandbox=sandbox, plugins=NOTEBOOK, **options)
    assert result.status == "success", result.error
    assert parts(provider.requests[0]) == (TextPart(text="Hello"),)
    assert result.step_results["look"].to_json()["attachment_count"] == 0
    assert not sandbox.used


# --- the field --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attachment", "message"),
    [
        ({}, "attachments.0: the field 'source' is missing"),
        ({"source": "  "}, "attachments.0.source: is empty; name a URL"),
        ({"source": "{state.a"}, "attachments.0.source: "),
        ({"source": "a", "type": "video"}, "attachments.0.type: "),
        ({"source": "a", "fetch": "remote"}, "attachments.0.fetch: "),
        ({"source": "a", "media_type": "png"}, "'png' is not a MIME type such as image/jpeg"),
        ({"source": "a", "mediatype": "image/png"}, "did you mean 'media_type'?"),
    ],
)
def test_a_wrong_attachment_is_refused_when_the_document_loads(attachment: Any, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        treadle.build_workflow(document(attachment), host=Host.of(plugins(seeing())))
    assert message in str(caught.value)


def test_a_scheme_that_nothing_reads_is_warned_of_when_the_document_loads() -> None:
    host = Host.of({"llm_call": plugin, "double": offering({"provider": {"scripted": seeing()}})})
    flow = treadle.build_workflow(document({"source": "s4://{state.b}/a"}, {"source": "{state.b}"}), host=host)
    (warning,) = [each for each in flow.warnings if each.code == "not-installed"]
    assert (warning.path, warning.message) == ("steps.look.attachments.0.source", "no attachment fetcher 's4'")


async def test_the_answer_is_as_without_attachments() -> None:
    provider = seeing(reply("a cat", finish_reason="end_turn"))
    result = await run(provider, {"source": DATA})
    assert result.final_state == {"said": "a cat"}
    assert result.step_results["look"].to_json()["finish_reason"] == "end_turn"


def test_what_they_ask_for_is_told_as_it_is_written() -> None:
    shown = ["https://me@p.test:8080/a?b", "https://{state.host}/a", "scans/{state.name}", "{state.x}", DATA, "a" * 300]
    flow = document(*({"source": each} for each in shown), {"source": "s4://bucket/key"})
    asked = rights_json(treadle.build_workflow(flow, host=Host.of(plugins(seeing()))))
    assert [each["name"] for each in asked["hosts"]] == ["p.test", "{state.host}", "{state.x}", "bucket"]
    assert [each["name"] for each in asked["paths"]] == ["scans/{state.name}", "{state.x}"]
    assert {each["access"] for each in asked["paths"]} == {"read"}
