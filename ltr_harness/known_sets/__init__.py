"""Public ranking sets: sources, terms, file names, counts and digests.

To add one, add an entry: `data list` and `data: {set: …}` know it from then on. `sources` of each says where its
facts were looked up; none of the sets but MQ2008 and LightGBM's example were at hand. Digests of archives are those of
TensorFlow Datasets 4 (``checksums.tsv``) and PyTorchLTR 0.2, which agree, and those of files are PyTorchLTR's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ltr_harness.catalog import did_you_mean
from ltr_harness.errors import DataError
from ltr_harness.wording import count_of


class Download(NamedTuple):
    """File that a program may fetch."""

    file: str  # its name in the set's folder
    url: str
    size: int
    sha256: str


class Archive(NamedTuple):
    """Archive that a person fetches from the home page."""

    file: str  # its published name
    size: int
    sha256: str


class Counts(NamedTuple):
    """Counts that reading files must find."""

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
    splits: Mapping[str, Mapping[str, str]]  # fold to split to files, relative to the set's folder
    max_grade: int  # highest grade of the scale
    sources: str  # where the facts here were checked, and which could not be
    counts: Mapping[tuple[str, ...], Counts] = field(default_factory=dict)  # of files that are read together
    digests: Mapping[str, str] = field(default_factory=dict)  # SHA-256; a file that has it needs no counting
    archive: Archive | None = None  # the published archive, where its digest is known
    inside: str = ""  # the archive's folder that is meant, where several hold files with the same names
    downloads: tuple[Download, ...] = ()  # empty where a person has to agree to terms
    by_hand: str = ""  # what to fetch and how, where it is not for a program to do

    @property
    def files(self) -> tuple[str, ...]:
        """Every file of the layout, once, companions that are downloaded included."""
        named = [file for split in self.splits.values() for file in split.values()]
        return tuple(dict.fromkeys([*named, *(download.file for download in self.downloads)]))

    def data_section(self) -> dict[str, Any]:
        """What ``data: {set: …}`` stands for in an experiment file, ``root`` apart."""
        set_aside: dict[str, Any] = {"valid": {"holdout": 0.2, "seed": 1}}  # where no part is for validation
        splits = {fold: {**set_aside, **files} for fold, files in self.splits.items()}
        return {**self.reader, "splits": splits, "max_grade": self.max_grade}


def known_set(name: str) -> KnownSet:
    """The set of a name. Raises DataError: there is no such set."""
    if name not in SETS:
        raise DataError(f"no known set is called {name!r}; {did_you_mean(name, SETS)}")
    return SETS[name]


_MICROSOFT = "Microsoft Research licence: research use only, no redistribution"
_LETOR_PAGE = "https://www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval/"
_HOLDS = "holds Fold1 … Fold5, each with train.txt, vali.txt and test.txt"
_TWO_TOOLS = "digests: TensorFlow Datasets and PyTorchLTR"


_FIVE_FOLDS = {
    f"fold{i}": {"train": f"Fold{i}/train.txt", "valid": f"Fold{i}/vali.txt", "test": f"Fold{i}/test.txt"}
    for i in range(1, 6)
}


def _of_files(counts: Mapping[str, tuple[int, int]]) -> dict[tuple[str, ...], Counts]:
    return {(file,): Counts(*found) for file, found in counts.items()}


def _every_fold(queries: int, rows: int) -> dict[tuple[str, ...], Counts]:
    """The three parts of each fold are the whole set."""
    return {tuple(files.values()): Counts(queries, rows) for files in _FIVE_FOLDS.values()}


def _mslr(
    thousands: int,
    whole: tuple[int, int],
    parts: dict[str, tuple[int, int]],
    archive: tuple[int, str],
    train: tuple[str, ...],
    test: tuple[str, ...],
) -> KnownSet:
    digests: dict[str, str] = {}
    for i in range(5):  # each part validates in the fold after the one it tests
        named = {"train": train[i], "vali": test[i - 1], "test": test[i]}
        digests |= {f"Fold{i + 1}/{part}.txt": digest for part, digest in named.items()}
    return KnownSet(
        title=f"MSLR-WEB{thousands}K: web search of Bing, 136 features, grades 0 to 4, five folds",
        home="https://www.microsoft.com/en-us/research/project/mslr/",
        terms=_MICROSOFT,
        reader={"reader": "letor", "n_features": 136, "first_index": 1},
        splits=_FIVE_FOLDS,
        max_grade=4,
        sources=f"layout, features and grades: home page; {_TWO_TOOLS}; queries: TensorFlow Datasets; rows of Fold1's "
        "parts: not confirmed by a source (a textbook counts one row more for the whole set)",
        counts={
            **_of_files({f"Fold1/{file}": found for file, found in parts.items()}),
            **_every_fold(*whole),
        },
        digests=digests,
        archive=Archive(f"MSLR-WEB{thousands}K.zip", *archive),
        by_hand=f"On the home page accept the licence, fetch MSLR-WEB{thousands}K.zip and unpack it: the folder then "
        f"{_HOLDS}.",
    )


def _letor4(name: str, queries: int, rows: int, sources: str) -> KnownSet:
    return KnownSet(
        title=f"{name} of LETOR 4.0: Million Query track {name[2:]}, 46 features, grades 0 to 2, five folds",
        home=_LETOR_PAGE,
        terms=_MICROSOFT,
        reader={"reader": "letor", "n_features": 46, "first_index": 1},
        splits=_FIVE_FOLDS,
        max_grade=2,
        sources=sources,
        counts=_every_fold(queries, rows),
        by_hand=f"On the home page, under LETOR 4.0, fetch the archive {name}.rar (supervised ranking) and unpack it: "
        f"the folder {name} then {_HOLDS}.",
    )


def _letor3(name: str, title: str, queries: int, rows: int) -> KnownSet:
    medline = name == "OHSUMED"
    n_features, max_grade = (45, 2) if medline else (64, 1)
    folder = f"QueryLevelNorm/{name[2:]}_{name[:2].lower()}_dataset"
    by_hand = f"fetch Gov.rar and unpack it; its folder {folder}"
    by_hand = "fetch OHSUMED.zip; its folder QueryLevelNorm" if medline else by_hand
    return KnownSet(
        title=f"{name} of LETOR 3.0: {title}, {count_of(n_features, 'feature')}, grades 0 to {max_grade}, five folds",
        home=_LETOR_PAGE,
        terms=_MICROSOFT,
        reader={"reader": "letor", "n_features": n_features, "first_index": 1},
        splits=_FIVE_FOLDS,
        max_grade=max_grade,
        sources="layout and features: public code that reads it; counts: from memory, not confirmed",
        counts=_every_fold(queries, rows),
        inside="QueryLevelNorm" if medline else "",
        by_hand=f"On the home page, under LETOR 3.0, {by_hand} {_HOLDS}.",
    )


def _yahoo(number: int, counts: dict[str, tuple[int, int]]) -> KnownSet:
    files = {split: f"set{number}.{split}.txt" for split in ("train", "valid", "test")}
    return KnownSet(
        title=f"Yahoo! Learning to Rank Challenge, set {number}: web search, 700 features, grades 0 to 4",
        home="https://webscope.sandbox.yahoo.com/catalog.php?datatype=c",
        terms="Yahoo Webscope agreement: non-commercial research, on request",
        reader={"reader": "letor", "n_features": 700, "first_index": 1},
        splits={"all": files},
        max_grade=4,
        sources="counts: Chapelle and Chang 2011 and Microsoft's page on the challenge; layout: TensorFlow Datasets",
        counts=_of_files({files[split]: found for split, found in counts.items()}),
        by_hand="On the home page ask for C14 (Learning to Rank Challenge), accept the agreement and unpack "
        f"dataset.tgz; the archive ltrc_yahoo.tar.bz2 in it holds {', '.join(files.values())}.",
    )


def _istella(
    what: str, archive: Archive, digests: dict[str, str], counts: dict[tuple[str, ...], Counts], sources: str
) -> KnownSet:
    splits = {{"vali": "valid"}.get(name, name): f"{name}.txt" for name in digests}
    return KnownSet(
        title=f"{what}: web search of Istella, 220 features, grades 0 to 4",
        home="https://istella.ai/datasets/letor-dataset/",
        terms="Istella LETOR licence: non-commercial use only",
        reader={"reader": "letor", "n_features": 220, "first_index": 1, "beyond_float32": "clip"},
        splits={"all": splits},
        max_grade=4,
        sources=f"{sources}; {_TWO_TOOLS}; values beyond float32 (120:1e137): published sample rows",
        counts=counts,
        digests={f"{name}.txt": digest for name, digest in digests.items()},
        archive=archive,
        by_hand=f"On the home page accept the licence, fetch {archive.file} and unpack it: its folder then holds "
        f"{', '.join(splits.values())}.",
    )


_LIGHTGBM = "https://raw.githubusercontent.com/microsoft/LightGBM/v4.6.0/examples/lambdarank/"

SETS: dict[str, KnownSet] = {
    "mslr-web30k": _mslr(
        30,
        (31_531, 3_771_125),
        {"train.txt": (18_919, 2_270_296), "vali.txt": (6_306, 747_218), "test.txt": (6_306, 753_611)},
        (3_849_406_307, "08cb7977e1d5cbdeb57a9a2537a0923dbca6d46a76db9a6afc69e043c85341ae"),
        train=(
            "40b8eee4d1221cf8205e81603441c1757dd024a3baac25a47756210b03c031d6",
            "a6d12dc4cc8c2dd0743b58c49cad12bd0f6f1cbeda54b54a91e5b54e0b96e7ca",
            "3d0eb52a6702b2c48750a6de89e757cfac499c8ec1d38e3843cb531c059f2f74",
            "21e389656be3c2bfe92eb4fb898d2f30dc24990fc524aada7471b949f176778d",
            "a19da1799650b08c0dc3baaec6c590469ef1773148082e1a10b8504f2f5e9a8b",
        ),
        test=(
            "9a4668fd2615e6772d2e5c4d558d084b2daaf2405571eaf3e4d0526f4da096c7",
            "d192c023baebdae148d902d716aeebf3df2f2f1ce5aee12be4f0b8bb76a8c04a",
            "ba2487a27c21dceea0b9afaadbb6b392d5f652eb0fb8649cbd201bb894c47c12",
            "a7ba03d708ae6b21556a8a6859d52e37cc0dcb2cbff992c630ef6173bb02122a",
            "7647834b84c849a61e5cf3c999a2f72a4785613286fd972a5615e9fcb58f94d8",
        ),
    ),
    "mslr-web10k": _mslr(
        10,
        (10_000, 1_200_192),
        {"train.txt": (6_000, 723_412), "vali.txt": (2_000, 235_259), "test.txt": (2_000, 241_521)},
        (1_234_144_912, "2902142ea33f18c59414f654212de5063033b707d5c3939556124b1120d3a0ba"),
        train=(
            "6eb3fae4e1186e1242a6520f53a98abdbcde5b926dd19a28e51239284b1d55dc",
            "40e4a2fcc237d9c164cbb6a3f2fa91fe6cf7d46a419d2f73e21cf090285659eb",
            "f13005ceb8de0db76c93b02ee4b2bded6f925097d3ab7938931e8d07aa72acd7",
            "6c1677cf9b2ed491e26ac6b8c8ca7dfae9c1a375e2bce8cba6df36ab67ce5836",
            "4249797a2f0f46bff279973f0fb055d4a78f67f337769eabd56e82332c044794",
        ),
        test=(
            "33fe002374a4fce58c4e12863e4eee74745d5672a26f3e4ddacc20ccfe7d6ba0",
            "44add582ccd674cf63af24d3bf6e1074e87a678db77f00b44c37980a3010917a",
            "c0a5a3c6bd7790d0b4ff3d5e961d0c8c5f8ff149089ce492540fa63035801b7a",
            "dc6083c24a5f0c03df3c91ad3eed7542694115b998acf046e51432cb7a22b848",
            "e86fb3fe7e8a5f16479da7ce04f783ae85735f17f66016786c3ffc797dd9d4db",
        ),
    ),
    "yahoo-set1": _yahoo(1, {"train": (19_944, 473_134), "valid": (2_994, 71_083), "test": (6_983, 165_660)}),
    "yahoo-set2": _yahoo(2, {"train": (1_266, 34_815), "valid": (1_266, 34_881), "test": (3_798, 103_174)}),
    "istella": _istella(
        "Istella LETOR (full)",
        Archive(
            "istella-letor.tar.gz",
            1_288_401_248,
            "d45899d9a6a0e48afb250aac7ee3dc50e73e263687f15761d754515cd8284e0b",
        ),
        {
            "train": "8b08ca4c36281e408bfa026303461a6162398a1eec22fb79db0709c76bf6d189",
            "test": "4b34523af8e030718f0216bcae0a35caee1e34e5198ff3e76c08a75db61aac65",
        },
        _of_files({"train.txt": (23_219, 7_325_625), "test.txt": (9_799, 3_129_004)}),
        "queries, and rows of the whole set: its README and TensorFlow Datasets; rows of the parts: they add up, "
        "otherwise not confirmed",
    ),
    "istella-s": _istella(
        "Istella-S LETOR (a sample of the full one)",
        Archive(
            "istella-s-letor.tar.gz",
            472_129_615,
            "41b21116a3650cc043dbe16f02ee39f4467f9405b37fdbcc9a6a05e230a38981",
        ),
        {
            "train": "5cda4187b88b597ca6fa98d6cd3a6d7551ba69ffff700eae63a59fbc8af385b8",
            "vali": "f225dd95772fa65dc685351ff2643945fbd9a9c0e874aa1c538d485595e7c890",
            "test": "2cd1a4f46fa21ea2489073979b5e5913146d1e451f1d6e268bc4e472d39da5d7",
        },
        _of_files(
            {"train.txt": (19_245, 2_043_304), "vali.txt": (7_211, 684_076), "test.txt": (6_562, 681_250)}
        ),
        "queries, and rows of the whole set: its README and TensorFlow Datasets; rows of train and test: public "
        "benchmarks",
    ),
    "istella-x": _istella(
        "Istella-X LETOR (10,000 queries, 26,791,447 rows)",
        Archive(
            "istella-X.tar.gz",
            4_743_657_398,
            "e67be60d1c6a68983a669e4de9df2c395914717b2017cb3b68a97eb89f2ea763",
        ),
        {
            "train": "710378b3536a2156ae0747f0683e2e811e992e7a12014408ff93fbb1ea5a3340",
            "vali": "9de516e2e0dfd0e0a29cf4b233df8e22f2b547f260f7881c7dc1c7237101ee7e",
            "test": "c2b808bae0ccbc40df9519b6a3906a297c8207eb273304c22d506a8612fa9eef",
        },
        {("train.txt", "vali.txt", "test.txt"): Counts(10_000, 26_791_447)},
        "counts of the whole set: TensorFlow Datasets",
    ),
    "istella22": KnownSet(
        title="Istella22: web search of Istella with texts beside it, 220 features, grades 0 to 4",
        home="https://istella.ai/datasets/istella22-dataset/",
        terms="Istella22 licence: non-commercial use only",
        reader={"reader": "letor", "n_features": 220},
        splits={"all": {"train": "train.svm", "valid": "valid.svm", "test": "test.svm"}},
        max_grade=4,
        sources="home page, terms: ir_datasets; features and grades: Dato et al. 2022; file names: public code that "
        "reads it; counts and digests: none found",
        by_hand="On the home page accept the licence, fetch the learning-to-rank part and unpack it: its folder then "
        "holds train.svm, valid.svm and test.svm.",
    ),
    "mq2007": _letor4(
        "MQ2007",
        1_692,
        69_623,
        "layout: home page; rows: a data-set index; queries: home page says about 1,700",
    ),
    "mq2008": _letor4("MQ2008", 784, 15_211, "counted in the files themselves"),
    "ohsumed": _letor3("OHSUMED", "MEDLINE abstracts", 106, 16_140),
    "td2003": _letor3("TD2003", "topic distillation 2003", 50, 49_058),
    "td2004": _letor3("TD2004", "topic distillation 2004", 75, 74_146),
    "np2003": _letor3("NP2003", "named page finding 2003", 150, 148_657),
    "np2004": _letor3("NP2004", "named page finding 2004", 75, 73_834),
    "hp2003": _letor3("HP2003", "home page finding 2003", 150, 147_606),
    "hp2004": _letor3("HP2004", "home page finding 2004", 75, 74_409),
    "lightgbm-example": KnownSet(
        title="LightGBM's own ranking example: 251 queries, 300 features, grades 0 to 4",
        home="https://github.com/microsoft/LightGBM/tree/master/examples/lambdarank",
        terms="MIT licence",
        reader={"reader": "lightgbm", "n_features": 300},
        splits={"all": {"train": "rank.train", "test": "rank.test"}},
        max_grade=4,
        sources="counted and hashed in the files themselves",
        counts=_of_files({"rank.train": (201, 3_005), "rank.test": (50, 768)}),
        downloads=tuple(
            Download(file, _LIGHTGBM + file, size, digest)
            for file, size, digest in (
                ("rank.train", 2_479_271, "a0c7201c89120879c14a5059e091f441cbf2a29b8aaef363885ccb1a530448df"),
                ("rank.train.query", 580, "40cb5fef637229311cd30fab13cb7fb633b023e86a87ff04ec55db420143d6af"),
                ("rank.test", 649_930, "3b1219ce117a0a36d2f76c02de7e7831c1d79af0d40f5195c03178bbe26c824b"),
                ("rank.test.query", 146, "36dca82ba3bf99201bac3987b00a8fbf6fe5f563e9fa6d0da90e783710a32df4"),
            )
        ),
    ),
}
