"""Language models from texts without labels: masking, windows, `pretrain`, `generate`, and `model.start`."""

import gzip
import json
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer, pipeline

from training_support import TINY, losses, metrics, process, result, weights, write_csv
from transevolve import TransEvolveConfig, TransEvolveForMaskedLM, TransEvolveForTokenClassification
from transevolve.cli import main
from transevolve.config.recipe import Recipe
from transevolve.data import DataOptions, load_data
from transevolve.data.encoding import Encoded
from transevolve.data.options import TokenizerChoice
from transevolve.data.tokenizers import build_tokenizer
from transevolve.data.windows import cut_windows, unigram_entropy
from transevolve.evolution.backends import BACKENDS
from transevolve.kinds.masking import MaskingCollator, masked_row
from transevolve.kinds.start import copy_weights, settle_start
from transevolve.models.build import build_transevolve
from transevolve.runs.storage import checkpoints

NOUNS, VERBS = ["cat", "dog", "bird", "horse"], ["chases", "sees", "likes"]
SMALL = [
    *TINY,
    "--data.vocab_size=300",
    "--data.max_length=16",
    "--training.epochs=2",
    "--model.initializer_range=0.02",
]


def write_texts(folder: Path, rows: int = 90) -> Path:
    """The same sentences in files of four kinds."""
    draw = random.Random(0)
    texts = [f"the {draw.choice(NOUNS)} {draw.choice(VERBS)} the {draw.choice(NOUNS)}" for _ in range(rows)]
    parts = [texts[place::3] for place in range(3)]
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text("\n\n".join(parts[0]) + "\n")
    with gzip.open(folder / "deep" / "b.jsonl.gz", "wt") as file:
        file.writelines(json.dumps({"text": text, "other": 1}) + "\n" for text in parts[1])
    (folder / "c.csv").write_text("text,verdict\n" + "".join(f"{text},1\n" for text in parts[2]))
    (folder / "validation.txt").write_text("".join(f"{text}\n" for text in parts[0][:20]))
    return folder


def pretraining_of(texts: Path, run: Path, *more: object) -> list[str]:
    return ["pretrain", f"--data.path={texts}", f"--output={run}", *SMALL, *map(str, more)]


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts") / "corpus")


@pytest.fixture(scope="module")
def masked(texts) -> Path:
    assert main(pretraining_of(texts, texts.parent / "masked", "--training.batch_size=2")) == 0
    return texts.parent / "masked"


@pytest.fixture(scope="module")
def subwords(texts) -> Path:
    """A masked model with the tokenizer of translation."""
    run = texts.parent / "subwords"
    assert main(pretraining_of(texts, run, "--data.tokenizer=bpe", "--training.epochs=1")) == 0
    return run


@pytest.fixture(scope="module")
def causal(texts) -> Path:
    assert main(pretraining_of(texts, texts.parent / "causal", "--objective=causal", "--training.epochs=4")) == 0
    return texts.parent / "causal"


@pytest.mark.parametrize(("length", "room", "sizes"), [(7, 8, [7]), (8, 8, [8]), (9, 8, [5, 4]), (20, 8, [7, 7, 6])])
def test_windows_are_few_and_equal_and_contain_all_tokens(length, room, sizes):
    whole = np.arange(100, 100 + length)
    encoded = Encoded(np.array([1, *whole, 2, 1, 2]), np.array([0, length + 2, length + 4]))
    found = cut_windows(encoded, room + 2, ([1], [2]))[0].rows()
    assert [len(row) - 2 for row in found] == sizes
    assert all(row[0] == 1 and row[-1] == 2 for row in found)
    np.testing.assert_array_equal(np.concatenate([row[1:-1] for row in found]), whole)


def test_the_unigram_entropy_is_that_of_ordinary_tokens():
    assert unigram_entropy(np.bincount([0, 0, 5, 6, 7, 8], minlength=9), [0]) == pytest.approx(np.log(4))


