"""Where a model parts from its fp32 self: `walk.compare` runs its regions in fp32 and in the engine's arithmetic on the
host backend, value by value, and says where an error is born and where it is only passed on."""
