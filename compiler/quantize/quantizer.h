/* The quantizer: a model's message with what was found out and decided about its nodes and tensors. The message stays
 * as it is once it is prepared; new models are written beside it (model_writer.h). */
#ifndef XCVM_COMPILER_QUANTIZE_QUANTIZER_H
#define XCVM_COMPILER_QUANTIZE_QUANTIZER_H

#include "compiler/ir/graph.h"
#include "compiler/onnx_model/tensor_proto.h"
#include "compiler/quantize/histogram.h"

#include "xcvm/quantize.h"

enum { XCC_NO_NODE = -1 };

/* What a node is to quantization. */
typedef enum xcc_quant_kind {
    XCC_QUANT_NONE,      /* it stays float */
    XCC_QUANT_WEIGHTED,  /* sums of products: it is worth quantizing for its own sake */
    XCC_QUANT_BETWEEN,   /* computes, and is quantized where what is around it is; its result has a range of its own */
    XCC_QUANT_PASS,      /* moves or selects elements: its results have its operand's scale */
    XCC_QUANT_RECURRENT, /* only its weights are quantized */
} xcc_quant_kind;

/* An operator that there is a rule for. */
typedef struct xcc_quant_rule {
    const char *op;
    xcc_quant_kind kind;
    unsigned operands;  /* bits of the inputs that are quantized as activations or weights */
    const char *linear; /* the operator on quantized tensors, in XCC_FORM_QOPERATOR; NULL: there is none. A pass has
                           its own */
    const char *linear_domain;
} xcc_quant_rule;

/* Numbers of batches of the calibration data. */
typedef struct xcc_batches {
    size_t *at;
    size_t count;
} xcc_batches;

/* How far the outputs are off on one batch. */
typedef struct xcc_batch_error {
    double error;        /* the greatest, as a share of the range of its output; infinite where there is no number */
    double disagreement; /* share of the rows whose greatest element is another one, of the output with the most */
} xcc_batch_error;

typedef struct xcc_quant_tensor xcc_quant_tensor;
struct xcc_quant_tensor {
    const char *name;
    const Onnx__TensorProto *constant; /* its value, where the model states one */
    size_t initializer;                /* its place among the graph's initializers, from 1 on; 0: it is none */
    int producer;                      /* index of the node that computes it, or XCC_NO_NODE */
    int *consumers;                    /* nodes that read it, once for each operand */
    size_t consumer_count, consumer_capacity;
    bool captured; /* read within a body of some node */
    bool is_input, is_output;
    bool not_float; /* its elements are known to be no f32 */
    bool quantized;
    xcc_quant_tensor *like; /* whose scale it has; itself, but behind a pass */
    xcc_statistics *seen;   /* while calibrating */
    double low, high;       /* the range */
    float scale;
    int32_t zero_point;
    int probe;             /* its place among the outputs of the float program; -1: none */
    xcc_difference *error; /* measured */
    /* Levels that its weights were rounded to for the data, and the scales that they are of; NULL: each is rounded to
     * the nearest. */
    uint8_t *levels;
    float *level_scales;
    double *means; /* by channel, of inputs of weighted nodes, for the correction of biases */
    size_t mean_count;
    /* While a model is written: the names of its forms, NULL as long as there is none. */
    const char *quantized_name, *dequantized_name, *scale_name, *zero_point_name;
};

typedef struct xcc_quant_node {
    Onnx__NodeProto *proto;
    const xcc_quant_rule *rule; /* NULL: none */
    bool gone;                  /* merged into another one by the preparation */
    bool candidate;             /* asked for, and of a form that can be quantized */
    bool quantized;
    bool in_float; /* kept so for the sake of the bounds */
    const char *reason;
    const char *body;       /* "in the body of ..."; NULL: it is a node of the graph */
    int epilogue;           /* the Add, Relu or Clip behind that is part of it, or XCC_NO_NODE */
    int epilogue_of;        /* likewise, the other way */
    double least, greatest; /* bounds of a Relu or Clip */
    double harm;
    float *bias_change; /* what the correction adds to the bias */
    size_t bias_change_count;
} xcc_quant_node;

