from ltr_harness.data.dataset import RankingDataset as RankingDataset
from ltr_harness.data.judgments import Judgments as Judgments
from ltr_harness.data.queries import QueryGroups as QueryGroups
from ltr_harness.data.readers.memory import from_arrays as from_arrays
from ltr_harness.data.readers.memory import from_frame as from_frame
from ltr_harness.data.readers.reader import FileReader as FileReader
from ltr_harness.data.readers.reader import Reader as Reader
