// Numbers of MIL text: hexadecimal and decimal floats, whatever the process's locale is.
#pragma once
#include <string_view>

namespace aneforge::mil {

// The binary64 nearest to a number such as 0x1.8p+1, -3, 1e-05, inf, nan; false when it is none. Hexadecimal forms with
// up to 64 significant bits (all that binary16 and binary32 values need) are exact.
bool parse_float(std::string_view text, double* out);
// Decimal or hexadecimal integer within int64 (for uint64: up to 2^63-1 is all that shapes and offsets need).
bool parse_int(std::string_view text, long long* out);

}  // namespace aneforge::mil
