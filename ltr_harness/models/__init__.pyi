from ltr_harness.boosting.watching import Measured as Measured
from ltr_harness.models.ranker import FieldsModel as FieldsModel
from ltr_harness.models.ranker import FittedModel as FittedModel
from ltr_harness.models.ranker import Ranker as Ranker
from ltr_harness.models.ranker import StoredRanker as StoredRanker
from ltr_harness.models.ranker import Training as Training
from ltr_harness.models.ranker import TrainingFacts as TrainingFacts
from ltr_harness.models.trees.formats import ModelFormat as ModelFormat
