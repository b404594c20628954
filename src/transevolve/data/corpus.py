"""Texts without labels for language models: files of any kind, or folders of them, read as a stream."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import AddedToken, decoders, processors
from transformers import PreTrainedTokenizerFast

from ..core.errors import UserError, quoted
from .data import DataReport, SplitFacts, TextData
from .encoding import Encoded, encode
from .files import SPLIT_NAMES
from .options import SPLITS, SUBWORDS, DataOptions, Split, check_tokenizer
from .parts import MOST_ROWS, SHARE
from .splitting import cut_rows, stratified_cut, stratified_sample
from .stream import iter_texts
from .tables import table_format
from .tokenizers import BOS, DEFAULT_VOCAB_SIZE, MASK, build_tokenizer
from .unlabelled import text_files
from .windows import cut_windows, joined, special_frame, unigram_entropy

if TYPE_CHECKING:
    from datasets import Dataset

USES = frozenset(
    {"path", "text", "validation", "test", "tokenizer", "vocab", "vocab_size", "max_length"}
    | {"train_rows", "validation_rows", "test_rows"}
)
PLAIN = (".txt", ".text")
CHUNK = 4096
LEARNED = ("wordpiece", *SUBWORDS)


def corpus_files(options: DataOptions) -> dict[Split, list[Path]]:
    """The files of each split. In a folder, all that are not named validation or test are for training."""
    found: dict[Split, list[Path]] = {}
    if options.path is not None:
        path = _existing(options.path, "path")
        if path.is_dir():
            spelled: dict[str, Split] = {name: split for split, names in SPLIT_NAMES.items() for name in names}
            for file in _text_files(path):
                found.setdefault(spelled.get(file.name.split(".")[0].lower(), "train"), []).append(file)
        else:
            found["train"] = [path]
    others: dict[Split, Any] = {"validation": options.validation, "test": options.test}
    for split, named in others.items():
        if isinstance(named, str):
            path = _existing(named, split)
            found[split] = _text_files(path) if path.is_dir() else [path]
    return found


def _existing(name: str, key: str) -> Path:
    path = Path(name)
    if not path.exists():
        raise UserError(f"{path}: there is no such file or folder; check data.{key}")
    return path


def _text_files(folder: Path) -> list[Path]:
    files = text_files(folder)
    fitting = [file for file in files if table_format(file) or {*PLAIN} & {*file.suffixes}]
    if not fitting:
        there = quoted(file.name for file in files) or "no file"
        raise UserError(
            f"{folder}: there is no file of texts; looked for .txt, .csv, .tsv, .jsonl and .parquet (plain or .gz),"
            f" found {there}"
        )
    return fitting


class Corpus:
    """The texts of some files, read again at every iteration; texts of white space alone are left out.

    `kept` marks those that belong to this corpus; None is all of them.
    """

    def __init__(self, files: list[Path], column: str | None, kept: np.ndarray | None = None, origin: str = ""):
        self.files, self.column, self.kept = files, column, kept
        self.origin = origin or " and ".join(map(str, files[:3])) + (f" and {len(files) - 3} more" * (len(files) > 3))
        self.count = sum(1 for _ in self._all()) if kept is None else int(kept.sum())
        if not self.count:
            raise UserError(f"{self.origin}: there is no text in it; name files with text, one per line or row")

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[str]:
        return (text for _, text in self.numbered())

    def numbered(self) -> Iterator[tuple[str, str]]:
        """(place, text) of each text."""
        if self.kept is None:
            return self._all()
        return (item for item, kept in zip(self._all(), self.kept, strict=False) if kept)

    def select(self, indices: np.ndarray, origin: str) -> "Corpus":
        """The texts with these numbers among those of this corpus."""
        places = np.arange(self.count) if self.kept is None else np.flatnonzero(self.kept)
        kept = np.zeros(self.count if self.kept is None else len(self.kept), dtype=bool)
        kept[places[indices]] = True
        return Corpus(self.files, self.column, kept, origin)

    def _all(self) -> Iterator[tuple[str, str]]:
        for file in self.files:
            column = self.column if table_format(file) is not None else None
            for number, text in iter_texts(file, column):
                if text.strip():
                    yield f"{file}, line {number}", text


@dataclass(frozen=True)
class CorpusTask:
    """How texts become the rows of a language model.

    Args:
        tokenizer: The default tokenizer.
        tokenizers: The tokenizers that will do.
        causal: Whether tokens are predicted from those before them. A text then starts with the tokenizer's first
            token and ends with its end token, and its windows continue it. Otherwise each window is framed as a text,
            and the tokenizer has a mask token, which it recognises in texts.
        max_length: The default number of tokens of a window.
    """

    tokenizer: str
    tokenizers: tuple[str, ...]
    causal: bool
    max_length: int = 256

    def load(
        self,
        options: DataOptions,
        tokenizer: PreTrainedTokenizerFast | None,
        labels: Sequence[str] | None,
        splits: Sequence[Split],
    ) -> TextData:
        kind = options.tokenizer or self.tokenizer
        check_tokenizer(kind, options, self.tokenizers)
        files = corpus_files(options)
        cut = "validation" not in files if options.validation is None else options.validation != 0
        cut = cut and not isinstance(options.validation, str)
        parts = self._parts(options, files, cut, splits, learn=tokenizer is None)
        max_length = options.max_length or (tokenizer.model_max_length if tokenizer else self.max_length)
        described = "as saved with the model"
        if tokenizer is None:
            size = options.vocab_size or (DEFAULT_VOCAB_SIZE if kind in LEARNED else None)
            texts: Any = parts["train"]
            tokenizer, described = build_tokenizer(kind, texts, max_length, options.vocab, size)
            (begin_texts if self.causal else add_mask)(tokenizer)
        self.require(tokenizer)
        report = DataReport(
            task=options.task,
            selection=_selection(options, files, cut),
            tokenizer=f"{described}, {len(tokenizer):,} tokens",
            vocab_size=len(tokenizer),
            max_length=max_length,
            seed=options.seed,
        )
        encoded: dict[Split, Dataset] = {}
        for split in SPLITS:
            if split in splits and split in parts:
                encoded[split], report.splits[split] = self._encode(parts[split], tokenizer, max_length)
        train, validation, test = (encoded.get(split) for split in SPLITS)
        return TextData(train, validation, test, [], tokenizer, report)

    def require(self, tokenizer: PreTrainedTokenizerFast) -> None:
        """Refuses a tokenizer of another kind of model."""
        if self.causal and special_frame(tokenizer)[1]:
            raise UserError(
                "the model's tokenizer puts a token after every text, so that no text can continue: a causal model"
                " needs one that does not, such as that of `transevolve pretrain --objective causal`"
            )
        if not self.causal and tokenizer.mask_token_id is None:
            raise UserError("the model's tokenizer has no mask token: a masked model needs one")

    def _parts(
        self,
        options: DataOptions,
        files: dict[Split, list[Path]],
        cut: bool,
        splits: Sequence[Split],
        learn: bool,
    ) -> dict[Split, Corpus]:
        """The splits that are asked for, and train if it is needed to make them."""
        needed: set[Split] = {split for split in splits if split in files}
        if learn or (cut and "validation" in splits):
            needed.add("train")
        if cut or options.validation == 0:
            needed.discard("validation")
        if "train" in needed and "train" not in files:
            raise UserError(f"the task {options.task!r} needs data.path, a file of texts or a folder of them")
        column = options.text if isinstance(options.text, str) else None
        parts: dict[Split, Corpus] = {split: Corpus(files[split], column) for split in SPLITS if split in needed}
        wanted = {split: options.rows_wanted(split) for split in SPLITS}
        if cut and "train" in parts:
            whole = parts["train"]
            if len(whole) < 2:
                raise UserError(
                    f"{whole.origin}: one text cannot be cut into train and validation; add texts, one per line or row,"
                    " or give a file with data.validation"
                )
            asked = None if options.validation is None else float(options.validation)
            share = min(SHARE, MOST_ROWS / len(whole)) if asked is None else asked
            rest, taken = stratified_cut(np.zeros(len(whole)), share, options.seed)
            if wanted["validation"] is None:
                wanted["validation"] = cut_rows(wanted["train"], len(rest), len(taken))
            parts["train"] = whole.select(rest, whole.origin)
            parts["validation"] = whole.select(taken, _cut_description(options))
        for split, part in parts.items():
            rows = wanted[split]
            if rows is not None and rows < len(part):
                origin = f"{part.origin}, a sample of {len(part):,} texts (seed {options.seed})"
                parts[split] = part.select(stratified_sample(np.zeros(len(part)), rows, options.seed), origin)
        return parts

    def _encode(
        self, part: Corpus, tokenizer: PreTrainedTokenizerFast, max_length: int
    ) -> tuple["Dataset", SplitFacts]:
        stream, found = part.numbered(), []
        while chunk := list(islice(stream, CHUNK)):
            found.append(self._windows(tokenizer, chunk, max_length))
        encoded = joined(found, len(tokenizer))
        special = [token for token in tokenizer.all_special_ids if token != tokenizer.unk_token_id]
        facts = SplitFacts(
            origin=f"windows of {len(part):,} texts, {part.origin}",
            rows=len(encoded.lengths),
            tokens=len(encoded.ids),
            unknown=int((encoded.ids == tokenizer.unk_token_id).sum()) if tokenizer.unk_token else 0,
            numbers={"unigram entropy": unigram_entropy(encoded.ids, special, len(tokenizer))},
        )
        return encoded.dataset(np.zeros(len(encoded.lengths), dtype=np.int64)), facts

    def _windows(self, tokenizer: PreTrainedTokenizerFast, chunk: list[tuple[str, str]], max_length: int) -> Encoded:
        recognised, tokenizer.split_special_tokens = tokenizer.split_special_tokens, True
        try:
            encoded = encode(tokenizer, [text for _, text in chunk], None, lambda index: chunk[index][0])
        finally:
            tokenizer.split_special_tokens = recognised
        if not self.causal:
            before, after = special_frame(tokenizer)
            return cut_windows(encoded, max_length, (len(before), len(after)), (before, after))
        if tokenizer.eos_token_id is not None:
            ids = np.insert(encoded.ids, encoded.offsets[1:], tokenizer.eos_token_id)
            encoded = Encoded(ids, encoded.offsets + np.arange(len(encoded.offsets)))
        return cut_windows(encoded, max_length)


def add_mask(tokenizer: PreTrainedTokenizerFast) -> None:
    """Gives a tokenizer a mask token, and makes it recognise that token where a text spells it out."""
    if tokenizer.mask_token_id is None:
        pieces = tokenizer.eos_token is not None
        mask: Any = AddedToken(MASK, lstrip=pieces, rstrip=pieces, special=True)
        tokenizer.add_special_tokens({"mask_token": mask})
    tokenizer.split_special_tokens = False


def begin_texts(tokenizer: PreTrainedTokenizerFast) -> None:
    """Makes subwords begin a text instead of ending it: what is written next continues the text.

    Decoding then keeps the space before the first word, since what it decodes may be the continuation of a text.
    """
    if tokenizer.bos_token_id is not None:
        backend: Any = tokenizer.backend_tokenizer
        special = [(BOS, tokenizer.bos_token_id)]
        backend.post_processor = processors.TemplateProcessing(single=f"{BOS} $A", special_tokens=special)
        backend.decoder = decoders.ByteLevel()


def _selection(options: DataOptions, files: dict[Split, list[Path]], cut: bool) -> str:
    if cut:
        return f"validation, {_cut_description(options)}"
    return "no split: data.validation is 0" if options.validation == 0 else f"validation, {files['validation'][0]}"


def _cut_description(options: DataOptions) -> str:
    share = options.validation
    size = f"{100 * SHARE:g} %, at most {MOST_ROWS:,}" if share is None else f"{100 * float(share):g} %"
    return f"cut from train (seed {options.seed}, {size})"


MASKED = CorpusTask("wordpiece", ("wordpiece", *SUBWORDS, "char", "byte"), causal=False)
CAUSAL = CorpusTask("bpe", (*SUBWORDS, "char", "byte"), causal=True)
