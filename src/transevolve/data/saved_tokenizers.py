"""Loads saved tokenizers: a Hugging Face tokenizer folder, or a tokenizer.json."""

import json
from pathlib import Path

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from ..core.errors import UserError, first_line
from .tokenizers import PAD

FILE, CONFIG = "tokenizer.json", "tokenizer_config.json"
ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token", "bos_token", "eos_token")
SPELLINGS = {
    "pad_token": ("[PAD]", "<pad>"),
    "unk_token": ("[UNK]", "<unk>"),
    "cls_token": ("[CLS]",),
    "sep_token": ("[SEP]",),
    "mask_token": ("[MASK]", "<mask>"),
    "bos_token": ("<s>", "[BOS]"),
    "eos_token": ("</s>", "[EOS]", "<|endoftext|>"),
}


def tokenizer_files(name: str) -> list[Path]:
    """The existing files of a saved tokenizer."""
    path = Path(name)
    file = path / FILE if path.is_dir() else path
    return [found for found in (file, file.parent / CONFIG) if found.is_file()]


def load_saved_tokenizer(name: str, max_length: int) -> PreTrainedTokenizerFast:
    """Load a tokenizer without its length limits; [PAD] is added if there is no padding token."""
    path = Path(name)
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise UserError(f"data.tokenizer {name}: there is no {file}; name a folder with {FILE}, or such a file")
    try:
        backend = Tokenizer.from_file(str(file))
    except Exception as error:
        reason = first_line(error)
        raise UserError(f"data.tokenizer {file}: not a {FILE} of Hugging Face's tokenizers ({reason})") from None
    backend.no_padding()
    backend.no_truncation()
    saved = _config(file.parent / CONFIG)
    roles = {role: token for role in ROLES if (token := _token(role, saved, backend)) is not None}
    kept = {name: saved[name] for name in ("unit", "pairs") if name in saved}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=max_length,
        model_input_names=["input_ids", "attention_mask"],
        split_special_tokens=True,
        clean_up_tokenization_spaces=False,
        **roles,
        **kept,
    )
    if tokenizer.pad_token is None:
        tokenizer.add_special_tokens({"pad_token": PAD})
    return tokenizer


def _config(path: Path) -> dict:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"data.tokenizer {path}: not json ({error})") from None
    return found if isinstance(found, dict) else {}


def _token(role: str, saved: dict, backend: Tokenizer) -> str | None:
    """The token of a role, from the configuration, or by its usual spelling."""
    named = saved.get(role)
    named = named.get("content") if isinstance(named, dict) else named
    candidates = (named,) if isinstance(named, str) else SPELLINGS[role]
    return next((token for token in candidates if backend.token_to_id(token) is not None), None)
