"""Command lines without a shell: words are words, and what only a shell can do is refused."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.minds.shell_words import split_words

SHELL = ["|", "<", ">", ";", "&", "`", "\n", "$A", "${A}", "$(a)", "$1", "$?", "$$"]


def split(text: str) -> list[str]:
    return split_words(text, "use a shell")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ls | wc", "|"),
        ("ls>x", ">"),
        ("cat < x", "<"),
        ("a && b", "&"),
        ("a; b", ";"),
        ("echo `date`", "`"),
        ("echo $(date)", "$("),
        ("echo a$HOME/b", "$HOME"),
        ("echo ${HOME}", "${"),
        ("echo $5", "$5"),
        ("curl http://example.org/?a=1&b=2", "&"),
        ("echo 'a' \"b\" | wc", "|"),
        ("echo '\\' | wc", "|"),
        ('echo "a\\"" | wc', "|"),
        ("echo a\\\\|b", "|"),
        ("a\nb", "A line end"),
    ],
)
def test_what_only_a_shell_can_do_is_refused_by_name(text: str, found: str) -> None:
    with pytest.raises(ValueError, match="no shell runs this") as caught:
        split(text)
    assert str(caught.value).startswith(f"{found} is shell syntax")
    assert str(caught.value).endswith("or use a shell.")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sh -c 'a | b > $C; `d`'", ["sh", "-c", "a | b > $C; `d`"]),
        ('sh -c "a | b & c\nd"', ["sh", "-c", "a | b & c\nd"]),
        ("echo \\| \\$HOME a\\&b \\;", ["echo", "|", "$HOME", "a&b", ";"]),
        ("grep a$ b", ["grep", "a$", "b"]),
        ("echo 5$", ["echo", "5$"]),
        ("ls *.txt ~ {a,b} (c) #d", ["ls", "*.txt", "~", "{a,b}", "(c)", "#d"]),
        (" a\n", ["a"]),
    ],
)
def test_what_is_quoted_or_escaped_is_passed_on(text: str, words: list[str]) -> None:
    assert split(text) == words


@given(st.lists(st.text(alphabet="a '\"\\|&;<>`$(){}\n\t")))
def test_quoted_words_come_back(words: list[str]) -> None:
    assert split(shlex.join(words)) == words


@given(st.lists(st.text(alphabet="a '\"\\|&;$", min_size=1), min_size=2), st.sampled_from(SHELL), st.data())
def test_anything_for_a_shell_is_found_between_quoted_words(words: list[str], shell: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(1, len(words) - 1))
    with pytest.raises(ValueError, match="is shell syntax"):
        split(shlex.join(words[:at]) + shell + shlex.join(words[at:]))


@pytest.mark.parametrize("text", ["echo 'a", 'echo "a | b', "a\\"])
def test_a_quote_that_is_left_open_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be split into words"):
        split(text)
