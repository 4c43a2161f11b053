"""JSON as an outline: nothing is lost, and no two values look the same."""

import json
import time
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stategate.envs.messages.outline import Outline, outline
from stategate.envs.messages.reading import format_of, spans

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text('ab1 ,:-[]{}"\n.', max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=8,
)


def test_records_become_a_table_and_numbers_keep_their_digits() -> None:
    flights = '[{"from": "MCO", "seats": {"eco": 3}}, {"from": "BOS", "price": 1.50}]'
    text = outline(f'{{"id": "7", "flights": {flights}, "tags": ["a", "b,c"], "note": null}}')
    assert text == (
        'id: "7"\nflights{from,seats{eco},price}:\n MCO,3,\n BOS,,1.50\ntags: [a,"b,c"]\nnote: null'
    )
    assert format_of(text) == "outline"
    header, first = spans(text)[1:3]
    assert first.text == " MCO,3,\n"
    assert [lead.text.startswith("flights") for lead in first.leads] == [True]
    assert header.is_lead


def test_lists_of_records_within_a_list_share_their_header() -> None:
    legs = [[{"no": 1, "to": "X"}, {"no": 2, "to": "Y"}], [{"no": 3, "to": "Y"}]]
    assert outline(json.dumps(legs)) == "{no,to}:\n - 1,X\n   2,Y\n - 3,Y"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "3",
        '"x"',
        "[]",
        '{"a": 1, "a": 2}',
        '{"a": ' * 900 + "1" + "}" * 900,
        "[" * 5000,
        '{"a": 1',
        "{a: 1}",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert outline(text) == text
    assert not isinstance(outline(text), Outline)


def test_long_lines_of_text_are_a_block_without_escapes() -> None:
    code = 'def f(x):\n    return "a\\n"\n' * 9
    text = outline(
        json.dumps({"files": [{"path": "a.py", "code": code, "size": 9}], "log": code[:-1]})
    )
    lines = [*code[:-1].split("\n")]
    inner, outer = ("".join(f"{' ' * n}{line}\n" for line in lines) for n in (4, 1))
    assert text + "\n" == f"files:\n - path: a.py\n   code: |\n{inner}   size: 9\nlog: |-\n{outer}"
    part = next(s for s in spans(text) if "return" in s.text)
    leads = [lead.visible_text for lead in part.leads]
    assert leads == ["files:", "- path: a.py", "code: |", "def f(x):"]


def test_what_cannot_be_seen_or_sent_is_escaped() -> None:
    text = outline(r'{"a": "\ud83d", "b": "x\u2028y", "c": "1\r2", "\ud83d": "\u00e9\u0007"}')
    assert text == 'a: "\\ud83d"\nb: "x\\u2028y"\nc: "1\\r2"\n"\\ud83d": "é\\u0007"'


@pytest.mark.parametrize("wrap", [0, 100])
@example(["a: 1", []], [{"a": 1}, []])
@example({"- a": 1, "- b": 2}, [{"a": 1}, {"b": 2}])
@example([{"a": "|"}, []], [{"a": "\n"}, []])
@given(VALUES, VALUES)
def test_two_values_never_look_the_same(wrap: int, one: object, other: object) -> None:
    first, second = (json.dumps(value, sort_keys=True) for value in (one, other))
    with patch("stategate.envs.messages.outline._WRAP", wrap):
        assert first == second or outline(first) != outline(second)


@pytest.mark.parametrize("value", [[{"a": 1}, {}, {"a": 2}], [{f"key{i}": 1 for i in range(60)}]])
def test_no_table_of_one_long_row_or_with_a_blank_row(value: object) -> None:
    assert ":\n" not in outline(json.dumps(value))


def test_deep_records_are_an_outline_if_their_words_are_shorter() -> None:
    node = {"cursor": "a", "node": {"number": 12, "author": None, "labels": [{"name": "bug"}]}}
    text = outline(json.dumps({"data": {"repository": {"issues": {"edges": [node]}}}}))
    assert text.startswith(
        "data:\n repository:\n  issues:\n   edges:\n    - cursor: a\n      node:"
    )


def test_records_without_a_common_key_take_no_long_time() -> None:
    text = json.dumps([{f"key{i}": i} for i in range(9000)])
    started = time.process_time()
    assert outline(text).startswith("- key0: 0\n- key1: 1\n")
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    "text",
    [
        "<!doctype html><body><h1>Sites</h1><h2>Quay</h2><p>Old. Wet.</p><table>"
        "<tr><th>berth</th><td>B1</td></tr></table><h2>Pier</h2><p>New.</p></body>",
        "sites:\n  Quay:\n    - old\n    - wet\n    - berth: B1\n  Pier:\n    - new\n",
    ],
)
def test_a_heading_of_short_html_and_a_name_of_a_list_lead_what_is_below(text: str) -> None:
    parts = spans(text)
    assert "".join(part.text for part in parts) == text
    berth = next(part for part in parts if "berth" in part.text)
    assert any("Quay" in lead.text for lead in berth.leads)
    last = next(part for part in parts if "new" in part.text.lower())
    assert not any("Quay" in lead.text for lead in last.leads)


def test_long_json_is_an_outline_even_if_it_is_no_shorter() -> None:
    record = {"a": [[[[1], "b"]]], "url": "https://example.org/items/1"}
    for count, is_outline in ((3, False), (60, True)):
        text = json.dumps([record] * count, separators=(",", ":"))
        assert isinstance(outline(text), Outline) == is_outline