def test_masking_is_proportional_and_skips_special_tokens():
    special = np.zeros(1000, dtype=bool)
    special[:5] = True
    ids = np.concatenate([[2], np.random.RandomState(0).randint(5, 1000, 100_000), [3]])
    inputs, labels = masked_row(ids, np.random.default_rng(0), special, 4, 0.15)
    chosen = labels != -100
    assert not chosen[[0, -1]].any()
    assert chosen.mean() == pytest.approx(0.15, abs=0.005)
    np.testing.assert_array_equal(labels[chosen], ids[chosen])
    np.testing.assert_array_equal(inputs[~chosen], ids[~chosen])
    assert (inputs[chosen] == 4).mean() == pytest.approx(0.8, abs=0.01)
    assert (inputs[chosen] == ids[chosen]).mean() == pytest.approx(0.1, abs=0.01)


def test_every_row_with_text_has_a_masked_token():
    special = np.array([True, True, False, False])
    for seed in range(50):
        _, labels = masked_row(np.array([0, 2, 1]), np.random.default_rng(seed), special, 3, 0.01)
        assert labels.tolist() == [-100, 2, -100]
    assert (masked_row(np.array([0, 1]), np.random.default_rng(0), special, 3, 0.5)[1] == -100).all()


def test_masks_depend_only_on_seed_epoch_and_row():
    tokenizer, _ = build_tokenizer(TokenizerChoice("wordpiece", 64, 60), ["cat dog bird horse"] * 3)
    draw = np.random.RandomState(1)
    rows = [{"input_ids": draw.randint(5, 40, 40).tolist(), "labels": 0} for _ in range(4)]
    collate = MaskingCollator(tokenizer, 0, 0.15, seed=0)
    together, alone = collate(rows), [collate([row]) for row in rows]
    for place, one in enumerate(alone):
        assert torch.equal(together["input_ids"][place], one["input_ids"][0])
    collate.set_epoch(1)
    assert not torch.equal(collate(rows)["labels"], together["labels"])
    collate.set_epoch(0)
    assert torch.equal(collate(rows)["labels"], together["labels"])
    assert not torch.equal(MaskingCollator(tokenizer, 0, 0.15, seed=1)(rows)["labels"], together["labels"])
    filler = collate([{**rows[0], "labels": -100}])
    assert (filler["labels"] == -100).all()


def test_logits_of_only_labelled_tokens_give_the_same_loss():
    settings = {"vocab_size": 50, "hidden_size": 32, "num_attention_heads": 4, "block_depth": 2}
    model = build_transevolve("ForMaskedLM", **settings).eval()
    ids, labels = torch.randint(3, 50, (2, 7)), torch.full((2, 7), -100)
    labels[0, 2], labels[1, 5] = 11, 12
    whole, few = model(ids, labels=labels), model(ids, labels=labels, labelled_only=True)
    torch.testing.assert_close(few.loss, whole.loss)
    torch.testing.assert_close(few.logits, whole.logits[labels != -100])
    with pytest.raises(ValueError, match="needs labels"):
        model(ids, labelled_only=True)


def test_texts_of_every_kind_of_file_are_found(texts):
    data = load_data(DataOptions(task="masked", path=str(texts), vocab_size=300, max_length=8))
    assert data.report.splits["train"].rows == 90
    assert data.report.splits["validation"].rows == 20
    assert all(len(row) <= 8 for row in data.train["input_ids"])


def test_a_masked_model_learns_and_reports(masked):
    found = result(masked)
    assert found["task"] == "masked"
    assert found["validation"].keys() == {"loss", "perplexity", "accuracy"}
    assert found["validation"]["perplexity"] == pytest.approx(np.exp(found["validation"]["loss"]))
    assert found["validation"]["loss"] < found["data"]["splits"]["validation"]["numbers"]["unigram entropy"]
    assert found["command"].startswith("transevolve pretrain ")


