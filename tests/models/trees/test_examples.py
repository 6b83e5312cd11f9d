"""Small examples of internals, which a reader can check by hand."""

from ltr_harness.integrations.mlflow_export import legal_names
from ltr_harness.models.trees.forest import InnerNode, Tree


def test_tree_grown() -> None:
    def node_of(place):
        return InnerNode(0, place[0], True, *place[1:]) if isinstance(place, list) else place

    tree = Tree.grown([0.5, 1.0, 2.0], node_of)
    assert tree.value.tolist() == [0.0, 1.0, 2.0]
    assert tree.left.tolist() == [1, -1, -1]


def test_legal_names() -> None:
    assert legal_names(["ndcg@10", "ndcg(empty=one,gain=linear)@10"]) == {
        "ndcg@10": "ndcg_at_10",
        "ndcg(empty=one,gain=linear)@10": "ndcg.empty-one.gain-linear_at_10",
    }
