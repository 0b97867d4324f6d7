/*
 * XCVM's quantizer: from an ONNX model of floats to one that computes with integers. The conventions of xcvm.h hold
 * here too.
 *
 * real = scale * (q - zero_point). Activations get one scale a tensor, from the ranges that calibration inputs show,
 * or, where there are none, in each run; weights get one scale a tensor, an output channel, or a block.
 *
 * Threads. A quantizer belongs to one thread at a time; callbacks are called on it.
 *
 * Lifetimes. What a call is given is read until it returns and is not kept, but where it says so. What accessors return
 * is lent by the quantizer.
 */
#ifndef XCVM_QUANTIZE_H
#define XCVM_QUANTIZE_H

#include "compiler.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How ranges of activations come of what was seen. */
typedef enum xcc_range_method {
    XCC_RANGE_DEFAULT, /* XCC_RANGE_MSE; if max_error does not hold with that and all nodes quantised, XCC_RANGE_MINMAX,
                          or XCC_RANGE_TAIL if what is measured on goes far beyond what was calibrated with */
    XCC_RANGE_MINMAX,  /* the least and the greatest of all */
    XCC_RANGE_MOVING,  /* moving averages of both, batch by batch */
    XCC_RANGE_ENTROPY, /* the threshold with the least Kullback-Leibler divergence from what was seen */
    XCC_RANGE_PERCENTILE, /* the range that holds a share */
    XCC_RANGE_MSE,        /* the range with the least mean squared error of rounding and clipping together; that of
                             clipping, which does not cancel in sums, counts eight times */
    XCC_RANGE_TAIL /* the least and the greatest of all, and beyond as far as the greatest magnitudes of the batches
                      let expect of as many further ones: no clipping of inputs that nobody has seen */
} xcc_range_method;

/* How weights are rounded. */
typedef enum xcc_rounding {
    XCC_ROUNDING_DEFAULT, /* GPTQ where there are data and weights do not learn, else to the nearest */
    XCC_ROUNDING_NEAREST, /* each by itself */
    XCC_ROUNDING_GPTQ     /* those of Conv, Gemm and MatMul so that the sums are off least on the data, which are needed
                             (Frantar et al. 2022) */
} xcc_rounding;

/* How the model says that it is quantised. */
typedef enum xcc_quantize_form {
    XCC_FORM_QDQ,      /* the float operators, between QuantizeLinear and DequantizeLinear */
    XCC_FORM_QOPERATOR /* QLinearConv, QLinearMatMul and their like, those of com.microsoft included */
} xcc_quantize_form;

typedef struct xcc_quantize_options {
    size_t size;
    const xcvm_allocator *allocator; /* NULL: malloc's; it must outlive the quantizer */
    const xcc_dim *dims; /* named dimensions to fix while measuring; lent until the quantizer is destroyed */
    size_t dim_count;
    int threads;         /* of the runs, as of xcvm_session_options */
    size_t memory_limit; /* bytes that the quantizer, and a run, may each hold at once; 0: no limit */
    uint64_t timeout_ns; /* of each call, OUT_OF_TIME beyond; 0: no limit */
    xcc_range_method method;
    double percentile; /* of XCC_RANGE_PERCENTILE, in percent; 0: 99.999 */
    double averaging;  /* weight of a batch in XCC_RANGE_MOVING; 0: 0.01 */
    xcc_quantize_form form;
    xcvm_dtype activations;     /* u8 (or 0), i8, u16, i16; f32: they stay floats, only weights are quantised */
    xcvm_dtype weights;         /* i8 (or 0), u8; i4 and u4: in blocks, and activations stay floats */
    int64_t block;              /* weights that one scale is for, of i4 and u4; 0: 32 */
    bool per_tensor;            /* one scale for a weight tensor in place of one for each output channel */
    bool symmetric_activations; /* zero points are in the middle of the type */
    bool asymmetric_weights;    /* zero points of weights may be other than the middle of the type */
    bool equalize;              /* cross-layer equalisation (Nagel et al. 2019) before anything is quantised */
    /* The model is to learn: weights stay floats, which the program rounds as it goes, and scales are constants. With
     * XCC_FORM_QDQ, weights of 8 bits and data; xcc_options.straight_through takes gradients through the rounding. */
    bool trainable;
    bool correct_bias;        /* biases make up for the mean error that rounded weights make */
    const char *const *nodes; /* patterns of the nodes to quantise; none: all. '*' and '?' as in groups of training */
    size_t node_count;
    const char *const *exclude_nodes; /* patterns of nodes that stay float */
    size_t exclude_node_count;
    const char *const *types; /* operator types to quantise; none: all that there are rules for */
    size_t type_count;
    const char *const *exclude_types;
    size_t exclude_type_count;
    /* The nodes that harm most stay float until no output is off by more than this share of its range on the data that
     * is measured on, nor likely to be on as many others, see xcc_quantize_output.likely_error; 0: no bound.
     * INVALID_ARGUMENT if float's outputs are no finite numbers, or if no node can be quantised within the bounds. */
    double max_error;
    double held_out; /* share of the batches that is measured on, and not calibrated with; 0: 0.2 from 5 batches on.
                        With less than one batch all are calibrated with and measured on */
    void (*progress)(void *user, const char *what, double fraction);
    void *user;
    xcc_rounding rounding; /* of weights */
    /* As max_error, but until the greatest element stays the same in this share of the rows, see
     * xcc_quantize_output.likely_agree, of every output that has rows; 0: no bound. INVALID_ARGUMENT if no output has
     * any. */
    double min_agreement;
    const char *agreement_output; /* the one output that min_agreement is about; NULL: all. Lent until the quantizer is
                                     destroyed */
    /* Nodes in training form stay as they are. False: they are put into inference form first, so that
     * BatchNormalization uses its running statistics and can be merged, and Dropout does nothing. With `trainable`,
     * Dropout stays as it is in any case. */
    bool training_form;
} xcc_quantize_options;

