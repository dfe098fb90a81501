#include "host/vector/scratch.h"

#include "host/vector/aligned.h"

namespace aneforge::vec {

float* thread_scratch(size_t floats) {
  thread_local Aligned<float> memory;
  if (memory.size() < floats) memory = Aligned<float>(floats);
  return memory.data();
}

}  // namespace aneforge::vec
