/* The parts of the tape's fuzz target: a random sequence of calls on a tape, with an allocator that fails. */
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
    FUZZ_STATIC, /* eager, with many calls of static functions */
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

/* Counts what is allocated, and refuses when it is armed. */
typedef struct fuzz_memory {
    xcvm_allocator allocator;
    size_t blocks, bytes;
    uint32_t left; /* requests until the one that is refused; 0: none is */
    bool once;     /* one request is refused, else all that follow */
} fuzz_memory;

typedef struct tape_fuzz tape_fuzz;

/* A static function: its calls are those of a random sequence that begins with the same number each time. */
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
    int rank; /* the shape that most tensors of the sequence have */
    int64_t dims[3];
    int depth;               /* of calls of the host's functions */
    bool visiting;           /* a visitor of a layer runs, which must not destroy it */
    unsigned nested;         /* actions that the host's functions may take yet */
    const xcvm_value *value; /* of the other tape: what xcvm_tape_value is called with */
    fuzz_bytes saved;        /* what was saved last */
    int64_t ints[FUZZ_LISTS][FUZZ_LIST];
    double floats[FUZZ_LISTS][FUZZ_LIST];
    xcvm_var lists[FUZZ_LISTS][FUZZ_LIST];
    size_t list; /* the next of these */
    bool trace;  /* what is called is printed */
};

/* ---- Decisions ---- */

/* A number in [0, below). */
uint32_t fuzz_pick(tape_fuzz *f, uint32_t below);
static inline bool fuzz_chance(tape_fuzz *f, uint32_t percent) { return fuzz_pick(f, 100) < percent; }
static inline void *fuzz_slot(void *slots, uint32_t at, size_t size) { return (char *)slots + at * size; }

/* ---- Variables ---- */

/* Any handle: mostly one that names something. */
xcvm_var fuzz_variable(tape_fuzz *f);
/* One of that element type if there is one; `like` (may be absent): of the same shape if there is one. */
xcvm_var fuzz_variable_of(tape_fuzz *f, xcvm_dtype dtype, xcvm_var like);
xcvm_var fuzz_float(tape_fuzz *f);
/* A result of a call that a gradient can flow to, if there is one. */
xcvm_var fuzz_root(tape_fuzz *f);
void fuzz_keep(tape_fuzz *f, xcvm_var v);
/* Makes a constant or a parameter. */
xcvm_var fuzz_make(tape_fuzz *f);
/* The dimensions of a tensor, and how many elements it has. */
int fuzz_shape(tape_fuzz *f, int64_t dims[3]);

/* ---- Actions ---- */

/* One call, chosen at random. */
void fuzz_act(tape_fuzz *f);
/* Calls that the host makes from a function of its own. */
void fuzz_act_within(tape_fuzz *f);
/* One instruction of the table, on variables. */
xcvm_var fuzz_instruction(tape_fuzz *f);
/* A float tensor that is computed of those. */
xcvm_var fuzz_expression(tape_fuzz *f, xcvm_tape *t, size_t count, const xcvm_var *xs);
/* Prints a failure if what is called is printed; returns the status. */
xcvm_status fuzz_note(const tape_fuzz *f, xcvm_status status, const xcvm_error *error);
bool fuzz_discard(void *user, const void *bytes, size_t count);
xcvm_status fuzz_static_function(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                 xcvm_var *out);
xcvm_var fuzz_update_hook(void *user, xcvm_tape *t, const xcvm_update *update);

/* A function fuzz_NAME for each public function of the tape, declared and listed by the headers. */
#define FUZZ_FUNCTION(name) void fuzz_##name(tape_fuzz *f);
#include "fuzz/tape_functions.h"
#undef FUZZ_FUNCTION

/* ---- Sequences ---- */

/* A sequence of calls; aborts where something is wrong that sanitizers do not find. */
void fuzz_sequence(fuzz_mode mode, uint64_t seed, const uint8_t *bytes, size_t count, bool trace);

#endif
