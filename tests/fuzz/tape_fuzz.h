/* Parts of the fuzz target of the tape: random sequences of calls, with an allocator that fails. */
#ifndef XCVM_TESTS_FUZZ_TAPE_FUZZ_H
#define XCVM_TESTS_FUZZ_TAPE_FUZZ_H

#include "ops/op.h"
#include "tests/fuzz/fuzz.h"
#include "xcvm/functions.h"
#include "xcvm/optimizers.h"
#include "xcvm/tape.h"
#include "xcvm/tape_static.h"

typedef enum fuzz_mode {
    FUZZ_EAGER,
    FUZZ_LAZY,
    FUZZ_BATCHED,
    FUZZ_BUILDING,
    FUZZ_STATIC, /* eager, with many static functions */
    FUZZ_MODES
} fuzz_mode;
extern const char *const fuzz_mode_names[FUZZ_MODES];

enum {
    FUZZ_VARIABLES = 32,
    FUZZ_LAYERS = 5,
    FUZZ_OPTIMIZERS = 3,
    FUZZ_STATICS = 3,
    FUZZ_SCOPES = 5,
    FUZZ_HELD = 2,
    FUZZ_LISTS = 8,
    FUZZ_LIST = 4
};

/* Counts allocations, and refuses requests when armed. */
typedef struct fuzz_memory {
    xcvm_allocator allocator;
    size_t blocks, bytes;
    uint32_t left; /* requests before the refused one; 0: none */
    bool once;     /* one request is refused; otherwise all later ones too */
} fuzz_memory;

typedef struct tape_fuzz tape_fuzz;

/* A static function: its calls are a random sequence with a fixed seed. */
typedef struct fuzz_script {
    tape_fuzz *f;
    uint64_t random;
} fuzz_script;

struct tape_fuzz {
    fuzz_mode mode;
    /* Decisions come from the bytes, then from a generator. */
    const uint8_t *bytes;
    size_t count;
    uint64_t random;
    fuzz_memory memory;
    xcvm_tape *tape, *other;
    xcvm_var variables[FUZZ_VARIABLES]; /* some are stale, absent, failed or of the other tape */
    xcvm_layer *layers[FUZZ_LAYERS];
    xcvm_optimizer *optimizers[FUZZ_OPTIMIZERS];
    xcvm_static *statics[FUZZ_STATICS];
    fuzz_script scripts[FUZZ_STATICS];
    xcvm_var held[FUZZ_HELD], *places[FUZZ_HELD]; /* of static functions */
    xcvm_scope scopes[FUZZ_SCOPES];
    size_t scope_count;
    int rank; /* shape of most tensors in the sequence */
    int64_t dims[3];
    int depth;               /* of nested host functions */
    bool visiting;           /* a layer visitor runs, which must not destroy it */
    unsigned nested;         /* actions left for host functions */
    const xcvm_value *value; /* of the other tape, for xcvm_tape_value */
    fuzz_bytes saved;        /* saved last */
    int64_t ints[FUZZ_LISTS][FUZZ_LIST];
    double floats[FUZZ_LISTS][FUZZ_LIST];
    xcvm_var lists[FUZZ_LISTS][FUZZ_LIST];
    size_t list; /* index of the next one */
    bool trace;  /* print the calls */
};

/* ---- Decisions ---- */

/* A number in [0, below). */
uint32_t fuzz_pick(tape_fuzz *f, uint32_t below);
static inline bool fuzz_chance(tape_fuzz *f, uint32_t percent) { return fuzz_pick(f, 100) < percent; }
static inline void *fuzz_slot(void *slots, uint32_t at, size_t size) { return (char *)slots + at * size; }

/* ---- Variables ---- */

/* Any handle, usually a valid one. */
xcvm_var fuzz_variable(tape_fuzz *f);
/* One of that element type, if any, and of the shape of `like` (may be absent), if any. */
xcvm_var fuzz_variable_of(tape_fuzz *f, xcvm_dtype dtype, xcvm_var like);
xcvm_var fuzz_float(tape_fuzz *f);
/* A differentiable result, if any. */
xcvm_var fuzz_root(tape_fuzz *f);
void fuzz_keep(tape_fuzz *f, xcvm_var v);
/* Creates a constant or a parameter. */
xcvm_var fuzz_make(tape_fuzz *f);
/* The dimensions of a tensor, and its element count. */
int fuzz_shape(tape_fuzz *f, int64_t dims[3]);

/* ---- Actions ---- */

/* One random call. */
void fuzz_act(tape_fuzz *f);
/* Calls from a host function. */
void fuzz_act_within(tape_fuzz *f);
/* One instruction on variables. */
xcvm_var fuzz_instruction(tape_fuzz *f);
/* A float tensor computed from variables. */
xcvm_var fuzz_expression(tape_fuzz *f, xcvm_tape *t, size_t count, const xcvm_var *xs);
/* Prints a failure if tracing is on, and returns the status. */
xcvm_status fuzz_note(const tape_fuzz *f, xcvm_status status, const xcvm_error *error);
bool fuzz_discard(void *user, const void *bytes, size_t count);
xcvm_status fuzz_static_function(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                 xcvm_var *out);
xcvm_var fuzz_update_hook(void *user, xcvm_tape *t, const xcvm_update *update);

/* A function fuzz_NAME for each public function of the tape, generated from the headers. */
#define FUZZ_FUNCTION(name) void fuzz_##name(tape_fuzz *f);
#include "fuzz/tape_functions.h"
#undef FUZZ_FUNCTION

/* ---- Sequences ---- */

/* Runs a sequence, and aborts on errors that sanitizers do not find. */
void fuzz_sequence(fuzz_mode mode, uint64_t seed, const uint8_t *bytes, size_t count, bool trace);

#endif
