"""Tokenizers: round trips, agreement with BERT's, and determinism."""

import json
import os
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import normalizers
from transformers import AutoTokenizer, BertTokenizer, DataCollatorWithPadding

from transevolve import TransEvolveConfig
from transevolve.core.errors import UserError
from transevolve.data import iter_texts
from transevolve.data.encoding import encode
from transevolve.data.tokenizers import (
    FIRST_BYTE,
    byte_tokenizer,
    listops_tokenizer,
    normalized_counts,
    train_characters,
    train_subwords,
    train_wordpiece,
    wordpiece_from_vocab,
)

DATA = os.environ.get("TRANSEVOLVE_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="TRANSEVOLVE_DATA names no folder with the real data")
TEXTS = [
    "The cat sat on the mat, didn't it?",
    "A dog's bark; a cat's purr.\tTabs\nand\u2028lines  stay.",
    "Ünïcödé naïve café — 漢字 и кириллица 😀",
    "[PAD] [CLS] spelled out is only text",
    "",
    "   ",
    "the the the the cat cat dog " * 20,
]
ALPHABET = sorted(set("".join(TEXTS)))
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "##s", "c", "##a", "##t", ".", "'", "cafe"]
SUBWORDS = ["bpe", "unigram"]
KINDS = ["wordpiece", "vocab", *SUBWORDS, "char", "byte", "listops"]
unicode_text = st.text(st.characters(exclude_categories=("Cs",)))


def make(kind: str, folder: Path, max_length: int = 64):
    if kind == "vocab":
        (folder / "vocab.txt").write_text("\n".join(VOCAB) + "\n")
        return wordpiece_from_vocab(folder / "vocab.txt", max_length)
    return {
        "wordpiece": lambda: train_wordpiece(TEXTS, 200, max_length),
        "bpe": lambda: train_subwords("bpe", TEXTS, 300, max_length),
        "unigram": lambda: train_subwords("unigram", TEXTS, 300, max_length),
        "char": lambda: train_characters(TEXTS, None, max_length),
        "byte": lambda: byte_tokenizer(max_length),
        "listops": lambda: listops_tokenizer(max_length),
    }[kind]()


def texts_for(kind: str) -> list[str]:
    return ["[MAX 1 2 [SM 3 4 ] ]", "7", "[MED 1 2 ] " * 60] if kind == "listops" else TEXTS


def ids(tokenizer, text: str) -> list[int]:
    return tokenizer(text, truncation=True)["input_ids"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_tokenizer_loads_unchanged(kind, tmp_path):
    tokenizer = make(kind, tmp_path)
    tokenizer.save_pretrained(tmp_path / "run")
    (tmp_path / "run" / "config.json").write_text('{"model_type": "transevolve"}')
    loaded = AutoTokenizer.from_pretrained(tmp_path / "run")
    assert [ids(loaded, text) for text in texts_for(kind)] == [ids(tokenizer, text) for text in texts_for(kind)]
    assert loaded.model_max_length == tokenizer.model_max_length
    assert loaded.get_vocab() == tokenizer.get_vocab()


@pytest.mark.parametrize("kind", KINDS)
def test_padding_is_id_0(kind, tmp_path):
    tokenizer = make(kind, tmp_path)
    short, long = texts_for(kind)[1], texts_for(kind)[0]
    batch = DataCollatorWithPadding(tokenizer)([{"input_ids": ids(tokenizer, text)} for text in (short, long)])
    assert tokenizer.pad_token_id == 0
    assert set(batch) == {"input_ids", "attention_mask"}
    assert ((batch["input_ids"] == 0) == (batch["attention_mask"] == 0)).all()


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_batches_are_encoded_as_the_tokenizer_encodes_one_text(kind, saved, tmp_path):
    tokenizer = make(kind, tmp_path)
    if saved:
        tokenizer.save_pretrained(tmp_path / "run")
        tokenizer = AutoTokenizer.from_pretrained(tmp_path / "run")
    texts = texts_for(kind)
    encoded = encode(tokenizer, texts, 64, str)
    parts = [part.tolist() for part in np.split(encoded.ids, encoded.offsets[1:-1])]
    assert parts == [ids(tokenizer, text) for text in texts]
    assert encoded.truncated == sum(len(tokenizer(text)["input_ids"]) > 64 for text in texts) > 0


@given(unicode_text)
def test_bytes_keep_any_text(text):
    tokenizer = byte_tokenizer(64)
    tokens = tokenizer(text)["input_ids"]
    assert tokenizer.decode(tokens, skip_special_tokens=True) == text
    assert tokens[1:] == [byte + FIRST_BYTE for byte in text.encode()]


@given(st.text(st.sampled_from(ALPHABET)))
def test_characters_keep_any_text_over_the_training_alphabet(text):
    tokenizer = train_characters(TEXTS, None, 64)
    assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == text


@given(unicode_text)
def test_the_table_of_characters_equals_the_library(text):
    tokenizer = train_characters(TEXTS, 20, 4000)
    assert encode(tokenizer, [text], 4000, str).ids.tolist() == tokenizer(text)["input_ids"]


def test_an_unseen_character_is_unknown():
    tokenizer = train_characters(["ab"], None, 64)
    assert tokenizer.convert_ids_to_tokens(tokenizer("aЖb")["input_ids"]) == ["[CLS]", "a", "[UNK]", "b"]


def test_a_limit_keeps_the_most_frequent_characters():
    assert set(train_characters(["aaabbc"], 5, 64).get_vocab()) == {"[PAD]", "[UNK]", "[CLS]", "a", "b"}


@pytest.mark.parametrize("kind", ["wordpiece", "vocab", *SUBWORDS, "char", "byte"])
def test_every_text_has_a_token(kind, tmp_path):
    assert len(ids(make(kind, tmp_path), "")) >= 1


@pytest.mark.parametrize("kind", ["wordpiece", "vocab", *SUBWORDS, "char", "byte"])
def test_a_special_token_spelled_out_is_text(kind, tmp_path):
    tokenizer = make(kind, tmp_path)
    plain = tokenizer("[PAD][CLS] [EOS]", add_special_tokens=False)["input_ids"]
    assert not (set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}) & set(plain)


