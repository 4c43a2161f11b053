"""Language models whose memories of documents, each read alone, can be mixed with weights."""
