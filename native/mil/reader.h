// Reader of MIL program text, dialects 1.0 (ios15-17: every scalar is a rank-0 tensor) and 1.3 (ios18: bare scalars),
// mixed freely. Grammar: what coremlc prints and the engine's compiler is known to take. Not taken: nested blocks,
// several functions, states, flexible shapes.
#pragma once
#include "core/executable.h"
#include "mil/program.h"

namespace aneforge::mil {

// Throws Error{kCorrupt} with line and column for text that is not well formed, names that are used before they are
// defined or defined twice, and blob references that do not fit; Error{kUnsupported} for forms that are legal but not
// taken.
Program read(const MilFile& file);

}  // namespace aneforge::mil
