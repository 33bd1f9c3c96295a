"""The file of a recording, as it is written: by several processes at once, whole at every moment, in a stable form.

A recording that begins while no other one is under way replaces what the file has, key by key, as the keys are called.
Recordings that are under way at once are one recording: their entries are put together. Which keys that has replaced
so far stands in the file under ``_under_way``, until the last of them has ended.
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from treadle.redaction import without_hashes
from treadle_replay.calls import AbandonedCalls, ModelCall, ToolCall, add_providers
from treadle_replay.errors import RecordingError
from treadle_replay.locking import held, take
from treadle_replay.responses import FORMAT, FORMAT_VERSION, parse_recording, read_json, whole_requests

__all__ = ["RecordingFile"]

_WAIT = 10.0
"""Seconds that a lock is waited for. It is held for as long as a file takes to be read and written."""
_VECTOR = "\x00vector "


class RecordingFile:
    """One file, for one recorder. Every method blocks.

    :param wait: seconds that another process's write is waited for.
    :raises ConfigurationError: it is there and no recording, or cannot be written.
    """

    def __init__(self, path: Path, *, wait: float = _WAIT) -> None:
        self.path = Path(os.path.realpath(path))
        self._shown = path
        self._wait = wait
        self._lock = self.path.with_name(f".{self.path.name}.lock")
        self._own = self.path.with_name(f".{self.path.name}.{secrets.token_hex(6)}.recording")
        self._handle: int | None = None
        self._data: dict[str, Any] = {}
        self._seen: tuple[int, int, int] | None = None
        self._texts: dict[int, tuple[Any, str]] = {}
        self._places: dict[int, tuple[Any, tuple[int, ...]]] = {}
        self._whole: dict[str, tuple[int, Mapping[str, Any] | None]] = {}
        if not self.path.parent.is_dir():
            raise RecordingError(f"{path}: there is no folder {path.parent}")
        with self._alone():
            self._read()
            if not self._others():
                self._data.pop("_under_way", None)
                for file in self.path.parent.glob(f".{_escaped(self.path.name)}-*.writing"):
                    file.unlink(missing_ok=True)  # its process died while it wrote
            self._handle = take(self._own)
            self._write()

    def add(self, made: Iterable[ModelCall | ToolCall | AbandonedCalls]) -> None:
        """Put calls into the file, which has them when this returns.

        :raises RecordingError: it cannot be written; then it is as it was.
        """
        with self._alone():
            self._read()
            for each in made:
                if isinstance(each, ModelCall):
                    self._add_call(each)
                elif isinstance(each, ToolCall):
                    self._add_result(each)
                else:
                    self._abandon(each)
            self._write()

    def keep_tools(self) -> None:
        """Say in the file that results of tools are recorded too, though there may be none."""
        with self._alone():
            self._read()
            self._data.setdefault("_tools", {})
            self._write()

    def close(self) -> None:
        """The recording has ended."""
        if self._handle is None:
            return
        with self._alone():
            os.close(self._handle)
            self._handle = None
            self._own.unlink(missing_ok=True)
            if not self._others():
                self._read()
                if self._data.pop("_under_way", None) is not None:
                    self._write()
                with suppress(OSError):  # on Windows a file that is open stays
                    self._lock.unlink()

    # --- what is in it ------------------------------------------------------------------------------------

    def _add_call(self, call: ModelCall) -> None:
        add_providers(self._data, call)
        under_way = self._data.setdefault("_under_way", [])
        if call.key not in under_way:
            under_way.append(call.key)
            self._data[call.key] = []
            self._whole.pop(call.key, None)
            self._data.get("_tools", {}).pop(call.key, None)
        entries = self._data[call.key]
        entry = _hidden(call.entry())
        request = entry["request"]
        before = self._request_before(call.key, entries)
        if before is not None:
            entry["request"] = _going_on(before, request)
        entries.append(entry)
        self._whole[call.key] = (len(entries), request)

    def _add_result(self, call: ToolCall) -> None:
        """In the order of what was asked, and of the calls: those of one reply end in any order."""
        results = self._data.setdefault("_tools", {}).setdefault(call.step, [])
        entry = _hidden(call.entry())
        self._places[id(entry)] = (entry, call.place)
        results.append(entry)
        # What is not known here was there before.
        results.sort(key=lambda each: (_asked(each), self._places.get(id(each), (None, ()))[1]))

    def _request_before(self, key: str, entries: list[Any]) -> Mapping[str, Any] | None:
        count, request = self._whole.get(key, (0, None))
        if count != len(entries):
            request = list(whole_requests(entries))[-1]
        return request

    def _abandon(self, made: AbandonedCalls) -> None:
        for call in made.calls:
            entry = _hidden(call.entry())
            entries = self._data.get(call.key, [])
            for at in range(len(entries) - 1, -1, -1):
                if _but_request(entries[at]) == _but_request(entry):
                    entries[at] = {**entries[at], "abandoned": True}
                    break

    # --- the file -----------------------------------------------------------------------------------------

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with held(self._lock, what=self._shown, seconds=self._wait):
            try:
                yield
            except OSError as error:
                raise RecordingError(f"{self._shown}: cannot be written: {error.strerror or error}") from error

    def _others(self) -> bool:
        """Whether other recorders are at it. What dead ones have left is cleared away."""
        found = False
        for file in self.path.parent.glob(f".{_escaped(self.path.name)}.*.recording"):
            if file == self._own:
                continue
            handle = take(file)
            if handle is None:
                found = True
            else:
                os.close(handle)
                file.unlink(missing_ok=True)
        return found

    def _read(self) -> None:
        seen = self._stat()
        if seen == self._seen and seen is not None:
            return
        self._texts, self._places, self._whole, self._data = {}, {}, {}, {}
        if seen is not None:
            data = read_json(self._shown)
            parse_recording(data, source=str(self._shown))
            # One entry of a key stands for itself in the file.
            self._data = {
                key: value if key.startswith("_") or isinstance(value, list) else [value] for key, value in data.items()
            }

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _write(self) -> None:
        text = self._text()
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}-", suffix=".writing")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            if self.path.exists():
                Path(name).chmod(self.path.stat().st_mode & 0o777)
            Path(name).replace(self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        self._seen = self._stat()

    def _text(self) -> str:
        metadata = {"_format": FORMAT, "_version": FORMAT_VERSION}
        lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in metadata.items()]
        others = {key: value for key, value in self._data.items() if key not in metadata}
        for key in sorted(others):
            value = others[key]
            if key.startswith("_"):
                shown = json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True).replace("\n", "\n  ")
            elif len(value) == 1:
                shown = self._entry(value[0]).replace("\n", "\n  ")
            else:
                items = ",\n    ".join(self._entry(each).replace("\n", "\n    ") for each in value)
                shown = f"[\n    {items}\n  ]"
            lines.append(f"  {json.dumps(key, ensure_ascii=False)}: {shown}")
        return "{\n" + ",\n".join(lines) + "\n}\n"

    def _entry(self, entry: Any) -> str:
        """An entry as text; made once, as all of them are written again with every call."""
        known = self._texts.get(id(entry))
        if known is None or known[0] is not entry:
            known = self._texts[id(entry)] = (entry, _entry_text(entry))
        return known[1]


def _entry_text(entry: Any) -> str:
    """JSON in several lines, but for vectors, which are a line each."""
    if not isinstance(entry, dict) or not isinstance(entry.get("embeddings"), list):
        return json.dumps(entry, ensure_ascii=False, indent=2, sort_keys=True)
    vectors = entry["embeddings"]
    marked = {**entry, "embeddings": [f"{_VECTOR}{at}" for at in range(len(vectors))]}
    text = json.dumps(marked, ensure_ascii=False, indent=2, sort_keys=True)
    for at, vector in enumerate(vectors):
        text = text.replace(json.dumps(f"{_VECTOR}{at}"), json.dumps(vector), 1)
    return text


def _hidden(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry with what was redacted in it told apart no more: the hashes differ from process to process."""
    text = json.dumps(entry, ensure_ascii=False)
    hidden: dict[str, Any] = json.loads(without_hashes(text))
    return hidden


def _going_on(before: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    """A request without what the one before it in the list had as well."""
    known, messages = before.get("messages"), request.get("messages")
    if not isinstance(known, list) or not isinstance(messages, list) or messages[: len(known)] != known or not known:
        return dict(request)
    rest = {key: value for key, value in request.items() if key != "messages" and before.get(key, ...) != value}
    if any(key not in request for key in before):
        return dict(request)
    return {**rest, "more_messages": messages[len(known) :]}


def _but_request(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "request"}


def _asked(entry: Mapping[str, Any]) -> str:
    return json.dumps([entry["name"], entry["arguments"]], sort_keys=True)


def _escaped(name: str) -> str:
    return "".join(f"[{each}]" if each in "*?[" else each for each in name)
