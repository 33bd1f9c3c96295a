"""References to secrets: they say where a secret is, and never what it is."""

import copy
import pickle
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from treadle.contracts.secrets import SecretRef
from treadle.errors import CredentialError

KEY = "sk-0123456789-very-secret"


class Settings(BaseModel):
    key: SecretRef


@pytest.mark.parametrize("text", [KEY, "", "env:", "file:", "https://x", "ENV:X", f"key:{KEY}", f" env:{KEY}"])
def test_what_is_no_reference_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ValueError, match="given by reference, as env:NAME or file:PATH") as caught:
        SecretRef(text)
    assert KEY not in str(caught.value)
    assert "https" not in str(caught.value)


def test_a_model_says_once_that_it_is_none() -> None:
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({"key": KEY})
    (error,) = caught.value.errors()
    assert (error["loc"], error["type"]) == (("key",), "value_error")
    assert Settings(key=SecretRef("env:X")) == Settings.model_validate({"key": "env:X"})


def test_a_variable_is_read_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = SecretRef("env:A_KEY")
    monkeypatch.delenv("A_KEY", raising=False)
    assert not reference.is_set()
    with pytest.raises(CredentialError) as caught:
        reference.reveal()
    assert str(caught.value) == "the environment variable A_KEY is not set; export A_KEY=..."
    monkeypatch.setenv("A_KEY", f"  {KEY}\n")
    assert reference.is_set()
    assert reference.reveal() == KEY
    monkeypatch.setenv("A_KEY", "   ")
    assert not reference.is_set()


def test_a_file_is_read_when_it_is_needed(tmp_path: Path) -> None:
    file = tmp_path / "key"
    reference = SecretRef(f"file:{file}")
    with pytest.raises(CredentialError, match=r"^the key file .* cannot be read: "):
        reference.reveal()
    file.write_text(f"{KEY}\n", encoding="utf-8")
    assert reference.reveal() == KEY
    file.write_text("\n", encoding="utf-8")
    with pytest.raises(CredentialError, match=r"is empty$"):
        reference.reveal()
    file.write_bytes(b"\xff\xfe" + KEY.encode())
    with pytest.raises(CredentialError) as caught:
        reference.reveal()
    assert KEY not in str(caught.value)


def test_no_form_of_a_reference_shows_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", KEY)
    reference = SecretRef("env:A_KEY")
    assert reference.reveal() == KEY
    settings = Settings(key=reference)
    shown = [repr(reference), str(reference), repr(settings), settings.model_dump_json(), str(settings.model_dump())]
    assert all("A_KEY" in each and KEY not in each for each in shown)
    assert KEY.encode() not in pickle.dumps(reference)


def test_references_are_values() -> None:
    assert SecretRef("env:A") == SecretRef("env:A") != SecretRef("env:B")
    assert len({SecretRef("env:A"), SecretRef("env:A")}) == 1
    assert copy.deepcopy(SecretRef("env:A")) == SecretRef("env:A")
    assert SecretRef("env:A") != "env:A"


def test_a_setting_takes_a_reference_as_text_or_as_itself() -> None:
    assert Settings(key="env:A").key == Settings(key=SecretRef("env:A")).key  # type: ignore[arg-type]
    assert Settings.model_validate_json('{"key": "env:A"}').model_dump() == {"key": "env:A"}


def test_a_key_in_a_setting_is_refused_and_its_text_is_not_in_the_reason() -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(key=KEY)  # type: ignore[arg-type]
    assert all(KEY not in each["msg"] for each in caught.value.errors(include_input=False))
