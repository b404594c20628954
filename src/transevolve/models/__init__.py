"""TransEvolve as Hugging Face models, registered with the Auto classes on import."""
