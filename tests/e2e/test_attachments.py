"""Attachments from the command line: what a server gets, and what is refused before it gets anything."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from e2e.command import treadle
from wire.google_server import GoogleServer
from wire.http_server import Bytes, WireServer
from wire.openai_server import OpenAIServer

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8
SECRET = "sk-test0123456789abcdefgh"

# The policy sandbox lets no attachment come from the loopback, where the tests' servers are.
LAB = """
from treadle import Offer, hookimpl
from treadle_sandbox.policy import PolicySandbox

class Loopback(PolicySandbox):
    async def check_url(self, url, *, purpose):
        await super().check_url(url, purpose="tool" if purpose == "attachment" else purpose)

    def http(self, purpose):
        return super().http("tool" if purpose == "attachment" else purpose)

@hookimpl
def treadle_sandboxes():
    return {"loopback": Offer(Loopback, "lets attachments come from here")}
"""


def image(data: bytes, media_type: str = "image/png") -> dict[str, Any]:
    """An image as Chat Completions takes it."""
    return {
        "type": "image_url",
        "image_url": {"url": f"data:{media_type};base64,{base64.b64encode(data).decode()}"},
    }


@pytest.fixture
def lab(tmp_path: Path) -> dict[str, str]:
    """The environment in which the plugin ``lab`` is installed, whose sandbox lets the loopback be reached."""
    info = tmp_path / "site" / "lab-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lab\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[treadle.plugins]\nlab = lab_plugin\n", encoding="utf-8")
    (tmp_path / "site" / "lab_plugin.py").write_text(LAB, encoding="utf-8")
    (tmp_path / "treadle.yaml").write_text("roles: {sandbox: loopback}\n", encoding="utf-8")
    return {"PYTHONPATH": str(tmp_path / "site"), "XDG_CACHE_HOME": str(tmp_path / "cache")}


async def run(
    folder: Path, *attachments: dict[str, Any], config: str = "{}", state: str = "{}", **environment: str
) -> tuple[int, dict[str, Any], str]:
    """Exit code, result and standard error of a workflow that shows these attachments to a model."""
    listed = "\n".join(f"      - {json.dumps(each)}" for each in attachments)
    (folder / "flow.yaml").write_text(
        f"name: flow\nconfig: {config}\nstate: {state}\nsteps:\n"
        f"  - id: look\n    type: llm_call\n    prompt: What is it?\n    attachments:\n{listed}\n    output: said\n",
        encoding="utf-8",
    )
    done = await treadle("run", "flow.yaml", "--json", cwd=folder, **environment)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def openai(server: OpenAIServer) -> dict[str, str]:
    return {"OPENAI_API_KEY": SECRET, "OPENAI_BASE_URL": server.api}


async def test_files_data_urls_and_base64_texts_reach_the_model(tmp_path: Path) -> None:
    (tmp_path / "scans").mkdir()
    (tmp_path / "scans" / "a.jpg").write_bytes(PNG)  # named wrongly: the bytes tell
    encoded = base64.b64encode(PNG + b"long enough to be no path").decode()
    async with OpenAIServer.open() as server:
        code, result, errors = await run(
            tmp_path,
            {"source": "{state.folder}/a.jpg"},
            {"source": "data:image/webp;base64,aGVsbG8="},
            {"source": encoded},
            {"type": "audio", "source": "data:audio/x-wav;base64,aGVsbG8="},
            state="{folder: scans}",
            **openai(server),
        )
    assert code == 0, errors
    assert server.last.json["messages"][-1]["content"] == [
        {"type": "text", "text": "What is it?"},
        image(PNG),
        image(b"hello", "image/webp"),
        image(PNG + b"long enough to be no path"),
        {"type": "input_audio", "input_audio": {"data": "aGVsbG8=", "format": "wav"}},
    ]
    assert result["step_results"]["look"]["attachment_count"] == 4


async def test_a_download_follows_five_redirects_and_no_more(tmp_path: Path, lab: dict[str, str]) -> None:
    async with OpenAIServer.open() as model, WireServer.open() as web:
        hops = [Bytes(b"", 302, {"location": f"/{n}"}) for n in range(6)]
        web.reply(*hops[:5], Bytes(PNG, content_type="application/octet-stream"))
        code, _, errors = await run(tmp_path, {"source": f"{web.url}/first"}, **lab, **openai(model))
        assert code == 0, errors
        assert model.last.json["messages"][-1]["content"][1] == image(PNG)
        assert [request.path for request in web.requests] == ["/first", "/0", "/1", "/2", "/3", "/4"]

        web.reply(*hops)
        code, result, _ = await run(tmp_path, {"source": f"{web.url}/first"}, **lab, **openai(model))
        assert (code, len(model.requests)) == (1, 1)
        assert "more than 5 redirects" in result["step_results"]["look"]["error"]
        assert result["step_results"]["look"]["error_classification"] == "permanent"


async def test_a_download_ends_at_20_mb(tmp_path: Path, lab: dict[str, str]) -> None:
    async with OpenAIServer.open() as model, WireServer.open() as web:
        web.reply(Bytes(b"\0" * (20 * 1024 * 1024 + 1)))
        code, result, _ = await run(tmp_path, {"source": f"{web.url}/a.png"}, **lab, **openai(model))
        assert (code, model.requests) == (1, [])
        assert "the body is larger than the limit of 20971520 bytes" in result["step_results"]["look"]["error"]
        assert len(web.requests) == 1


@pytest.mark.parametrize("fetch", ["local", "provider"])
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost", "10.1.2.3", "169.254.169.254", "0x7f000001"])
async def test_internal_addresses_are_refused_whoever_fetches(tmp_path: Path, fetch: str, host: str) -> None:
    async with OpenAIServer.open() as server:
        source = f"http://{host}:{server.port}/a.png"
        code, result, errors = await run(tmp_path, {"source": source, "fetch": fetch}, **openai(server))
        assert (code, server.requests) == (1, []), errors
    look = result["step_results"]["look"]
    assert (look["attempts"], look["error_classification"]) == (1, "permanent")
    assert look["error"].startswith("attachments.0: the sandbox")


async def test_a_pdf_for_openai_is_refused_before_any_request_and_moves_on_to_who_takes_it(tmp_path: Path) -> None:
    pdf = {"type": "pdf", "source": "data:application/pdf;base64,JVBERi0="}
    async with OpenAIServer.open() as first, GoogleServer.open() as second:
        environment = {**openai(first), "GOOGLE_API_KEY": "AIzaTest0123456789abcdef", "GOOGLE_BASE_URL": second.url}
        code, _, errors = await run(tmp_path, pdf, **environment)
        assert code == 2
        assert "provider 'openai' cannot take this request" in errors
        assert first.requests == []

        settings = "provider: openai\nproviders: {google: {fallback: true, fallback_model: gemini-2.5-flash}}\n"
        (tmp_path / "treadle.yaml").write_text(settings, encoding="utf-8")
        code, result, errors = await run(tmp_path, pdf, **environment)
        assert code == 0, errors
        assert first.requests == []
        sent = second.last.json["contents"][-1]["parts"]
    assert result["step_results"]["look"]["provider"] == "google"
    assert [list(part) for part in sent] == [["text"], ["inlineData"]]
