"""Saved tokenizers (`--data.tokenizer FOLDER_OR_FILE`), and texts in every script."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from training_support import TINY, result, train, write_csv
from transevolve.cli import main
from transevolve.data import DataOptions, load_data

TEXTS = ["the film was great and lovely", "a film of awful weak parts", "it was fine and superb"]
WILD = {
    "chinese": ("这部电影非常好看我很喜欢", "这部电影太糟糕了我不喜欢"),
    "japanese": ("この映画はとても素晴らしいです", "この映画はひどくて退屈でした"),
    "thai": ("ภาพยนตร์เรื่องนี้ดีมากและสนุก" * 5, "ภาพยนตร์เรื่องนี้แย่มากและน่าเบื่อ" * 5),
    "emoji": ("😀🎉 nice 👍🏽", "😡💔 no 👎🏽"),
    "code": ("def f(x):\n    return x ** 2", "for(int i=0;i<n;++i){a[i]++;}"),
}


def write_tokenizer(folder: Path, pad: str | None = None, template: bool = True) -> Path:
    """A tokenizer as other libraries save it: fixed padding and truncation, and roles in its configuration."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>", *([pad] if pad else [])]
    tokenizer.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=120, special_tokens=special, show_progress=False)
    )
    if template:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
        )
    tokenizer.enable_truncation(4)
    if pad:
        tokenizer.enable_padding(length=9, pad_token=pad)
    roles = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", **({"pad_token": pad} if pad else {})}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **roles).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("what", ["folder", pytest.param("file", marks=pytest.mark.slow)])
def test_a_saved_tokenizer_trains_and_predicts(what, tmp_path, capsys):
    folder = write_tokenizer(tmp_path / "tokenizer", "<pad>")
    name = folder if what == "folder" else folder / "tokenizer.json"
    run, data = tmp_path / "run", write_csv(tmp_path / "a.csv", rows=60)
    flags = [f"--data.path={data}", f"--data.tokenizer={name}", f"--output={run}", "--training.epochs=1"]
    assert train(*flags, *TINY) == 0
    assert f"from {name}" in result(run)["data"]["tokenizer"]
    assert AutoTokenizer.from_pretrained(run).pad_token == "<pad>"
    ids = AutoTokenizer.from_pretrained(run)("the film was great and lovely and fine")["input_ids"]
    assert (ids[0], ids[-1]) == (1, 2)
    assert len(ids) > 4
    capsys.readouterr()
    assert main(["predict", str(run), "a lovely film"]) == 0
    assert capsys.readouterr().out.split("\t")[0] in ("yes", "no")


def test_missing_padding_is_added(tmp_path):
    folder = write_tokenizer(tmp_path / "tokenizer")
    data = load_data(DataOptions(path=str(write_csv(tmp_path / "a.csv")), tokenizer=str(folder)))
    before = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab_size()
    assert (data.tokenizer.pad_token, len(data.tokenizer)) == ("[PAD]", before + 1)


@pytest.mark.parametrize("template", [True, False])
def test_pairs_with_a_saved_tokenizer(template, tmp_path):
    from kinds_support import write_pairs

    folder = write_tokenizer(tmp_path / "tokenizer", "<pad>", template)
    options = DataOptions(path=str(write_pairs(tmp_path / "p.tsv", 20)), tokenizer=str(folder))
    tokenizer = load_data(options).tokenizer
    tokens = tokenizer.convert_ids_to_tokens(tokenizer("the", "film")["input_ids"])
    first, second = tokens.index("▁the"), tokens.index("▁film")
    assert tokens[first + 1 : second] == (["</s>", "</s>"] if template else ["[SEP]"])


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "there is no"), ("{", "not a tokenizer.json"), ('{"model_type": "bert"}', "not a tokenizer.json")],
)
def test_wrong_files_are_one_line(content, message, tmp_path, capsys):
    name = tmp_path / "tokenizer.json"
    if content is not None:
        name.write_text(content)
    data = write_csv(tmp_path / "a.csv", rows=20)
    assert train(f"--data.path={data}", f"--data.tokenizer={name}", f"--output={tmp_path / 'run'}", *TINY) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--data.tokenizer=wordpeace"], "choose from"),
        (["--data.tokenizer={folder}", "--data.vocab_size=300"], "has a fixed vocabulary: remove data.vocab_size"),
    ],
)
def test_settings_that_do_not_fit_are_refused(flags, message, tmp_path, capsys):
    folder = write_tokenizer(tmp_path / "tokenizer")
    data = write_csv(tmp_path / "a.csv", rows=20)
    written = [flag.format(folder=folder) for flag in flags]
    assert train(f"--data.path={data}", *written, f"--output={tmp_path / 'run'}", *TINY) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("tokenizer", ["wordpiece", "unigram"])
@pytest.mark.parametrize("script", WILD)
def test_texts_of_every_script_are_distinguished(script, tokenizer, tmp_path):
    rows = [json.dumps({"text": f"{WILD[script][n % 2]} {n}", "label": n % 2}) for n in range(40)]
    (tmp_path / "a.jsonl").write_text("\n".join(rows) + "\n")
    data = load_data(DataOptions(path=str(tmp_path / "a.jsonl"), tokenizer=tokenizer, vocab_size=400))
    assert data.train is not None
    rows = list(zip(map(set, data.train["input_ids"][:]), data.train["labels"][:], strict=True))
    pieces = [set.intersection(*(ids for ids, label in rows if label == number)) for number in (0, 1)]
    unknown = data.tokenizer.unk_token_id
    assert pieces[0] - pieces[1] - {unknown}
    assert pieces[1] - pieces[0] - {unknown}
