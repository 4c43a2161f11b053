"""LangGraph's own conformance suite against our savers, and how LangGraph's own savers fare in it."""

import asyncio

import pytest

from stategate.graph.checkpoints import open_saver

pytest.importorskip("langgraph.checkpoint.conformance")


def report_of(open_one):
    """Run the whole suite over fresh savers; returns what failed, and how many passed."""
    from langgraph.checkpoint.conformance import checkpointer_test, validate

    @checkpointer_test(name=f"stategate {id(open_one)}")
    async def factory():
        yield open_one()

    report = asyncio.run(validate(factory))
    failures = [f for result in report.results.values() for f in result.failures]
    passed = sum(result.tests_passed for result in report.results.values())
    assert report.passed_all_base(), failures
    return failures, passed


def test_the_sqlite_saver_conforms(tmp_path):
    numbers = iter(range(1000))
    failures, passed = report_of(lambda: open_saver(str(tmp_path / f"{next(numbers)}.sqlite")))
    assert failures == []
    assert passed > 40


def test_the_saver_in_memory_conforms():
    failures, passed = report_of(lambda: open_saver(None))
    assert failures == []
    assert passed > 40


def test_the_postgresql_saver_conforms(postgres):
    failures, passed = report_of(lambda: open_saver(postgres))
    assert failures == []
    assert passed > 40
