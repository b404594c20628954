"""The value of each token for predicting a number: ridge regression on the weighted mean of a text's tokens."""

import numpy as np
from scipy.sparse import diags_array

from .vectors import Sparse

PENALTY = 4.0
"""Times the mean squared norm of a text's row, so that it does not depend on the length of texts. With 1, training rows
are fitted so closely that the model relies too much on these values for other rows."""
LEAST_ROWS = 100


def held_out(rows: int) -> range:
    """Every tenth row, not used for the values, to measure how well they generalize; none below `LEAST_ROWS` rows."""
    return range(0, rows if rows >= LEAST_ROWS else 0, 10)


def token_values(counts: Sparse, numbers: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(vocab,): the summand of each token in the prediction for a text, before division by the sum of weights.

    `counts` is (rows, vocab), `numbers` has one number per row, and a text's mean is weighted by `weight` (vocab,).
    """
    from sklearn.linear_model import Ridge

    weighted = counts.multiply(weight[None]).tocsr()
    totals = np.asarray(weighted.sum(axis=1)).ravel()
    rows = diags_array(1 / np.maximum(totals, np.finfo(np.float32).tiny)) @ weighted
    penalty = PENALTY * float(rows.multiply(rows).sum() / rows.shape[0])
    fitted = np.setdiff1d(np.arange(len(numbers)), held_out(len(numbers)))
    model = Ridge(penalty, solver="sparse_cg").fit(rows[fitted], numbers[fitted])
    return (model.coef_ * weight).astype(np.float32)
