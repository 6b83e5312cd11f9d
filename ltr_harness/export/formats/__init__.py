"""The forms that models are written in: one file each, one line in `FORMATS` each."""

from ltr_harness.catalog import Catalog
from ltr_harness.export.formats.model_format import ModelFormat as ModelFormat

FORMATS = {
    "elasticsearch": "ltr_harness.export.formats.plugin:Elasticsearch",
    "json": "ltr_harness.export.formats.dump:Dump",
    "onnx": "ltr_harness.export.formats.onnx_model:Onnx",
    "opensearch": "ltr_harness.export.formats.plugin:OpenSearch",
    "ranklib": "ltr_harness.export.formats.ranklib:RankLib",
    "solr": "ltr_harness.export.formats.solr:Solr",
    "treelite": "ltr_harness.export.formats.treelite_model:Treelite",
}

catalog = Catalog(
    "format", FORMATS, "ltr_harness.formats", "ltr_harness.export.formats.model_format:ModelFormat"
)

__all__ = ["FORMATS", "ModelFormat", "catalog"]
