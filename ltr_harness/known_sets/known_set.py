"""What is known about a public set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Download:
    """A file that may be fetched by a program.

    Attributes:
        file: its name in the set's folder.
        url: where it is.
        size: bytes.
        sha256: of its content.
    """

    file: str
    url: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Archive:
    """What a person fetches from the home page.

    Attributes:
        file: its published name.
        size: bytes.
        sha256: of its content.
    """

    file: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Counts:
    """What reading files must find."""

    queries: int
    rows: int


@dataclass(frozen=True)
class KnownSet:
    """A public set in its published layout.

    Attributes:
        title: its name and, in a few words, what it is.
        home: page of those who publish it.
        terms: under which it may be used.
        reader: name and options of the reader.
        splits: fold to split to files, relative to the set's folder.
        max_grade: highest grade of the scale.
        sources: where the facts here were checked, and which could not be.
        counts: files (one or several that are read together) to what they must hold.
        digests: file to the SHA-256 of the published one; a file that has it needs no counting.
        archive: the published archive, where its digest is known.
        inside: folder of the archive whose files are meant, where it holds several with the same names.
        downloads: files that may be fetched without asking anyone; empty where a person has to agree to terms.
        by_hand: what to fetch and how, where it is not for a program to do.
    """

    title: str
    home: str
    terms: str
    reader: Mapping[str, Any]
    splits: Mapping[str, Mapping[str, str]]
    max_grade: int
    sources: str
    counts: Mapping[tuple[str, ...], Counts] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    archive: Archive | None = None
    inside: str = ""
    downloads: tuple[Download, ...] = ()
    by_hand: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """Every file of the layout, once, companions that are downloaded included."""
        named = [file for split in self.splits.values() for file in split.values()]
        return tuple(dict.fromkeys([*named, *(download.file for download in self.downloads)]))

    def data_section(self) -> dict[str, Any]:
        """What ``data: {set: …}`` stands for in an experiment file, ``root`` apart."""
        set_aside: dict[str, Any] = {
            "valid": {"holdout": 0.2, "seed": 1}
        }  # where a set has no validation part
        splits = {fold: {**set_aside, **files} for fold, files in self.splits.items()}
        return {**self.reader, "splits": splits, "max_grade": self.max_grade}
