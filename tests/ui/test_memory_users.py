"""Whose long-term memory a config that came from a browser reads."""

import json
from functools import partial

import pytest

from stategate.graph.config import load_config
from stategate.ui.app.guard import apart, bounds, owned
from stategate.ui.memory import of_user, with_users

CONFIG = {
    "env": "webshop",
    "actor": "rule",
    "embedder": "hashing",
    "context": {
        "kind": "experience",
        "bank": "none",
        "inner": {"kind": "recall", "memory": {"place": {"user": "USER"}}},
    },
    "memory": [{"kind": "long_term", "place": {"user": "USER"}}],
}


def users(config):
    values = config.model_dump(mode="json")
    inner = values["context"]["inner"]["memory"]["place"]["user"]
    return [inner, values["memory"][0]["place"]["user"]]


def of(user):
    return load_config(json.loads(json.dumps(CONFIG).replace('"USER"', json.dumps(user))))


@pytest.mark.parametrize("named", [owned("ann", "me"), "root", "me"])
def test_a_browser_s_config_reads_nobody_else_s_memory(named, monkeypatch):
    monkeypatch.setattr(bounds, "is_local", False)
    config = with_users(of(named), partial(apart, "bob"))
    assert all(user.startswith(owned("bob", "")) for user in users(config))


def test_a_user_is_given_however_deep_the_memory_lies():
    assert users(of_user(of(None), "zoe")) == ["zoe", "zoe"]
