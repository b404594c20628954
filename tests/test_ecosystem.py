"""The models with other libraries: PEFT, `Trainer`, `pipeline`."""

import copy

import pytest
import torch
from peft import LoraConfig, PromptEncoderConfig, PromptTuningConfig, get_peft_model
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Trainer, TrainerCallback, TrainingArguments, pipeline
from transformers.pipelines import PIPELINE_REGISTRY

from transevolve.models.build import build_peer, build_transevolve

TINY = {"vocab_size": 12, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "dropout": 0.0}
WORDS = ["[PAD]", "[BOS]", "[EOS]", "[UNK]", "[MASK]", "the", "cat", "dog", "sat", "ran", "red", "blue"]
TASKS = {
    "ForSequenceClassification": "SEQ_CLS",
    "ForTokenClassification": "TOKEN_CLS",
    "ForConditionalGeneration": "SEQ_2_SEQ_LM",
    "ForCausalLM": "CAUSAL_LM",
}
TUNING = {
    "lora": lambda task: LoraConfig(task_type=task, r=2, target_modules=["query", "key"]),
    "prompt tuning": lambda task: PromptTuningConfig(task_type=task, num_virtual_tokens=3),
    "p-tuning": lambda task: PromptEncoderConfig(task_type=task, num_virtual_tokens=3, encoder_hidden_size=8),
}


def tiny(head: str, variant: str = "fullFF-1", **settings):
    torch.manual_seed(0)
    return build_transevolve(head, variant, **{**TINY, **settings}).eval()


@pytest.fixture
def tokenizer():
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = dict(zip(("pad", "bos", "eos", "unk", "mask"), WORDS, strict=False))
    return PreTrainedTokenizerFast(tokenizer_object=words, **{f"{k}_token": v for k, v in special.items()})


def batch(head: str) -> dict[str, torch.Tensor]:
    ids = torch.tensor([[5, 6, 8, 2], [5, 7, 0, 0]])
    labels = torch.tensor([0, 1]) if head == "ForSequenceClassification" else ids.remainder(2)
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}


CASES = [(head, tuning) for head in TASKS for tuning in TUNING if head != "ForTokenClassification" or tuning == "lora"]


@pytest.mark.parametrize(("head", "tuning"), CASES)
@pytest.mark.parametrize("variant", ["randomFF-2", pytest.param("fullFF-1", marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_peft(head, tuning, variant, tmp_path):
    """The loss falls, only the adapter is trained, and it survives saving.

    Prompts do not go with token classification: PEFT lengthens the tokens, not their labels, for any model.
    """
    base = tiny(head, variant)
    frozen = copy.deepcopy(base.state_dict())
    model = get_peft_model(base, TUNING[tuning](TASKS[head])).train()
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.05)
    losses = []
    for _ in range(5):
        loss = model(**batch(head)).loss
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < losses[0]
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert all("lora" in name or "prompt" in name or "head" in name for name in trained)
    model.eval().save_pretrained(tmp_path)
    again = type(model).from_pretrained(tiny(head, variant), tmp_path).eval()
    torch.testing.assert_close(again(**batch(head)).loss, model(**batch(head)).loss)
    if tuning == "lora" and head != "ForSequenceClassification" and head != "ForTokenClassification":
        torch.testing.assert_close(model.unload().state_dict(), frozen)


class Averages(TrainerCallback):
    """An exponential moving average of the weights, swapped in for evaluation."""

    def __init__(self, model):
        self.mean = {name: p.detach().clone() for name, p in model.named_parameters()}

    def on_step_end(self, args, state, control, model, **kwargs):
        for name, p in model.named_parameters():
            self.mean[name].lerp_(p.detach(), 0.5)

    def swap(self, model):
        for name, p in model.named_parameters():
            kept = p.data.clone()
            p.data.copy_(self.mean[name])
            self.mean[name] = kept


@pytest.mark.parametrize("variant", ["fullFF-1", "randomFF-1"])
def test_trainer_with_averaged_weights(variant, tmp_path):
    model = tiny("ForSequenceClassification", variant)
    rows = [{k: v[i] for k, v in batch("ForSequenceClassification").items()} for i in (0, 1)] * 4
    arguments = TrainingArguments(
        str(tmp_path / "out"),
        max_steps=3,
        per_device_train_batch_size=4,
        report_to=[],
        save_strategy="no",
        learning_rate=0.01,
        use_cpu=True,
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    averages = Averages(model)
    trainer = Trainer(model, arguments, train_dataset=rows, eval_dataset=rows, callbacks=[averages])
    trainer.train()
    plain = trainer.evaluate()["eval_loss"]
    averages.swap(model)
    averaged = trainer.evaluate()["eval_loss"]
    assert averaged != plain
    model.save_pretrained(tmp_path / "averaged")
    fresh = type(model).from_pretrained(tmp_path / "averaged")
    inputs = {k: v for k, v in batch("ForSequenceClassification").items() if k != "labels"}
    with torch.no_grad():
        torch.testing.assert_close(fresh(**inputs).logits, model.eval()(**inputs).logits)
    averages.swap(model)
    assert trainer.evaluate()["eval_loss"] == plain


def test_text_classification_pipeline(tokenizer):
    for model in (tiny("ForSequenceClassification"), build_peer("ForSequenceClassification", "transformer", **TINY)):
        found = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")(
            ["the cat sat", "the dog"], batch_size=2
        )
        assert [row["label"] for row in found] <= ["LABEL_0", "LABEL_1"] * 2
        assert all(0.5 <= row["score"] <= 1 for row in found)


def test_token_classification_pipeline(tokenizer):
    tagger = pipeline("token-classification", model=tiny("ForTokenClassification"), tokenizer=tokenizer, device="cpu")
    assert [row["word"] for row in tagger("the cat sat")] == ["the", "cat", "sat"]


def test_fill_mask_pipeline(tokenizer):
    for model in (tiny("ForMaskedLM"), build_peer("ForMaskedLM", "transformer", **TINY)):
        found = pipeline("fill-mask", model=model, tokenizer=tokenizer, device="cpu")("the [MASK] sat", top_k=3)
        assert len(found) == 3
        assert all(row["token_str"] in WORDS for row in found)


def test_text_generation_pipeline(tokenizer):
    model = tiny("ForCausalLM")
    generator = pipeline("text-generation", model=model, tokenizer=tokenizer, device="cpu")
    ids = tokenizer("the cat", return_tensors="pt").input_ids
    expected = model.generate(ids, max_new_tokens=4, do_sample=False)
    found = generator("the cat", max_new_tokens=4, do_sample=False, return_tensors=True)[0]["generated_token_ids"]
    assert found == expected[0].tolist()


def test_translation_has_no_pipeline_in_this_transformers():
    """transformers 5 has no pipeline for it: use `generate`."""
    known = PIPELINE_REGISTRY.get_supported_tasks()
    assert not {"translation", "text2text-generation", "summarization"} & set(known)


def test_feature_extraction_pipeline(tokenizer, tmp_path):
    tiny("ForConditionalGeneration").save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    vectors = pipeline("feature-extraction", model=str(tmp_path), tokenizer=str(tmp_path), device="cpu")("the cat sat")
    assert torch.tensor(vectors).shape == (1, 3, 32)
