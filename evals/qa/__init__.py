"""Question answering: experiments on chunks, retrieval, memory and reranking; names in texts."""
