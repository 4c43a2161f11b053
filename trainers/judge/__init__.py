"""The trainer of the judge of answers, and the memories with questions that it learns from."""
