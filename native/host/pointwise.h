// The kernel of every function of one operand.
#pragma once
#include "host/iterate.h"
#include "host/kernels.h"

namespace aneforge::host {

template <class F>
std::unique_ptr<Kernel> pointwise(Build& b, bool exact, F f) {
  b.expect_results(1);
  const int32_t x = b.read("x"), out = b.result();
  b.expect(b.shape("x"));
  const int64_t count = b.at(out).count;
  const Finish finish = b.finish(exact);
  return kernel([=](const Frame& frame) {
    const float* from = frame.in(x);
    float* to = frame.out(out);
    chunks(*frame.parallel, count, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += kBlock) {
        const int64_t n = std::min(kBlock, end - i);
        for (int64_t j = i; j < i + n; ++j) to[j] = f(from[j]);
        finish(to + i, n);
      }
    });
  });
}

}  // namespace aneforge::host
