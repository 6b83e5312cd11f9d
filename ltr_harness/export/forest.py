"""A trained model of trees as plain arrays, whatever library grew it, and its scores by that library's rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ltr_harness.compiled import compiled
from ltr_harness.errors import DataError, Problem

LEAF = -1
NEVER, ZERO, NAN = 0, 1, 2
"""What counts as missing at a node: nothing (NaN is read as 0), zero and NaN, or NaN alone; LightGBM's numbers."""

_ZERO = float(np.float32(1e-35))  # LightGBM's zero


class Split(NamedTuple):
    """An inner node as `Tree.grown` asks for it; `left` and `right` are whatever stands for the nodes below."""

    feature: int
    threshold: float
    missing_left: bool
    left: Any
    right: Any
    missing_type: int = NAN


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree, an array element for each node; the root is the first."""

    feature: NDArray[np.int32]  # int32, the column that is looked at; -1 at leaves
    threshold: NDArray[np.float64]  # float64, what it is compared with
    left: NDArray[np.int32]  # left, right: int32, the nodes below; -1 at leaves
    right: NDArray[np.int32]
    missing_left: NDArray[np.bool_]  # bool, whether a missing value goes left
    missing_type: NDArray[np.int8]  # int8, what counts as missing: `NEVER`, `ZERO` or `NAN`
    value: NDArray[np.float64]  # float64, of leaves; 0 elsewhere
    # of nodes that split on categories the codes that are listed there, and go to `Forest.codes_go`; a missing
    # value goes where `missing_left` says, and the threshold means nothing
    codes: Mapping[int, Sequence[int]] = field(default_factory=dict, kw_only=True)

    @classmethod
    def grown(cls, root: Any, node_of: Callable[[Any], Split | float]) -> Self:
        """A tree from whatever form nests its nodes, in the order in which they are come by, left before right.

        Example:
            >>> def node_of(place):
            ...     return Split(0, place[0], True, *place[1:]) if isinstance(place, list) else place
            >>> tree = Tree.grown([0.5, 1.0, 2.0], node_of)
            >>> tree.value.tolist(), tree.left.tolist()
            ([0.0, 1.0, 2.0], [1, -1, -1])
        """
        rows: list[list[Any]] = []
        waiting: list[tuple[Any, int, int]] = [(root, -1, 0)]
        while waiting:
            place, above, side = waiting.pop()
            if above >= 0:
                rows[above][side] = len(rows)
            node = node_of(place)
            if isinstance(node, Split):
                waiting += [(node.right, len(rows), 3), (node.left, len(rows), 2)]
                rows.append([node.feature, node.threshold, -1, -1, node.missing_left, node.missing_type, 0.0])
            else:
                rows.append([LEAF, 0.0, -1, -1, False, NAN, node])
        return cls.of(*zip(*rows, strict=True))

    @classmethod
    def of(cls, *columns: Any, codes: Mapping[int, Sequence[int]] | None = None) -> Self:
        """A tree of its seven columns, whatever types they have, and its codes."""
        kinds = (np.int32, np.float64, np.int32, np.int32, np.bool_, np.int8, np.float64)
        return cls(
            *(np.asarray(column, dtype=kind) for column, kind in zip(columns, kinds, strict=True)),
            codes=codes or {},
        )

    @property
    def n_leaves(self) -> int:
        return int(np.count_nonzero(self.feature == LEAF))


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees whose values are added, and the rules by which whoever evaluates them goes down."""

    feature_names: tuple[str, ...]  # of the columns, as in the data
    trees: tuple[Tree, ...]  # in the order in which they are added
    base_score: float = 0.0  # what is added to their sum
    # what goes left: values ``<=`` the threshold (LightGBM, CatBoost), or ``<`` (XGBoost)
    comparison: Literal["<=", "<"] = "<="
    # whether features are rounded to float32 before they are compared (XGBoost, CatBoost)
    float32: bool = False
    float32_sum: bool = False  # whether sums are rounded to float32 after each tree (XGBoost)
    # where the listed codes of a split on categories go: left (LightGBM) or right (XGBoost)
    codes_go: Literal["left", "right"] = "left"

    @property
    def coded_features(self) -> list[str]:
        """Those that some tree splits on as categories."""
        columns = {int(tree.feature[node]) for tree in self.trees for node in tree.codes}
        return [self.feature_names[column] for column in sorted(columns)]

    @property
    def n_leaves(self) -> int:
        return sum(tree.n_leaves for tree in self.trees)

    def by_nan(self) -> Self:
        """The same scores with no node but such at which NaN alone is missing.

        Raises:
            DataError: zeros are missing at a node and do not go where they would by their value.
        """
        return replace(self, trees=tuple(self._by_nan(tree) for tree in self.trees))

    def _by_nan(self, tree: Tree) -> Tree:
        zero_left = tree.threshold > 0 if self.comparison == "<" else tree.threshold >= 0
        turned = (tree.missing_type == ZERO) & (tree.missing_left != zero_left) & (tree.feature != LEAF)
        coded = np.isin(np.arange(tree.feature.size), list(tree.codes))
        turned &= ~coded
        if turned.any():
            name = self.feature_names[tree.feature[np.argmax(turned)]]
            found = f"a split on {name!r} sends 0 where missing values go, and the form knows no such split"
            raise DataError(Problem("export model", found, cure="train without `zero_as_missing`"))
        missing_left = np.where((tree.missing_type == NEVER) & ~coded, zero_left, tree.missing_left)
        return replace(tree, missing_left=missing_left, missing_type=np.full_like(tree.missing_type, NAN))

    def in_float32(self, comparison: Literal["<=", "<"] | None = None) -> Self:
        """The same sides for float32 features by thresholds that are float32.

        Of ``x <= t`` the last value that goes left is the greatest float32 not above t, of ``x < t`` the greatest
        below it. That value is the threshold of ``<=``, and the one after it that of ``<``. The nearest float32 may lie
        beyond the neighbour that the threshold was to tell from the one below it.
        """
        written = comparison or self.comparison

        def rounded(tree: Tree) -> Tree:
            exact = tree.threshold
            with np.errstate(over="ignore"):
                nearest = exact.astype(np.float32)
                beyond = nearest >= exact if self.comparison == "<" else nearest > exact
                last = np.where(beyond, np.nextafter(nearest, np.float32(-np.inf)), nearest)
                moved = last if written == "<=" else np.nextafter(last, np.float32(np.inf))
            return replace(tree, threshold=moved.astype(np.float64))

        return replace(self, trees=tuple(map(rounded, self.trees)), comparison=written, float32=True)

    def with_base_in_first_tree(self) -> Self:
        """The same scores to the bit where `base_score` is what sums begin with: engines may add it last."""
        if not self.trees:
            return self
        first = self.trees[0]
        values = np.where(first.feature == LEAF, first.value + self.base_score, 0.0)
        if self.float32_sum:
            values = values.astype(np.float32).astype(np.float64)
        return replace(self, trees=(replace(first, value=values), *self.trees[1:]), base_score=0.0)

    def scores(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64 (n_rows,): the trees' values added one after the other, in float64 unless `float32_sum`.

        Shapes: `features` (n_rows, n_features).
        """
        rows = np.asarray(features, dtype=np.float64)
        if self.float32:
            with np.errstate(over="ignore"):
                rows = rows.astype(np.float32).astype(np.float64)
        rules = (self.comparison == "<", self.float32_sum, self.codes_go == "right")
        return _summed(rows, float(self.base_score), *rules, *self._flat)

    @cached_property
    def _flat(self) -> tuple[NDArray[Any], ...]:
        """Where each tree begins, and the arrays of all trees one after the other."""
        sizes = [tree.feature.size for tree in self.trees]
        starts = np.cumsum([0, *sizes], dtype=np.int64)[:-1]
        shift = np.repeat(starts, sizes)

        def joined(name: str, kind: Any) -> NDArray[Any]:
            return np.concatenate([np.empty(0, kind), *(getattr(tree, name) for tree in self.trees)]).astype(
                kind
            )

        listed = [tree.codes.get(node, ()) for tree in self.trees for node in range(tree.feature.size)]
        return (
            starts,
            joined("feature", np.int32),
            joined("threshold", np.float64),
            joined("left", np.int64) + shift,
            joined("right", np.int64) + shift,
            joined("missing_left", np.bool_),
            joined("missing_type", np.int8),
            joined("value", np.float64),
            np.cumsum([0, *map(len, listed)], dtype=np.int64),
            np.array([code for codes in listed for code in codes], dtype=np.float64),
        )


@compiled
def _summed(
    features: NDArray[np.float64],
    base: float,
    strict: bool,
    single: bool,
    codes_right: bool,
    roots: NDArray[np.int64],
    feature: NDArray[np.int32],
    threshold: NDArray[np.float64],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    missing_left: NDArray[np.bool_],
    missing_type: NDArray[np.int8],
    value: NDArray[np.float64],
    first_code: NDArray[np.int64],
    codes: NDArray[np.float64],
) -> NDArray[np.float64]:
    out = np.empty(features.shape[0])
    for row in range(features.shape[0]):
        total = base
        for root in roots:
            node = root
            while feature[node] >= 0:
                x = features[row, feature[node]]
                kind = missing_type[node]
                is_coded = first_code[node] < first_code[node + 1]
                if np.isnan(x) and kind != 2 and not is_coded:
                    x = 0.0
                if is_coded and not np.isnan(x):
                    goes_left = codes_right
                    for at in range(first_code[node], first_code[node + 1]):
                        if codes[at] == np.trunc(x):
                            goes_left = not codes_right
                elif np.isnan(x) or (kind == 1 and abs(x) <= _ZERO):
                    goes_left = missing_left[node]
                elif strict:
                    goes_left = x < threshold[node]
                else:
                    goes_left = x <= threshold[node]
                node = left[node] if goes_left else right[node]
            total += value[node]
            if single:
                total = np.float64(np.float32(total))
        out[row] = total
    return out
