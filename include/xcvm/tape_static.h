/*
 * Static schedules: functions of variables that make the same calls each time. Part of tape.h.
 *
 *     xcvm_static *step;
 *     xcvm_static_create(t, forward, &model, NULL, &step, &error);
 *     for (...) {
 *         xcvm_var loss;
 *         xcvm_static_call(step, 2, (xcvm_var[]){x, labels}, 1, &loss);
 *         xcvm_tape_backward(t, loss, NULL, &error);
 *
 * The first call with operands of some types runs the function, define-by-run, and records the calls that it makes.
 * The next one compiles them, as xcvm_tape_compile would, to a program for the forward and one for the backward, which
 * run in place of the function from then on: a schedule. On the tape such a call is one call. Schedules are kept by the
 * types of operands, whether gradients can flow to them, whether calls are recorded, and the training mode.
 *
 * What the function reads besides its operands, parameters above all, is captured: it is an operand of the schedule, as
 * it is at each call, changed in place or not. If it goes, or becomes of another type, the function is recorded anew. A
 * handle that the function finds in another place each time must be a held one (xcvm_static_options.held). Elements
 * that decide shapes (of the shape of Reshape, the axes of a sum) belong to what a schedule is kept by. Numbers that
 * the host brings, as by xcvm_tape_scalar, are what they were when the function was recorded.
 *
 * The function may write into what it captures (.into = w), and may take gradients itself (xcvm_tape_gradients, or
 * xcvm_tape_backward, whose gradients by parameters are left behind or cleared as the function does it): so a whole
 * step, optimizer included, can be a schedule. A function that adds to gradients which are there already runs itself;
 * one that clears them first does not.
 *
 * Layers (layers.h) that keep h and c, or move running statistics, do so in a schedule, too: states are read before the
 * call, and states and statistics replaced when it has succeeded. So is a step of an xcvm_optimizer taken, as it would
 * be by the function, with its hooks and at the rate of that call, when the program has ended well; of tables whose
 * gradients are kept by rows (xcvm_var_set_sparse), by rows. Hooks find what the function writes, or puts in a place,
 * before the step, and may write into it; if one fails, it is as it was before the call. Schedules refer to what they
 * need of layers and optimizers; when one of these is destroyed, the function is recorded anew.
 *
 * xcvm_tape_operate in the function is called each time, in the order of execution, for all that has effects on the
 * host; the operation is lent for as long as the function is static, and finds captured variables, and operands of the
 * function, as the calls before it have left them. Other effects of the function happen when it runs: in calls that
 * record or check.
 *
 * What cannot be a schedule (lists or strings as operands, a view that is overwritten, an instruction without a
 * gradient, hooks of gradients and gradients that are retained, of operands of the call or of what calls before it
 * have made, or left behind by a function from whose results a gradient can flow; branches and loops that results
 * decide; calls behind a step that read or write what it, or a hook of it, has changed, write what was written before
 * it, draw random numbers or are operations of the host's; a place that is given one variable before a step and
 * another behind it; rows of a table whose gradient is kept by rows at indices that the function computes, unless
 * their gradient is taken in the function) runs define-by-run each time, and the log says why. So does everything on
 * tapes that build or are lazy.
 *
 * Threads: those of the tape. A static function is destroyed before its tape.
 */
#ifndef XCVM_TAPE_STATIC_H
#define XCVM_TAPE_STATIC_H

#include "tape.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct xcvm_static xcvm_static;

/* Puts its results into `out`. A status other than OK, or a call that fails, fails the call. */
typedef xcvm_status (*xcvm_static_function)(void *user, xcvm_tape *tape, size_t in_count, const xcvm_var *in,
                                            size_t out_count, xcvm_var *out);

typedef struct xcvm_static_options {
    size_t size;
    const char *name; /* of the call, for messages; copied; NULL: "static" */
    /* Places, lent for the function's life, where it keeps handles, which may be absent: they are read at each call, so
     * that parameters can be replaced, and what the function puts there, as the state of a recurrent network, is put
     * there by the schedule, too, connected and kept as it was. */
    xcvm_var *const *held;
    size_t held_count;
    size_t cache_limit;            /* schedules that are kept at most, but for those that a backward needs; 0: 16 */
    bool minimize_cache_size;      /* one is kept */
    bool force_test_define_by_run; /* schedules in training alone */
    bool double_backprop;          /* gradients of calls can be differentiated: these run call by call */
    int optimization;              /* as in xcc_options */
    /* What the log receives: 0: warnings; 1: what is recorded, compiled and evicted; 2: every call. */
    int verbosity;
    void (*log)(void *user, int level, const char *text);
    void *log_user;
} xcvm_static_options;

