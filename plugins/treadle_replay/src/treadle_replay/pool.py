"""Which reply is played for a request."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from treadle import EmbedRequest, ModelRequest, close_match
from treadle_replay.drift import changes, fits, is_of_a_tool
from treadle_replay.request_hash import content_hash, hashed_content
from treadle_replay.responses import RecordedReply, RecordedTool, Recording

__all__ = ["Choice", "Pool"]


@dataclass(frozen=True, slots=True)
class Choice:
    """The reply that is played for a request.

    :param drift: why it is not the reply to that request; empty where it is.
    :param only_tools: whether nothing has changed but what tools gave.
    """

    reply: RecordedReply
    drift: str = ""
    only_tools: bool = False


class Pool:
    """Replies by key. Of a key's list each is played once: the first one that was recorded for such a request, and
    where none was, the next one. When all have been played, the one that fits, or the last, is given again.
    """

    def __init__(self, recording: Recording, source: str = "") -> None:
        self.source = source
        self.recording = recording
        self._replies = {
            key: [each for each in replies if not each.abandoned] for key, replies in recording.replies.items()
        }
        self._played: dict[str, set[int]] = {}
        self._tools_played: dict[str, set[int]] = {}

    def __bool__(self) -> bool:
        return bool(self._replies)

    def choose(self, request: ModelRequest | EmbedRequest) -> Choice | None:
        """The reply for the request, which counts as played; None where there is none for its key or its hash."""
        if not self._replies:
            return None
        content = hashed_content(request)
        digest = content_hash(content)
        key = self._key_of(request.key, digest)
        if key is None:
            return None
        replies, played = self._replies[key], self._played.setdefault(key, set())
        fresh = [at for at in range(len(replies)) if at not in played]
        fitting = (at for at in fresh if _is_for(replies[at], content, digest))
        at = next(fitting, None)
        if at is None:
            again = [at for at in sorted(played) if _is_for(replies[at], content, digest)]
            at = again[-1] if again else fresh[0] if fresh else len(replies) - 1
        played.add(at)
        reply = replies[at]
        if key == digest or _is_for(reply, content, digest):
            return Choice(reply)
        drift = f"the reply for '{key}' was recorded for another request"
        if reply.request is None:
            return Choice(reply, drift)
        told = "; ".join(changes(reply.request, content))
        return Choice(reply, f"{drift}: {told}", only_tools=is_of_a_tool(reply.request, content))

    def most_cost(self, request: ModelRequest | EmbedRequest) -> float:
        """The most that a reply which is left for the request says that it cost; 0 where there is none."""
        if not self._replies:
            return 0.0
        key = self._key_of(request.key, content_hash(hashed_content(request)))
        if key is None:
            return 0.0
        played = self._played.get(key, ())
        left = [each for at, each in enumerate(self._replies[key]) if at not in played] or self._replies[key]
        return max(each.cost_usd or 0.0 for each in left)

    def catch_up(self, requests: Iterable[ModelRequest | EmbedRequest]) -> None:
        """Count as played what these were answered with, in an earlier process of a run; what counts already does not
        count twice.
        """
        if not self._replies:
            return
        seen: Counter[str] = Counter()
        for request in requests:
            key = self._key_of(request.key, content_hash(hashed_content(request)))
            if key is not None:
                seen[key] += 1
                if len(self._played.get(key, ())) < seen[key]:
                    self.choose(request)

    def _key_of(self, key: str, digest: str) -> str | None:
        """Under what the replies are for a request with that key and that hash."""
        return next((each for each in (*self._keys(key), digest) if self._replies.get(each)), None)

    def _keys(self, key: str) -> Iterator[str]:
        """The key, and where the file is not a recording of ours, what it is called within its child workflow."""
        if not key:
            return
        yield key
        step, mark, rest = key.partition("::")
        while not self.recording.is_ours and "." in step:
            step = step.partition(".")[2]
            yield f"{step}{mark}{rest}"

    def near(self, key: str) -> list[str]:
        """Up to five keys that may have been meant; the first ones there are, where none looks alike."""
        keys = list(self._replies)
        return get_close_matches(key, keys, n=5, cutoff=0.5) or keys[:5]

    def unused(self) -> list[str]:
        """The keys of which replies, or results of tools, have not been played, each with how many."""
        told = [
            f"'{key}' ({_of(len(replies) - len(played), len(replies), 'reply', 'replies')})"
            for key, replies in self._replies.items()
            if len(played := self._played.get(key, set())) < len(replies)
        ]
        return told + [
            f"'{key}' ({_of(len(results) - len(played), len(results), 'result', 'results')} of tools)"
            for key, results in self.recording.tools.items()
            if len(played := self._tools_played.get(key, set())) < len(results)
        ]

    def unknown_keys(self, step_ids: Iterable[str]) -> Iterator[tuple[str, str | None]]:
        """The keys that no call of these steps has, each with the id that it may have been meant to be."""
        known = set(step_ids)
        for key in self._replies:
            step = key.partition("::")[0]
            if len(key) == 64 and all(each in "0123456789abcdef" for each in key):
                continue  # a request's hash
            heads = (step[:at] for at in range(len(step) + 1) if at == len(step) or step[at] == ".")
            # A file by hand may call a step of a child workflow by its own id.
            if not any(head in known for head in heads) and not any(each.endswith(f".{step}") for each in known):
                yield key, close_match(step, sorted(known))

    # --- tools --------------------------------------------------------------------------------------------

    def tool_result(self, step: str, call_id: str, name: str, arguments: Mapping[str, Any]) -> RecordedTool | None:
        """What the tool gave for such arguments in that step; each is given once, and the last one again and again."""
        results, played = self.recording.tools.get(step, ()), self._tools_played.setdefault(step, set())
        fitting = [
            at for at, each in enumerate(results) if each.name == name and fits(each.arguments, _plain(arguments))
        ]
        if not fitting:
            return None
        fresh = [at for at in fitting if at not in played]
        # Calls of one reply run in any order.
        at = next((at for at in fresh if results[at].call_id == call_id), fresh[0] if fresh else fitting[-1])
        played.add(at)
        return results[at]


def _plain(arguments: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(arguments, default=str))


def _of(left: int, count: int, one: str, many: str) -> str:
    return f"{left} {one if left == 1 else many}" if left == count else f"{left} of {count} {many}"


def _is_for(reply: RecordedReply, content: Mapping[str, Any], digest: str) -> bool:
    if reply.request_hash == digest:
        return True
    return reply.request_hash is None if reply.request is None else fits(reply.request, content)