struct xcc_quantizer {
    xcc_module m;
    xcc_options compiler; /* that the module was begun with */
    xcvm_error error;     /* of the module */
    xcc_quantizer_options o;
    xcc_external_files files;
    Onnx__ModelProto *model;
    Onnx__GraphProto *graph;
    size_t initializer_capacity;
    int64_t opset;
    xcc_table names; /* addresses of tensors */
    xcc_quant_tensor **tensors;
    size_t tensor_count, tensor_capacity;
    xcc_quant_node *nodes;
    size_t node_count;
    xcc_quant_node *body_nodes; /* sums of products and recurrent nodes in bodies, whose weights alone are quantized */
    size_t body_node_count, body_node_capacity;
    xcc_table hoisted;           /* their weights that bodies state, by address: the tensors that took their place */
    xcc_table taken;             /* every name that the model uses, bodies included */
    struct xcc_machine *machine; /* the float model, which gives the tensors that are to be quantized */
    xcvm_value_info *inputs;
    size_t input_count;
    bool dynamic;
    bool begun, done;        /* xcc_quantizer_run: was called, and has succeeded */
    xcc_range_method method; /* that ranges are of */
    size_t folded, equalized;
    size_t inferred;                    /* nodes that were put into inference form */
    size_t given, calibrated, measured; /* batches */
    /* While nodes are looked for: the outputs of the float model on each batch, in the order of the graph's; NULL where
     * they are not kept. */
    xcvm_value **right;
    size_t right_room; /* bytes that may still be kept */
    uint64_t bytes_before, bytes_after;
    xcc_quantizer_tensor_info *told_tensors;
    size_t told_tensor_count;
    xcc_quantizer_node_info *told_nodes;
    size_t told_node_count;
    xcc_quantizer_output_info *told_outputs;
    size_t told_output_count;
    /* Of the search for nodes that stay float. */
    size_t judged_nodes, tried_models;
    uint64_t search_ns;
};
typedef struct xcc_quantizer quantizer;

/* ---- The model (quant_model.c) ---- */

/* Lists nodes and tensors of the message. */
xcvm_status xcc_quant_list(quantizer *q);
/* The tensor of that name; NULL for "" and what the graph does not have. */
xcc_quant_tensor *xcc_quant_find(const quantizer *q, const char *name);
/* Operand or result of a node; NULL if it is absent. */
xcc_quant_tensor *xcc_quant_input(const quantizer *q, const xcc_quant_node *n, size_t index);
xcc_quant_tensor *xcc_quant_output(const quantizer *q, const xcc_quant_node *n, size_t index);
const Onnx__AttributeProto *xcc_quant_attribute(const xcc_quant_node *n, const char *name);
int64_t xcc_quant_int(const xcc_quant_node *n, const char *name, int64_t otherwise);
double xcc_quant_real(const xcc_quant_node *n, const char *name, double otherwise);
bool xcc_quant_is(const xcc_quant_node *n, const char *op);
/* Whether it is a constant of f32. */
bool xcc_quant_is_weight(const xcc_quant_tensor *t);
/* Reads a constant's elements; memory is of the module. */
xcvm_status xcc_quant_read(quantizer *q, const xcc_quant_tensor *t, xcc_tensor *tensor);
/* A copy of an f32 constant that may be changed, in memory of `arena`; NULL without memory. */
xcvm_status xcc_quant_floats(quantizer *q, const xcc_quant_tensor *t, xcvm_arena *arena, xcc_tensor *shape,
                             float **floats);
/* Gives a constant other elements, of `rank` dims, for all who read it. */
xcvm_status xcc_quant_set(quantizer *q, xcc_quant_tensor *t, int rank, const int64_t *dims, const float *floats);
/* A new constant under a name like `like`. */
xcvm_status xcc_quant_add(quantizer *q, const char *like, int rank, const int64_t *dims, const float *floats,
                          xcc_quant_tensor **made);
