"""Word pieces, subwords, characters, bytes and ListOps symbols, built on the `tokenizers` library.

Each tokenizer is a `PreTrainedTokenizerFast`, which `AutoTokenizer.from_pretrained(folder)` loads. The padding id is
always 0. Special tokens that occur in a text, such as "[PAD]", are read as plain text.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode

from ..core.errors import UserError
from ..core.progress import can_show_bar
from .lines import numbered_lines, open_bytes, stripped
from .options import SUBWORDS, TOKENIZERS, TokenizerChoice
from .stored import progress, text_sample

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
BOS, EOS = "[BOS]", "[EOS]"
SUBWORD_SPECIAL = (PAD, BOS, EOS, UNK)
FIRST_BYTE = 2
DEFAULT_VOCAB_SIZE = 16000
SAMPLE_TEXTS, SAMPLE_BYTES = 3_000_000, 1 << 30
# In scripts without spaces, such as Thai, a sentence is one word.
BERT_LONGEST_WORD, LONGEST_WORD = 100, 1000
OPERATORS = ("MIN", "MAX", "MED", "SM")


def build_tokenizer(
    chosen: TokenizerChoice, texts: Sequence[str], vocab: str | None = None, seed: int = 0
) -> tuple[PreTrainedTokenizerFast, str]:
    """Build a tokenizer by name, or load it from a file or folder; also returns its description.

    `texts` are the training texts. If there are many, a random sample of them is used.
    """
    kind, max_length, vocab_size = chosen
    if kind not in TOKENIZERS:
        from .saved_tokenizers import load_saved_tokenizer

        return load_saved_tokenizer(kind, max_length), f"from {kind}"
    if kind == "wordpiece" and vocab is not None:
        return wordpiece_from_vocab(vocab, max_length), f"word pieces from {vocab}"
    sample = text_sample(texts, SAMPLE_TEXTS, SAMPLE_BYTES, seed)
    learned = f"{len(texts):,}" if len(sample) == len(texts) else f"a sample of {len(sample):,} of {len(texts):,}"
    if kind == "wordpiece":
        tokenizer = train_wordpiece(sample, vocab_size or DEFAULT_VOCAB_SIZE, max_length)
        return tokenizer, f"word pieces learned from {learned} training texts"
    if kind in SUBWORDS:
        tokenizer = train_subwords(kind, sample, vocab_size or DEFAULT_VOCAB_SIZE, max_length)
        return tokenizer, f"byte-level {kind} learned from {learned} training texts"
    if kind == "char":
        return train_characters(sample, vocab_size, max_length), f"characters of {learned} training texts"
    if kind == "byte":
        return byte_tokenizer(max_length), "bytes"
    return listops_tokenizer(max_length), "ListOps symbols"


def wordpiece_from_vocab(path: str | Path, max_length: int) -> PreTrainedTokenizerFast:
    """BERT's tokenizer with a vocab.txt; lower-cases unless the vocabulary contains capitals."""
    vocab = _read_vocab(path)
    lowercase = not any(piece != piece.lower() for piece in vocab if piece not in (PAD, UNK, CLS, SEP, MASK))
    return _wordpiece(vocab, lowercase, max_length)