XCVM_API XCVM_MUST_USE xcvm_status xcvm_static_create(xcvm_tape *tape, xcvm_static_function function, void *user,
                                                      const xcvm_static_options *options, xcvm_static **static_function,
                                                      xcvm_error *error);
/* Results of calls stay, but no backward goes through them any more. NULL is accepted. While a static function runs, or
 * a backward, the tape fails and nothing is destroyed: a function, an operation of the host's or a log that wants its
 * own static function gone has to leave that to a later time. */
XCVM_API void xcvm_static_destroy(xcvm_static *static_function);

/* Calls the function, or what stands for it; gives the first result, and all in `out`. Within another static function
 * it fails. */
XCVM_API xcvm_var xcvm_static_call(xcvm_static *static_function, size_t in_count, const xcvm_var *in, size_t out_count,
                                   xcvm_var *out);

/* What follows returns what it was before. Enabled, which it is at first: else each call is that of the function, with
 * the caller's own variables, and nothing is recorded. Training, true at first: tells schedules apart. Checking: each
 * call runs the function, and compares what it does with what was recorded; where it differs, the log tells the
 * first difference, as a warning, and the function is recorded anew. */
XCVM_API bool xcvm_static_set_enabled(xcvm_static *static_function, bool enabled);
XCVM_API bool xcvm_static_set_training(xcvm_static *static_function, bool training);
XCVM_API bool xcvm_static_set_checking(xcvm_static *static_function, bool checking);

/* Each call has activations of its own, which a backward frees as it passes the call. This frees those of the calls so
 * far that no backward will come for: their results become constants. */
XCVM_API void xcvm_static_end_forward(xcvm_static *static_function);
/* Forgets all schedules; not while one runs, or a backward. */
XCVM_API void xcvm_static_clear(xcvm_static *static_function);

typedef struct xcvm_static_stats {
    size_t size;         /* of this struct, set by the caller */
    size_t schedules;    /* that are kept */
    size_t in_use;       /* calls that a backward may still pass */
    uint64_t runs;       /* of the function */
    uint64_t recorded;   /* of these, that became a schedule, for the first time or anew */
    uint64_t replayed;   /* calls that a schedule ran */
    uint64_t evicted;    /* schedules that went for others */
    uint64_t different;  /* times that checking found the function to do something else */
    size_t memory_bytes; /* of the schedules' sessions */
} xcvm_static_stats;
XCVM_API void xcvm_static_get_stats(const xcvm_static *static_function, xcvm_static_stats *stats);

/* All schedules as text: what each is for, and its graph as recorded. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_static_describe(xcvm_static *static_function, xcvm_sink sink, void *user,
                                                        xcvm_error *error);
/* A state of the saved program, by the variable that it stands for: a capture, or what a place holds now. */
typedef struct xcvm_static_state {
    xcvm_var variable;
    const char *name;          /* NULL: held0, capture0 ... */
    const xcvm_value *initial; /* elements that the state begins with, of the variable's type; NULL: as without */
} xcvm_static_state;

typedef struct xcvm_static_save_options {
    size_t size;
    bool states; /* captures, and what is held, are states of the program; else constants, but for what is written */
    /* Names of all inputs, of all outputs, and of the states of xcvm_static_options.held; NULL, and NULL among them:
     * in0, in1 ..., out0, out1 ..., held0, held1 ... All names of a program differ. */
    const char *const *in_names, *const *out_names, *const *held_names;
    size_t in_count, out_count, held_count;
    const xcvm_static_state *named; /* further names of states, and initial values */
    size_t named_count;
    /* States that each call replaces, as h and c of a recurrent layer, begin with what the last call left. Else they
     * begin as zeros. Captures that are written into begin as they are now in both cases. */
    bool continue_states;
} xcvm_static_save_options;
/* The schedule that was used last as a program: what the function writes into, or leaves in a place, is a state.
 * `options` may be NULL. A step of an xcvm_optimizer is the end of the program,
 * which goes on from where that is: what the optimizer keeps are states, the rate is the input learning_rate. A call of
 * the host's has what calls before it have written into captures behind its operands.
 * INVALID_ARGUMENT if there is no schedule, if names do not fit it, or if a captured variable is gone; UNSUPPORTED if
 * it cannot be one, leaves gradients behind, or takes a step that no program can: of an optimizer with update hooks, by
 * a gradient by rows, of several optimizers or several times, or of parameters that have had different numbers of
 * steps. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_static_save(xcvm_static *static_function,
                                                    const xcvm_static_save_options *options, xcvm_sink sink, void *user,
                                                    xcvm_error *error);

#ifdef __cplusplus
}
#endif

#endif
