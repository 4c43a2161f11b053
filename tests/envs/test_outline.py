"""JSON as an outline: nothing is lost, and no two values look the same."""

import json

import pytest
from hypothesis import given
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
    assert text[first.start : first.end] == " MCO,3,\n"
    assert [text[spans(text)[i].start :].startswith("flights") for i in first.leads] == [True]
    assert header.is_lead


def test_lists_of_records_within_a_list_share_their_header() -> None:
    legs = [[{"no": 1, "to": "X"}, {"no": 2, "to": "Y"}], [{"no": 3, "to": "Y"}]]
    assert outline(json.dumps(legs)) == "{no,to}:\n - 1,X\n   2,Y\n - 3,Y"


@pytest.mark.parametrize(
    "text", ["", "plain", "3", '"x"', "[]", '{"a": 1, "a": 2}', "[" * 5000, '{"a": 1', "{a: 1}"]
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert outline(text) == text
    assert not isinstance(outline(text), Outline)


@given(VALUES, VALUES)
def test_two_values_never_look_the_same(one: object, other: object) -> None:
    first, second = (json.dumps(value, sort_keys=True) for value in (one, other))
    assert first == second or outline(first) != outline(second)
