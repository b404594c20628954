"""Token vectors: counts against a plain loop, PPMI against its formula, files with errors that name the line."""

import gzip

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from transevolve.core.errors import UserError
from transevolve.data import vectors
from transevolve.data.bag_start import bag_start, frequent_pairs
from transevolve.data.naive_bayes import class_weights, counts_by_class, token_counts
from transevolve.data.token_values import PENALTY, held_out, token_values
from transevolve.data.vector_files import read_vectors
from transevolve.data.vectors import Counter, cooccurrence_vectors, log_idf, positive_pmi, singular_vectors

VOCAB = 30


def documents(rows: int = 40, seed: int = 0) -> list[np.ndarray]:
    random = np.random.RandomState(seed)
    return [random.randint(0, VOCAB, random.randint(0, 25)) for _ in range(rows)]


def counted_by_hand(texts: list[np.ndarray], window: int, ignore: set[int]) -> np.ndarray:
    pairs = np.zeros((VOCAB, VOCAB))
    for text in texts:
        kept = [int(token) for token in text if token not in ignore]
        for i, left in enumerate(kept):
            for distance, right in enumerate(kept[i + 1 : i + 1 + window], start=1):
                pairs[left, right] += 1 / distance
                pairs[right, left] += 1 / distance
    return pairs


@pytest.mark.parametrize("window", [1, 4, 50])
@pytest.mark.parametrize("chunk", [1, 7, 10_000])
def test_counts_equal_those_of_a_plain_loop_for_any_chunks(monkeypatch, window, chunk):
    monkeypatch.setattr(vectors, "CHUNK_TOKENS", chunk)
    texts = documents()
    counts = Counter(VOCAB, [0, 1], window).add(texts[:15]).add(iter(texts[15:])).counts
    np.testing.assert_allclose(counts.pairs.toarray(), counted_by_hand(texts, window, {0, 1}), rtol=1e-5)
    present = [sum(token in text for text in texts) for token in range(2, VOCAB)]
    assert counts.documents[2:].tolist() == present
    assert counts.tokens[:2].tolist() == [0, 0]
    assert counts.rows == len(texts)


def test_counts_stay_below_their_limit_and_keep_the_frequent_pairs(monkeypatch):
    monkeypatch.setattr(vectors, "CHUNK_TOKENS", 50)
    texts = [np.array([2, 3] * 5), *documents(200)]
    counts = Counter(VOCAB, most_pairs=100).add(texts).counts
    assert counts.pairs.nnz <= 100
    assert counts.pairs[2, 3] > 0


def test_progress_counts_the_rows_read(monkeypatch):
    monkeypatch.setattr(vectors, "CHUNK_TOKENS", 50)
    counted: list[int] = []
    Counter(VOCAB, progress=counted.append).add(documents(20))
    assert counted == sorted(counted)
    assert counted[-1] == 20


def test_positive_pmi_is_its_formula():
    pairs = Counter(VOCAB).add(documents()).counts.pairs
    dense = pairs.toarray().astype(np.float64)
    contexts = dense.sum(0) ** 0.75
    with np.errstate(divide="ignore"):
        information = np.log(dense * contexts.sum() / (dense.sum(1)[:, None] * contexts[None]))
    np.testing.assert_allclose(positive_pmi(pairs).toarray(), np.maximum(information, 0), atol=1e-5)


def test_vectors_are_normalized_or_zero_and_deterministic():
    counts = Counter(VOCAB, [0]).add(documents()).counts
    found = cooccurrence_vectors(counts, 8)
    assert np.array_equal(found, cooccurrence_vectors(counts, 8))
    np.testing.assert_allclose(np.linalg.norm(found[1:], axis=1), 1.0, rtol=1e-5)
    assert not found[0].any()


