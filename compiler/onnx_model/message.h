/* Unpacking ONNX's messages from untrusted bytes, and names in them. */
#ifndef XCVM_COMPILER_ONNX_MODEL_MESSAGE_H
#define XCVM_COMPILER_ONNX_MODEL_MESSAGE_H

#include "xcvm/compiler.h"
#include "base/allocator.h"
#include "compiler/ir/stop.h"

#include "onnx/onnx.pb-c.h"

/* Unpacks a message of `descriptor` into `arena`, which owns it. Fails with INVALID_MODEL before unpacking for bytes
 * that are not protobuf, messages nested deeper than 100, graphs nested deeper than 32, and repeated single
 * submessages, which protobuf would merge. Memory is proportional to `count`. Fails with xcc_stop_status. */
xcvm_status xcc_message_unpack(const ProtobufCMessageDescriptor *descriptor, const void *bytes, size_t count,
                               xcc_stop stop, xcvm_arena *arena, ProtobufCMessage **message, xcvm_error *error);
/* Returns the bytes of the next unknown field with that number, from *next on (0 at first); false if there is none.
 * Unknown fields are preserved. */
bool xcc_message_unknown(const ProtobufCMessage *message, uint32_t number, unsigned *next, const uint8_t **bytes,
                         size_t *count);
/* Unpacks a model, which has a graph. What is no model is recognized, if it can be, as something else. */
xcvm_status xcc_model_unpack(const void *bytes, size_t count, xcc_stop stop, xcvm_arena *arena,
                             Onnx__ModelProto **model, xcvm_error *error);

/* Returns the label of a node for messages: its name, or the name of its first result. Never NULL. */
const char *xcc_node_label(const Onnx__NodeProto *node);

/* "" for "ai.onnx" and NULL. */
const char *xcc_domain(const char *domain);

/* The first version of the IR in which initializers that are inputs, too, are defaults that callers may override. */
enum { XCC_DEFAULTS_VERSION = 4 };

/* Returns the operator of that name in a domain, "" for ONNX's own; NULL if there is none. */
typedef const xcc_operator_info *(*xcc_operator_info_finder)(const char *domain, const char *name);
/* The first opset that has it. */
int64_t xcc_operator_since(const xcc_operator_info *op);

#endif
