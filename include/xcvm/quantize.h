/*
 * XCVM's quantizer: from an ONNX float model to an ONNX model that computes on integers. docs/quantization.md explains
 * the methods; the conventions of xcvm.h apply.
 *
 * real = scale * (q - zero_point). Activations have one scale per tensor, from calibration or computed in each run.
 * Weights have one scale per tensor, output channel or block.
 *
 * Threads: a quantizer belongs to one thread at a time, and callbacks run on it. Lifetimes: arguments are read only
 * until the function returns, unless stated otherwise. The quantizer lends the results of accessors.
 */
#ifndef XCVM_QUANTIZE_H
#define XCVM_QUANTIZE_H

#include "compiler.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Methods that derive activation ranges from calibration data. */
typedef enum xcc_range_method {
    XCC_RANGE_DEFAULT,    /* MSE; if max_error or max_mean_error fails with all nodes quantized, MINMAX, or, for
                             max_error, TAIL if measured data exceed the calibration range by far */
    XCC_RANGE_MINMAX,     /* minimum and maximum */
    XCC_RANGE_MOVING,     /* moving averages of both over batches */
    XCC_RANGE_ENTROPY,    /* threshold of least Kullback-Leibler divergence */
    XCC_RANGE_PERCENTILE, /* range that contains a percentile */
    XCC_RANGE_MSE,        /* least mean squared error, where clipping counts eight times because it does not cancel
                             in sums */
    XCC_RANGE_TAIL        /* minimum and maximum, extrapolated to as many further batches by their extreme values */
} xcc_range_method;

/* Rounding of weights. */
typedef enum xcc_rounding {
    XCC_ROUNDING_DEFAULT, /* GPTQ with data and fixed weights, else nearest */
    XCC_ROUNDING_NEAREST, /* each weight separately */
    XCC_ROUNDING_GPTQ     /* least error of sums on the data, for Conv, Gemm and MatMul (Frantar et al. 2022) */
} xcc_rounding;

/* Form of the quantized model. */
typedef enum xcc_quantize_form {
    XCC_FORM_QDQ,      /* float operators between QuantizeLinear and DequantizeLinear */
    XCC_FORM_QOPERATOR /* QLinearConv, QLinearMatMul, ..., also of com.microsoft */
} xcc_quantize_form;

