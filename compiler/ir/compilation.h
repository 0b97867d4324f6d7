/* The compilation of a module: what import and passes find out besides the graph, for later passes, for the program's
 * metadata and for the report. The driver reads it; each module has one. */
#ifndef XCVM_COMPILER_IR_COMPILATION_H
#define XCVM_COMPILER_IR_COMPILATION_H

#include "compiler/ir/module.h"

struct xcc_compilation {
    /* ---- Switches of differentiation ---- */
    uint32_t value_limit;     /* values that the module may have in all; 0: no limit */
    xcvm_sink report_problem; /* gets each node that cannot be differentiated, a line each; may be NULL */

    /* ---- The model, for metadata ---- */
    const char *producer;
    const char *class_names, *class_output; /* NULL: the model has none (docs/training.md) */
    const char *resolved_dir;               /* directory of the model's file without symbolic links; NULL: none */

    /* ---- For later passes and emission ---- */
    xcc_value *loss;       /* that is differentiated, once it is added or found; NULL: an output that options name */
    bool open_branches;    /* import branches of If with operands of open sizes */
    size_t branches;       /* imported branches of If that the run decides between */
    const char *optimizer; /* of a training program; NULL: it is none */
    size_t forward_inputs; /* inputs and outputs of the forward, the first ones, where the program has a backward */
    size_t forward_outputs;
    xcc_node **unscheduled;   /* nodes of the top-level graph before scheduling; NULL: it kept the order */
    uint8_t library_hash[32]; /* of the kernel library */

    /* ---- For the report ---- */
    size_t training_nodes; /* in training form as imported */
    size_t gradient_count, retained_count;
    uint64_t gradient_bytes, retained_bytes;
    struct {
        uint64_t peak_before, peak; /* bytes without recomputation, and with it as planned */
        double time;                /* estimated time of a step, relative to one without recomputation */
        size_t copies;              /* nodes that are computed again */
    } recomputation;
    uint64_t weight_bytes_before, weight_bytes_after; /* constants that could be compressed, as packed and stored */
    size_t uncompressed;                              /* constants that are out of range */
    size_t bf16_products, exact_products;             /* where bf16 was requested: made, and left in f32 */
    size_t tuned;                                     /* forms of convolutions that were measured */
    struct {
        size_t made, left, slower; /* by quantized weights: in integers, left in floats, faster so */
    } integers;
};

#endif
