// The passes, in order. Each is void(Graph&) and may assume what program.h says about the seam.
#include "host/blocked.h"
#include "host/places.h"
#include "host/program.h"
#include "host/vectorized.h"

namespace aneforge::host {
namespace {

// Steps whose results nobody needs: their kernels would only cost time.
void drop_unused(Graph& graph) {
  std::vector<bool> needed(graph.values.size(), false);
  for (int32_t o : graph.outputs) needed[static_cast<size_t>(o)] = true;
  for (size_t i = graph.steps.size(); i-- > 0;) {
    Step& step = graph.steps[i];
    bool used = false;
    for (int32_t r : step.results) used |= needed[static_cast<size_t>(r)];
    if (!used) step.dead = true;
    if (step.dead) continue;
    for (const Argument& a : step.arguments)
      for (int32_t v : a.values) needed[static_cast<size_t>(v)] = true;
  }
}

}  // namespace

void run_passes(Graph& graph) {
  drop_unused(graph);
  bound_activations(graph);
  poison(graph);
  if (graph.settings.plain) return;
  use_blocked_layout(graph);
  use_vector_kernels(graph);
}

}  // namespace aneforge::host
