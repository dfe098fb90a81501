"""A second reading of MIL programs: shares no code with the product, and judges what it writes and computes."""
