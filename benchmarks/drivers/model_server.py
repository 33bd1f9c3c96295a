"""A server that speaks as much of Chat Completions as the benchmarks need.

Prints its port and serves until it is killed.

What it does is chosen by the first part of the path:

    /wait-MS/v1/chat/completions       one reply, after MS milliseconds
    /chunks-N/v1/chat/completions      N pieces of text, each its own HTTP chunk, as fast as they are taken
    /stamps-N/v1/chat/completions      N pieces of text, 5 ms apart, each saying when it was sent (time.monotonic)
    /tools-N/v1/chat/completions       one tool call, until the request holds N results; then a text
    /tools-N/api/chat                  the same as Ollama says it
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import Any

LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
WORK = re.compile(rb"POST /(wait|chunks|stamps|tools)-(\d+)/(\w+)/")
TEXT = "word "
PIECES_AT_ONCE = 64
RESULT = re.compile(rb'"role": ?"tool"')
ANSWER = {"role": "assistant", "content": "done"}


def plain(message: dict[str, Any], finish: str = "stop") -> bytes:
    return whole(
        {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt-4o-mini",
            "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
    )


def ollama(message: dict[str, Any]) -> bytes:
    told = {"done": True, "done_reason": "stop", "prompt_eval_count": 1, "eval_count": 1}
    return whole({"model": "m", "created_at": "2026-01-01T00:00:00Z", "message": message, **told})


def whole(data: dict[str, Any]) -> bytes:
    body = json.dumps(data).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(body) + body


def tool_step(body: bytes, count: int, *, is_ollama: bool) -> bytes:
    done = len(RESULT.findall(body))
    message: dict[str, Any] = {"role": "assistant", "content": "done"}
    if done < count:
        given: Any = {"i": done}
        called = {"function": {"name": "step", "arguments": given if is_ollama else json.dumps(given)}}
        message |= {"content": "", "tool_calls": [{"id": f"call_{done}", "type": "function", **called}]}
    if is_ollama:
        return ollama(message)
    return plain(message, "tool_calls" if done < count else "stop")


def piece(text: str | None, finish: str | None = None) -> bytes:
    delta = {} if text is None else {"content": text}
    data = {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-4o-mini",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}],
    }
    event = b"data: " + json.dumps(data).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(event), event)


DONE = b"data: [DONE]\n\n"
END = piece(None, "stop") + b"%x\r\n%s\r\n0\r\n\r\n" % (len(DONE), DONE)
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    reply = plain(ANSWER)
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(int(LENGTH.search(head)[1]))  # type: ignore[index]
            work, number, api = WORK.match(head).groups()  # type: ignore[union-attr]
            count = int(number)
            if work == b"wait":
                await asyncio.sleep(count / 1000)
                writer.write(reply)
            elif work == b"tools":
                writer.write(tool_step(body, count, is_ollama=api == b"api"))
            elif work == b"chunks":
                await stream(writer, count)
            else:
                await stamps(writer, count)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def stream(writer: asyncio.StreamWriter, count: int) -> None:
    writer.write(STREAM)
    many = piece(TEXT) * PIECES_AT_ONCE
    for start in range(0, count, PIECES_AT_ONCE):
        left = min(PIECES_AT_ONCE, count - start)
        writer.write(many if left == PIECES_AT_ONCE else piece(TEXT) * left)
        await writer.drain()
    writer.write(END)


async def stamps(writer: asyncio.StreamWriter, count: int) -> None:
    writer.write(STREAM)
    for _ in range(count):
        await asyncio.sleep(0.005)
        writer.write(piece(f"{time.monotonic()} "))
        await writer.drain()
    writer.write(END)


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=4096, limit=1 << 20)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
