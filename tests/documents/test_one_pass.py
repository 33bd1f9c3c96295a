"""Fourteen different mistakes in one file are fourteen located messages, in one pass."""

from __future__ import annotations

import pytest

import treadle
from treadle import DocumentError

TEXT = """\
name: fourteen
config:
  provider: mok
  max_retries: -1
state: {topic: tides, topic: twice}
steps:
  - id: ask
    type: llm_call
    prompt: |
      Explain {state.topic}
      as a {word}, in {state.style.
    temprature: 0
  - id: ask
    type: lm_call
    depends_on: [aks]
  - id: choose
    type: router
    conditions:
      - expression: state.topic === "x"
        target: publihs
  - id: publish
    type: tool
    tool_name: file_rite
    tool_args: {path: out.txt, content: "{state.text}"}
    timeout: soon
  - id: last
    type: llm_call
    prompt: {state.topic}
"""

MESSAGES = r"""
fourteen.yaml:3:13: config.provider: no provider 'mok'; did you mean 'mock' (treadle-replay 0.1.0)?
fourteen.yaml:4:16: config.max_retries: must be at least 0, not -1
fourteen.yaml:5:23: the key 'topic' already stands on line 5; remove one of them
fourteen.yaml:11:23: steps.ask.prompt: '{state.style.' at line 2, column 17 of the template: the reference goes wrong after '{state.style'; a reference looks like {state.key}, {state[some key]} or {state.list[0]}, and a literal brace is written twice, {{
fourteen.yaml:12:5: steps.ask.temprature: unknown field; did you mean 'temperature'?
fourteen.yaml:13:9: steps.ask.id: the id 'ask' is taken on line 7; rename one
fourteen.yaml:14:11: steps.ask.type: no step type 'lm_call'; did you mean 'llm_call' (treadle-llm-call 0.1.0)?
fourteen.yaml:15:18: steps.ask.depends_on.0: no step 'aks'; there are choose, last, publish
fourteen.yaml:19:35: steps.choose.conditions.0.expression: column 15: cannot be read: invalid syntax in expression 'state.topic === "x"'; write `==` for `===`, and `!=` for `!==`
fourteen.yaml:20:17: steps.choose.conditions.0.target: no step 'publihs'; did you mean 'publish'?
fourteen.yaml:23:16: warning: steps.publish.tool_name: no tool 'file_rite'; did you mean 'file_write' (treadle-tools 0.1.0)?
fourteen.yaml:24:43: warning: steps.publish.tool_args.content: nothing provides 'state.text'; declare 'text' under state:, or pass -s text=...
fourteen.yaml:25:14: steps.publish.timeout: must be a number, not 'soon'
fourteen.yaml:28:13: steps.last.prompt: must be text, not a mapping; in YAML a value that begins with { needs quotes: "{state.topic}"
"""  # noqa: E501


def test_fourteen_mistakes_are_fourteen_messages() -> None:
    with pytest.raises(DocumentError) as caught:
        treadle.parse_workflow(TEXT, host=treadle.Host.discover())
    assert str(caught.value).replace("<text>:", "fourteen.yaml:") == MESSAGES.strip()
    assert len({(each.code, each.line) for each in caught.value.problems}) == 14