typedef struct xcc_quantizer_options {
    size_t size;
    const xcvm_allocator *allocator; /* NULL: malloc and free; must outlive the quantizer */
    const xcc_dim *dims;             /* named dimensions to fix while measuring; borrowed */
    size_t dim_count;
    int threads;         /* as in xcvm_session_options */
    size_t memory_limit; /* bytes of the quantizer and of each run; 0: no limit */
    uint64_t timeout_ns; /* of each call; 0: no limit */
    xcc_range_method method;
    double percentile; /* of XCC_RANGE_PERCENTILE, in percent; 0: 99.999 */
    double averaging;  /* weight of a batch in XCC_RANGE_MOVING; 0: 0.01 */
    xcc_quantize_form form;
    xcvm_dtype activations;     /* u8 (or 0), i8, u16, i16; f32: only weights are quantized */
    xcvm_dtype weights;         /* i8 (or 0), u8; i4 and u4: in blocks with float activations */
    int64_t block;              /* weights per scale for i4 and u4; 0: 32 */
    bool per_tensor;            /* one scale per weight tensor instead of per output channel */
    bool symmetric_activations; /* zero points in the middle of the type */
    bool asymmetric_weights;    /* allow other zero points of weights */
    bool equalize;              /* cross-layer equalization first (Nagel et al. 2019) */
    /* For training with xcc_options.gradients.straight_through: weights stay floats that the program rounds, and scales
     * are constants. Requires XCC_FORM_QDQ, 8-bit weights and data. */
    bool trainable;
    bool correct_bias;        /* correct biases for the mean error of rounded weights */
    const char *const *nodes; /* patterns ('*', '?') of nodes to quantize; none: all */
    size_t node_count;
    const char *const *exclude_nodes; /* patterns of nodes that stay float */
    size_t exclude_node_count;
    const char *const *types; /* operator types to quantize; none: all supported */
    size_t type_count;
    const char *const *exclude_types;
    size_t exclude_type_count;
    /* Bound of each output's error as a share of its range, measured and extrapolated (predicted_error). The most
     * harmful nodes compute in floats until it holds, with weights of 8 bits where these suffice. If the extrapolated
     * error cannot be bounded, the measured error is. 0: no bound. INVALID_ARGUMENT if no node can be quantized within
     * the bounds. */
    double max_error;
    double held_out; /* share of the batches for measurement only; 0: 0.2 if there are 5 batches. Below one batch, all
                        data serve both purposes */
    xcc_progress progress;
    xcc_rounding rounding; /* of weights */
    /* Bound like max_error: the share of rows whose greatest element must stay the same (predicted_agree). 0: no bound.
     * INVALID_ARGUMENT if no output has rows. */
    double min_agreement;
    const char *agreement_output; /* output of min_agreement; NULL: all. Borrowed */
    /* Keeps nodes in training form. Otherwise they are converted to inference form first, so that BatchNormalization
     * can be merged. With `trainable`, Dropout always stays. */
    bool training_form;
    /* Keeps the channels of activations as they are. Otherwise, with data and weights of a scale per output channel,
     * channels between convolutions are scaled so that their ranges are more alike; float results change by rounding
     * alone. */
    bool no_channel_scaling;
    /* Bound like max_error, of the mean error of each output as a share of its range; 0: no bound. Unlike the greatest
     * error, the mean is meaningful where single elements are arbitrary, as the boxes of a detector at places without
     * objects. */
    double max_mean_error;
    /* Measures the harm of each node, and the outputs with 1, 2, ... of the most harmful nodes in float, until the
     * bounds hold, or without a bound for all nodes. Needs data. */
    bool sensitivity;
    /* Nonzero ends a call with CANCELLED. Another thread or a signal handler may set it. NULL: never. */
    const uint32_t *cancelled;
} xcc_quantizer_options;

/* Calibration data of `batch_count` batches, read in order, several times. `read` stores a tensor per model input, with
 * one reference, which the quantizer releases. */
typedef struct xcc_calibration {
    size_t batch_count;
    xcvm_status (*read)(void *user, size_t batch, xcvm_value **inputs, xcvm_error *error);
    void *user;
} xcc_calibration;

typedef struct xcc_quantizer xcc_quantizer;

/* Reads a model and determines the nodes to quantize. INVALID_ARGUMENT for patterns that match nothing; UNSUPPORTED for
 * a quantized model. External data becomes part of the new model. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_quantizer_create_file(const char *path, const xcc_quantizer_options *options,
                                                             xcc_quantizer **quantizer, xcvm_error *error);
/* The same for a model in memory without external data, which is borrowed until the quantizer is destroyed. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_quantizer_create(const void *model, size_t count,
                                                        const xcc_quantizer_options *options, xcc_quantizer **quantizer,
                                                        xcvm_error *error);
XCVM_API void xcc_quantizer_destroy(xcc_quantizer *quantizer);

/* Enumerate the model's inputs; NULL past the end. */
XCVM_API size_t xcc_quantizer_input_count(const xcc_quantizer *quantizer);
XCVM_API const xcvm_value_info *xcc_quantizer_input_at(const xcc_quantizer *quantizer, size_t index);

