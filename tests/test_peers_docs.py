"""docs/systems.md: its table matches the registry, and its example of a new system works."""

import re
from pathlib import Path

import pytest
import torch

from transevolve.peers import SYSTEMS, settings

TEXT = (Path(__file__).parent.parent / "docs" / "systems.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("name", list(SYSTEMS))
def test_the_table_has_what_the_registry_has(name):
    system = SYSTEMS[name]
    defaults = [f"{key}={p.default}" for key, p in settings.known_settings(system.build).items()]
    cells = [f"`{name}`", system.citation, system.complexity, str(system.capabilities), ", ".join(defaults) or "none"]
    assert "| " + " | ".join(cells) + " |" in TEXT
    assert len(re.findall(rf"^\| `{name}` \|", TEXT, re.MULTILINE)) == 2


@pytest.mark.usefixtures("unchecked")
def test_the_example_of_a_new_system_works():
    use, new, register = SNIPPETS
    assert len((new + register).splitlines()) < 60
    exec(compile(use, "systems.md", "exec"), {})
    found: dict = {}
    try:
        exec(compile(new + register, "systems.md", "exec"), found)
        model = found["model"]
        ids, mask = torch.randint(1, 1000, (2, 9)), torch.tensor([[1] * 9, [1] * 5 + [0] * 4])
        model(ids, mask, labels=torch.tensor([0, 1])).loss.backward()
        assert all(p.grad.abs().sum() > 0 for p in model.encoder.layers[0].mixer.parameters())
        model.eval()
        torch.testing.assert_close(model(ids[1:, :5]).logits, model(ids, mask).logits[1:])
        with pytest.raises(Exception, match="width must be an integer of at least 1"):
            found["PeerConfig"](system="average", system_settings={"width": 0})
    finally:
        SYSTEMS.pop("average", None)
