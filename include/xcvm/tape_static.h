/*
 * Static schedules: functions that make the same calls each time run as compiled programs. Part of tape.h;
 * docs/tape-static.md states all rules.
 *
 *     xcvm_static *step;
 *     xcvm_static_create(t, (xcvm_static_function){forward, &model}, NULL, &step, &error);
 *     for (...) {
 *         xcvm_var loss;
 *         xcvm_static_call(step, 2, (xcvm_var[]){x, labels}, 1, &loss);
 *         xcvm_tape_backward(t, loss, NULL, &error);
 *
 * The first call with operands of some types runs and records the function. The second compiles a schedule, a forward
 * and a backward program, which later calls run. On the tape such a call is one call. Parameters and other variables
 * that the function reads are captured with their current values. Host numbers and host decisions keep their recorded
 * values.
 *
 * A function that cannot be a schedule runs call by call, and the log gives the reason. So do functions on building and
 * lazy tapes.
 *
 * Threads: those of the tape. A static function must be destroyed before its tape.
 */
#ifndef XCVM_TAPE_STATIC_H
#define XCVM_TAPE_STATIC_H

#include "tape.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct xcvm_static xcvm_static;

/* Stores its results in `out`. A failed call in it, or a status other than OK, fails the call. */
typedef struct xcvm_static_function {
    xcvm_status (*call)(void *user, xcvm_tape *tape, size_t in_count, const xcvm_var *in, size_t out_count,
                        xcvm_var *out);
    void *user;
} xcvm_static_function;

/* Receives a line of text. */
typedef struct xcvm_static_log {
    void (*call)(void *user, int level, const char *text);
    void *user;
} xcvm_static_log;

typedef struct xcvm_static_options {
    size_t size;
    const char *name; /* for messages; copied; NULL: "static" */
    /* Addresses of handles that the host may replace, such as recurrent states; borrowed. Each call reads them before
     * and writes them after the program. */
    xcvm_var *const *held;
    size_t held_count;
    size_t cache_limit;            /* most schedules to keep; 0: 16 */
    bool minimize_cache_size;      /* keep one schedule */
    bool force_test_define_by_run; /* use schedules in training mode only */
    bool double_backprop;          /* allow gradients of gradients; such calls run singly */
    int optimization;              /* as in xcc_options */
    /* Log level: 0: warnings; 1: recording, compilation and eviction; 2: every call. */
    int verbosity;
    xcvm_static_log log;
} xcvm_static_options;

XCVM_API XCVM_MUST_USE xcvm_status xcvm_static_create(xcvm_tape *tape, xcvm_static_function function,
                                                      const xcvm_static_options *options, xcvm_static **static_function,
                                                      xcvm_error *error);
/* Accepts NULL. Results of calls stay but can no longer be differentiated. Fails the tape, without effect, while a
 * static function or a backward pass runs. */
XCVM_API void xcvm_static_destroy(xcvm_static *static_function);

/* Calls the function or its schedule. Returns the first result and stores all in `out`. Fails within another static
 * function. */
XCVM_API xcvm_var xcvm_static_call(xcvm_static *static_function, size_t in_count, const xcvm_var *in, size_t out_count,
                                   xcvm_var *out);

/* These return the previous setting. Enabled (default true): otherwise each call runs the function. Training (default
 * true): selects between schedules. Checking: each call runs the function and compares it with the recording; the log
 * names the first difference, and the function is recorded again. */
XCVM_API bool xcvm_static_set_enabled(xcvm_static *static_function, bool enabled);
XCVM_API bool xcvm_static_set_training(xcvm_static *static_function, bool training);
XCVM_API bool xcvm_static_set_checking(xcvm_static *static_function, bool checking);

/* Frees the activations of calls that no backward pass will visit. Their results become constants. */
XCVM_API void xcvm_static_end_forward(xcvm_static *static_function);
/* Removes all schedules. Not allowed while one or a backward pass runs. */
XCVM_API void xcvm_static_reset(xcvm_static *static_function);

typedef struct xcvm_static_info {
    size_t size;
    size_t schedules;    /* kept now */
    size_t in_use;       /* calls that a backward pass may still visit */
    uint64_t runs;       /* of the function */
    uint64_t recorded;   /* runs that were recorded */
    uint64_t replayed;   /* calls executed by a schedule */
    uint64_t evicted;    /* schedules evicted from the cache */
    uint64_t different;  /* differences found by checking */
    size_t memory_bytes; /* of the schedules' sessions */
} xcvm_static_info;
XCVM_API void xcvm_static_get_info(const xcvm_static *static_function, xcvm_static_info *stats);

/* Writes all schedules as text: key and recorded graph. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_static_dump(xcvm_static *static_function, xcvm_sink sink, xcvm_error *error);
/* A state of the saved program, by its variable: a capture, or the current value of a held handle. */
typedef struct xcvm_static_state {
    xcvm_var variable;
    const char *name;          /* NULL: held0, capture0 ... */
    const xcvm_value *initial; /* elements that the state begins with, of the variable's type; NULL: as without */
} xcvm_static_state;

typedef struct xcvm_static_save_options {
    size_t size;
    bool states; /* captured and held variables are states, not constants */
    /* Names of all inputs, all outputs, and the states of xcvm_static_options.held. NULL, and NULL among them: in0, in1
     * ..., out0, out1 ..., held0, held1 ... All names of a program must differ. */
    const char *const *in_names, *const *out_names, *const *held_names;
    size_t in_count, out_count, held_count;
    const xcvm_static_state *named; /* further names of states, and initial values */
    size_t named_count;
    /* States that each call replaces, such as h and c, start with the values after the last call; otherwise with zeros.
     * Captures that are written in place start with their current values in both cases. */
    bool continue_states;
} xcvm_static_save_options;
/* Saves the most recently used schedule as a program. Written captures and held handles are states. An optimizer step
 * makes it a training program with the input learning_rate. `options` may be NULL. INVALID_ARGUMENT if there is no
 * schedule, if names do not fit, or if a captured variable is released; UNSUPPORTED for the cases listed in
 * docs/tape-static.md. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_static_save(xcvm_static *static_function,
                                                    const xcvm_static_save_options *options, xcvm_sink sink,
                                                    xcvm_error *error);

#ifdef __cplusplus
}
#endif

#endif
