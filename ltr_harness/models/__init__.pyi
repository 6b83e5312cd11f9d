from ltr_harness.boosting.watching import Measured as Measured
from ltr_harness.export.formats import ModelFormat as ModelFormat
from ltr_harness.rankers.ranker import FieldsModel as FieldsModel
from ltr_harness.rankers.ranker import FittedModel as FittedModel
from ltr_harness.rankers.ranker import Ranker as Ranker
from ltr_harness.rankers.ranker import StoredRanker as StoredRanker
from ltr_harness.rankers.ranker import Training as Training
from ltr_harness.rankers.ranker import TrainingFacts as TrainingFacts
