"""Uses an exported translator in your own application; needs only numpy, onnxruntime and tokenizers.

    transevolve export RUN --format onnx --output EXPORTED
    python translate_onnx.py EXPORTED "A sentence." "Another one."

Greedy search; `transevolve.runtime` has the beam search.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer


class Translator:
    def __init__(self, folder: str):
        self.facts = json.loads(Path(folder, "translator.json").read_text(encoding="utf-8"))
        self.tokenizer = Tokenizer.from_file(str(Path(folder, "tokenizer.json")))
        self.encoder, self.decoder = (
            onnxruntime.InferenceSession(str(Path(folder, name)), providers=["CPUExecutionProvider"])
            for name in ("encoder.onnx", "decoder.onnx")
        )

    def translate(self, text: str) -> str:
        source = np.array([self.tokenizer.encode(text).ids[-self.facts["max_length"] :]])
        names = [output.name for output in self.encoder.get_outputs()]
        encoded = self.encoder.run(names, {"input_ids": source, "attention_mask": np.ones_like(source)})
        inputs = dict(zip(names, encoded, strict=True))
        sizes = {"sentences": 1, "slots": 0}
        for name, shape in self.facts["past"]:
            inputs[name] = np.zeros([sizes.get(size, size) for size in shape], np.float32)
        token, found = self.facts["start"], []
        for position in range(source.shape[1] + self.facts["search"]["extra_length"]):
            inputs["tokens"], inputs["position"] = np.array([[token]]), np.array([position])
            inputs["visible"] = np.ones((1, 1, position + 1), bool)
            _, ids, *present = self.decoder.run(None, inputs)
            inputs.update(zip([name for name, _ in self.facts["past"]], present, strict=True))
            token = int(ids[0, 0, 0])
            if token in self.facts["ends"]:
                break
            found.append(token)
        return self.tokenizer.decode(found)


if __name__ == "__main__":
    translator = Translator(sys.argv[1])
    for sentence in sys.argv[2:]:
        print(translator.translate(sentence))
