"""Writers: ranking data in every format that readers take; what is read back has the same values."""

from pathlib import Path

from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import DataError
from ltr_harness.files import bare_name, whole_files

FORMATS = ("letor", "lightgbm", "csv", "parquet", "arrow")
_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".txt": "letor",
    ".letor": "letor",
    ".svm": "letor",
}


def format_of(path: Path) -> str | None:
    """The format that a file's name asks for; None where it asks for none.

    Example:
        >>> format_of(Path("train.txt.gz")), format_of(Path("train.parquet")), format_of(Path("train"))
        ('letor', 'parquet', None)
    """
    return _SUFFIXES.get(Path(bare_name(path.name.lower())).suffix)


def write_dataset(dataset: RankingDataset, path: Path, form: str | None = None) -> list[str]:
    """Write a dataset; all of its files appear whole, or none does.

    Notes on what the format cannot hold. Raises DataError: no or an unknown format, or names that it cannot hold.

    Example:
        >>> import tempfile
        >>> from ltr_harness.readers.memory import from_arrays
        >>> data = from_arrays([[0.5], [2.0]], [1, 0], query_ids=["a", "a"], document_ids=["x", "y"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     notes = write_dataset(data, Path(folder, "rows.txt"))
        ...     print(Path(folder, "rows.txt").read_text(), end="")
        1 qid:a 0:0.5 # docid = x
        0 qid:a 0:2 # docid = y
    """
    form = form or format_of(path)
    if form not in FORMATS:
        found = "does not say its format" if form is None else f"unknown format {form!r}"
        raise DataError.at(path, found, f"one of {', '.join(FORMATS)}")
    with whole_files(path) as temporary:
        if form in ("letor", "lightgbm"):
            from ltr_harness.writers.svmlight import write_svmlight

            return write_svmlight(dataset, path, temporary, with_qid=form == "letor")
        from ltr_harness.writers.tables import write_table

        return write_table(dataset, path, temporary, form)
