/* Optimizers: trainable parameters and their state. */
#ifndef XCVM_TAPE_OPTIMIZERS_OPTIMIZERS_H
#define XCVM_TAPE_OPTIMIZERS_OPTIMIZERS_H

#include "compiler/training/optimizer.h"
#include "tape/side_table.h"
#include "tape/tensor_file.h"
#include "tape/tracer.h"

/* States of a parameter, in the type of the computation. */
enum { STATE_MASTER, STATE_AVERAGE, STATE_MOMENTS, STATE_COUNT = STATE_MOMENTS + XCC_OPTIMIZER_MOMENTS };
/* Lists of the instruction. */
enum { LIST_GRADIENTS, LIST_PARAMETERS, LIST_STATES, LIST_COUNT = LIST_STATES + STATE_COUNT };
/* Behind them, of twice the size, the factors of factored gradients. */
enum { LIST_FACTORS = LIST_COUNT, LIST_CAPACITY_COUNT = LIST_FACTORS + 2 };

typedef struct tape_trainable_parameter {
    char *name;
    tape_variable *parameter; /* a reference */
    uint32_t version;         /* of the parameter's elements when the master copy was made */
    bool updated;
    int64_t steps;
    xcvm_value states[STATE_COUNT]; /* null: none */
    /* References during a step, if the parameter has a gradient. */
    tape_variable *gradient;
    tape_variable *left_factor;    /* left factor of a factored gradient; `gradient` is the right one */
    tape_variable *rows;           /* of a row-sparse gradient */
    tape_variable *part;           /* those rows of the parameter */
    xcvm_value parts[STATE_COUNT]; /* those rows of the states */
} tape_trainable_parameter;

struct xcvm_optimizer {
    tape_effect effect; /* first; a step of the optimizer */
    xcvm_tape *tape;
    xcc_optimizer_spec spec;
    xcvm_optimizer_options options;
    double rate, scale, norm;
    bool stepping;
    tape_trainable_parameter **parameters; /* in order of addition */
    size_t count, capacity;
    xcvm_update_hook *hooks;
    size_t hook_count, hook_capacity;
    xcvm_layer **layers;
    size_t layer_count, layer_capacity;
    void *args;                  /* of the instruction */
    ptrdiff_t lists[LIST_COUNT]; /* offsets in the arguments; -1: none */
    ptrdiff_t rate_at, step_at, scale_at, parameter_norms_at, gradient_norms_at;
    /* Buffers for a step of all parameters. */
    tape_trainable_parameter **order;
    const xcvm_value **items; /* of each list */
    float *norms;             /* of parameters, then of gradients */
    size_t room;              /* capacity in parameters */
};

static inline bool tape_parameter_is_half(const tape_trainable_parameter *l)
{
    return l->parameter->value.type.dtype != XCVM_F32 && l->parameter->value.type.dtype != XCVM_F64;
}
/* A step as an effect, with the gradients of a tracer. */
xcvm_status tape_optimizer_run(tape_effect *e, size_t count, const tape_change *changes);
xcvm_status tape_optimizer_build(tape_effect *e, xcc_module *m, size_t count, const tape_program_change *changes);
/* NULL: not a parameter of the optimizer. */
tape_trainable_parameter *tape_parameter_of(const xcvm_optimizer *o, const tape_variable *parameter);
/* The name of a state in files. */
const char *tape_optimizer_state_name(const xcvm_optimizer *o, size_t states);
/* Initializes a state with the parameter's elements. */
void tape_parameter_copy(const tape_trainable_parameter *l, xcvm_value *states);
/* Allocates an uninitialized tensor in the tape's heap. */
xcvm_status tape_value_create(xcvm_tape *t, xcvm_dtype dtype, int rank, const int64_t *dims, xcvm_value *value);

#endif
