"""Every reader is in the table, describes its options and keeps to the contract."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from ltr_harness.data.readers import READERS, catalog
from ltr_harness.data.readers.reader import Reader
from ltr_harness.errors import DataError


def test_the_table_is_complete(repository: Path) -> None:
    listed = {target.split(":")[0].rsplit(".")[-1] for target in READERS.values()}
    for file in sorted((repository / "ltr_harness" / "data" / "readers").glob("*.py")):
        module = importlib.import_module(f"ltr_harness.data.readers.{file.stem}".removesuffix(".__init__"))
        own = [
            name
            for name, value in vars(module).items()
            if isinstance(value, type)
            and issubclass(value, Reader)
            and value.__module__ == module.__name__
            and not value.__abstractmethods__
        ]
        if own:
            assert file.stem in listed, f'add to READERS: "{file.stem}": "{module.__name__}:{own[0]}",'


@pytest.mark.parametrize("name", sorted(READERS))
def test_options_are_strict_frozen_and_described(name: str) -> None:
    reader = catalog.load(name)
    assert issubclass(reader, Reader)
    assert reader.__doc__
    for field, schema in reader.model_json_schema()["properties"].items():
        assert schema.get("description"), f"{name}: {field} has no description"
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        reader(no_such_option=1)
    with pytest.raises(ValidationError, match="frozen"):
        reader().__setattr__(next(iter(reader.model_fields)), None)


@pytest.mark.parametrize("name", sorted(set(READERS) - {"synthetic"}))
def test_a_missing_file_is_named_by_every_reader(name: str, tmp_path: Path) -> None:
    reader = catalog.load(name)()
    for method in (reader.read, reader.inputs):
        with pytest.raises(DataError, match=r"nope: no such file; .* has nothing in it"):
            method(["nope"], tmp_path)
    assert reader.default_splits is None


@pytest.mark.long
def test_the_table_costs_nothing_to_import() -> None:
    heavy = ("pyarrow", "pydantic", "numba")
    code = f"import sys, ltr_harness.data.readers; print([m for m in {heavy} if m in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"
