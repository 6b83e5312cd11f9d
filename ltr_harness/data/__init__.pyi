from ltr_harness.dataset import RankingDataset as RankingDataset
from ltr_harness.groups import Judgments as Judgments
from ltr_harness.groups import QueryGroups as QueryGroups
from ltr_harness.readers.memory import from_arrays as from_arrays
from ltr_harness.readers.memory import from_frame as from_frame
from ltr_harness.readers.reader import FileReader as FileReader
from ltr_harness.readers.reader import Reader as Reader
