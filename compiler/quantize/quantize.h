/* The quantizer: an ONNX model with the state of its nodes and tensors. After its preparation the model does not
 * change; model_writer.h writes new models. */
#ifndef XCVM_COMPILER_QUANTIZE_QUANTIZE_H
#define XCVM_COMPILER_QUANTIZE_QUANTIZE_H

#include "compiler/ir/graph.h"
#include "compiler/onnx_model/onnx_model.h"
#include "compiler/quantize/histogram.h"
#include "compiler/quantize/leads.h"

#include "xcvm/quantize.h"

enum { XCC_NO_NODE = -1 };

/* Role of a node in quantization. */
typedef enum xcc_quant_kind {
    XCC_QUANT_NONE,      /* stays float */
    XCC_QUANT_WEIGHTED,  /* sums of products, quantized for their own sake */
    XCC_QUANT_BETWEEN,   /* computes elements; quantized if its neighbors are. Its result has its own range */
    XCC_QUANT_PASS,      /* moves or selects elements; its results have its operand's scale */
    XCC_QUANT_RECURRENT, /* only its weights are quantized */
} xcc_quant_kind;

/* What a node may compute with, as the bounds allow. Levels are in the order of their exactness. */
typedef enum xcc_quant_level {
    XCC_LEVEL_INTEGER, /* integers */
    XCC_LEVEL_WEIGHTS, /* floats, with weights that are stored as integers */
    XCC_LEVEL_FLOAT,   /* floats */
} xcc_quant_level;

/* Rule of an operator. */
typedef struct xcc_quant_rule {
    const char *op;
    xcc_quant_kind kind;
    unsigned operands;  /* bit set of the inputs that are quantized as activations or weights */
    const char *linear; /* operator on quantized tensors in XCC_FORM_QOPERATOR, or NULL; a pass uses its own operator */
    const char *linear_domain;
} xcc_quant_rule;

/* Indices of batches of the data. */
typedef struct xcc_batches {
    size_t *at;
    size_t count;
} xcc_batches;

/* Errors of the outputs on one batch. */
typedef struct xcc_batch_error {
    double error;        /* greatest error as a share of its output's range; infinite for NaN */
    double disagreement; /* greatest share of rows whose greatest element changes, of all outputs */
} xcc_batch_error;

typedef struct xcc_quant_tensor xcc_quant_tensor;
struct xcc_quant_tensor {
    const char *name;
    const Onnx__TensorProto *constant; /* value of a constant, or NULL */
    size_t initializer;                /* index among the graph's initializers plus 1; 0: none */
    int producer;                      /* index of its node, or XCC_NO_NODE */
    int *consumers;                    /* reading nodes, once per operand */
    size_t consumer_count, consumer_capacity;
    bool captured; /* read in the body of a node */
    bool is_input, is_output;
    bool not_float; /* its type is not f32 */
    bool quantized;
    xcc_quant_tensor *like; /* owner of its scale: itself, except for results of passes */
    xcc_statistics *seen;   /* calibration statistics */
    double low, high;       /* the range */
    float scale;
    int32_t zero_point;
    int probe;             /* index among the outputs of the float program; -1: none */
    xcc_difference *error; /* measured */
    /* Levels and scales of weights that were rounded by GPTQ; NULL: round to the nearest. */
    uint8_t *levels;
    float *level_scales;
    /* Channel equalization: rank and number of channels on axis 1 (0: unknown), the index of the first one, and
     * magnitudes. */
    int rank;
    size_t channels, first_channel;
    float *magnitudes;
    double *means; /* by channel, of inputs of weighted nodes, for bias correction */
    size_t mean_count;
    /* Names in the model that is being written, or NULL. */
    const char *quantized_name, *dequantized_name, *scale_name, *zero_point_name;
};

/* Errors of the outputs with a node and all more harmful ones in float. */
typedef struct xcc_quant_reached {
    double max_error, mean_error, agree;
    bool measured;
} xcc_quant_reached;

typedef struct xcc_quant_node {
    Onnx__NodeProto *proto;
    const xcc_quant_rule *rule; /* NULL: none */
    bool gone;                  /* merged into another node */
    bool candidate;             /* selected by the options and supported */
    bool quantized;
    xcc_quant_level level; /* above INTEGER for a bound */
    const char *reason;
    const char *body;          /* "in the body of ...", or NULL for a node of the graph */
    int epilogue;              /* following Add, Relu or Clip that is part of it, or XCC_NO_NODE */
    int epilogue_of;           /* inverse of epilogue */
    double least, greatest;    /* bounds of a Relu or Clip */
    double harm, weights_harm; /* of the levels INTEGER and WEIGHTS; NaN: not measured */
    xcc_quant_reached after;
    float *bias_change; /* bias correction */
    size_t bias_change_count;
} xcc_quant_node;

