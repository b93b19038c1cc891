// The operator `my.ops::Swirl`, y = x * x + SHIFT for float tensors, for ONNX Runtime.
//
// ONNX Runtime's wheels bring no headers. What is used of its C API is declared here: functions of version 1, whose
// positions in the table never change, and OrtCustomOp as it was in version 8 (onnxruntime_c_api.h).

#include <cstddef>
#include <cstdint>

#ifndef SHIFT
#define SHIFT 0.5f
#endif

namespace {

using Status = void*;
using Table = void* const*;

enum Position {
  kCreateCustomOpDomain = 26,
  kCustomOpDomainAdd = 27,
  kAddCustomOpDomain = 28,
  kGetTensorMutableData = 51,
  kGetDimensionsCount = 61,
  kGetDimensions = 62,
  kGetTensorShapeElementCount = 64,
  kGetTensorTypeAndShape = 65,
  kGetInput = 90,
  kGetOutput = 91,
  kReleaseTensorTypeAndShape = 99,
};

template <typename... Arguments>
Status call(Table api, Position position, Arguments... arguments) {
  return reinterpret_cast<Status (*)(Arguments...)>(api[position])(arguments...);
}

struct ApiBase {
  Table (*get_api)(uint32_t version);
  const char* (*get_version)();
};

struct Operator {
  uint32_t version;
  void* (*create_kernel)(const Operator*, Table, const void*);
  const char* (*get_name)(const Operator*);
  const char* (*get_provider)(const Operator*);
  int (*get_input_type)(const Operator*, size_t);
  size_t (*get_input_count)(const Operator*);
  int (*get_output_type)(const Operator*, size_t);
  size_t (*get_output_count)(const Operator*);
  void (*compute)(void*, void*);
  void (*destroy)(void*);
  int (*get_input_characteristic)(const Operator*, size_t);
  int (*get_output_characteristic)(const Operator*, size_t);
  void* later[16];  // members of later versions
};

Table api;

void compute(void*, void* context) {
  const void* input = nullptr;
  void *shape = nullptr, *output = nullptr, *from = nullptr, *to = nullptr;
  size_t rank = 0, count = 0;
  int64_t dimensions[16];
  call(api, kGetInput, context, size_t{0}, &input);
  call(api, kGetTensorTypeAndShape, input, &shape);
  call(api, kGetDimensionsCount, shape, &rank);
  call(api, kGetDimensions, shape, &dimensions[0], rank);
  call(api, kGetTensorShapeElementCount, shape, &count);
  call(api, kReleaseTensorTypeAndShape, shape);
  call(api, kGetOutput, context, size_t{0}, &dimensions[0], rank, &output);
  call(api, kGetTensorMutableData, input, &from);
  call(api, kGetTensorMutableData, output, &to);
  const float* x = static_cast<const float*>(from);
  float* y = static_cast<float*>(to);
  for (size_t i = 0; i < count; ++i) y[i] = x[i] * x[i] + SHIFT;
}

const Operator swirl = {
    8,
    [](const Operator*, Table, const void*) -> void* { return &api; },
    [](const Operator*) { return "Swirl"; },
    [](const Operator*) { return static_cast<const char*>(nullptr); },
    [](const Operator*, size_t) { return 1; },
    [](const Operator*) { return size_t{1}; },
    [](const Operator*, size_t) { return 1; },
    [](const Operator*) { return size_t{1}; },
    compute,
    [](void*) {},
    [](const Operator*, size_t) { return 0; },
    [](const Operator*, size_t) { return 0; },
    {},
};

}  // namespace

extern "C" Status RegisterCustomOps(void* options, const ApiBase* base) {
  api = base->get_api(8);
  void* domain = nullptr;
  if (Status status = call(api, kCreateCustomOpDomain, "my.ops", &domain)) return status;
  if (Status status = call(api, kCustomOpDomainAdd, domain, &swirl)) return status;
  return call(api, kAddCustomOpDomain, options, domain);
}
