"""`CheckedLoading`: a checkpoint loads whole, or not at all."""

from transformers import PreTrainedModel


class CheckedLoading(PreTrainedModel):
    """A `PreTrainedModel` that takes no weights of another model."""

    @classmethod
    def from_pretrained(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, pretrained_model_name_or_path, *args, output_loading_info: bool = False, **kwargs
    ):
        """As in `PreTrainedModel`, but weights of another model are an error, not a new initialisation.

        Only a task head may be new (an encoder's checkpoint made into a classifier) or left out.
        """
        model, info = super().from_pretrained(  # pyright: ignore[reportGeneralTypeIssues]
            pretrained_model_name_or_path, *args, output_loading_info=True, **kwargs
        )
        unfit = {
            kind: sorted(key for key in map(str, info.get(f"{kind}_keys") or ()) if not key.startswith("head."))
            for kind in ("missing", "unexpected")
        }
        if any(unfit.values()):
            listed = "; ".join(f"{kind} {', '.join(keys[:3])}" for kind, keys in unfit.items() if keys)
            raise ValueError(
                f"{pretrained_model_name_or_path} does not hold the weights of this {cls.__name__} ({listed}):"
                " its config.json belongs to another model"
            )
        return (model, info) if output_loading_info else model