struct xcc_quantizer {
    xcc_module m;
    xcc_options compiler; /* options of the module */
    xcvm_error error;     /* of the module */
    xcc_quantizer_options o;
    xcc_external_files files;
    Onnx__ModelProto *model;
    Onnx__GraphProto *graph;
    size_t initializer_capacity;
    int64_t opset;
    xcc_table names; /* tensors by name */
    xcc_quant_tensor **tensors;
    size_t tensor_count, tensor_capacity;
    xcc_quant_node *nodes;
    size_t node_count;
    xcc_quant_node *body_nodes; /* nodes in bodies; only their weights are quantized */
    size_t body_node_count, body_node_capacity;
    xcc_table hoisted;                      /* tensors that replace weights of bodies, by address of the weights */
    xcc_table taken;                        /* all names of the model and its bodies */
    struct xcc_compiled_model *float_model; /* float model with the tensors to quantize as outputs */
    xcvm_value_info *inputs;
    size_t input_count;
    bool dynamic;
    bool begun, done;        /* xcc_quantizer_run was called; it succeeded */
    xcc_range_method method; /* used method */
    size_t folded, equalized, scaled_channels;
    size_t inferred;                    /* nodes converted to inference form */
    size_t given, calibrated, measured; /* batches */
    /* During the search: the float model's outputs of each batch, or NULL if they are not stored. */
    xcvm_value **float_outputs;
    size_t float_output_room; /* bytes left for them */
    xcc_leads **leads;        /* of outputs that must agree; NULL without such a bound */
    uint64_t bytes_before, bytes_after;
    xcc_quantizer_tensor_info *reported_tensors;
    size_t reported_tensor_count;
    xcc_quantizer_node_info *reported_nodes;
    size_t reported_node_count;
    xcc_quantizer_output_info *reported_outputs;
    size_t reported_output_count;
    double *expected_agreements; /* of the reported outputs: measured, or by the leads of rows if that is less */
    /* Statistics of the search. */
    bool measured_only; /* the bounds hold for measured errors and expected agreements, and not for predicted ones */
    size_t judged_nodes, tried_models;
    uint64_t search_ns;
};
typedef struct xcc_quantizer quantizer;

/* ---- The model (quant_model.c) ---- */

/* Lists the nodes and tensors of the model. */
xcvm_status xcc_quant_list(quantizer *q);
/* Returns the tensor of a name, or NULL for "" and unknown names. */
xcc_quant_tensor *xcc_quant_find(const quantizer *q, const char *name);
/* Operand or result of a node, or NULL if absent. */
xcc_quant_tensor *xcc_quant_input(const quantizer *q, const xcc_quant_node *n, size_t index);
xcc_quant_tensor *xcc_quant_output(const quantizer *q, const xcc_quant_node *n, size_t index);
const Onnx__AttributeProto *xcc_quant_attribute(const xcc_quant_node *n, const char *name);
int64_t xcc_quant_int(const xcc_quant_node *n, const char *name, int64_t otherwise);
double xcc_quant_real(const xcc_quant_node *n, const char *name, double otherwise);
bool xcc_quant_is(const xcc_quant_node *n, const char *op);
/* True for an f32 constant. */
bool xcc_quant_is_weight(const xcc_quant_tensor *t);
/* Reads a constant's elements into memory of the module. */
xcvm_status xcc_quant_read(quantizer *q, const xcc_quant_tensor *t, xcc_tensor *tensor);
/* Copies an f32 constant into memory of `arena`. */
xcvm_status xcc_quant_floats(quantizer *q, const xcc_quant_tensor *t, xcvm_arena *arena, xcc_tensor *shape,
                             float **floats);
/* Replaces a constant's elements and shape for all readers. */
xcvm_status xcc_quant_set(quantizer *q, xcc_quant_tensor *t, int rank, const int64_t *dims, const float *floats);
/* Adds a constant with a name like `like`. */
xcvm_status xcc_quant_add(quantizer *q, const char *like, int rank, const int64_t *dims, const float *floats,
                          xcc_quant_tensor **made);
/* Makes a constant of a body an initializer of the graph, once. */
xcvm_status xcc_quant_hoist(quantizer *q, const char *like, const Onnx__TensorProto *constant, xcc_quant_tensor **made);
/* Returns `stem` and `suffix`, changed if the model or `more` has that name, and adds it to `more`. The module owns it.
 */