def test_learned_word_pieces_are_the_same_every_time():
    first = train_wordpiece(TEXTS, 150, 64).get_vocab()
    assert all(train_wordpiece(TEXTS, 150, 64).get_vocab() == first for _ in range(10))
    assert sorted(first.values()) == list(range(len(first)))
    assert len(first) <= 150


@given(st.lists(unicode_text, min_size=1))
def test_learned_word_pieces_are_the_same_for_any_texts(texts):
    first = train_wordpiece(texts, 60, 64).get_vocab()
    assert all(train_wordpiece(texts, 60, 64).get_vocab() == first for _ in range(3))


@given(st.lists(st.text(), max_size=5))
def test_characters_counted_before_normalizing_are_those_of_normalized_texts(texts):
    normalizer = normalizers.BertNormalizer(lowercase=True)
    expected = Counter("".join(normalizer.normalize_str(text) for text in texts))
    assert normalized_counts(Counter("".join(texts)), normalizer) == expected


def test_learned_word_pieces_cover_their_training_texts():
    tokenizer = train_wordpiece(TEXTS, 400, 64)
    assert all(tokenizer.unk_token_id not in ids(tokenizer, text) for text in TEXTS)
    assert "the" in tokenizer.tokenize("The")


@pytest.fixture(scope="module", params=SUBWORDS)
def subwords(request):
    return train_subwords(request.param, TEXTS, 400, 64)


@given(text=unicode_text)
def test_subwords_keep_any_text(subwords, text):
    tokens = subwords(text)["input_ids"]
    assert subwords.decode(tokens, skip_special_tokens=True) == text
    assert tokens[-1] == subwords.eos_token_id
    assert not set(tokens[:-1]) & set(subwords.all_special_ids)


def test_the_special_tokens_of_subwords_are_those_of_the_model(subwords):
    config = TransEvolveConfig()
    ids = subwords.pad_token_id, subwords.bos_token_id, subwords.eos_token_id, subwords.unk_token_id
    assert ids == (config.pad_token_id, config.bos_token_id, config.eos_token_id, 3) == (0, 1, 2, 3)
    assert config.decoder_start_token_id == subwords.bos_token_id


def test_a_word_has_the_same_subwords_at_any_position(subwords):
    assert subwords.tokenize("the cat") == subwords.tokenize("the") + subwords.tokenize("cat")


def test_subwords_keep_case(subwords):
    assert subwords("The")["input_ids"] != subwords("the")["input_ids"]


@given(texts=st.lists(unicode_text, min_size=1), size=st.integers(260, 300))
@pytest.mark.parametrize("kind", SUBWORDS)
def test_learned_subwords_are_the_same_for_any_texts(kind, texts, size):
    first, second = (train_subwords(kind, texts, size, 64).backend_tokenizer.to_str() for _ in range(2))
    assert first == second


