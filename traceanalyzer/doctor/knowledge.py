"""The doctor's knowledge, from `data/*.toml`; each entry names its source."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from traceanalyzer.doctor.facts import numbers


@dataclass(frozen=True, kw_only=True)
class Article:
    """A piece of advice from articles, and our verdict on it."""

    advice: str
    verdict: str
    checks: tuple[str, ...]  #: ids of checks that answer it
    source: str


@cache
def table(name: str) -> dict[str, Any]:
    """Return the content of a TOML file in `data/`."""
    file = files("traceanalyzer.doctor") / "data" / f"{name}.toml"
    return tomllib.loads(file.read_text("utf-8"))


def articles() -> tuple[Article, ...]:
    """Return the advice from articles, with our verdicts."""
    return msgspec.convert(table("articles")["article"], tuple[Article, ...])


def libraries_of(build: Mapping[str, Any] | None) -> list[str]:
    """Return the names of the libraries that a TensorFlow build opens, CUPTI last."""
    if not build or build.get("is_cuda_build") is not True:
        return []
    major = (*numbers(str(build.get("cuda_version", ""))), 0)[0]
    known = table("versions")["libraries"].get(str(major))
    if known is None:
        return []
    cudnn = (*numbers(str(build.get("cudnn_version", ""))), 0)[0]
    return [*known["names"], *([f"libcudnn.so.{cudnn}"] if cudnn else []), known["cupti"]]


def import_error(text: str) -> Mapping[str, str] | None:
    """Return the known cause of an import error, or None."""
    known = table("versions")["import_error"]
    return next((each for each in known if re.search(each["pattern"], text)), None)


def misfits(tensorflow: str, capability: tuple[int, int]) -> list[Mapping[str, str]]:
    """Return known problems of a TensorFlow version on GPUs with this compute capability."""
    version = numbers(tensorflow)[:2]
    return [
        each
        for each in table("versions")["misfit"]
        if numbers(each["first"]) <= version <= numbers(each["last"])
        and capability >= numbers(each["capability"])
    ]
