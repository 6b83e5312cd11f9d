"""Stored JSON of folders from anywhere: read through a schema that refuses anything else."""

from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ltr_harness.files import stored_file

T = TypeVar("T")

_LARGEST = 256 * 2**20  # bytes; the record of a model of 100,000 features takes a hundredth of it

Count = Annotated[int, Field(ge=0, lt=2**48)]
Amount = Annotated[float, Field(ge=0, lt=1e12)]


class Stored(BaseModel):
    """What stands in a file beside the runs: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SweepPoint(Stored, use_attribute_docstrings=True):
    """Which point of a sweep a model is; the resolved configuration says it."""

    of: str
    """The model that was swept."""
    at: dict[str, Any]
    """The options that differ, such as {params.num_leaves: 15}."""


def read_stored(kind: type[T], folder: Path, name: str) -> T:
    """A JSON file of a folder as a model or a dataclass; anything else is a ValueError with the first reason."""
    with stored_file(folder, name).open("rb") as stream:
        content = stream.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError(f"is larger than {_LARGEST >> 20} MiB")
    return validated(kind, content)


def validated(kind: type[T], content: bytes) -> T:
    """JSON as a model or a dataclass; anything else is a ValueError with the first reason."""
    try:
        return TypeAdapter(kind).validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from None