def train_wordpiece(texts: Sequence[str], vocab_size: int, max_length: int) -> PreTrainedTokenizerFast:
    """Learn uncased word pieces, deterministically.

    The library chooses one-letter pieces in the order of a hash table, which differs between runs, so they are chosen
    here and passed in a fixed order.
    """
    normalizer, splitter = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    counts = normalized_counts(_character_counts("counting letters", texts), normalizer)
    letters = sorted(letter for letter in counts if not letter.isspace())
    letters = sorted(sorted(letters, key=lambda letter: -counts[letter])[: vocab_size // 4])
    inner = [
        letter for letter in letters if len(splitter.pre_tokenize_str(normalizer.normalize_str(f"a{letter}a"))) == 1
    ]
    tokens = [PAD, UNK, CLS, SEP, MASK, *letters, *(f"##{letter}" for letter in inner)]
    learner = Tokenizer(models.WordPiece(unk_token=UNK))
    learner.normalizer, learner.pre_tokenizer = normalizer, splitter
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        special_tokens=tokens,
        initial_alphabet=letters,
        limit_alphabet=len(letters),
        show_progress=can_show_bar(),
    )
    learner.train_from_iterator(_tracked("learning word pieces", texts), trainer)
    return _wordpiece(learner.get_vocab(with_added_tokens=True), True, max_length, LONGEST_WORD)


def normalized_counts(counts: Mapping[str, int], normalizer: normalizers.Normalizer) -> Counter[str]:
    """Character counts after normalization; BERT normalizes each character independently."""
    found: Counter[str] = Counter()
    for character, count in counts.items():
        for letter in normalizer.normalize_str(character):
            found[letter] += count
    return found


def train_subwords(kind: str, texts: Sequence[str], vocab_size: int, max_length: int) -> PreTrainedTokenizerFast:
    """Learn a byte-level `bpe` or `unigram` tokenizer, which adds an end token to every text.

    There are no unknown tokens, case is kept, and decoding restores any text exactly. A text gets a leading space that
    decoding removes, so that a word has the same pieces at any position. The result is deterministic. Few texts may
    give less than `vocab_size` pieces.
    """
    least = len(SUBWORD_SPECIAL) + 256
    if vocab_size < least:
        raise UserError(f"data.vocab_size {vocab_size} has no room for the 256 bytes; set it to {least} or more")
    tokenizer = Tokenizer(models.BPE() if kind == "bpe" else models.Unigram())
    tokenizer.normalizer = normalizers.Prepend(" ")
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    common = {
        "vocab_size": vocab_size,
        "special_tokens": list(SUBWORD_SPECIAL),
        "initial_alphabet": sorted(pre_tokenizers.ByteLevel.alphabet()),
        "show_progress": can_show_bar(),
    }
    if kind == "bpe":
        trainer = trainers.BpeTrainer(min_frequency=2, **common)
    else:
        trainer = trainers.UnigramTrainer(unk_token=UNK, **common)
    tokenizer.train_from_iterator(_tracked("learning pieces", texts), trainer)
    if kind == "unigram":
        tokenizer.model = _deterministic_unigram(tokenizer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {EOS}", special_tokens=[(EOS, SUBWORD_SPECIAL.index(EOS))]
    )
    return _wrapped(tokenizer, max_length, unk_token=UNK, bos_token=BOS, eos_token=EOS)


def _deterministic_unigram(trained: Tokenizer) -> models.Unigram:
    """The learned pieces with deterministic order and scores.

    The library sums in the order of a hash table. In the same order, it assigns scores just above the lowest one, in
    steps of 0.0001, to bytes that it would have dropped; here they all get the lowest score. Without texts there are no
    scores.
    """
    pieces = json.loads(trained.to_str())["model"]["vocab"][len(SUBWORD_SPECIAL) :]
    lowest = min(score or 0.0 for piece, score in pieces if len(piece) == 1)
    rare = lowest + 256 * 0.0001
    scores = {
        piece: round(lowest if len(piece) == 1 and (score or 0.0) <= rare else score, 6) for piece, score in pieces
    }
    ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    special = [(token, 0.0) for token in SUBWORD_SPECIAL]
    return models.Unigram([*special, *ordered], unk_id=SUBWORD_SPECIAL.index(UNK), byte_fallback=False)


def train_characters(texts: Sequence[str], vocab_size: int | None, max_length: int) -> PreTrainedTokenizerFast:
    """[CLS] and one token per character, case-sensitive; `vocab_size` keeps the most frequent characters."""
    counts = _character_counts("counting characters", texts)
    special = [PAD, UNK, CLS]
    limit = None if vocab_size is None else max(vocab_size - len(special), 0)
    letters = sorted(sorted(sorted(counts), key=lambda letter: -counts[letter])[:limit])
    vocab = {token: index for index, token in enumerate([*special, *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[], unk_token=UNK))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{CLS} $A", special_tokens=[(CLS, vocab[CLS])])
    return _wrapped(tokenizer, max_length, unk_token=UNK, cls_token=CLS, unit="char")


def byte_tokenizer(max_length: int) -> PreTrainedTokenizerFast:
    """[CLS] and one token per UTF-8 byte, with id byte + 2; there are no unknown tokens."""
    vocab = {PAD: 0, CLS: 1} | {letter: byte + FIRST_BYTE for byte, letter in bytes_to_unicode().items()}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{CLS} $A", special_tokens=[(CLS, vocab[CLS])])
    return _wrapped(tokenizer, max_length, cls_token=CLS, unit="byte")


def listops_symbols(brackets: str) -> list[str]:
    """The tokens of ListOps in the order of their ids, from 1; without brackets, operators are their names."""
    digits = [str(digit) for digit in range(10)]
    return [*digits, *(f"[{name}" for name in OPERATORS), "]"] if brackets == "keep" else [*digits, *OPERATORS]


def listops_tokenizer(max_length: int, brackets: str = "keep") -> PreTrainedTokenizerFast:
    """One token per symbol, without special tokens; unknown symbols are an error."""
    vocab = {symbol: index for index, symbol in enumerate([PAD, *listops_symbols(brackets)])}
    tokenizer = Tokenizer(models.WordLevel(vocab))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if brackets == "drop":
        tokenizer.normalizer = normalizers.Sequence([normalizers.Replace("[", ""), normalizers.Replace("]", "")])
    return _wrapped(tokenizer, max_length)


def _character_counts(title: str, texts: Sequence[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for text in _tracked(title, texts):
        counts.update(text)
    return counts


def _tracked(title: str, texts: Sequence[str]) -> Iterator[str]:
    with progress(title, len(texts)) as advance:
        for text in texts:
            yield text
            advance(1)


def _read_vocab(path: str | Path) -> dict[str, int]:
    vocab: dict[str, int] = {}
    with open_bytes(path) as stream:
        for number, line in numbered_lines(stream, str(path)):
            piece = stripped(line)
            if piece in vocab:
                raise UserError(f"{path}, line {number}: {piece!r} is already in line {vocab[piece] + 1}; remove one")
            vocab[piece] = len(vocab)
    missing = [token for token in (PAD, UNK, CLS, SEP) if token not in vocab]
    if missing:
        raise UserError(f"{path}: there is no {missing[0]}; a BERT vocabulary contains {PAD}, {UNK}, {CLS} and {SEP}")
    if vocab[PAD] != 0:
        raise UserError(f"{path}, line {vocab[PAD] + 1}: {PAD} must be the first line, so that padding is id 0")
    return vocab


def _wordpiece(
    vocab: dict[str, int], lowercase: bool, max_length: int, longest: int = BERT_LONGEST_WORD
) -> PreTrainedTokenizerFast:
    """A word of more than `longest` characters is unknown."""
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token=UNK, max_input_chars_per_word=longest))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A {SEP}",
        pair=f"{CLS} $A {SEP} $B:1 {SEP}:1",
        special_tokens=[(CLS, vocab[CLS]), (SEP, vocab[SEP])],
    )
    names = {"unk_token": UNK, "cls_token": CLS, "sep_token": SEP} | ({"mask_token": MASK} if MASK in vocab else {})
    return _wrapped(tokenizer, max_length, **names)


def _wrapped(tokenizer: Tokenizer, max_length: int, **names: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        model_max_length=max_length,
        model_input_names=["input_ids", "attention_mask"],
        split_special_tokens=True,
        clean_up_tokenization_spaces=False,
        **names,
    )
