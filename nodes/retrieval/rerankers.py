"""Rerankers: any ``/v1/rerank`` endpoint (vLLM, Jina, Cohere form), or a local cross-encoder."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from stores.errors import ModelUnavailable, UserError, needs
from stores.loopback import on_loopback


def rerank_at(
    url: str, model: str, query: str, documents: Sequence[str], timeout: float = 20.0
) -> list[float]:
    """Return one relevance a document from the endpoint ``url``.

    Raises ``ModelUnavailable`` where it does not answer, ``UserError`` where the answer makes no
    sense.
    """
    import httpx2

    if not url:
        raise UserError("rerank=endpoint needs rerank_url, such as http://127.0.0.1:8000/v1/rerank")
    body = {"model": model, "query": query, "documents": list(documents)}
    try:
        # A proxy named in the environment must not see what is meant for this machine.
        with httpx2.Client(timeout=timeout, trust_env=not on_loopback(url)) as client:
            answer = client.post(url, json=body)
            answer.raise_for_status()
            results = answer.json()["results"]
        scores = {int(item["index"]): float(item["relevance_score"]) for item in results}
        return [scores[i] for i in range(len(documents))]
    except httpx2.HTTPError as error:
        raise ModelUnavailable(f"the reranker at {url} does not answer ({error})") from None
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"the reranker at {url} answers in another form ({error!r})") from None


def rerank_locally(model: str, query: str, documents: Sequence[str]) -> list[float]:
    """Return one relevance a document from a cross-encoder on this machine (a folder or hub name).

    Raises ``UserError`` where it cannot be loaded.
    """
    encoder = _cross_encoder(model)
    scores = encoder.predict([(query, document) for document in documents])
    return [float(score) for score in np.ravel(scores)]


@lru_cache(maxsize=2)
def _cross_encoder(model: str) -> Any:
    if not model:
        raise UserError("rerank=cross_encoder needs rerank_model: a folder or a hub name")
    with needs("local"):
        from sentence_transformers import CrossEncoder

    try:
        return CrossEncoder(model, device="cpu")
    except (OSError, ValueError) as error:
        problem = " ".join(str(error).split())[:160]
        raise UserError(f"cannot load the cross-encoder '{model}' ({problem})") from None
