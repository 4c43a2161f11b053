"""Entities and relations of remembered facts, by spaCy's parse."""

import pytest

from stategate.stores.memory.extraction import Entity, Relation, extract, name_graph
from stategate.stores.memory.records import Fact


def fact(number, text):
    return Fact(number, text, "", 0.5, True, 0.0, float(number), 1)


def test_names_have_kinds_and_a_verb_relates_them():
    entities, relations = extract("Maria Lopez lives in Oslo. She married Otto Lind.")
    assert {Entity("person", "Maria Lopez"), Entity("location", "Oslo")} <= set(entities)
    found = {(r.subject.name, r.relation, r.object.name) for r in relations}
    assert found == {("Maria Lopez", "lives_in", "Oslo")}


def test_what_is_denied_is_no_relation():
    assert not extract("Maria Lopez never lived in Oslo.")[1]


@pytest.mark.parametrize("text", ["", " \n\n ", "???", "'s", "x" * 5000, '((( "" "A" "', "漢字 Ω"])
def test_any_text_is_read_without_an_error(text):
    extract(text)


def test_a_graph_has_the_most_frequent_names_first_within_its_limits():
    facts = [fact(1, "Maria Lopez lives in Oslo."), fact(2, "Maria Lopez works in Bergen.")]
    entities, relations = name_graph(facts, 2, 1)
    assert entities[0] == Entity("person", "Maria Lopez")
    assert (len(entities), len(relations)) == (2, 1)
    assert isinstance(relations[0], Relation)
    assert name_graph([], 5, 5) == ([], [])
