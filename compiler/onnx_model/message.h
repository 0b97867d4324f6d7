/* Unpacking ONNX's messages from untrusted bytes, and names in them. */
#ifndef XCVM_COMPILER_ONNX_MODEL_MESSAGE_H
#define XCVM_COMPILER_ONNX_MODEL_MESSAGE_H

#include "xcvm/compiler.h"
#include "base/allocator.h"

#include "onnx/onnx.pb-c.h"

/* Unpacks a message of `descriptor` into `arena`, with which it lives. Refused beforehand, as INVALID_MODEL: bytes that
 * are no protobuf, messages nested deeper than 100 or graphs deeper than 32, and single submessages that are given
 * twice, which protobuf would merge. Memory taken is proportional to `count`. OUT_OF_TIME behind `deadline_ns` (0:
 * none).
 */
xcvm_status xcc_message_unpack(const ProtobufCMessageDescriptor *descriptor, const void *bytes, size_t count,
                               uint64_t deadline_ns, xcvm_arena *arena, ProtobufCMessage **message, xcvm_error *error);
/* Fields that this version of the messages does not know are kept as they were. Gives the bytes of the next one with
 * that number, from *next on (0 at first); false if there is none. */
bool xcc_message_unknown(const ProtobufCMessage *message, uint32_t number, unsigned *next, const uint8_t **bytes,
                         size_t *count);
/* Unpacks a model, which has a graph. What is no model is recognized, if it can be, as something else. */
xcvm_status xcc_model_unpack(const void *bytes, size_t count, uint64_t deadline_ns, xcvm_arena *arena,
                             Onnx__ModelProto **model, xcvm_error *error);

/* What messages call a node: its name, or that of its first result. Never NULL. */
const char *xcc_node_label(const Onnx__NodeProto *node);

/* "" for "ai.onnx" and NULL. */
const char *xcc_domain(const char *domain);

/* The first version of the IR in which initializers that are inputs, too, are defaults that callers may override. */
enum { XCC_DEFAULTS_VERSION = 4 };

/* The operator that a domain, "" for ONNX's own, has under that name; NULL if there is none. */
typedef const xcc_operator_info *(*xcc_operator_info_finder)(const char *domain, const char *name);
/* The first opset that has it. */
int64_t xcc_operator_since(const xcc_operator_info *op);

#endif
