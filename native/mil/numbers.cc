#include "mil/numbers.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <locale>
#include <sstream>
#include <string>

namespace aneforge::mil {
namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

bool take_exponent(std::string_view s, int* out) {
  bool negative = false;
  if (!s.empty() && (s[0] == '+' || s[0] == '-')) {
    negative = s[0] == '-';
    s.remove_prefix(1);
  }
  if (s.empty()) return false;
  int value = 0;
  for (char c : s) {
    if (c < '0' || c > '9') return false;
    value = value < 100000 ? value * 10 + (c - '0') : value;
  }
  *out = negative ? -value : value;
  return true;
}

bool parse_hex(std::string_view s, double* out) {
  uint64_t mantissa = 0;
  int exponent = 0, digits = 0;
  bool point = false, lost = false;
  size_t i = 0;
  for (; i < s.size(); ++i) {
    if (s[i] == '.' && !point) {
      point = true;
      continue;
    }
    const int d = digit_of(s[i]);
    if (d > 15) break;
    ++digits;
    if (mantissa >> 60) {
      lost |= d != 0;
      exponent += point ? 0 : 4;
    } else {
      mantissa = mantissa << 4 | static_cast<uint64_t>(d);
      exponent -= point ? 4 : 0;
    }
  }
  if (digits == 0) return false;
  if (i < s.size()) {
    int given = 0;
    if ((s[i] != 'p' && s[i] != 'P') || !take_exponent(s.substr(i + 1), &given)) return false;
    exponent += given;
  }
  if (lost) mantissa |= 1;
  *out = std::ldexp(static_cast<double>(mantissa), exponent);
  return true;
}

bool parse_decimal(std::string_view s, double* out) {
  uint64_t mantissa = 0;
  int exponent = 0, digits = 0, kept = 0;
  bool point = false;
  size_t i = 0;
  for (; i < s.size(); ++i) {
    if (s[i] == '.' && !point) {
      point = true;
      continue;
    }
    if (s[i] < '0' || s[i] > '9') break;
    ++digits;
    if (mantissa == 0 && s[i] == '0') {
      exponent -= point;
      continue;
    }
    if (kept < 19) mantissa = mantissa * 10 + static_cast<uint64_t>(s[i] - '0');
    ++kept;
    exponent -= point;
  }
  if (digits == 0) return false;
  if (i < s.size()) {
    int given = 0;
    if ((s[i] != 'e' && s[i] != 'E') || !take_exponent(s.substr(i + 1), &given)) return false;
    exponent += given;
  }
  if (mantissa == 0) {
    *out = 0;
    return true;
  }
  if (kept <= 15 && exponent >= -22 && exponent <= 22) {  // both factors exact: one rounding
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const double m = static_cast<double>(mantissa);
    *out = exponent < 0 ? m / powers[-exponent] : m * powers[exponent];
    return true;
  }
  if (kept + exponent > 400) {
    *out = std::numeric_limits<double>::infinity();
    return true;
  }
  if (kept + exponent < -400) {
    *out = 0;
    return true;
  }
  std::istringstream stream{std::string(s)};
  stream.imbue(std::locale::classic());
  double value = 0;
  stream >> value;
  if (stream.fail() && value == 0) return false;  // out of range leaves the largest finite value, or 0 for a subnormal
  *out = value;
  return true;
}

}  // namespace

bool parse_float(std::string_view s, double* out) {
  bool negative = false;
  if (!s.empty() && (s[0] == '-' || s[0] == '+')) {
    negative = s[0] == '-';
    s.remove_prefix(1);
  }
  double value = 0;
  if (s == "inf" || s == "infinity") {
    value = std::numeric_limits<double>::infinity();
  } else if (s == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (s.size() > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X')) {
    if (!parse_hex(s.substr(2), &value)) return false;
  } else if (!parse_decimal(s, &value)) {
    return false;
  }
  *out = negative ? -value : value;
  return true;
}

bool parse_int(std::string_view s, long long* out) {
  bool negative = false;
  if (!s.empty() && (s[0] == '-' || s[0] == '+')) {
    negative = s[0] == '-';
    s.remove_prefix(1);
  }
  int base = 10;
  if (s.size() > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X')) {
    base = 16;
    s.remove_prefix(2);
  }
  if (s.empty()) return false;
  unsigned long long value = 0;
  for (char c : s) {
    const int d = digit_of(c);
    if (d >= base) return false;
    if (value > (0x7fffffffffffffffull - static_cast<unsigned long long>(d)) / static_cast<unsigned long long>(base))
      return false;
    value = value * static_cast<unsigned long long>(base) + static_cast<unsigned long long>(d);
  }
  *out = negative ? -static_cast<long long>(value) : static_cast<long long>(value);
  return true;
}

}  // namespace aneforge::mil
