// Storage for packed weights.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace aneforge::vec {

// An array aligned to 64 bytes, zero at first. Moved, never copied.
template <class T>
class Aligned {
 public:
  Aligned() = default;
  explicit Aligned(size_t n) : storage_(n + 64 / sizeof(T)), size_(n) {}
  Aligned(Aligned&&) = default;
  Aligned& operator=(Aligned&&) = default;
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;

  T* data() { return reinterpret_cast<T*>(aligned(storage_.data())); }
  const T* data() const { return reinterpret_cast<const T*>(aligned(storage_.data())); }
  size_t size() const { return size_; }

 private:
  static uintptr_t aligned(const T* p) { return (reinterpret_cast<uintptr_t>(p) + 63) & ~uintptr_t{63}; }

  std::vector<T> storage_;  // a move keeps its address, and so the alignment
  size_t size_ = 0;
};

}  // namespace aneforge::vec
