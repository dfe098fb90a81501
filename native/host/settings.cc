#include "host/settings.h"

#include "core/status.h"

namespace aneforge::host {
namespace {

[[noreturn]] void invalid(const std::string& what) { throw Error(Code::kInvalidArgument, "host backend: " + what); }

Numerics numerics_of(const std::string& word) {
  for (Numerics n : {Numerics::kEngine, Numerics::kFp16, Numerics::kFp32})
    if (word == name_of(n)) return n;
  invalid("numerics is engine, fp16 or fp32; not '" + word + "'");
}

}  // namespace

const char* name_of(Numerics n) {
  switch (n) {
    case Numerics::kFp32:
      return "fp32";
    case Numerics::kFp16:
      return "fp16";
    case Numerics::kEngine:
      break;
  }
  return "engine";
}

Settings parse_settings(const Options& options) {
  Settings s;
  s.quirks = parse_quirks("Q04,Q06,Q11,Q12");
  for (const auto& [key, value] : options) {
    if (key == "numerics") {
      s.numerics = numerics_of(value);
    } else if (key == "quirks") {
      s.quirks = parse_quirks(value);
    } else if (key == "poison") {
      s.poison = parse_quirks(value, true);
    } else if (key == "kernels") {
      if (value != "fast" && value != "plain") invalid("kernels is fast or plain; not '" + value + "'");
      s.plain = value == "plain";
    } else if (key == "conv") {
      if (value != "auto" && value != "direct" && value != "winograd")
        invalid("conv is auto, direct or winograd; not '" + value + "'");
      s.convolution = value == "auto"     ? Convolution::kAuto
                      : value == "direct" ? Convolution::kDirect
                                          : Convolution::kWinograd;
    } else {
      invalid("unknown option '" + key + "'; there are: numerics, quirks, poison, kernels, conv");
    }
  }
  return s;
}

}  // namespace aneforge::host
