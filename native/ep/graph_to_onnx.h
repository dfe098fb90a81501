// OrtGraph -> bytes of an ONNX ModelProto.
//
// What a reader of these bytes has to know beyond ONNX itself:
//   * Nodes stand in the order of Graph_GetNodes, so that a position here is a position there.
//   * A tensor of more than kInlineBytes is external: location "@mem", offset = its address in this process, length =
//   its
//     bytes. The address is valid during the call only that the bytes are handed to.
//   * A value of an outer graph that a body uses is, if constant, an initializer; else a graph input behind the body's
//   own.
//     Both carry the doc_string "@outer".
//   * An initializer that is a graph input as well may be replaced at run time: not a constant.
//   * value_info holds the type of every node output, with symbolic extents by name. A type that is no tensor, sequence
//   or
//     optional has none.
//   * An attribute of a kind that ONNX Runtime does not show (type, sparse tensor, lists of graphs) has the type
//   UNDEFINED.
//   * A node that another provider has taken carries the doc_string "@ep:" and that provider's name.
//   * opset_import names the domains that are used, and "".
#pragma once
#include <string>

#include "ep/ort_api.h"

namespace aneforge::ep {

inline constexpr size_t kInlineBytes = 1024;

std::string graph_to_onnx(const Api& api, const OrtGraph* graph);

}  // namespace aneforge::ep
