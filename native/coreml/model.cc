// The backend "coreml": a package that is compiled once, loaded, and run through Apple's public interface.
//
// Options: `package` (X.mlpackage), `model` (where X.mlmodelc is kept; Core ML's own cache of what it makes for a
// device goes by this path, so it is there before the first load and is never moved), `inputs` and `outputs`
// ("name:1x3x8x8;name:5": all fp16). The program text is not read: the package holds the same program.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <mutex>

#include "core/backends.h"
#include "core/status.h"
#include "coreml/objc.h"
#include "coreml/ports.h"

namespace aneforge::coreml {
namespace {

namespace fs = std::filesystem;

constexpr long kCpuAndNeuralEngine = 3;  // MLComputeUnitsCPUAndNeuralEngine, macOS 13
constexpr long kFloat16 = 65552, kFloat32 = 65568;

std::vector<Port> ports_of(const std::string& spelled) {
  std::vector<Port> ports;
  for (size_t at = 0; at < spelled.size();) {
    const size_t end = std::min(spelled.find(';', at), spelled.size());
    const size_t colon = spelled.find(':', at);
    if (colon == std::string::npos || colon >= end) throw Error(Code::kInvalidArgument, "coreml: port without a shape");
    Port port{spelled.substr(at, colon - at), DType::kFloat16, {}};
    for (size_t digit = colon + 1; digit < end;) {
      size_t used = 0;
      port.shape.push_back(std::stoll(spelled.substr(digit, end - digit), &used));
      digit += used + 1;
    }
    ports.push_back(std::move(port));
    at = end + 1;
  }
  return ports;
}

Id url(const Runtime& objc, const std::string& path) {
  return objc.send<Id>(objc.named("NSURL"), "fileURLWithPath:", objc.string(path));
}

// Compiles into Core ML's temporary folder, and moves the result to where it stays.
void compile_package(const Runtime& objc, const std::string& package, const std::string& model) {
  Id error = nullptr;
  const Id made = objc.send<Id>(objc.named("MLModel"), "compileModelAtURL:error:", url(objc, package), &error);
  if (!made) objc.fail("Core ML did not compile the package", error);
  const std::string beside = model + "." + std::to_string(getpid());
  const Id files = objc.send<Id>(objc.named("NSFileManager"), "defaultManager");
  if (!objc.send<bool>(files, "moveItemAtURL:toURL:error:", made, url(objc, beside), &error)) {
    const std::string where = objc.text(objc.send<Id>(made, "path"));
    std::error_code ignored;
    fs::remove_all(where, ignored);
    fs::remove_all(beside, ignored);
    objc.fail("the compiled model cannot be kept", error);
  }
  if (std::rename(beside.c_str(), model.c_str()) != 0) {
    std::error_code ignored;
    fs::remove_all(beside, ignored);
    if (!fs::is_directory(model)) throw Error(Code::kFailed, "the compiled model cannot be kept: " + model);
  }
}

class CoreMLExecutable final : public Executable {
 public:
  CoreMLExecutable(const Runtime& objc, Kept model, std::vector<Port> inputs, std::vector<Port> outputs)
      : objc_(objc), model_(std::move(model)), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {}
  const std::vector<Port>& inputs() const override { return inputs_; }
  const std::vector<Port>& outputs() const override { return outputs_; }
  std::string describe() const override { return "Core ML, CPU and Neural Engine"; }
  PortEvents run(const ConstTensorView* inputs, size_t n_inputs, const TensorView* outputs, size_t n_outputs,
                 Parallel& parallel) const override;

 private:
  Kept array(const Port& port, uint16_t* data) const;
  Id features(const std::vector<Kept>& arrays) const;
  Seen read(Id results, const Port& port, const TensorView& to) const;