def test_vectors_follow_the_dense_decomposition():
    matrix = positive_pmi(Counter(VOCAB).add(documents()).counts.pairs)
    u, s, _ = np.linalg.svd(matrix.toarray())
    expected = u[:, :4] * s[:4] ** 0.5
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    found = singular_vectors(matrix, 4)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-3)


@pytest.mark.parametrize("matrix", [csr_matrix((5, 5), dtype=np.float32), csr_matrix(np.eye(3, dtype=np.float32))])
def test_a_width_beyond_the_rank_gives_zeros(matrix):
    found = singular_vectors(matrix, 10)
    assert found.shape == (matrix.shape[0], 10)
    assert np.isfinite(found).all()


def test_words_in_similar_contexts_have_similar_vectors():
    random = np.random.RandomState(0)
    texts = [np.array([random.choice([2, 3]), *random.permutation([10, 11, 12])]) for _ in range(200)]
    texts += [np.array([random.choice([4, 5]), *random.permutation([20, 21, 22])]) for _ in range(200)]
    found = cooccurrence_vectors(Counter(VOCAB).add(texts).counts, 4)
    assert found[2] @ found[3] > 0.9 > found[2] @ found[4]


def test_log_idf_falls_with_frequency_and_is_finite():
    weights = log_idf(np.array([0, 1, 10, 100]), 100)
    assert np.isfinite(weights).all()
    assert (np.diff(weights) < 0).all()


def test_class_weights_are_those_of_scikit_learn():
    from sklearn.naive_bayes import ComplementNB

    texts = documents(60)
    labels = np.arange(60) % 3
    counts = token_counts(np.concatenate(texts), np.cumsum([0, *map(len, texts)]), VOCAB)
    weights = class_weights(counts_by_class(counts, np.eye(3)[labels]))
    fitted = ComplementNB().fit(counts, labels)
    assert ((counts @ weights).argmax(1) == fitted.predict(counts)).all()
    np.testing.assert_allclose(weights.sum(1), 0, atol=1e-4)


def test_pairs_are_the_frequent_ones_within_texts():
    texts = [np.array(text) for text in ([1, 2, 3, 4], [0, 1, 2, 1, 2], [1, 2, 0, 3], [2, 1, 3, 4], [3, 4], [3, 4])] * 2
    joined = (np.concatenate(texts), np.cumsum([0, *map(len, texts)]))
    assert frequent_pairs(*joined, 100, 10, [0]).tolist() == [[1, 2], [3, 4]]
    assert frequent_pairs(*joined, 1, 10, [0]).tolist() == [[1, 2]]
    assert frequent_pairs(*joined, 0, 10, [0]).shape == (0, 2)


def test_a_start_covers_all_tokens_and_marks_seen_ones():
    texts = documents()
    start = bag_start(
        np.concatenate(texts),
        np.cumsum([0, *map(len, texts)]),
        np.eye(3)[np.arange(len(texts)) % 3],
        vocab_size=VOCAB + 2,
        width=16,
        special=[0],
        unlabelled=[np.array([5, VOCAB])],
    )
    assert start.vectors.shape == (VOCAB + 2, 13)
    assert start.classes.shape == (VOCAB + 2, 3)
    assert start.seen[VOCAB]
    assert not start.seen[VOCAB + 1]
    assert start.log_idf[0] == 0


def test_unlabelled_texts_teach_the_class_of_words_that_no_label_covers():
    random = np.random.RandomState(0)
    topics = [np.arange(2, 12), np.arange(12, 22)]

    def text(topic: int, words: slice) -> np.ndarray:
        return random.choice(topics[topic][words], 8)

    labels = np.arange(20) % 2
    labelled = [text(label, slice(0, 5)) for label in labels]
    unlabelled = [text(row % 2, slice(0, 10)) for row in range(400)]
    options = {"vocab_size": VOCAB, "width": 8, "special": [0]}
    content = (np.concatenate(labelled), np.cumsum([0, *map(len, labelled)]), np.eye(2)[labels])
    alone = bag_start(*content, **options)
    taught = bag_start(*content, unlabelled=unlabelled, **options)
    assert not alone.classes[[9, 19]].any()
    assert taught.classes[9, 0] > 0 > taught.classes[9, 1]
    assert taught.classes[19, 1] > 0 > taught.classes[19, 0]


