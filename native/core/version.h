#pragma once

namespace aneforge {
inline constexpr const char* kVersion = "0.1.0";
}
