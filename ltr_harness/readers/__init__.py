"""Readers: one for each format of ranking data.

To add a format, write one file with a subclass of `reader.Reader` and add its line here; the class's fields
are its options in the experiment file.
"""

from ltr_harness._util.catalog import Catalog

READERS = {
    "catboost": "ltr_harness.readers.catboost:CatBoostPool",
    "csv": "ltr_harness.readers.csv:Csv",
    "letor": "ltr_harness.readers.letor:Letor",
    "lightgbm": "ltr_harness.readers.lightgbm:LightGbm",
    "parquet": "ltr_harness.readers.parquet:Parquet",
    "synthetic": "ltr_harness.readers.synthetic:Synthetic",
}

catalog = Catalog("reader", READERS, "ltr_harness.readers", "ltr_harness.data:Reader")
