"""What a text says of an entity in passing: other names of a phenomenon, the country of a place."""

import re
from collections.abc import Mapping
from typing import Any

_ALSO = re.compile(
    r"\b(?:also|sometimes|otherwise|commonly)\s+(?:known\s+as|called|named)\s+"
    r"((?:the\s+|an?\s+)?[\w'’-]+(?:\s+[\w'’-]+){0,3}?)"
    r"(?:\s+or\s+((?:the\s+|an?\s+)?[\w'’-]+(?:\s+[\w'’-]+){0,3}?))?"
    r"(?=\s*(?:[,;:.!?()\[\]\n]|$|\s(?:is|are|was|were|in|that|which|and|because|for|by)\b))",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
#: Enough of the world to be useful; what follows a comma and is none of these is no country.
_COUNTRIES = (
    "Afghanistan|Albania|Algeria|Angola|Argentina|Armenia|Australia|Austria|Azerbaijan|Bangladesh|"
    "Belarus|Belgium|Bolivia|Botswana|Brazil|Bulgaria|Cambodia|Cameroon|Canada|Chad|Chile|China|"
    "Colombia|Costa Rica|Croatia|Cuba|Cyprus|Czechia|Denmark|Ecuador|Egypt|England|Estonia|Ethiopia|"
    "Fiji|Finland|France|Germany|Ghana|Greece|Greenland|Guatemala|Hungary|Iceland|India|Indonesia|"
    "Iran|Iraq|Ireland|Israel|Italy|Jamaica|Japan|Jordan|Kazakhstan|Kenya|Laos|Latvia|Lebanon|Libya|"
    "Lithuania|Luxembourg|Madagascar|Malaysia|Mali|Malta|Mexico|Mongolia|Morocco|Mozambique|Myanmar|"
    "Namibia|Nepal|Netherlands|New Zealand|Niger|Nigeria|Norway|Oman|Pakistan|Panama|"
    "Papua New Guinea|Paraguay|Peru|Philippines|Poland|Portugal|Qatar|Romania|Russia|Rwanda|"
    "Saudi Arabia|Scotland|Senegal|Serbia|Singapore|Slovakia|Slovenia|Somalia|South Africa|"
    "South Korea|Spain|Sri Lanka|Sudan|Sweden|Switzerland|Syria|Taiwan|Tanzania|Thailand|Tunisia|"
    "Turkey|Uganda|Ukraine|United Kingdom|United States|Uruguay|Uzbekistan|Venezuela|Vietnam|Wales|"
    "Yemen|Zambia|Zimbabwe"
)
_COUNTRY = re.compile(rf",\s+(?:the\s+)?({_COUNTRIES})\b(?!\s+[A-Z])")
_LISTED = re.compile(r"\s*(?:,\s*(?:and\s+)?|\s(?:and|or)\s+)(?:the\s+)?[A-Z]")


def other_names(text: str, name: str) -> Mapping[str, Any]:
    """Return ``{"also_known_as": [...]}`` where a sentence that names the phenomenon tells others."""
    found: dict[str, str] = {}
    for sentence in _SENTENCE.split(text):
        low = sentence.lower()
        for match in _ALSO.finditer(sentence):
            if name.lower() not in low[: match.start()]:
                continue
            for told in filter(None, match.groups()):
                plain = _ARTICLE.sub("", told).strip()
                if plain.lower() not in (name.lower(), f"{name.lower()}s"):
                    found.setdefault(plain.lower(), plain)
    return {"also_known_as": list(found.values())} if found else {}


def country_of(text: str, name: str) -> Mapping[str, Any]:
    """Return ``{"country": ...}`` where the place is followed by a comma and a country.

    In a list of places ("in Zamora, Spain, and Kerala" or "Spain, India and Japan") the comma need
    not tell where the first lies: a country is in no country, and lists are left alone.
    """
    if re.fullmatch(_COUNTRIES, name):
        return {}
    for match in re.finditer(rf"\b{re.escape(name)}(?=,)", text):
        country = _COUNTRY.match(text, match.end())
        if country and not _LISTED.match(text, country.end()):
            return {"country": country[1]}
    return {}
