"""From logits to probabilities, and how well they rank; rows are (logit, label, weight)."""

import numpy as np

from stategate.nodes.protocols import Vector


def calibrated(rows: Vector) -> tuple[float, float]:
    """Return the scale and shift by which logits become probabilities (Platt 1999)."""
    from scipy.optimize import minimize

    logits, labels, weights = rows.T.astype(np.float64)

    def loss(line: Vector) -> float:
        scores = line[0] * logits + line[1]
        return float(np.average(np.logaddexp(0, scores) - labels * scores, weights=weights))

    scale, shift = minimize(loss, np.array([1.0, 0.0]), method="Nelder-Mead").x
    return float(scale), float(shift)


def area_under_curve(rows: Vector) -> float:
    """Return the weighted area under the ROC curve; a label of .5 and more is positive."""
    _, labels, weights = rows[np.argsort(-rows[:, 0], kind="stable")].T
    positive, negative = weights * (labels >= 0.5), weights * (labels < 0.5)
    total = positive.sum() * negative.sum()
    return float((negative * np.cumsum(positive)).sum() / total) if total else float("nan")
