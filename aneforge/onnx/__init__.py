"""From ONNX to programs: `view` reads a model, `importer` turns its nodes into operations, `handlers` know the operators."""
