"""`python -m benchmarks`: what the provider costs, as ratios to ONNX Runtime's CPU provider. See benchmarks/__main__.py."""