/* Makes a constant that a body states an initializer of the graph, once. */
xcvm_status xcc_quant_hoist(quantizer *q, const char *like, const Onnx__TensorProto *constant, xcc_quant_tensor **made);
/* A name like `stem` with `suffix` behind it that neither the model nor `more` has, which gets it; memory is of the
 * module. */
const char *xcc_quant_name(quantizer *q, xcc_table *more, const char *stem, const char *suffix);

/* ---- Steps ---- */

/* Constants that are other constants, BatchNormalization and sums of channels are merged (prepare.c). */
xcvm_status xcc_quant_prepare(quantizer *q);
/* Lists nodes in bodies, and why one stays float by its form; NULL: it does not (bodies.c). */
xcvm_status xcc_quant_list_bodies(quantizer *q);
const char *xcc_quant_refuse_body(const quantizer *q, const xcc_quant_node *n);
/* The rule for an operator; NULL: there is none (place.c). */
const xcc_quant_rule *xcc_quant_rule_of(const Onnx__NodeProto *n);
/* Cross-layer equalization (equalize.c). */
xcvm_status xcc_quant_equalize(quantizer *q);
/* Which nodes and tensors are quantized (place.c). The first of them once; the other anew when more is known. */
xcvm_status xcc_quant_choose(quantizer *q);
xcvm_status xcc_quant_place(quantizer *q);
/* The last of a node with its epilogue: whose result is stored. */
const xcc_quant_node *xcc_quant_last(const quantizer *q, const xcc_quant_node *n);
/* Ranges of activations (calibrate.c), and of constants that are operands as activations are. */
xcvm_status xcc_quant_calibrate(quantizer *q, const xcc_calibration *data, size_t batches);
/* Takes the ranges by another method, of what calibration has seen. */
void xcc_quant_take_method(quantizer *q, xcc_range_method method);
/* The interval, zero within, whose elements of a tensor its readers tell apart; infinite where there is no end
 * (saturation.c). */
void xcc_quant_useful(const quantizer *q, const xcc_quant_tensor *t, double *low, double *high);
/* Rounds weights for the data (rounding.c). */
xcvm_status xcc_quant_round(quantizer *q, const xcc_calibration *data, size_t batches);
/* Corrections of biases, from the means that calibration found (bias.c). */
xcvm_status xcc_quant_correct(quantizer *q);
/* Compares a model of integers with the float one on some batches. `tensors`: each tensor as well as the outputs, which
 * go to q->told_outputs. `errors` (may be NULL): of each batch (measure.c). */
xcvm_status xcc_quant_measure(quantizer *q, const xcc_calibration *data, const xcc_batches *batches, bool tensors,
                              xcc_batch_error *errors);
/* Whether the bound of agreement is about the output of that name, if it has rows (measure.c). */
bool xcc_quant_must_agree(const quantizer *q, const char *output);
/* Leaves nodes float until the bounds hold (sensitivity.c). */
xcvm_status xcc_quant_bound(quantizer *q, const xcc_calibration *data, const xcc_batches *batches);

/* Calls the model one of opset `least`, where that is the same; else UNSUPPORTED (write_dynamic.c). */
xcvm_status xcc_quant_raise_opset(quantizer *q, int64_t least);

/* ---- Integers ---- */

/* Least and greatest of an integer type. */
void xcc_quant_limits(xcvm_dtype dtype, int32_t *least, int32_t *greatest);
/* Scale and zero point for a range, which is widened to hold 0 (scale.c). */
void xcc_quant_scale(double low, double high, xcvm_dtype dtype, bool symmetric, float *scale, int32_t *zero_point);

/* Tells the callback; `fraction` of the step that is done. */
void xcc_quant_progress(const quantizer *q, const char *what, double fraction);

#endif
