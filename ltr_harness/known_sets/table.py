"""The table of public sets. To add one, add an entry: `data list` and `data: {set: …}` know it from then on.

Counts are those of the sets' own papers and pages.
"""

from __future__ import annotations

from ltr_harness.known_sets.known_set import Counts, Download, KnownSet

_MICROSOFT = "Microsoft Research licence: research use only, no redistribution"
_LETOR_PAGE = "https://www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval/"


def _five_folds(
    train: str = "train.txt", valid: str = "vali.txt", test: str = "test.txt"
) -> dict[str, dict[str, str]]:
    return {
        f"fold{i}": {"train": f"Fold{i}/{train}", "valid": f"Fold{i}/{valid}", "test": f"Fold{i}/{test}"}
        for i in range(1, 6)
    }


def _every_fold(splits: dict[str, dict[str, str]], queries: int, rows: int) -> dict[tuple[str, ...], Counts]:
    """The three parts of each fold are the whole set."""
    return {tuple(files.values()): Counts(queries, rows) for files in splits.values()}


def _mslr(thousands: int, queries: int, rows: int, parts: dict[str, tuple[int, int]]) -> KnownSet:
    folds = _five_folds()
    first: dict[tuple[str, ...], Counts] = {
        (f"Fold1/{file}",): Counts(*counts) for file, counts in parts.items()
    }
    return KnownSet(
        title=f"MSLR-WEB{thousands}K: web search of Bing, 136 features, grades 0 to 4, five folds",
        home="https://www.microsoft.com/en-us/research/project/mslr/",
        terms=_MICROSOFT,
        reader={"reader": "letor", "n_features": 136, "first_index": 1},
        splits=folds,
        max_grade=4,
        counts={**first, **_every_fold(folds, queries, rows)},
        by_hand=f"On the home page accept the licence, fetch MSLR-WEB{thousands}K.zip and unpack it: "
        "the folder then holds Fold1 … Fold5, each with train.txt, vali.txt and test.txt.",
    )


def _letor4(name: str, queries: int, rows: int) -> KnownSet:
    folds = _five_folds()
    return KnownSet(
        title=f"{name} of LETOR 4.0: Million Query track {name[2:]}, 46 features, grades 0 to 2, five folds",
        home=_LETOR_PAGE,
        terms=_MICROSOFT,
        reader={"reader": "letor", "n_features": 46, "first_index": 1},
        splits=folds,
        max_grade=2,
        counts=_every_fold(folds, queries, rows),
        by_hand=f"On the home page, under LETOR 4.0, fetch the archive {name} (supervised ranking) and unpack it: "
        "the folder then holds Fold1 … Fold5, each with train.txt, vali.txt and test.txt.",
    )


def _letor3(name: str, title: str, queries: int, rows: int, n_features: int, max_grade: int) -> KnownSet:
    folds = _five_folds("trainingset.txt", "validationset.txt", "testset.txt")
    return KnownSet(
        title=f"{name} of LETOR 3.0: {title}, {n_features} features, grades 0 to {max_grade}, five folds",
        home=_LETOR_PAGE,
        terms=_MICROSOFT,
        reader={"reader": "letor", "n_features": n_features, "first_index": 1},
        splits=folds,
        max_grade=max_grade,
        counts=_every_fold(folds, queries, rows),
        by_hand=f"On the home page, under LETOR 3.0, fetch the archive with {name} and unpack it; the folder "
        "QueryLevelNorm of the set holds Fold1 … Fold5, each with trainingset.txt, validationset.txt and testset.txt.",
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
        counts={(files[split],): Counts(*found) for split, found in counts.items()},
        by_hand="On the home page ask for C14B (Learning to Rank Challenge), accept the agreement and unpack the "
        f"archive: the folder then holds {', '.join(files.values())}.",
    )


def _istella(name: str, what: str, counts: dict[str, tuple[int, int]], archive: str) -> KnownSet:
    files = {split: f"{'vali' if split == 'valid' else split}.txt" for split in counts}
    return KnownSet(
        title=f"{what}: web search of Istella, 220 features, grades 0 to 4",
        home="https://istella.ai/datasets/letor-dataset/",
        terms="Istella licence: non-commercial research only",
        reader={"reader": "letor", "n_features": 220, "first_index": 1},
        splits={"all": files},
        max_grade=4,
        counts={(files[split],): Counts(*found) for split, found in counts.items() if found[0]},
        by_hand=f"On the home page accept the licence, fetch {archive} and unpack it: the folder then holds "
        f"{', '.join(files.values())}.",
    )


_LIGHTGBM = "https://raw.githubusercontent.com/microsoft/LightGBM/v4.6.0/examples/lambdarank/"

SETS: dict[str, KnownSet] = {
    "mslr-web30k": _mslr(
        30,
        31_531,
        3_771_125,
        {"train.txt": (18_919, 2_270_296), "vali.txt": (6_306, 747_218), "test.txt": (6_306, 753_611)},
    ),
    "mslr-web10k": _mslr(
        10,
        10_000,
        1_200_192,
        {"train.txt": (6_000, 723_412), "vali.txt": (2_000, 235_259), "test.txt": (2_000, 241_521)},
    ),
    "yahoo-set1": _yahoo(1, {"train": (19_944, 473_134), "valid": (2_994, 71_083), "test": (6_983, 165_660)}),
    "yahoo-set2": _yahoo(2, {"train": (1_266, 34_815), "valid": (1_266, 34_881), "test": (3_798, 103_174)}),
    "istella": _istella(
        "istella",
        "Istella LETOR (full)",
        {"train": (23_219, 7_325_625), "test": (9_799, 3_129_004)},
        "istella-letor.tar.gz",
    ),
    "istella-s": _istella(
        "istella-s",
        "Istella-S LETOR",
        {"train": (19_245, 2_043_304), "valid": (7_211, 684_076), "test": (6_562, 681_250)},
        "istella-s-letor.tar.gz",
    ),
    "istella-x": _istella(
        "istella-x",
        "Istella-X LETOR (10,000 queries, 26,791,447 rows)",
        {"train": (0, 0), "valid": (0, 0), "test": (0, 0)},
        "istella-X.tar.gz",
    ),
    "mq2007": _letor4("MQ2007", 1_692, 69_623),
    "mq2008": _letor4("MQ2008", 784, 15_211),
    "ohsumed": _letor3("OHSUMED", "MEDLINE abstracts", 106, 16_140, 45, 2),
    "td2003": _letor3("TD2003", "topic distillation 2003", 50, 49_058, 64, 1),
    "td2004": _letor3("TD2004", "topic distillation 2004", 75, 74_146, 64, 1),
    "np2003": _letor3("NP2003", "named page finding 2003", 150, 148_657, 64, 1),
    "np2004": _letor3("NP2004", "named page finding 2004", 75, 73_834, 64, 1),
    "hp2003": _letor3("HP2003", "home page finding 2003", 150, 147_606, 64, 1),
    "hp2004": _letor3("HP2004", "home page finding 2004", 75, 74_409, 64, 1),
    "lightgbm-example": KnownSet(
        title="LightGBM's own ranking example: 251 queries, 300 features, grades 0 to 4",
        home="https://github.com/microsoft/LightGBM/tree/master/examples/lambdarank",
        terms="MIT licence",
        reader={"reader": "lightgbm", "n_features": 300},
        splits={"all": {"train": "rank.train", "test": "rank.test"}},
        max_grade=4,
        counts={("rank.train",): Counts(201, 3_005), ("rank.test",): Counts(50, 768)},
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
