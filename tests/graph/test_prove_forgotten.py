"""What was forgotten is looked for byte by byte, and a file that another program holds is named."""

import logging
import sqlite3

import pytest

from stategate import Memory
from stategate.graph.forgetting import Places, forget_everywhere, traces_left
from stategate.stores.home import cache
from stategate.stores.home import home as home_folder
from tests.kit import call, refused

SAID = "My dentist is Dr. Wu of Graz, whom I dread."


@pytest.fixture
def memory(home):
    memory = Memory(user="somebody-rare")
    memory.remember(SAID)
    return memory


def test_a_forgotten_text_its_vector_and_its_user_are_nowhere(memory):
    places = [*{home_folder(), cache()}]
    left = traces_left(SAID, places)
    assert any("as text" in place for place in left)
    assert any("its vector" in place for place in left)
    forget_everywhere(memory.store, memory.namespace, places=Places())
    assert traces_left(SAID, places) == []
    assert traces_left("somebody-rare", places) == []
    memory.remember("I sail.")  # a reader of before sees the new fact
    assert [fact.question for fact in memory.recall("What do I do on the sea?")] == ["I sail."]


def test_a_log_that_another_program_reads_is_named(memory, caplog):
    reader = sqlite3.connect(cache() / "embeddings.sqlite")
    reader.execute("begin")
    reader.execute("select count(*) from embeddings").fetchone()
    with caplog.at_level(logging.WARNING):
        forget_everywhere(memory.store, memory.namespace, places=Places())
    assert "another program has" in caplog.text
    assert traces_left(SAID, [cache()])
    reader.close()


def test_the_command_says_where_it_is_or_that_nothing_is_left(memory):
    assert "long_term.sqlite" in refused("memory", "prove-forgotten", SAID)
    call("memory", "forget", "--all", "--user", "somebody-rare")
    assert "not a byte of it is left" in call("memory", "prove-forgotten", SAID)