const char *xcc_quant_name(quantizer *q, xcc_table *more, const char *stem, const char *suffix);

/* ---- Steps ---- */

/* Merges aliases of constants, BatchNormalization and additions of channel constants (prepare.c). */
xcvm_status xcc_quant_prepare(quantizer *q);
/* Lists nodes in bodies. Returns why a form is unsupported, or NULL (bodies.c). */
xcvm_status xcc_quant_list_bodies(quantizer *q);
const char *xcc_quant_refuse_body(const quantizer *q, const xcc_quant_node *n);
/* Returns the rule of an operator, or NULL (place.c). */
const xcc_quant_rule *xcc_quant_rule_of(const Onnx__NodeProto *n);
/* Cross-layer equalization (equalize.c). */
xcvm_status xcc_quant_equalize(quantizer *q);
/* Channel equalization by data, on the first `batches` batches (channel_scales.c). */
xcvm_status xcc_quant_scale_channels(quantizer *q, const xcc_calibration *data, size_t batches);
/* Compiles the float model with the tensors to quantize as outputs, again after constants changed (quantize.c). */
xcvm_status xcc_quant_open_probe(quantizer *q);
/* Selects the candidates, once, and then the quantized nodes and tensors, after every change of a level (place.c). */
xcvm_status xcc_quant_choose(quantizer *q);
xcvm_status xcc_quant_place(quantizer *q);
/* True if a node has the level WEIGHTS besides INTEGER: its weights are constant, and its other operand is rounded. */
bool xcc_quant_has_weights_level(const quantizer *q, const xcc_quant_node *n);
/* True if a node reads and computes integers. */
bool xcc_quant_is_integer(const xcc_quant_node *n);
/* Returns the node that computes a tensor, or the node whose epilogue does; NULL for inputs and constants. */
const xcc_quant_node *xcc_quant_producer(const quantizer *q, const xcc_quant_tensor *t);
/* Returns the last node of an epilogue, whose result is stored. */
const xcc_quant_node *xcc_quant_last(const quantizer *q, const xcc_quant_node *n);
/* Calibrates ranges of activations and of constants that are quantized like activations (calibrate.c). */
xcvm_status xcc_quant_calibrate(quantizer *q, const xcc_calibration *data, size_t batches);
/* Recomputes all ranges by another method. */
void xcc_quant_take_method(quantizer *q, xcc_range_method method);
/* Returns the interval, including zero, outside of which a tensor's readers saturate; infinite ends if they do not
 * (saturation.c). */
void xcc_quant_useful(const quantizer *q, const xcc_quant_tensor *t, double *low, double *high);
/* Rounds weights by GPTQ (rounding.c). */
xcvm_status xcc_quant_round(quantizer *q, const xcc_calibration *data, size_t batches);
/* Corrects biases with the means of calibration (bias.c). */
xcvm_status xcc_quant_correct(quantizer *q);
/* Compares the quantized model with the float model on some batches (measure.c). Fills q->reported_outputs, with
 * `tensors` also the errors of tensors, and `errors`, one per batch, which may be NULL. */
xcvm_status xcc_quant_measure(quantizer *q, const xcc_calibration *data, const xcc_batches *batches, bool tensors,
                              xcc_batch_error *errors);
/* True if min_agreement applies to an output that has rows (measure.c). */
bool xcc_quant_must_agree(const quantizer *q, const char *output);
/* True if the outputs must stay within a bound. */
bool xcc_quant_is_bounded(const quantizer *q);
/* Keeps nodes in float until the bounds hold (sensitivity.c). */
xcvm_status xcc_quant_bound(quantizer *q, const xcc_calibration *data, const xcc_batches *batches);

/* Raises the model's opset to `least` if this changes no node. Otherwise fails with UNSUPPORTED (write_dynamic.c). */
xcvm_status xcc_quant_raise_opset(quantizer *q, int64_t least);

/* ---- Integers ---- */

/* Limits of an integer type. */
void xcc_quant_limits(xcvm_dtype dtype, int32_t *least, int32_t *greatest);
/* Computes scale and zero point of a range, which is widened to include 0 (scale.c). */
void xcc_quant_scale(double low, double high, xcvm_dtype dtype, bool symmetric, float *scale, int32_t *zero_point);

/* Calls the progress callback. */
void xcc_quant_progress(const quantizer *q, const char *what, double fraction);

#endif
