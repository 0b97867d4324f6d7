/* Optimizers on a tape: parameters, and what is kept of each. */
#ifndef XCVM_TAPE_OPTIMIZERS_OPTIMIZER_H
#define XCVM_TAPE_OPTIMIZERS_OPTIMIZER_H

#include "compiler/training/optimizer.h"
#include "tape/tape.h"
#include "tape/tensor_file.h"

/* What is kept of a learner, of the type that is computed in. */
enum { KEPT_MASTER, KEPT_AVERAGE, KEPT_MOMENTS, KEPT_COUNT = KEPT_MOMENTS + XCC_OPTIMIZER_MOMENTS };
/* Lists of the instruction. */
enum { LIST_GRADIENTS, LIST_PARAMETERS, LIST_KEPT, LIST_COUNT = LIST_KEPT + KEPT_COUNT };
/* Behind them, for twice as many, the factors of gradients that are products. */
enum { LIST_FACTORS = LIST_COUNT, LIST_ROOMS = LIST_FACTORS + 2 };

typedef struct tape_learner {
    char *name;
    tape_variable *parameter; /* a reference */
    uint32_t version;         /* of the parameter's elements when the master was what they are */
    bool updated;
    int64_t steps;
    xcvm_value kept[KEPT_COUNT]; /* null: is not kept */
    /* In a step, where it takes part; references. */
    tape_variable *gradient;
    tape_variable *left;          /* of a gradient that is a product: its factor a, where `gradient` is b */
    tape_variable *rows;          /* of a gradient by rows */
    tape_variable *part;          /* of the parameter: those rows */
    xcvm_value parts[KEPT_COUNT]; /* of what is kept: likewise */
} tape_learner;

struct xcvm_optimizer {
    tape_effect effect; /* first; a step, and who refers to it */
    xcvm_tape *tape;
    xcc_optimizer_spec spec;
    xcvm_optimizer_options options;
    double rate, scale, norm;
    bool stepping;
    tape_learner **learners; /* in the order in which they were added */
    size_t count, capacity;
    xcvm_update_hook *hooks;
    size_t hook_count, hook_capacity;
    xcvm_layer **layers;
    size_t layer_count, layer_capacity;
    void *args;                  /* of the instruction */
    ptrdiff_t lists[LIST_COUNT]; /* where they stand in the arguments; -1: nowhere */
    ptrdiff_t rate_at, step_at, scale_at, parameter_norms_at, gradient_norms_at;
    /* Room for a step of all learners. */
    tape_learner **order;
    const xcvm_value **items; /* of each list */
    float *norms;             /* of parameters, then of gradients */
    size_t room;              /* learners that there is room for */
};

static inline bool tape_learner_is_half(const tape_learner *l)
{
    return l->parameter->value.type.dtype != XCVM_F32 && l->parameter->value.type.dtype != XCVM_F64;
}
/* A step of the optimizer as an effect: by gradients that a tracer has. */
xcvm_status tape_optimizer_run(tape_effect *e, size_t count, const tape_change *changes);
xcvm_status tape_optimizer_build(tape_effect *e, xcc_module *m, size_t count, const tape_program_change *changes);
/* NULL: it is no parameter of the optimizer's. */
tape_learner *tape_learner_of(const xcvm_optimizer *o, const tape_variable *parameter);
/* What is kept by that index, as files name it. */
const char *tape_kept_name(const xcvm_optimizer *o, size_t kept);
/* What is kept begins with the parameter's elements. */
void tape_learner_copy(const tape_learner *l, xcvm_value *kept);
/* A tensor in the tape's heap, null before; not initialized. */
xcvm_status tape_value_make(xcvm_tape *t, xcvm_dtype dtype, int rank, const int64_t *dims, xcvm_value *value);

#endif
