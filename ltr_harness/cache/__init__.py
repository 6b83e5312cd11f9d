"""Data cache: parsed data as memory-mapped columns on disk, keyed by the content of the files.

`DataCache.read` gives what a reader would give. The first time it reads, checks and fingerprints; from then
on, and in every worker process, the same entry is mapped into memory, where all processes share it.
Any folder of the cache may be deleted at any time.
"""

from ltr_harness.cache.entries import KeptEntry, kept_entries, remove_entries
from ltr_harness.cache.sets import CachedSet, DataCache

__all__ = ["CachedSet", "DataCache", "KeptEntry", "kept_entries", "remove_entries"]