def test_fill_mask(masked, capsys):
    assert main(["predict", str(masked), "--json", "the cat [MASK] the dog", "[MASK] [MASK]"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (len(first["masks"]), len(second["masks"])) == (1, 2)
    fill = pipeline("fill-mask", model=str(masked))
    best = fill("the cat [MASK] the dog")[0]
    assert best["score"] == pytest.approx(max(first["masks"][0].values()), rel=1e-4)
    assert best["token_str"] in first["masks"][0]
    assert main(["predict", str(masked), "the cat sees"]) == 2
    assert "arguments, line 1: there is no [MASK]" in capsys.readouterr().err


def test_a_subword_mask_replaces_a_word_and_its_space(subwords):
    tokenizer = AutoTokenizer.from_pretrained(subwords)
    whole, masked = (tokenizer(text)["input_ids"] for text in ("cat sees dog", "cat [MASK] dog"))
    assert len(whole) == len(masked)
    assert masked[1] == tokenizer.mask_token_id
    assert [masked[0], *masked[2:]] == [whole[0], *whole[2:]]


def test_perplexity_of_another_file(masked, causal, texts, tmp_path, capsys):
    for run in (masked, causal):
        assert main(["evaluate", str(run), "--file", str(texts / "c.csv"), "--output", str(tmp_path), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["count"] == 30
        assert found["perplexity"] == pytest.approx(np.exp(found["loss"]))
    assert main(["evaluate", str(masked), "--split", "validation", "--output", str(tmp_path), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["loss"] == pytest.approx(result(masked)["validation"]["loss"], rel=1e-5)


def test_generates_one_line_per_sample(causal, capsys):
    prompts = ["the cat", "the", ""]
    assert main(["generate", str(causal), *prompts, "--new_tokens", "4", "--samples", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert all(lines[place].startswith(prompts[place // 2]) for place in range(6))
    assert main(["generate", str(causal), *prompts, "--new_tokens", "4", "--samples", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == lines
    assert main(["generate", str(causal), *prompts, "--new_tokens", "4", "--samples", "2", "--seed", "1"]) == 0
    assert capsys.readouterr().out.splitlines() != lines


def test_generation_does_not_depend_on_the_batch(causal, tmp_path, capsys):
    (tmp_path / "prompts.txt").write_text("the cat sees\nthe\n")
    greedy = ["--temperature", "0", "--new_tokens", "5"]
    assert main(["generate", str(causal), "--file", str(tmp_path / "prompts.txt"), *greedy, "--json"]) == 0
    found = [json.loads(line)["texts"][0] for line in capsys.readouterr().out.splitlines()]
    for prompt, expected in zip(["the cat sees", "the"], found, strict=True):
        assert main(["generate", str(causal), prompt, *greedy]) == 0
        assert capsys.readouterr().out == f"{expected}\n"
        write = pipeline("text-generation", model=str(causal))
        assert write(prompt, max_new_tokens=5, do_sample=False)[0]["generated_text"] == expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_cached_and_uncached_logits_agree(causal, backend):
    model = AutoModelForCausalLM.from_pretrained(causal, attention=backend)
    ids = torch.randint(5, model.config.vocab_size, (2, 12))
    whole = model(ids, use_cache=False).logits
    cache, steps = None, []
    for piece in (ids[:, :5], *ids[:, 5:].split(1, 1)):
        out = model(piece, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        steps.append(out.logits)
    torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("objective", ["masked", "causal"])
def test_a_resumed_pretraining_ends_as_if_never_stopped(objective, texts, tmp_path):
    more = [f"--objective={objective}", "--training.save_steps=4", "--training.log_steps=1", "--training.keep=9"]
    run = tmp_path / "run"
    assert main(pretraining_of(texts, run, *more)) == 0
    whole, lost = (weights(run), losses(run)), ["results.json", "manifest.json", "model.safetensors"]
    for step, path in checkpoints(run / "checkpoints"):
        if step > 4:
            shutil.rmtree(path)
    for name in lost:
        (run / name).unlink()
    assert main(pretraining_of(texts, run, *more)) == 0
    assert (weights(run), losses(run)) == whole


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["masked", "causal"])
def test_a_killed_pretraining_ends_as_if_never_killed(objective, texts, tmp_path):
    more = [f"--objective={objective}", "--training.save_steps=3", "--training.epochs=3", "--training.log_steps=1"]
    assert main(pretraining_of(texts, tmp_path / "whole", *more)) == 0
    running = process(pretraining_of(texts, tmp_path / "killed", *more))
    while running.poll() is None and not checkpoints(tmp_path / "killed" / "checkpoints"):
        time.sleep(0.01)
    running.kill()
    running.communicate()
    assert not (tmp_path / "killed" / "results.json").exists(), "it was killed too late"
    assert main(pretraining_of(texts, tmp_path / "killed", *more)) == 0
    assert weights(tmp_path / "killed") == weights(tmp_path / "whole")
    assert losses(tmp_path / "killed") == losses(tmp_path / "whole")


@pytest.mark.slow
def test_a_memory_budget_splits_the_batches_of_a_language_model(texts, tmp_path, capsys):
    more = ["--training.memory=2MB", "--training.batch_size=90", "--training.max_steps=1", "--training.eval_steps=1"]
    assert main(pretraining_of(texts, tmp_path / "run", "--objective=causal", *more)) == 0
    assert "parts to stay within 2MB" in capsys.readouterr().err


@pytest.mark.slow
def test_two_processes_pretrain_as_one(texts, tmp_path):
    more = ["--model.dropout=0", "--training.epochs=2", "--training.workers=1"]
    assert main(pretraining_of(texts, tmp_path / "one", *more[:2])) == 0
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    subprocess.run([*torchrun, "-m", "transevolve", *pretraining_of(texts, tmp_path / "two", *more)], check=True)
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), rel=1e-4)
    assert metrics(tmp_path / "two")[-1]["eval_loss"] == pytest.approx(metrics(tmp_path / "one")[-1]["eval_loss"])


def test_a_run_on_a_folder_of_texts_records_its_files(texts, tmp_path, capsys):
    shutil.copytree(texts, tmp_path / "texts")
    assert main(pretraining_of(tmp_path / "texts", tmp_path / "run", "--training.epochs=1")) == 0
    with open(tmp_path / "texts" / "validation.txt", "a") as file:
        file.write("one more\n")
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "run"), "--split", "validation"]) == 2
    assert "data.path/validation/validation.txt changed" in capsys.readouterr().err


def test_a_classifier_starts_from_a_pretrained_run(masked, tmp_path):
    csv, run = write_csv(tmp_path / "reviews.csv", rows=40), tmp_path / "run"
    flags = [f"--data.path={csv}", f"--model.start={masked}", f"--output={run}", "--training.learning_rate=0"]
    assert main(["train", *flags, "--training.epochs=1"]) == 0
    ours, theirs = (AutoModel.from_pretrained(folder).state_dict() for folder in (run, masked))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    assert result(run)["start"] == str(masked)
    assert f"start: {masked}" in (run / "recipe.yaml").read_text()
    assert AutoTokenizer.from_pretrained(run).get_vocab() == AutoTokenizer.from_pretrained(masked).get_vocab()
    assert json.loads((run / "config.json").read_text())["id2label"] == {"0": "no", "1": "yes"}
    assert main(["train", *flags, "--training.epochs=1"]) == 0, "the same command finds the finished run"


def test_a_saved_folder_is_a_start_too(masked, tmp_path):
    start = tmp_path / "saved"
    TransEvolveForMaskedLM.from_pretrained(masked).save_pretrained(start)
    AutoTokenizer.from_pretrained(masked).save_pretrained(start)
    recipe = Recipe()
    recipe.model.start = str(start)
    tokenizer = settle_start(recipe)
    assert (recipe.model.hidden_size, recipe.model.block_depth, recipe.model.variant) == (16, 2, "fullFF-1")
    assert tokenizer.tokenize("[MASK]") != ["[MASK]"], "only a masked model reads special tokens in texts"
    model = TransEvolveForTokenClassification(TransEvolveConfig.from_pretrained(start))
    copy_weights(start, model)
    expected = TransEvolveForMaskedLM.from_pretrained(masked).model.state_dict()
    torch.testing.assert_close(model.model.state_dict(), expected, rtol=0, atol=0)


def test_the_same_head_starts_with_all_weights(causal, texts, tmp_path):
    more = ["--objective=causal", f"--model.start={causal}", "--training.learning_rate=0", "--training.epochs=1"]
    flags = [flag for flag in SMALL if not flag.startswith(("--data.vocab", "--training"))]
    assert main(["pretrain", f"--data.path={texts}", f"--output={tmp_path / 'run'}", *flags, *more]) == 0
    assert weights(tmp_path / "run") == weights(causal)


def test_translation_starts_its_encoder_from_a_pretrained_run(subwords, tmp_path):
    for language, words in (("en", "one two three four"), ("de", "eins zwei drei vier")):
        (tmp_path / f"a.{language}").write_text("".join(" ".join(words.split()[: 1 + n % 4]) + "\n" for n in range(40)))
    pair = [f"--data.source={tmp_path / 'a.en'}", f"--data.target={tmp_path / 'a.de'}"]
    more = ["--training.epochs=1", "--training.learning_rate=0", "--training.extra_length=2", "--training.beams=1"]
    assert main(["train", *pair, f"--model.start={subwords}", f"--output={tmp_path / 'run'}", *more]) == 0
    ours, theirs = (AutoModel.from_pretrained(folder).state_dict() for folder in (tmp_path / "run", subwords))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("command", ["train", "plan", "prepare"])
def test_beams_must_fit_the_vocabulary_of_the_start(command, subwords, capsys):
    words = ["--data.source=nowhere.en", "--data.target=nowhere.de", f"--model.start={subwords}"]
    assert main([command, *words, "--training.beams=200"]) == 2
    assert "200 beams need a vocabulary of at least 400 tokens, but it has" in capsys.readouterr().err


def test_a_plan_builds_the_model_of_the_start(masked, tmp_path, capsys):
    csv = write_csv(tmp_path / "reviews.csv", rows=40)
    assert main(["plan", f"--data.path={csv}", f"--model.start={masked}"]) == 0
    body = sum(weight.numel() for weight in AutoModel.from_pretrained(masked).parameters())
    planned = int(re.search(r"parameters *│? *([\d,]+)", capsys.readouterr().out)[1].replace(",", ""))
    assert body < planned < body + 200


def test_another_system_pretrains_and_starts(texts, tmp_path):
    system, run = "--model.system=transformer", tmp_path / "pretrained"
    assert main(pretraining_of(texts, run, system, "--training.epochs=1")) == 0
    csv = write_csv(tmp_path / "reviews.csv", rows=40)
    more = [f"--data.path={csv}", f"--model.start={run}", "--training.epochs=1", f"--output={tmp_path / 'run'}"]
    assert main(["train", system, *more]) == 0
    assert json.loads((tmp_path / "run" / "config.json").read_text())["num_hidden_layers"] == 2
    assert main(["train", *more]) == 2


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--model.hidden_size=64"], "model.hidden_size 64 does not fit model.start {masked}, which has 16"),
        (["--model.variant=fullFF-2"], "model.num_blocks 2 does not fit model.start {masked}, which has 1"),
        (["--model.size=base"], "model.hidden_size 512 does not fit model.start {masked}, which has 16"),
        (
            ["--model.system=performer"],
            "has the system transevolve, but model.system is performer",
        ),
        (
            ["--data.tokenizer=bpe"],
            "data.tokenizer bpe does not fit model.start {masked}, whose tokenizer is word",
        ),
        (
            ["--data.vocab_size=77"],
            "data.vocab_size 77 does not fit model.start {masked}, whose tokenizer is word",
        ),
        (["--data.task=causal"], "the task causal does not fit model.start {masked}, whose tokenizer is wordpiece"),
        (["--model.initialization=bag"], "model.initialization bag would replace the weights of model.start {masked}"),
        (["--data.source=a", "--data.target=b"], "the task translation does not fit model.start {masked}"),
        (["--model.start=nowhere"], "model.start: there is no folder 'nowhere'"),
    ],
)
def test_a_start_that_does_not_fit_is_refused(masked, texts, tmp_path, capsys, more, message):
    start = [] if "--model.start=nowhere" in more else [f"--model.start={masked}"]
    path = [] if "--data.source=a" in more else [f"--data.path={texts / 'c.csv'}"]
    assert main(["train", *path, *start, *more, f"--output={tmp_path / 'run'}"]) == 2
    assert message.format(masked=masked) in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("content", "more", "message"),
    [
        ("", [], "there is no text in it"),
        (" \n\n", [], "there is no text in it"),
        ("one text\n", [], "one text cannot be cut into train and validation"),
        ("a\nb\n", ["--data.tokenizer=listops"], "data.tokenizer 'listops' cannot be used for masked"),
        ("a\nb\n", ["--objective=causal", "--data.tokenizer=wordpiece"], "cannot be used for causal"),
        ("a\nb\n", ["--data.label=x"], "data.label is not used by the task 'masked'"),
        ("a\nb\n", ["--data.task=agnews"], "data.task is 'agnews': use train"),
        ("a\nb\n", ["--training.mask_share=0"], "mask_share"),
        ("a\nb\n", ["--objective=causal", "--model.system=performer"], "'performer' has no model 'ForCausalLM'"),
    ],
)
def test_bad_texts_get_one_clear_line(tmp_path, capsys, content, more, message):
    (tmp_path / "a.txt").write_text(content)
    assert main(["pretrain", f"--data.path={tmp_path / 'a.txt'}", f"--output={tmp_path / 'run'}", *more]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.strip().splitlines()[-1].startswith("transevolve: error: ")


def test_commands_are_for_their_kind_of_model(masked, causal, capsys):
    assert main(["generate", str(masked), "the"]) == 2
    assert "is a masked language model: use `transevolve predict`" in capsys.readouterr().err
    assert main(["predict", str(causal), "the"]) == 2
    assert "use `transevolve generate`" in capsys.readouterr().err
    assert main(["generate", str(causal), "the", "--temperature=-1"]) == 2
    assert main(["generate", str(causal), "the", "--samples=2", "--temperature=0"]) == 2
    assert "needs --temperature above 0" in capsys.readouterr().err


def test_self_training_learns_from_texts_that_it_labels(tmp_path, capsys):
    csv, more = write_csv(tmp_path / "few.csv", rows=60), write_csv(tmp_path / "more.csv", rows=200, seed=1)
    unlabelled = tmp_path / "unlabelled.txt"
    unlabelled.write_text("".join(line.split(",")[0] + "\n" for line in more.read_text().splitlines()[1:]))
    flags = [f"--data.path={csv}", f"--output={tmp_path / 'run'}", "--training.self_training=true"]
    assert main(["train", *flags, *TINY, "--training.epochs=3"]) == 2
    assert "name them with data.unlabelled" in capsys.readouterr().err
    flags.append(f"--data.unlabelled={unlabelled}")
    assert main(["train", *flags, "--data.task=regression"]) == 2
    assert "which a regression model does not have" in capsys.readouterr().err
    assert main(["train", *flags, *TINY, "--training.epochs=3"]) == 0
    found = result(tmp_path / "run")
    facts = found["self_training"]
    assert 0 < facts["texts"] <= 200
    assert found["validation"] == facts["after" if facts["used"] else "before"]
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "run"), "--split", "validation", "--json"]) == 0
    scored = json.loads(capsys.readouterr().out)
    assert scored["accuracy"] == pytest.approx(found["validation"]["accuracy"])