  const Runtime& objc_;
  Kept model_;
  std::vector<Port> inputs_, outputs_;
  mutable std::mutex mutex_;  // one prediction at a time: an MLModel is for one thread at once
};

template <class View>
void check(const std::vector<Port>& ports, const View* views, size_t count, const char* what) {
  if (count != ports.size())
    throw Error(Code::kInvalidArgument,
                std::to_string(count) + " " + what + "s for a program that has " + std::to_string(ports.size()));
  for (size_t i = 0; i < count; ++i) {
    const std::string name = std::string(what) + " '" + ports[i].name + "'";
    if (std::vector<int64_t>(views[i].dims, views[i].dims + views[i].rank) != ports[i].shape)
      throw Error(Code::kInvalidArgument, name + " has another shape than the program");
    if (!converts(views[i].dtype)) throw Error(Code::kInvalidArgument, name + ": its element type does not convert");
  }
}

Kept CoreMLExecutable::array(const Port& port, uint16_t* data) const {
  std::vector<Id> shape(port.shape.size()), strides(port.shape.size());
  const Id number = objc_.named("NSNumber"), list = objc_.named("NSArray");
  long long stride = 1;
  for (size_t axis = port.shape.size(); axis-- > 0;) {
    shape[axis] = objc_.send<Id>(number, "numberWithLongLong:", static_cast<long long>(port.shape[axis]));
    strides[axis] = objc_.send<Id>(number, "numberWithLongLong:", stride);
    stride *= port.shape[axis];
  }
  const auto listed = [&](std::vector<Id>& of) {
    return objc_.send<Id>(list, "arrayWithObjects:count:", of.data(), static_cast<unsigned long>(of.size()));
  };
  Id error = nullptr;
  const Id made =
      objc_.send<Id>(objc_.send<Id>(objc_.named("MLMultiArray"), "alloc"),
                     "initWithDataPointer:shape:dataType:strides:deallocator:error:", static_cast<void*>(data),
                     listed(shape), kFloat16, listed(strides), Id{}, &error);
  if (!made) objc_.fail("Core ML does not take input '" + port.name + "'", error);
  return Kept(objc_, made);
}

Id CoreMLExecutable::features(const std::vector<Kept>& arrays) const {
  std::vector<Id> names, values;
  for (size_t i = 0; i < arrays.size(); ++i) {
    names.push_back(objc_.string(inputs_[i].name));
    values.push_back(objc_.send<Id>(objc_.named("MLFeatureValue"), "featureValueWithMultiArray:", arrays[i].id()));
  }
  return objc_.send<Id>(objc_.named("NSDictionary"), "dictionaryWithObjects:forKeys:count:", values.data(),
                        names.data(), static_cast<unsigned long>(names.size()));
}

Seen CoreMLExecutable::read(Id results, const Port& port, const TensorView& to) const {
  const Id value = objc_.send<Id>(results, "featureValueForName:", objc_.string(port.name));
  const Id array = value ? objc_.send<Id>(value, "multiArrayValue") : nullptr;
  if (!array) throw Error(Code::kFailed, "Core ML gave no array for output '" + port.name + "'");
  const auto numbers = [&](const char* message) {
    const Id list = objc_.send<Id>(array, message);
    std::vector<int64_t> found(objc_.send<unsigned long>(list, "count"));
    for (size_t i = 0; i < found.size(); ++i)
      found[i] =
          objc_.send<long long>(objc_.send<Id>(list, "objectAtIndex:", static_cast<unsigned long>(i)), "longLongValue");
    return found;
  };
  const long kind = objc_.send<long>(array, "dataType");
  const std::vector<int64_t> strides = numbers("strides");
  if (numbers("shape") != port.shape || strides.size() != port.shape.size() || (kind != kFloat16 && kind != kFloat32))
    throw Error(Code::kFailed, "Core ML gave another type or shape for output '" + port.name + "'");
  return from_array(objc_.send<const void*>(array, "dataPointer"), kind == kFloat32, port.shape, strides, to.dtype,
                    to.data);
}

PortEvents CoreMLExecutable::run(const ConstTensorView* inputs, size_t n_inputs, const TensorView* outputs,
                                 size_t n_outputs, Parallel&) const {
  check(inputs_, inputs, n_inputs, "input");
  check(outputs_, outputs, n_outputs, "output");
  PortEvents events;
  bool finite = true;
  std::vector<std::vector<uint16_t>> data(n_inputs);
  for (size_t i = 0; i < n_inputs; ++i) {
    const int64_t count = element_count(inputs[i].dims, inputs[i].rank);
    data[i].resize(static_cast<size_t>(count));
    const Seen seen = to_halves(inputs[i].dtype, inputs[i].data, count, data[i].data());
    if (seen.saturated && i < 64) events.saturated_inputs |= uint64_t{1} << i;
    finite = finite && !seen.nonfinite;
  }
  const std::lock_guard<std::mutex> alone(mutex_);
  const Pool pool(objc_);
  std::vector<Kept> arrays;
  for (size_t i = 0; i < n_inputs; ++i) arrays.push_back(array(inputs_[i], data[i].data()));
  Id error = nullptr;
  const Kept given(objc_, objc_.send<Id>(objc_.send<Id>(objc_.named("MLDictionaryFeatureProvider"), "alloc"),
                                         "initWithDictionary:error:", features(arrays), &error));
  if (!given.id()) objc_.fail("Core ML does not take the inputs", error);
  const Id results = objc_.send<Id>(model_.id(), "predictionFromFeatures:error:", given.id(), &error);
  if (!results) objc_.fail("Core ML did not run the model", error);
  for (size_t i = 0; i < n_outputs; ++i)
    if (read(results, outputs_[i], outputs[i]).nonfinite && finite && i < 64)
      events.nonfinite_outputs |= uint64_t{1} << i;
  return events;
}

std::shared_ptr<Executable> compile(const MilFile&, const Options& options) {
  std::string package, model, inputs, outputs;
  for (const auto& [key, value] : options) {
    if (key == "package")
      package = value;
    else if (key == "model")
      model = value;
    else if (key == "inputs")
      inputs = value;
    else if (key == "outputs")
      outputs = value;
    else
      throw Error(Code::kInvalidArgument, "coreml: unknown option '" + key + "'");
  }
  const Runtime& objc = Runtime::get();
  const Pool pool(objc);
  if (!fs::is_directory(model)) compile_package(objc, package, model);
  const Kept configuration(objc, objc.send<Id>(objc.send<Id>(objc.named("MLModelConfiguration"), "alloc"), "init"));
  objc.send<void>(configuration.id(), "setComputeUnits:", kCpuAndNeuralEngine);
  Id error = nullptr;
  const Id loaded =
      objc.send<Id>(objc.named("MLModel"), "modelWithContentsOfURL:configuration:error:", url(objc, model),
                    configuration.id(), &error);
  if (!loaded) objc.fail("Core ML did not load the compiled model", error);
  Kept kept(objc, objc.retain(loaded));
  return std::make_shared<CoreMLExecutable>(objc, std::move(kept), ports_of(inputs), ports_of(outputs));
}

const BackendRegistration registration("coreml", &compile);

}  // namespace
}  // namespace aneforge::coreml
