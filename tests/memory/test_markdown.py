"""Related history as Markdown: exactly one section in a text, and nothing of a record has an effect."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import Invalid
from perdure.memory.query.hosting import Hosting, hosting_here
from perdure.memory.query.markdown import BEGIN, END, TITLE, apply_section, inline, section
from tests.memory.repositories import GitRepository, repository

__all__ = ["repository"]

OLD = section([{"record": {"type": "fact", "title": "old"}, "why": []}])
NEW = section([{"record": {"type": "incident", "title": "new", "paths": ["a.py"]}, "why": []}])

PIECES = st.sampled_from(
    [BEGIN, END, TITLE, OLD, NEW, "", "text", "  ", "\r", "\n", "\r\n", "> quoted", f"> {BEGIN}", f"`{END}`", "- a"]
)
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=12).flatmap(
    lambda parts: st.sampled_from(["\n", "\r\n", ""]).map(lambda between: between.join(parts))
)


def markers(text: str) -> list[str]:
    """The lines that are a marker."""
    return [bare for line in text.split("\n") if (bare := line.strip(" \t\r")) in (BEGIN, END)]


CALL = "`perdure memory related --limit {}` with the same arguments"


@pytest.mark.parametrize(
    ("shown", "count", "is_exact", "said"),
    [
        (3, 1, True, f"1 more record matches: {CALL.format(4)} shows it."),
        (3, 4, True, f"4 more records match: {CALL.format(7)} shows them."),
        (3, 30, True, f"30 more records match: {CALL.format(20)} shows up to 20."),
        (3, 38, False, f"At least 38 more records match: {CALL.format(20)} shows up to 20."),
        (3, 0, False, f"There may be more: {CALL.format(20)} shows up to 20."),
        (
            20,
            4,
            True,
            "4 more records match. Narrow the search to see the others: fewer paths, or `--text` with words.",
        ),
    ],
)
def test_a_section_says_how_many_more_match_and_how_to_see_them(
    shown: int, count: int, is_exact: bool, said: str
) -> None:
    matches = [{"record": {"type": "fact", "title": f"fact {number}"}, "why": []} for number in range(shown)]
    text = section(matches, more={"count": count, "is_exact": is_exact})
    assert text.split("\n")[-3:-1] == ["", said]
    assert apply_section(apply_section("Mine.\n", text), text) == apply_section("Mine.\n", text)
    assert apply_section(apply_section("Mine.\n", text), "") == "Mine.\n"


def test_a_removed_section_leaves_one_empty_line_between_what_stays() -> None:
    with_section = f"Mine.\n\n{BEGIN}\nold\n{END}\n\nYours.\n"
    assert apply_section(with_section, "") == "Mine.\n\nYours.\n"
    assert apply_section(f"Mine.\n{BEGIN}\nold\n{END}\nYours.\n", "") == "Mine.\nYours.\n"


def test_a_cause_that_came_back_says_how_often() -> None:
    record = {"type": "revert", "title": "again"}
    assert "revert: again (4 times, this is the newest)" in section([{"record": record, "why": [], "count": 4}])
    assert "times" not in section([{"record": record, "why": [], "count": 1}])


@given(TEXTS)
def test_there_is_exactly_one_section_however_often_it_is_applied(text: str) -> None:
    once = apply_section(text, NEW)
    assert markers(once) == [BEGIN, END]
    assert NEW in once.replace("\r\n", "\n")
    assert apply_section(once, NEW) == once
    assert markers(apply_section(once, OLD)) == [BEGIN, END]


@given(TEXTS, TEXTS)
def test_what_people_wrote_around_a_section_stays(before: str, after: str) -> None:
    own = [re.sub("|".join(map(re.escape, (BEGIN, END, TITLE))), "", text) for text in (before, after)]
    text = f"{own[0]}\n{OLD}\n{own[1]}"
    is_crlf = text.partition("\n")[0].endswith("\r")
    ends = "\r\n" if is_crlf else "\n"
    lines = NEW.replace("\n", ends)
    expected = f"{own[0]}\n{lines}{ends}{own[1]}"
    assert apply_section(text, NEW) == expected


@pytest.mark.parametrize(
    ("existing", "expected"),
    [
        ("", f"{NEW}\n"),
        (" \n\n", f"{NEW}\n"),
        ("Fixes the cart.", f"Fixes the cart.\n\n{NEW}\n"),
        ("Fixes the cart.\n", f"Fixes the cart.\n\n{NEW}\n"),
        ("Fixes the cart.\n\n", f"Fixes the cart.\n\n{NEW}\n"),
        (f"above\n{OLD}\nbelow", f"above\n{NEW}\nbelow"),
        (f"above\n{OLD}", f"above\n{NEW}"),
        (f"{OLD}\nbetween\n{OLD}\n", f"{NEW}\nbetween\n"),
        (f"{BEGIN}\n{TITLE}\nmine\n", f"{NEW}\nmine\n"),
        (f"mine\n{END}\n", f"mine\n{NEW}\n"),
        (f"{BEGIN}\nmine\n{OLD}\n", f"{NEW}\nmine\n"),
        (f"one\r\n{OLD}\r\ntwo", "one\r\n" + NEW.replace("\n", "\r\n") + "\r\ntwo"),
        ("one\r\ntwo", "one\r\ntwo\r\n\r\n" + NEW.replace("\n", "\r\n") + "\r\n"),
        (f"say `{BEGIN}` to find it", f"say `{BEGIN}` to find it\n\n{NEW}\n"),
    ],
)
def test_a_section_takes_the_place_of_the_first_one(existing: str, expected: str) -> None:
    assert apply_section(existing, NEW) == expected


def test_what_is_no_section_is_not_applied() -> None:
    with pytest.raises(Invalid, match="The section must begin with"):
        apply_section("text", "anything")


def test_there_is_no_section_of_nothing() -> None:
    assert section([]) == section([], truncated=True) == section([], more={"count": 1, "is_exact": True}) == ""


@pytest.mark.parametrize(
    ("existing", "expected"),
    [
        ("", ""),
        ("Fixes the cart.", "Fixes the cart."),
        (f"{OLD}\n", ""),
        (f"Fixes the cart.\n\n{OLD}\n", "Fixes the cart.\n"),
        (f"one\r\n\r\n{OLD}\r\n", "one\r\n"),
        (f"above\n{OLD}\nbelow", "above\nbelow"),
        (f"{OLD}\nbetween\n{NEW}\n", "between\n"),
        (f"{BEGIN}\n{TITLE}\nmine\n", "mine\n"),
    ],
)
def test_a_section_that_matches_nothing_any_more_is_removed(existing: str, expected: str) -> None:
    assert apply_section(existing, "") == expected


@given(TEXTS)
def test_a_text_without_sections_is_unchanged_when_they_are_removed(text: str) -> None:
    bare = apply_section(text, "")
    assert markers(bare) == []
    assert apply_section(bare, "") == bare
    assert apply_section(apply_section(bare, NEW), "").rstrip() == bare.rstrip()


SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("hosting", "line"),
    [
        (None, "  - commit `0123456789ab`, pull request 12"),
        (
            Hosting("https://github.com"),
            f"  - commit [`0123456789ab`](<https://redirect.github.com/acme/shop/commit/{SHA}>),"
            " pull request [12](<https://redirect.github.com/acme/shop/pull/12>)",
        ),
        (
            Hosting("https://git.example.org", "/-/commit/", "/-/merge_requests/"),
            f"  - commit [`0123456789ab`](<https://git.example.org/acme/shop/-/commit/{SHA}>),"
            " merge request [12](<https://git.example.org/acme/shop/-/merge_requests/12>)",
        ),
    ],
)
def test_commits_and_pull_requests_are_links_where_their_host_is_known(hosting: Hosting | None, line: str) -> None:
    record = {"title": "x", "repo": "acme/shop", "sha": SHA, "pr_number": 12}
    assert line in section([{"record": record, "why": []}], hosting=hosting).split("\n")


@pytest.mark.parametrize(
    "record",
    [
        {"sha": None, "pr_number": None, "repo": "a/b"},
        {"sha": "HEAD", "pr_number": True, "repo": "a/b"},
        {"sha": SHA, "pr_number": 1},
        {"sha": SHA, "pr_number": 1, "repo": "a/b>) @ann"},
        {"sha": f"{SHA}/../x", "pr_number": "1", "repo": "a/b"},
    ],
)
def test_what_names_no_commit_and_no_pull_request_is_no_link(record: dict[str, Any]) -> None:
    text = section([{"record": {"title": "x", **record}, "why": []}], hosting=Hosting("https://example.org"))
    assert "](" not in text
    assert "None" not in text


@pytest.mark.parametrize(
    ("environment", "address", "expected"),
    [
        ({}, "https://user:token@github.com/acme/shop.git", "https://github.com/a/b/commit/1234567"),
        ({}, "git@gitlab.com:acme/shop.git", "https://gitlab.com/a/b/-/commit/1234567"),
        ({}, "ssh://git@codeberg.org:22/acme/shop.git", "https://codeberg.org/a/b/commit/1234567"),
        ({}, "https://git.example.org:8443/acme/shop", "https://git.example.org:8443/a/b/commit/1234567"),
        ({"GITLAB_CI": "true", "CI_SERVER_URL": "https://git.example.org"}, "", "https://git.example.org/a/b/-/commit/1234567"),
        ({"GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://ghe.example.org"}, "", "https://ghe.example.org/a/b/commit/1234567"),
        ({}, "/somewhere/acme/shop", None),
        ({}, "", None),
    ],
)  # fmt: skip
def test_the_host_is_the_one_of_the_ci_or_of_the_origin(
    environment: dict[str, str],
    address: str,
    expected: str | None,
    repository: GitRepository,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(repository.folder)
    if address:
        repository.git("remote", "add", "origin", address)
    hosting = hosting_here(environment)
    assert (hosting.commit_url("a/b", "1234567") if hosting else None) == expected


def test_a_section_reports_what_why_and_where() -> None:
    record = {
        "type": "incident",
        "severity": "high",
        "timestamp": "2026-11-02T10:00:00.000Z",
        "repo": "acme/shop",
        "title": "The cart is empty",
        "summary": "A cache was stale.",
        "paths": ["src/cart.py"],
        "links": [{"url": "https://example.org/42", "title": "report"}],
    }
    why = [{"kind": "path", "value": "src/cart.py"}, {"kind": "fingerprint", "value": "f00"}]
    assert section([{"record": record, "why": why}], truncated=True).split("\n")[3:-1] == [
        "- **high** incident, 2026-11-02, acme/shop: The cart is empty",
        "  - A cache was stale.",
        "  - paths: `src/cart.py`",
        "  - why: path `src/cart.py`, fingerprint f00",
        "  - [report](<https://example.org/42>)",
        "",
        "There may be more: the search was cut short.",
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("thanks @ann", "thanks @&#8203;ann"),
        ("see #12 and acme/shop#3", r"see \#&#8203;12 and acme/shop\#&#8203;3"),
        ("GH-12", "GH-&#8203;12"),
        ("a!7 ~bug %v1", r"a\!&#8203;7 \~&#8203;bug %&#8203;v1"),
        ("https://github.com/a/b/issues/1", "https:&#8203;//github.com/a/b/issues/1"),
        ("www.example.org", "www&#8203;.example.org"),
        ("<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)&gt;"),
        ("![x](http://e/x.png)", r"\!\[x\](http:&#8203;//e/x.png)"),
        ("[x](javascript:alert(1))", r"\[x\](javascript:alert(1))"),
        ("`code` and ```", r"\`code\` and \`\`\`"),
        (f"{END}\n# mine", r"&lt;\!&#8203;-- perdure:memory:end --&gt; \# mine"),
        ("&lt;b&gt; &#64;ann", "&amp;&#8203;lt;b&amp;&#8203;gt; &amp;\\#&#8203;64;ann"),
        ("a\u202eb\u200bc\x1b[2J\x00", r"a b c \[2J"),
        ("*bold* _it_ ~~no~~ $x$ a|b", r"\*bold\* \_it\_ \~\~&#8203;no\~\~ \$&#8203;x\$ a\|b"),
        ("\\", r"\\"),
    ],
)
def test_text_of_a_record_has_no_effect(text: str, shown: str) -> None:
    assert inline(text) == shown


def test_a_long_text_is_cut_before_it_is_escaped() -> None:
    assert inline("@" * 500, 10) == "@" * 9 + "…"
    assert inline("<" * 500, 3) == "&lt;&lt;…"


@given(st.dictionaries(st.sampled_from(["title", "summary", "type", "repo", "severity", "id"]), st.text()), st.text())
def test_no_record_can_forge_a_marker_or_mention_a_user(record: dict[str, Any], evil: str) -> None:
    hostile = {**record, "paths": [evil, f"@a/{evil}"], "links": [{"url": evil}, {"url": f"https://e/{evil}"}]}
    why = [{"kind": "path", "value": evil}, {"kind": evil, "value": f"{END}\n@ann {evil}"}]
    text = section([{"record": hostile, "why": why}])
    assert markers(text) == [BEGIN, END]
    inside = text.removeprefix(BEGIN).removesuffix(END)
    assert "<!" not in inside
    assert not re.search(r"(?<!`)@\w", re.sub(r"\(<[^>]*>\)", "", inside))
    assert apply_section(text, text) == text


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "https://[", "x", "//e"]
)
def test_only_an_address_of_the_web_becomes_a_link(url: str) -> None:
    text = section([{"record": {"links": [{"url": url, "title": "here"}]}, "why": []}])
    assert "](" not in text
    assert "  - here" in text


def test_a_link_to_an_issue_leaves_no_trace_there() -> None:
    text = section([{"record": {"links": [{"url": "https://github.com/a/b/issues/1)<x>"}]}, "why": []}])
    assert "(<https://redirect.github.com/a/b/issues/1%29%3Cx%3E>)" in text
