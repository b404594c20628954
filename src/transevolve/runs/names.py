"""Names of the files in a run folder."""

RECIPE = "recipe.yaml"
RESULTS = "results.json"
DATA = "data.json"
METRICS = "metrics.jsonl"
CURVES = "curves.png"
CHECKPOINTS = "checkpoints"
REFIT = "refit"
SELF_TRAINING = "self-training"
AVERAGE = "average"
TENSORBOARD = "tensorboard"
MANIFEST = "manifest.json"
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INT8_WEIGHTS = "int8.safetensors"
WEIGHTS_INDEX = "model.safetensors.index.json"
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")

LOCK = ".transevolve.lock"
OWNER = ".transevolve.owner"
PARTIAL = ".partial"

# Prefixes of the files in a checkpoint that do not belong to the model.
NOT_MODEL = (
    "optimizer",
    "scheduler",
    "rng_state",
    "trainer_state",
    "manifest",
    "scaler",
    "pytorch_model_fsdp",
    "unlogged",
)
