"""Tokenizers, built on the `tokenizers` library: word pieces, characters, bytes and ListOps symbols.

Each is a `PreTrainedTokenizerFast`: `save_pretrained(folder)`, then `AutoTokenizer.from_pretrained(folder)`, offline.
Padding is id 0 everywhere, and a text that spells out a special token, such as "[PAD]", is only text.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode

from ..errors import UserError
from .lines import numbered_lines, open_bytes, stripped

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
FIRST_BYTE = 2
DEFAULT_VOCAB_SIZE = 16000
OPERATORS = ("MIN", "MAX", "MED", "SM")


def build_tokenizer(
    kind: str, texts: Sequence[str], max_length: int, vocab: str | None = None, vocab_size: int | None = None
) -> tuple[PreTrainedTokenizerFast, str]:
    """A tokenizer by its name, with a description; `texts` are those of the training split."""
    if kind == "wordpiece" and vocab is not None:
        return wordpiece_from_vocab(vocab, max_length), f"word pieces from {vocab}"
    if kind == "wordpiece":
        tokenizer = train_wordpiece(texts, vocab_size or DEFAULT_VOCAB_SIZE, max_length)
        return tokenizer, f"word pieces learned from {len(texts):,} training texts"
    if kind == "char":
        return train_characters(texts, vocab_size, max_length), f"characters of {len(texts):,} training texts"
    if kind == "byte":
        return byte_tokenizer(max_length), "bytes"
    return listops_tokenizer(max_length), "ListOps symbols"


def wordpiece_from_vocab(path: str | Path, max_length: int) -> PreTrainedTokenizerFast:
    """BERT's tokenizer over a vocab.txt; lower case, unless the vocabulary itself holds capitals."""
    vocab = _read_vocab(path)
    lowercase = not any(piece != piece.lower() for piece in vocab if piece not in (PAD, UNK, CLS, SEP, MASK))
    return _wordpiece(vocab, lowercase, max_length)


def train_wordpiece(texts: Sequence[str], vocab_size: int, max_length: int) -> PreTrainedTokenizerFast:
    """Uncased word pieces learned from texts: the same texts give the same ids.

    The library chooses and numbers one-letter pieces in the order of a hash table, which differs from run to run;
    they are therefore chosen here, and handed to it in a fixed order.
    """
    normalizer, splitter = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(normalizer.normalize_str(text))
    letters = sorted(letter for letter in counts if not letter.isspace())
    letters = sorted(sorted(letters, key=lambda letter: -counts[letter])[: vocab_size // 4])
    inner = [
        letter for letter in letters if len(splitter.pre_tokenize_str(normalizer.normalize_str(f"a{letter}a"))) == 1
    ]
    given = [PAD, UNK, CLS, SEP, MASK, *letters, *(f"##{letter}" for letter in inner)]
    learner = Tokenizer(models.WordPiece(unk_token=UNK))
    learner.normalizer, learner.pre_tokenizer = normalizer, splitter
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        special_tokens=given,
        initial_alphabet=letters,
        limit_alphabet=len(letters),
        show_progress=False,
    )
    learner.train_from_iterator(texts, trainer)
    return _wordpiece(learner.get_vocab(with_added_tokens=True), True, max_length)


def train_characters(texts: Sequence[str], vocab_size: int | None, max_length: int) -> PreTrainedTokenizerFast:
    """[CLS] and one token per character, as written; the most frequent ones if `vocab_size` limits them."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    special = [PAD, UNK, CLS]
    limit = None if vocab_size is None else max(vocab_size - len(special), 0)
    letters = sorted(sorted(sorted(counts), key=lambda letter: -counts[letter])[:limit])
    vocab = {token: index for index, token in enumerate([*special, *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[], unk_token=UNK))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{CLS} $A", special_tokens=[(CLS, vocab[CLS])])
    return _wrapped(tokenizer, max_length, unk_token=UNK, cls_token=CLS, unit="char")


def byte_tokenizer(max_length: int) -> PreTrainedTokenizerFast:
    """[CLS] and one token per byte of UTF-8, whose id is the byte + 2: nothing is ever unknown."""
    vocab = {PAD: 0, CLS: 1} | {letter: byte + FIRST_BYTE for byte, letter in bytes_to_unicode().items()}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{CLS} $A", special_tokens=[(CLS, vocab[CLS])])
    return _wrapped(tokenizer, max_length, cls_token=CLS, unit="byte")


def listops_symbols(brackets: str) -> list[str]:
    """The tokens of ListOps in the order of their ids, from 1; without brackets an operator is its bare name."""
    digits = [str(digit) for digit in range(10)]
    return [*digits, *(f"[{name}" for name in OPERATORS), "]"] if brackets == "keep" else [*digits, *OPERATORS]


def listops_tokenizer(max_length: int, brackets: str = "keep") -> PreTrainedTokenizerFast:
    """One token per symbol, no special tokens; a symbol that ListOps does not have is an error, not an unknown."""
    vocab = {symbol: index for index, symbol in enumerate([PAD, *listops_symbols(brackets)])}
    tokenizer = Tokenizer(models.WordLevel(vocab))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if brackets == "drop":
        tokenizer.normalizer = normalizers.Sequence([normalizers.Replace("[", ""), normalizers.Replace("]", "")])
    return _wrapped(tokenizer, max_length)


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
        raise UserError(f"{path}: there is no {missing[0]}; a BERT vocabulary holds {PAD}, {UNK}, {CLS} and {SEP}")
    if vocab[PAD] != 0:
        raise UserError(f"{path}, line {vocab[PAD] + 1}: {PAD} must be the first line, so that padding is id 0")
    return vocab


def _wordpiece(vocab: dict[str, int], lowercase: bool, max_length: int) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token=UNK))
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
