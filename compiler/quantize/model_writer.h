/* Writes a model: nodes and constants are added, and the quantizer's message does not change. The arena is released
 * after packing. If memory runs out, the writer has failed, and xcc_model_pack reports it. */
#ifndef XCVM_COMPILER_QUANTIZE_MODEL_WRITER_H
#define XCVM_COMPILER_QUANTIZE_MODEL_WRITER_H

#include "base/bytes.h"
#include "compiler/quantize/gptq.h"
#include "compiler/quantize/quantize.h"

/* A TensorProto over a copy of the elements; NULL without memory. */
Onnx__TensorProto *xcc_tensor_proto(xcvm_arena *arena, const char *name, xcvm_dtype dtype, int rank,
                                    const int64_t *dims, const void *data, size_t bytes);

typedef struct xcc_model_writer {
    quantizer *q;
    xcvm_arena arena;
    xcc_table names; /* that were made up */
    xcc_table made;  /* names of added constants, by their contents */
    Onnx__NodeProto **nodes;
    size_t node_count, node_capacity;
    Onnx__TensorProto **constants;
    size_t constant_count, constant_capacity;
    const char **outputs; /* further outputs, f32 or of an unknown type */
    size_t output_count, output_capacity;
    bool failed;
    bool integers;  /* weights in bodies are written as integers */
    bool microsoft; /* operators of com.microsoft were put */
} xcc_model_writer;

void xcc_model_begin(xcc_model_writer *w, quantizer *q);
void xcc_model_end(xcc_model_writer *w);

/* A name made of a tensor's, which nothing in the model has; "" without memory. */
const char *xcc_put_name(xcc_model_writer *w, const char *stem, const char *suffix);
/* A node of one result; NULL without memory, which what adds to it accepts. Domain "" or com.microsoft. */
Onnx__NodeProto *xcc_put_node(xcc_model_writer *w, const char *domain, const char *op, size_t input_count,
                              const char *const *inputs, const char *output);
/* The same node with other operands and results; NULL: as they are. */
Onnx__NodeProto *xcc_put_like(xcc_model_writer *w, const xcc_quant_node *n, const char *const *inputs,
                              const char *const *outputs);
void xcc_put_int(xcc_model_writer *w, Onnx__NodeProto *n, const char *name, int64_t value);
void xcc_put_real(xcc_model_writer *w, Onnx__NodeProto *n, const char *name, double value);
/* An attribute of another node, if that has it. */
void xcc_put_attribute(xcc_model_writer *w, Onnx__NodeProto *n, const xcc_quant_node *from, const char *name);
void xcc_put_constant(xcc_model_writer *w, const char *name, xcvm_dtype dtype, int rank, const int64_t *dims,
                      const void *data, size_t bytes);
/* A scalar under a new name. */
const char *xcc_put_scalar(xcc_model_writer *w, const char *stem, const char *suffix, xcvm_dtype dtype, const void *at);
/* A tensor of f32 times `beta`; the tensor itself where that is 1. */
const char *xcc_put_scaled(xcc_model_writer *w, const char *name, float beta);
void xcc_put_output(xcc_model_writer *w, const char *name);

/* Packs the added nodes in order, the constants that they read, and the rest of the model. `constants` (may be NULL)
 * receives the bytes of the constants. */
xcvm_status xcc_model_pack(xcc_model_writer *w, xcvm_bytes *bytes, uint64_t *constants);

/* ---- Forms (write_*.c) ---- */

/* The float model; with the tensors that are to be quantized as outputs, in the order of their `probe`, which is set.
 */
void xcc_write_float(xcc_model_writer *w);
/* `tensors`: with the dequantized forms of activations as outputs. */
xcvm_status xcc_write_qdq(xcc_model_writer *w, bool tensors);
xcvm_status xcc_write_qoperator(xcc_model_writer *w);
xcvm_status xcc_write_dynamic(xcc_model_writer *w);
/* The model as the options ask for. */
xcvm_status xcc_write_form(xcc_model_writer *w);

/* Bodies of the nodes that were put, with their weights as integers (bodies.c). */
xcvm_status xcc_put_bodies(xcc_model_writer *w);
/* Names that nodes read, those in their bodies included. */
xcvm_status xcc_note_reads(quantizer *q, xcc_table *read, Onnx__NodeProto *const *nodes, size_t count);

/* The opset's domain that has QuantizeLinear and DequantizeLinear for the type. */
const char *xcc_quant_domain(xcc_model_writer *w, xcvm_dtype dtype);
/* Scale and zero point of a tensor as constants. */
const char *xcc_put_scale(xcc_model_writer *w, xcc_quant_tensor *t);
const char *xcc_put_zero_point(xcc_model_writer *w, xcc_quant_tensor *t);

/* ---- Weights (weights_integer.c) ---- */

/* Weights as integers, and the names of constants that hold them. */
typedef struct xcc_integer_weights {
    const char *name, *scale, *zero_point; /* zero_point "": there is none, it is 0 */
    const float *scales;                   /* one, or one for each of `channels` */
    int64_t channels;
    int axis; /* of the channels; -1: there is one scale */
    bool transposed;
} xcc_integer_weights;
/* The weights of operand `index` of a node, with scales at which its bias fits into i32; `transpose`: a matrix is put
 * with its axes exchanged. */
xcvm_status xcc_put_weights(xcc_model_writer *w, const xcc_quant_node *n, size_t index, bool transpose,
                            xcc_integer_weights *weights);
/* The bias of a node as i32, of scale input_scale times that of the weights; *name "" if it has to stay float. `scale`
 * and `zero_point` (both may be NULL) get names of constants for DequantizeLinear. */
xcvm_status xcc_put_bias(xcc_model_writer *w, const xcc_quant_node *n, float input_scale,
                         const xcc_integer_weights *weights, const char **name, const char **scale,
                         const char **zero_point);
/* The bias in floats with the correction added; NULL name: the node has none. */
xcvm_status xcc_put_float_bias(xcc_model_writer *w, const xcc_quant_node *n, const char **name);
/* Adds weights and bias of a node as integers with DequantizeLinear. The names of the results are stored in `inputs`,
 * which has at least three entries (write_qdq.c). */
xcvm_status xcc_put_dequantized(xcc_model_writer *w, const xcc_quant_node *n, const char **inputs, size_t *input_count);
/* A constant that is an operand as activations are, as integers of its scale, under t->quantized_name
 * (constant_integer.c). */
xcvm_status xcc_quant_constant(xcc_model_writer *w, xcc_quant_tensor *t, xcc_tensor *shape);
/* A matrix in blocks of 4 bits, for MatMulNBits (blocks.c). Writes the node for n. */
xcvm_status xcc_put_blocks(xcc_model_writer *w, const xcc_quant_node *n);
/* Integer weights; the arena owns their memory. */
xcvm_status xcc_rounded_weights(quantizer *q, const xcc_quant_node *n, xcvm_arena *arena, xcc_tensor *shape,
                                float **right, float **rounded);

/* ---- Rounding for the data (rounding.c) ---- */

/* Which weights of Conv, Gemm and MatMul are added up. */
void xcc_weight_layout_of(const xcc_quant_node *n, const xcc_tensor *w, xcc_weight_layout *layout, size_t *groups);
/* Settle the levels of a node's weights by the moments of its inputs, for all that is written from then on: those of 8
 * bits (weights_integer.c) and those in blocks (blocks.c). */
xcvm_status xcc_round_integers(quantizer *q, const xcc_quant_node *n, const xcc_moments *moments);
xcvm_status xcc_round_blocks(quantizer *q, const xcc_quant_node *n, const xcc_moments *moments);

#endif