@pytest.mark.parametrize("kind", SUBWORDS)
def test_learned_subwords_are_the_same_every_time(kind):
    texts = [f"{a} {b}{c}" for a in ("Katzen", "Hunde", "cats") for b in "abcdefg" for c in ("ing", "ung", "s", "")]
    first = train_subwords(kind, texts, 330, 64).backend_tokenizer.to_str()
    assert all(train_subwords(kind, texts, 330, 64).backend_tokenizer.to_str() == first for _ in range(10))


@pytest.mark.parametrize("kind", SUBWORDS)
def test_a_short_text_gives_fewer_subwords(kind):
    vocab = train_subwords(kind, ["ab ab"], 32_000, 64).get_vocab()
    assert sorted(vocab.values()) == list(range(len(vocab)))
    assert 260 <= len(vocab) < 270
    assert len(train_subwords(kind, [""], 32_000, 64)) == 260


def test_subwords_need_room_for_the_bytes():
    with pytest.raises(UserError, match=r"data\.vocab_size 259 has no room for the 256 bytes; set it to 260 or more"):
        train_subwords("bpe", TEXTS, 259, 64)
    assert len(train_subwords("bpe", TEXTS, 260, 64)) == 260


def test_truncation_keeps_the_end_token(subwords):
    encoded = encode(subwords, TEXTS, 5, str)
    assert (np.diff(encoded.offsets) <= 5).all()
    assert (encoded.ids[encoded.offsets[1:] - 1] == subwords.eos_token_id).all()


def test_listops_keeps_every_bracket():
    tokenizer = listops_tokenizer(64)
    text = "[MAX 4 [MIN 2 3 ] [MED 1 5 8 9 ] [SM 0 6 7 ] ]"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert len(tokenizer) == 16


def test_listops_drops_brackets_on_request():
    tokenizer = listops_tokenizer(64, "drop")
    kept = listops_tokenizer(64)("[MAX 4 [MIN 2 3 ] 1 ]")["input_ids"]
    dropped = tokenizer("[MAX 4 [MIN 2 3 ] 1 ]")["input_ids"]
    assert tokenizer.decode(dropped) == "MAX 4 MIN 2 3 1"
    assert dropped == [token for token in kept if token != 15]


def test_listops_refuses_unknown_symbols():
    with pytest.raises(UserError, match=r"row 1: the tokenizer does not know '\[MAXX'"):
        encode(listops_tokenizer(64), ["[MAX 1 2 ]", "[MAXX 1 2 ]"], 64, lambda index: f"row {index}")


def test_no_room_besides_the_special_tokens(tmp_path):
    with pytest.raises(UserError, match="max_length 2 leaves no room"):
        encode(make("vocab", tmp_path), TEXTS, 2, str)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["[UNK]", "[CLS]", "[SEP]"], r"there is no \[PAD\]"),
        (["[UNK]", "[PAD]", "[CLS]", "[SEP]"], r"line 2: \[PAD\] must be the first line"),
        (["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "a"], "line 6: 'a' is already in line 5"),
    ],
)
def test_a_broken_vocabulary_is_reported(lines, message, tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(lines))
    with pytest.raises(UserError, match=message):
        wordpiece_from_vocab(tmp_path / "vocab.txt", 64)


@pytest.mark.parametrize(("extra", "lowered"), [("zebra", True), ("Zebra", False)])
def test_case_is_that_of_the_vocabulary(extra, lowered, tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join([*VOCAB, extra]))
    tokenizer = wordpiece_from_vocab(tmp_path / "vocab.txt", 64)
    assert (tokenizer.tokenize("The") == ["the"]) is lowered


def same_as_bert(folder: Path, texts: list[str]) -> bool:
    ours = wordpiece_from_vocab(folder / "vocab.txt", 128)
    bert = BertTokenizer.from_pretrained(folder, model_max_length=128)
    return [ids(ours, text) for text in texts] == [ids(bert, text) for text in texts]


def test_word_pieces_equal_berts(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(VOCAB))
    assert same_as_bert(tmp_path, [text for text in TEXTS if "[PAD]" not in text])


@needs_data
@pytest.mark.parametrize("corpus", ["ag_news", "imdb"])
def test_word_pieces_equal_berts_on_real_text(corpus):
    texts = [text for _, text in islice(iter_texts(Path(str(DATA), corpus, "test.jsonl.gz")), 500)]
    assert same_as_bert(Path(str(DATA), "bert_vocab"), texts)


def test_the_byte_vocabulary_is_the_256_bytes_and_two_more(tmp_path):
    byte_tokenizer(64).save_pretrained(tmp_path)
    vocab = json.loads((tmp_path / "tokenizer.json").read_text())["model"]["vocab"]
    assert sorted(vocab.values()) == list(range(258))
