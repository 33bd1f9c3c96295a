"""Descriptions of a tool and its parameters are read from its docstring."""

from inspect import cleandoc
from typing import Annotated

import pytest

from treadle import tool
from treadle._docstrings import described

SPHINX = """Count words.

    Twice, if need be.

    :param text: what to count in,
        which may be long
    :param int most: the most
    :returns: a number
    """
GOOGLE = """Count words.

    Twice, if need be.

    Args:
        text (str): what to count in,
            which may be long
        most: the most
    Returns:
        number: a number
    """
NUMPY = """Count words.

    Twice, if need be.

    Parameters
    ----------
    text : str
        what to count in,
        which may be long
    most
        the most

    Returns
    -------
    number
        a number
    """


@pytest.mark.parametrize("docstring", [SPHINX, GOOGLE, NUMPY], ids=["sphinx", "google", "numpy"])
def test_each_style_gives_the_same(docstring):
    about, parameters = described(cleandoc(docstring))
    assert about == "Count words.\n\nTwice, if need be."
    assert parameters == {"text": "what to count in, which may be long", "most": "the most"}


@pytest.mark.parametrize("text", ["Plain.", "Takes:\n\n  a: b", "Args: are few.", "See :class:`X`: a: b", "", None])
def test_a_docstring_without_parameters_is_the_description_as_it_is(text):
    assert described(text) == (text or "", {})


@pytest.mark.parametrize("docstring", [SPHINX, GOOGLE, NUMPY], ids=["sphinx", "google", "numpy"])
def test_a_tool_describes_its_parameters_and_annotated_texts_win(docstring):
    def count(text: str, most: Annotated[int, "at most"] = 3, other: str = "") -> int:
        return most

    count.__doc__ = docstring
    made = tool(count)
    assert made.description == "Count words.\n\nTwice, if need be."
    shown = made.parameters["properties"]
    assert shown["text"]["description"] == "what to count in, which may be long"
    assert shown["most"]["description"] == "at most"
    assert "description" not in shown["other"]


def test_a_description_that_is_given_is_taken_and_the_parameters_are_still_described():
    @tool(description="Counts.")
    def count(text: str) -> int:
        """Count.

        :param text: what to count in
        """
        return len(text)

    assert count.description == "Counts."
    assert count.parameters["properties"]["text"]["description"] == "what to count in"
