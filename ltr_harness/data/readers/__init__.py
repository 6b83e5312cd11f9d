"""Readers: one for each format of ranking data.

To add a format, write one file with a subclass of `reader.Reader` and add its line here; the class's fields
are its options in the experiment file.
"""

from ltr_harness._util.catalog import Catalog

READERS = {
    "catboost": "ltr_harness.data.readers.catboost:CatBoostPool",
    "csv": "ltr_harness.data.readers.csv:Csv",
    "letor": "ltr_harness.data.readers.letor:Letor",
    "lightgbm": "ltr_harness.data.readers.lightgbm:LightGbm",
    "parquet": "ltr_harness.data.readers.parquet:Parquet",
    "synthetic": "ltr_harness.data.readers.synthetic:Synthetic",
}

catalog = Catalog("reader", READERS, "ltr_harness.readers", "ltr_harness.data:Reader")
