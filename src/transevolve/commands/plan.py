"""`transevolve plan`: estimates the time and memory of a training, in about ten seconds."""

from .train import Options as TrainOptions


class Options(TrainOptions):
    """The options of `train`: the data are prepared and a few steps are timed on this machine; no run is written."""


def run(options: Options) -> int:
    recipe = options.load()
    from ..core.devices import use_device
    from ..core.tables import show
    from ..training.plan import plan

    with use_device(options.device):
        found = plan(recipe)
    show("Estimate", ["", ""], found.table())
    return 0
