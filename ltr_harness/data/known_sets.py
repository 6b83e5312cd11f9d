"""Public ranking sets: where they are to be had, under which terms, and the layout of their files.

To add one, add an entry: `data list` and `data: {set: …}` know it from then on. None of the sets but MQ2008 and
LightGBM's example were at hand. Digests of archives are those of TensorFlow Datasets 4 (``checksums.tsv``) and
PyTorchLTR 0.2, which agree. Counts are those of home pages and READMEs; those of LETOR 3.0 are from memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ltr_harness._util.text import count_of


class Archive(NamedTuple):
    """Published archive whose digest is known."""

    file: str
    size: int
    sha256: str

    def __str__(self) -> str:
        return f"{self.file}: {count_of(self.size, 'byte')}, SHA-256 {self.sha256}"


class SetCounts(NamedTuple):
    """Size of a whole set."""

    queries: int
    rows: int

    def __str__(self) -> str:
        return f"{count_of(self.queries, 'query')} and {count_of(self.rows, 'row')}"


@dataclass(frozen=True)
class KnownSet:
    """A public set in its published layout."""

    title: str  # its name and, in a few words, what it is
    home: str  # page of those who publish it
    terms: str  # under which it may be used
    reader: Mapping[str, Any]  # name and options of the reader
    splits: Mapping[str, Mapping[str, str]]  # fold to split to file, relative to the set's folder
    max_grade: int  # highest grade of the scale
    instructions: str  # what to fetch, and which files the set's folder then holds
    counts: SetCounts | None = None
    archive: Archive | None = None

    def data_section(self) -> dict[str, Any]:
        """The section that ``data: {set: …}`` of an experiment file replaces, without ``root``."""
        set_aside: dict[str, Any] = {"valid": {"holdout": 0.2, "seed": 1}}  # where no part is for validation
        splits = {fold: {**set_aside, **files} for fold, files in self.splits.items()}
        return {**self.reader, "splits": splits, "max_grade": self.max_grade}


_MICROSOFT = "Microsoft Research licence: research use only, no redistribution"
_LETOR_PAGE = "https://www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval/"
_FIVE_FOLDS = {
    f"fold{i}": {"train": f"Fold{i}/train.txt", "valid": f"Fold{i}/vali.txt", "test": f"Fold{i}/test.txt"}
    for i in range(1, 6)
}
_HOLDS = "holds Fold1 … Fold5, each with train.txt, vali.txt and test.txt"


def _mslr(thousands: int, counts: SetCounts, size: int, sha256: str) -> KnownSet:
    archive = f"MSLR-WEB{thousands}K.zip"
    return KnownSet(
        title=f"MSLR-WEB{thousands}K: web search of Bing, 136 features, grades 0 to 4, five folds",
        home="https://www.microsoft.com/en-us/research/project/mslr/",
        terms=_MICROSOFT,
        reader={"reader": "letor", "n_features": 136, "first_index": 1},
        splits=_FIVE_FOLDS,
        max_grade=4,
        instructions=f"On the home page accept the licence, fetch {archive} and unpack it: the folder then {_HOLDS}.",
        counts=counts,
        archive=Archive(archive, size, sha256),
    )


def _letor4(name: str, counts: SetCounts) -> KnownSet:
    return KnownSet(
        title=f"{name} of LETOR 4.0: Million Query track {name[2:]}, 46 features, grades 0 to 2, five folds",
        home=_LETOR_PAGE,
        terms=_MICROSOFT,
        reader={"reader": "letor", "n_features": 46, "first_index": 1},
        splits=_FIVE_FOLDS,
        max_grade=2,
        instructions=f"On the home page, under LETOR 4.0, fetch the archive {name}.rar (supervised ranking) and unpack "
        f"it: the folder {name} then {_HOLDS}.",
        counts=counts,
    )


def _letor3(name: str, title: str, counts: SetCounts) -> KnownSet:
    medline = name == "OHSUMED"
    n_features, max_grade = (45, 2) if medline else (64, 1)
    folder = f"QueryLevelNorm/{name[2:]}_{name[:2].lower()}_dataset"
    fetch = f"fetch Gov.rar and unpack it: its folder {folder}"
    fetch = "fetch OHSUMED.zip and unpack it: its folder QueryLevelNorm" if medline else fetch
    return KnownSet(
        title=f"{name} of LETOR 3.0: {title}, {count_of(n_features, 'feature')}, grades 0 to {max_grade}, five folds",
        home=_LETOR_PAGE,
        terms=_MICROSOFT,
        reader={"reader": "letor", "n_features": n_features, "first_index": 1},
        splits=_FIVE_FOLDS,
        max_grade=max_grade,
        instructions=f"On the home page, under LETOR 3.0, {fetch} {_HOLDS}.",
        counts=counts,
    )


def _yahoo(number: int, counts: SetCounts) -> KnownSet:
    files = {split: f"set{number}.{split}.txt" for split in ("train", "valid", "test")}
    return KnownSet(
        title=f"Yahoo! Learning to Rank Challenge, set {number}: web search, 700 features, grades 0 to 4",
        home="https://webscope.sandbox.yahoo.com/catalog.php?datatype=c",
        terms="Yahoo Webscope agreement: non-commercial research, on request",
        reader={"reader": "letor", "n_features": 700, "first_index": 1},
        splits={"all": files},
        max_grade=4,
        instructions="On the home page ask for C14 (Learning to Rank Challenge), accept the agreement and unpack "
        f"dataset.tgz; the archive ltrc_yahoo.tar.bz2 in it holds {', '.join(files.values())}.",
        counts=counts,
    )


def _istella(title: str, splits: dict[str, str], counts: SetCounts, archive: Archive) -> KnownSet:
    return KnownSet(
        title=f"{title}: web search of Istella, 220 features, grades 0 to 4",
        home="https://istella.ai/datasets/letor-dataset/",
        terms="Istella LETOR licence: non-commercial use only",
        # published sample rows hold 120:1e137
        reader={"reader": "letor", "n_features": 220, "first_index": 1, "beyond_float32": "clip"},
        splits={"all": splits},
        max_grade=4,
        instructions=f"On the home page accept the licence, fetch {archive.file} and unpack it: its folder then holds "
        f"{', '.join(splits.values())}.",
        counts=counts,
        archive=archive,
    )


_THREE_PARTS = {"train": "train.txt", "valid": "vali.txt", "test": "test.txt"}

SETS: dict[str, KnownSet] = {
    "mslr-web30k": _mslr(
        30,
        SetCounts(31_531, 3_771_125),
        3_849_406_307,
        "08cb7977e1d5cbdeb57a9a2537a0923dbca6d46a76db9a6afc69e043c85341ae",
    ),
    "mslr-web10k": _mslr(
        10,
        SetCounts(10_000, 1_200_192),
        1_234_144_912,
        "2902142ea33f18c59414f654212de5063033b707d5c3939556124b1120d3a0ba",
    ),
    "yahoo-set1": _yahoo(1, SetCounts(29_921, 709_877)),
    "yahoo-set2": _yahoo(2, SetCounts(6_330, 172_870)),
    "istella": _istella(
        "Istella LETOR (full)",
        {"train": "train.txt", "test": "test.txt"},
        SetCounts(33_018, 10_454_629),
        Archive(
            "istella-letor.tar.gz",
            1_288_401_248,
            "d45899d9a6a0e48afb250aac7ee3dc50e73e263687f15761d754515cd8284e0b",
        ),
    ),
    "istella-s": _istella(
        "Istella-S LETOR (a sample of the full one)",
        _THREE_PARTS,
        SetCounts(33_018, 3_408_630),
        Archive(
            "istella-s-letor.tar.gz",
            472_129_615,
            "41b21116a3650cc043dbe16f02ee39f4467f9405b37fdbcc9a6a05e230a38981",
        ),
    ),
    "istella-x": _istella(
        "Istella-X LETOR",
        _THREE_PARTS,
        SetCounts(10_000, 26_791_447),
        Archive(
            "istella-X.tar.gz",
            4_743_657_398,
            "e67be60d1c6a68983a669e4de9df2c395914717b2017cb3b68a97eb89f2ea763",
        ),
    ),
    "istella22": KnownSet(
        title="Istella22: web search of Istella with texts beside it, 220 features, grades 0 to 4",
        home="https://istella.ai/datasets/istella22-dataset/",
        terms="Istella22 licence: non-commercial use only",
        reader={"reader": "letor", "n_features": 220},
        splits={"all": {"train": "train.svm", "valid": "valid.svm", "test": "test.svm"}},
        max_grade=4,
        instructions="On the home page accept the licence, fetch the learning-to-rank part and unpack it: its folder "
        "then holds train.svm, valid.svm and test.svm.",
    ),
    "mq2007": _letor4("MQ2007", SetCounts(1_692, 69_623)),
    "mq2008": _letor4("MQ2008", SetCounts(784, 15_211)),
    "ohsumed": _letor3("OHSUMED", "MEDLINE abstracts", SetCounts(106, 16_140)),
    "td2003": _letor3("TD2003", "topic distillation 2003", SetCounts(50, 49_058)),
    "td2004": _letor3("TD2004", "topic distillation 2004", SetCounts(75, 74_146)),
    "np2003": _letor3("NP2003", "named page finding 2003", SetCounts(150, 148_657)),
    "np2004": _letor3("NP2004", "named page finding 2004", SetCounts(75, 73_834)),
    "hp2003": _letor3("HP2003", "home page finding 2003", SetCounts(150, 147_606)),
    "hp2004": _letor3("HP2004", "home page finding 2004", SetCounts(75, 74_409)),
    "lightgbm-example": KnownSet(
        title="LightGBM's own ranking example: 300 features, grades 0 to 4",
        home="https://github.com/microsoft/LightGBM/tree/v4.6.0/examples/lambdarank",
        terms="MIT licence",
        reader={"reader": "lightgbm", "n_features": 300},
        splits={"all": {"train": "rank.train", "test": "rank.test"}},
        max_grade=4,
        instructions="Put rank.train, rank.train.query, rank.test and rank.test.query of the home page into a folder.",
        counts=SetCounts(251, 3_773),
    ),
}
