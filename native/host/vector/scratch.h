// Working memory of a task, per thread: a loop's tasks cannot know which thread they are on, so it cannot be handed to
// them.
#pragma once
#include <cstddef>

namespace aneforge::vec {

// At least this many floats, aligned to 64 bytes, contents undefined. Valid until the thread's next call: one user at a
// time, and never across a call that may run other tasks.
float* thread_scratch(size_t floats);

}  // namespace aneforge::vec
