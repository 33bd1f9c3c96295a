"""The step ``embed``: what it takes, what it writes, what it costs, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

import treadle_replay.plugin
from treadle import (
    DocumentError,
    EmbedRequest,
    EmbedResponse,
    Features,
    Host,
    Provider,
    RunResult,
    Usage,
    build_workflow,
)
from treadle.testing import offering, run_workflow, scripted
from treadle_llm_call import plugin


class Embedding(Provider):
    """Gives the length of each text, and the number of dimensions asked for."""

    features = Features(embeddings=True)
    asked: list[EmbedRequest]

    def exchange(self, request: Any) -> Any:
        raise AssertionError("an embedding is no exchange")

    async def embed(self, request: EmbedRequest) -> EmbedResponse:
        self.asked.append(request)
        vectors = tuple((float(len(each)), *[0.0] * ((request.dimensions or 2) - 1)) for each in request.inputs)
        return EmbedResponse(
            vectors=vectors,
            usage=Usage(input_tokens=7, output_tokens=0),
            model=request.model,
            provider=self.name,
            cost_usd=0.5,
        )


def embedding() -> type[Embedding]:
    return type("Embedding", (Embedding,), {"asked": []})


def document(config: dict[str, Any] | None = None, state: dict[str, Any] | None = None, **step: Any) -> dict[str, Any]:
    return {
        "name": "t",
        "config": {"provider": "double", "max_retries": 0, **(config or {})},
        "state": {"documents": ["a", "bbb", "cc"]} if state is None else state,
        "steps": [{"id": "vectors", "type": "embed", "inputs": "state.documents", "output": "found", **step}],
    }


async def run(provider: Any, **of: Any) -> RunResult:
    plugins = {"llm_call": plugin, "double": offering({"provider": {"double": provider}})}
    return await run_workflow(document(**of), plugins=plugins)


async def test_a_list_of_texts_gives_a_list_of_vectors_in_order_and_a_summary() -> None:
    provider = embedding()
    result = await run(provider, model="m-1", dimensions=3)
    assert provider.asked == [EmbedRequest(model="m-1", inputs=("a", "bbb", "cc"), dimensions=3)]
    assert provider.asked[0].key == "vectors"
    assert result.final_state["found"] == [[1.0, 0.0, 0.0], [3.0, 0.0, 0.0], [2.0, 0.0, 0.0]]
    assert result.step_results["vectors"].output == "3 vectors x 3"


async def test_a_text_gives_one_vector() -> None:
    result = await run(embedding(), state={"documents": "abcd"})
    assert result.final_state["found"] == [[4.0, 0.0]]
    assert result.step_results["vectors"].output == "1 vectors x 2"


async def test_no_texts_give_no_vectors_and_nobody_is_asked() -> None:
    provider = embedding()
    result = await run(provider, state={"documents": []})
    assert (result.final_state["found"], result.step_results["vectors"].output) == ([], "0 vectors x 0")
    assert provider.asked == []


@pytest.mark.parametrize(
    ("config", "step", "model"), [({"model": "m-c"}, {}, "m-c"), ({"model": "m-c"}, {"model": "m-s"}, "m-s")]
)
async def test_the_model_is_the_steps_then_the_configs(config: Any, step: Any, model: str) -> None:
    provider = embedding()
    result = await run(provider, config=config, **step)
    assert provider.asked[0].model == model
    assert result.step_results["vectors"].model == model


async def test_tokens_and_cost_are_counted() -> None:
    result = await run(embedding())
    step = result.step_results["vectors"]
    assert (step.usage.total_tokens, step.cost_usd, step.provider) == (7, 0.5, "double")
    assert (result.total_tokens, result.total_cost_usd) == (7, 0.5)


@pytest.mark.parametrize("inputs", ["{state.documents}", " { state.documents } "])
async def test_braces_around_the_path_are_tolerated(inputs: str) -> None:
    provider = embedding()
    await run(provider, inputs=inputs)
    assert len(provider.asked) == 1


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ({}, "inputs: nothing is at 'state.documents'; it takes a text or a list of texts"),
        ({"documents": 5}, "inputs: 'state.documents' is neither a text nor a list of texts"),
        ({"documents": None}, "inputs: 'state.documents' is neither a text nor a list of texts"),
        ({"documents": {"a": "b"}}, "inputs: 'state.documents' is neither a text nor a list of texts"),
        ({"documents": ["a", 5]}, "inputs: 'state.documents[1]' is no text"),
    ],
)
async def test_what_is_no_text_fails_the_step_and_nobody_is_asked(state: Any, error: str) -> None:
    provider = embedding()
    result = await run(provider, state=state)
    assert result.status == "failed"
    assert result.step_results["vectors"].error == error
    assert provider.asked == []


@pytest.mark.parametrize(
    ("inputs", "error"),
    [
        ("documents", "'documents' must begin with 'state.', as state.documents"),
        ("", "'' must begin with 'state.', as state.documents"),
        ("state.", "the state path is empty"),
        ("state..documents", "state path '.documents'"),
        ("state.a..b", "state path 'a..b'"),
        ("state.documents[0]", "'state.documents[0]' must name a key and not an entry of a list"),
        (["a"], "must be text, not a list"),
        (None, "must be text, not empty"),
    ],
)
def test_a_path_that_is_none_is_refused_when_the_file_loads(inputs: Any, error: str) -> None:
    host = Host.of({"llm_call": plugin, "double": offering({"provider": {"double": embedding()}})})
    with pytest.raises(DocumentError) as caught:
        build_workflow(document(inputs=inputs), host=host)
    assert "steps.vectors.inputs" in str(caught.value)
    assert error in str(caught.value)


def test_without_inputs_it_is_refused_when_the_file_loads() -> None:
    host = Host.of({"llm_call": plugin, "double": offering({"provider": {"double": embedding()}})})
    wrong = document()
    del wrong["steps"][0]["inputs"]
    with pytest.raises(DocumentError, match="the field 'inputs' is missing"):
        build_workflow(wrong, host=host)


async def test_a_provider_without_embeddings_says_so() -> None:
    result = await run(scripted("hi"))
    assert result.step_results["vectors"].error == "provider 'double' has no embeddings"


async def test_the_mock_gives_the_same_vectors_every_time() -> None:
    plugins = {"llm_call": plugin, "mock": treadle_replay.plugin}
    of = document(config={"provider": "mock"}, dimensions=4)
    first, second = [await run_workflow(of, plugins=plugins) for _ in range(2)]
    assert first.final_state["found"] == second.final_state["found"]
    assert [len(each) for each in first.final_state["found"]] == [4, 4, 4]
    assert first.total_cost_usd == 0