/* Calibration inputs: `batch_count` batches, which are asked for in order, several times. `read` fills inputs[i] with a
 * tensor for each of the model's inputs, with one reference, which it gives away. */
typedef struct xcc_calibration {
    size_t batch_count;
    xcvm_status (*read)(void *user, size_t batch, xcvm_value **inputs, xcvm_error *error);
    void *user;
} xcc_calibration;

typedef struct xcc_quantizer xcc_quantizer;

/* Reads a model and finds what can be quantised. INVALID_ARGUMENT, with the name, for patterns of nodes and types that
 * fit nothing; UNSUPPORTED for a model that is quantised already. External data must lie where xcc_compile_file takes
 * them, and will be part of the new model. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_quantizer_create_file(const char *path, const xcc_quantize_options *options,
                                                             xcc_quantizer **quantizer, xcvm_error *error);
/* The same for a model in memory, which is lent until the quantizer is destroyed; external data is refused. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_quantizer_create(const void *model, size_t count,
                                                        const xcc_quantize_options *options, xcc_quantizer **quantizer,
                                                        xcvm_error *error);
XCVM_API void xcc_quantizer_destroy(xcc_quantizer *quantizer);

/* The model's inputs, as calibration feeds them. NULL beyond the last. */
XCVM_API size_t xcc_quantizer_input_count(const xcc_quantizer *quantizer);
XCVM_API const xcvm_parameter *xcc_quantizer_input(const xcc_quantizer *quantizer, size_t index);

/* Quantises, and measures the error. `data` NULL: activations become u8 in each run, or, where they are f32 or
 * weights have 4 bits, only weights are quantised, and nothing is measured. Memory does not grow with the number of
 * batches, but for up to 64 MB of outputs while nodes are looked for. INVALID_ARGUMENT if there are no batches, for NaN
 * and infinities, or if no node can be quantised; the message names the tensor, or the reason. Once for a quantizer. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_quantizer_run(xcc_quantizer *quantizer, const xcc_calibration *data,
                                                     xcvm_error *error);
/* The new model, an ONNX file: names, metadata and all that was not quantised are as they were. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_quantizer_write(const xcc_quantizer *quantizer, xcvm_sink sink, void *user,
                                                       xcvm_error *error);

/* A tensor of activations that was quantised, worst first by signal to noise. */
typedef struct xcc_quantize_tensor {
    const char *name, *op;  /* op: of the node that computes it, "" for an input */
    double low, high;       /* the range that was chosen */
    double least, greatest; /* that was seen */
    double scale;
    int64_t zero_point;
    double sqnr;                  /* signal to quantisation noise of float's numbers, in dB */
    double max_error, mean_error; /* magnitudes */
} xcc_quantize_tensor;
/* A node that was to be looked at, in the model's order. */
typedef struct xcc_quantize_node {
    const char *name, *op;
    bool quantized;
    const char *reason; /* why it stayed float, or what was done about it; "" if there is nothing to say */
    double harm;        /* mean error of the worst output, as a share of its range, if it alone were quantised, on the
                           batches that are off most if all nodes are; NaN if that was not looked for, as the bounds
                           hold without */
} xcc_quantize_node;
/* An output of the model, measured against float. */
typedef struct xcc_quantize_output {
    const char *name;
    double least, greatest;       /* of float's */
    double max_error, mean_error; /* as shares of that range */
    double sqnr;
    double agree;   /* share of rows, along the last axis, whose greatest element stays the same; NaN if rows have one
                       element. Of decisions, the share of elements that are the same */
    bool decisions; /* its elements are integers or truth values: only agree and likely_agree are known, all else is
                       NaN */
    /* What as many further inputs of the kind keep within, nine times in ten, going by the tail of the batches'
     * greatest errors, and by how much the batches' shares of rows differ; no better than what was measured: what
     * max_error and min_agreement of the options bound. */
    double likely_error, likely_agree;
} xcc_quantize_output;

typedef struct xcc_quantize_report {
    size_t size; /* set by the caller */
    size_t tensor_count, node_count, output_count;
    size_t quantized_nodes;
    size_t folded_normalizations, equalized_pairs;
    size_t calibration_batches, measured_batches;
    uint64_t bytes_before, bytes_after; /* of constants */
    size_t kept_nodes; /* sums of products and recurrent nodes that stayed float for max_error or min_agreement */
    /* Of the search for these: nodes that were judged one by one, models that were measured on all that is measured on,
     * and the time that it took; 0: there was none. */
    size_t judged_nodes, tried_models;
    uint64_t search_ns;
    size_t data_batches; /* that there were: fewer than were calibrated with and measured on if these are the same */
    xcc_range_method method; /* that ranges of activations are of; never XCC_RANGE_DEFAULT */
    size_t inference_nodes;  /* nodes in training form that were put into inference form */
} xcc_quantize_report;
XCVM_API void xcc_quantizer_report(const xcc_quantizer *quantizer, xcc_quantize_report *report);
/* By index; NULL beyond the last. */
XCVM_API const xcc_quantize_tensor *xcc_quantizer_tensor(const xcc_quantizer *quantizer, size_t index);
XCVM_API const xcc_quantize_node *xcc_quantizer_node(const xcc_quantizer *quantizer, size_t index);
XCVM_API const xcc_quantize_output *xcc_quantizer_output(const xcc_quantizer *quantizer, size_t index);

#ifdef __cplusplus
}
#endif
#endif
