"""The pages of docs/ about the language are made of the tables that these tests run."""

import pytest

import language_pages


@pytest.mark.parametrize("name", language_pages.PAGES)
def test_the_page_has_the_tables_as_they_are_tested(name: str) -> None:
    page = (language_pages.ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    assert language_pages.render(name) == page


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b", "`a\\|b`"),
        ("write `and`", "`` write `and` ``"),
        (" a  b ", "`·a··b·`"),
        ("one\ntwo", "`one\\ntwo`"),
        ("e\u0301 \ud83d é", "`e\\u0301 \\ud83d é`"),
        ("", "*nothing*"),
    ],
)
def test_text_that_a_table_would_hide_is_written_so_that_it_shows(text: str, shown: str) -> None:
    assert language_pages.code(text) == shown