WANTED = {"the": 0, "cat": 1, "new york": 2, "unknown": 3}


@pytest.mark.parametrize("header", ["", "3 2\n"])
@pytest.mark.parametrize("packed", [False, True])
def test_vectors_are_read_with_or_without_a_header(tmp_path, header, packed):
    content = (header + "the 1 2\ncat -0.5 1e-3 \nnew york 3 4\nthe 9 9\n").encode()
    path = tmp_path / "vectors.txt"
    path.write_bytes(gzip.compress(content) if packed else content)
    found, known = read_vectors(path, WANTED)
    np.testing.assert_allclose(found, [[1, 2], [-0.5, 1e-3], [3, 4], [0, 0]])
    assert known.tolist() == [True, True, True, False]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("the 1 2\ncat 1\n", "line 2: 1 numbers, but 2 are expected"),
        ("the 1 2\ncat 1 2 3\n", "line 2: 3 numbers, but 2 are expected"),
        ("2 3\nthe 1 2\n", "line 2: 2 numbers, but 3 are expected"),
        ("the 1 2\ncat 1 x\n", "line 2: 'x' is not a number"),
        ("the 1 nan\n", "line 1: a number is not finite"),
        ("", "there is no vector"),
        ("dog 1 2\n", "none of its words"),
        ("the\n", "line 1: there are no numbers"),
    ],
)
def test_a_bad_vectors_file_is_named_with_its_line(tmp_path, content, message):
    path = tmp_path / "vectors.txt"
    path.write_text(content)
    with pytest.raises(UserError, match=message) as caught:
        read_vectors(path, WANTED)
    assert str(path) in str(caught.value)


def test_vectors_wider_than_the_model_are_refused(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("the 1 2\n")
    assert read_vectors(path, WANTED, room=4)[0].shape == (4, 2)
    with pytest.raises(UserError, match="width 2, but the model has room for 1"):
        read_vectors(path, WANTED, room=1)


def test_token_values_are_those_of_a_ridge_regression_on_weighted_means():
    from sklearn.linear_model import Ridge

    draw = np.random.RandomState(0)
    texts = [draw.randint(0, 30, draw.randint(3, 12)) for _ in range(200)]
    offsets = np.cumsum([0, *map(len, texts)])
    counts, weight = token_counts(np.concatenate(texts), offsets, 30), draw.uniform(0.5, 2, 30)
    numbers = np.array([text.mean() for text in texts])
    values = token_values(counts, numbers, weight)
    means = counts.toarray() * weight
    means /= means.sum(1, keepdims=True)
    held = held_out(200)
    assert list(held) == list(range(0, 200, 10))
    fitted = np.setdiff1d(np.arange(200), held)
    model = Ridge(PENALTY * (means**2).sum() / 200).fit(means[fitted], numbers[fitted])
    np.testing.assert_allclose(values, model.coef_ * weight, atol=2e-3)
    assert np.corrcoef(means[held] @ (values / weight), numbers[held])[0, 1] > 0.8


def test_a_start_for_numbers_orders_texts_by_their_numbers():
    draw = np.random.RandomState(0)
    texts = [draw.randint(2, 30, 8) for _ in range(300)]
    offsets = np.cumsum([0, *map(len, texts)])
    numbers = np.array([1000.0 + text.mean() for text in texts])
    start = bag_start(np.concatenate(texts), offsets, numbers, vocab_size=30, width=16, special=[0, 1])
    assert start.vectors.shape == (30, 15)
    assert start.classes.shape == (30, 1)
    assert np.corrcoef([start.classes[text].sum() for text in texts], numbers)[0, 1] > 0.9
    assert not start.classes[:2].any()
