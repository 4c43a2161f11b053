"""An evaluation on a real Ray cluster of two nodes, one of which is killed in the middle."""

import threading
import time

import pytest

from stategate.stores.errors import UserError
from stategate.stores.settings import Shared
from stategate.stores.workers import work
from tests.evals.jobs import evaluate, rows

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster():
    """Yield a cluster of a head without work and two nodes of one core each."""
    from ray.cluster_utils import Cluster

    small = {"object_store_memory": 80 << 20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small})
    cluster.nodes = [cluster.add_node(num_cpus=1, object_store_memory=80 << 20) for _ in range(2)]
    cluster.wait_for_nodes()
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def test_a_node_killed_in_the_middle_loses_nothing_and_nothing_is_there_twice(cluster, tmp_path):
    table = tmp_path / "run" / "episodes.jsonl"
    killed = threading.Event()

    def kill_a_node():
        while not table.exists() or table.read_bytes().count(b"\n") < 4:
            time.sleep(0.02)
        cluster.remove_node(cluster.nodes.pop(), allow_graceful=False)
        killed.set()

    threading.Thread(target=kill_a_node, daemon=True).start()
    summary = evaluate(tmp_path, range(400), Shared(workers=2, ray=cluster.address, deadline=300))
    assert killed.wait(60)
    assert summary["rows"] == [{"agent": "a", "n": 400, "sum": 400 * 399}]
    numbers = [row["number"] for row in rows(tmp_path / "run")]
    assert sorted(numbers) == list(range(400)), "each exactly once"


def test_no_cluster_is_one_line():
    ray.shutdown()
    with pytest.raises(UserError, match="no Ray cluster at '127.0.0.1:9'"):
        list(work(print, [1], Shared(ray="127.0.0.1:9")))
