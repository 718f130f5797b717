"""Hugging Face checkpoints: config.json and safetensors headers → facts, and back into one small document."""
