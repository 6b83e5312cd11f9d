"""The warnings that are errors in these tests: our own deprecations, and no other package's."""

from __future__ import annotations

import warnings

import pytest

KINDS = [DeprecationWarning, PendingDeprecationWarning, FutureWarning]


def warn_from(module: str, kind: type[Warning]) -> None:
    """As `warnings.warn` does from the line of a module."""
    warnings.warn_explicit("ast.Num is deprecated", kind, f"{module}.py", 1, module=module)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "module", ["ltr_harness", "ltr_harness.data.queries", "tests.data.test_queries", __name__]
)
def test_what_we_use_of_the_deprecated_is_an_error(kind: type[Warning], module: str) -> None:
    with pytest.raises(kind):
        warn_from(module, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("module", ["ir_measures.lang", "numpy", "ltr_harness_of_others"])
def test_what_others_use_of_it_is_not(kind: type[Warning], module: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warn_from(module, kind)
    assert [warning.category for warning in caught] == [kind]


def test_other_warnings_are_errors_whoever_gives_them() -> None:
    for kind in (UserWarning, RuntimeWarning, ResourceWarning):
        with pytest.raises(kind):
            warn_from("numpy", kind)


def test_a_call_from_here_is_from_here() -> None:
    with pytest.raises(DeprecationWarning):
        warnings.warn("gone soon", DeprecationWarning, stacklevel=1)