/* Quantizes the model and measures the error. May be called once. With `data` NULL, activations are quantized in each
 * run, or only weights are quantized, and nothing is measured. Memory does not grow with the number of batches, except
 * for up to 64 MB of outputs. INVALID_ARGUMENT for no batches, non-finite values, or no node to quantize. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_quantizer_run(xcc_quantizer *quantizer, const xcc_calibration *data,
                                                     xcvm_error *error);
/* Writes the new ONNX model. Names, metadata and everything that was not quantized are unchanged. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_quantizer_save(const xcc_quantizer *quantizer, xcvm_sink sink,
                                                      xcvm_error *error);

/* A quantized activation tensor, in ascending order of signal-to-noise ratio. */
typedef struct xcc_quantizer_tensor_info {
    const char *name, *op;  /* op: operator of its node, "" for an input */
    double low, high;       /* chosen range */
    double least, greatest; /* observed range */
    double scale;
    int64_t zero_point;
    double sqnr;                  /* signal-to-quantization-noise ratio in dB */
    double max_error, mean_error; /* magnitudes */
} xcc_quantizer_tensor_info;
/* A node considered for quantization, in the model's order. */
typedef struct xcc_quantizer_node_info {
    const char *name, *op;
    bool quantized;
    const char *reason; /* why it stayed float, or a remark, or "" */
    double harm;        /* mean error of the worst output, as a share of its range, if only this node is quantized; NaN
                           if not measured */
    bool kept;          /* stays float for max_error, max_mean_error or min_agreement */
    /* Outputs with this node and all more harmful ones in floats: greatest and mean error of the worst output, and
     * least share of rows that agree. NaN if this was not measured. */
    double max_error_after, mean_error_after, agree_after;
    bool weights_alone;  /* quantized, but computes in floats for a bound: only its weights are integers */
    double weights_harm; /* like harm, if only the weights of this node are integers; measured for nodes that do not
                            compute with integers for a bound, and by `sensitivity` for all */
} xcc_quantizer_node_info;
/* An output of the model, compared with the float model. */
typedef struct xcc_quantizer_output_info {
    const char *name;
    double least, greatest;       /* of the float output */
    double max_error, mean_error; /* as shares of that range */
    double sqnr;
    double agree;   /* share of rows whose greatest element stays the same (NaN for rows of one element); for decisions,
                       share of equal elements */
    bool decisions; /* integer or bool elements: only agree and predicted_agree are known, others are NaN */
    /* 90 % prediction limits for as many further inputs, extrapolated from the batches; never better than measured.
     * max_error and min_agreement bound them. */
    double predicted_error, predicted_agree;
} xcc_quantizer_output_info;

typedef struct xcc_quantizer_report {
    size_t size; /* set by the caller */
    size_t tensor_count, node_count, output_count;
    size_t quantized_nodes;
    size_t folded_normalizations, equalized_pairs;
    size_t calibration_batches, measured_batches;
    uint64_t bytes_before, bytes_after; /* of constants */
    size_t kept_nodes;                  /* products and recurrent nodes that stayed float for a bound */
    /* The search for them: nodes judged singly, models measured, and time; 0 without a search. */
    size_t judged_nodes, tried_models;
    uint64_t search_ns;
    size_t data_batches;        /* total batches */
    xcc_range_method method;    /* used method; never XCC_RANGE_DEFAULT */
    size_t inference_nodes;     /* nodes in training form that were put into inference form */
    size_t scaled_channels;     /* channels that were multiplied by more than 1 */
    bool measured_only;         /* the bounds hold for the measured batches, and others may exceed them */
    size_t weights_alone_nodes; /* of quantized_nodes: those that compute in floats for a bound */
} xcc_quantizer_report;
XCVM_API void xcc_quantizer_get_report(const xcc_quantizer *quantizer, xcc_quantizer_report *report);
/* Enumerate results; NULL past the end. */
XCVM_API const xcc_quantizer_tensor_info *xcc_quantizer_tensor_at(const xcc_quantizer *quantizer, size_t index);
XCVM_API const xcc_quantizer_node_info *xcc_quantizer_node_at(const xcc_quantizer *quantizer, size_t index);
XCVM_API const xcc_quantizer_output_info *xcc_quantizer_output_at(const xcc_quantizer *quantizer, size_t index);

#ifdef __cplusplus
}
#endif
#endif
