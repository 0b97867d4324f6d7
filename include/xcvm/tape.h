/*
 * The tape: networks that are defined by running them. A call computes at once and is recorded; the backward then goes
 * back over what was recorded, by the rules that the compiler differentiates models with. Part of the compiler's
 * library; the conventions of xcvm.h hold here too.
 *
 *     xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 2, (const int64_t[]){5, 5}, xs);
 *     xcvm_var y = xcvm_ReduceMean(t, xcvm_Mul(t, x, xcvm_Sigmoid(t, x)));
 *     if (xcvm_tape_backward(t, y, NULL, &error) == XCVM_OK)
 *         show(xcvm_var_grad(t, x));
 *
 * Calls. xcvm/tape_calls.h has a macro for each instruction of the table: the tape, then the operands in the order of
 * `xcvm ops`, then attributes by name, those that are left out at their defaults:
 * xcvm_Conv(t, x, w, b, .strides = XCVM_INTS(2, 2)). An operand that is left out is absent. A call gives its first
 * result; others are asked for by the address where they go: xcvm_TopK(t, x, k, .out = {&y, &indices}).
 * In C++ they are functions, which take attributes and results by a struct behind the tape:
 * xcvm_Conv(t, xcvm_Conv_attributes().strides(XCVM_INTS(2, 2)), x, w, b).
 *
 * In place. xcvm_Sub(t, w, step, .into = w) has its first result take the place of what w is, of the same type, and
 * gives w; no gradient may flow through that, so recording is off, or w is a constant. Variables with the same
 * elements, as results of Reshape and what was detached, see it. Where a recorded call needs what was overwritten for
 * its gradient, the backward fails, and names both calls. If the call fails, w may be written in part.
 *
 * Failures. The first one stays with the tape: calls after it do nothing and give variables that failed, so calls nest
 * like the expressions that they are. The next function that returns a status returns that failure, with the number of
 * the call in error.pc and the instruction in error.instruction, and the tape can be used again. A variable that failed
 * fails every call that it is given to. A function that fails leaves the tape as it was, also for want of memory. A
 * tape that builds is at its end when memory runs out: all its functions fail then, and it can be destroyed.
 *
 * Functions accept NULL for the tape, and fail. A function that needs elements fails on a tape that builds
 * (UNSUPPORTED), and one that goes back, forgets or overwrites calls fails while a backward goes on (INVALID_ARGUMENT).
 *
 * Variables are handles, 16 bytes, to be copied at will. What they name belongs to the tape: it lives until it is
 * released, the scope that it was made in ends, or the tape is reset; calls that were recorded keep elements that their
 * gradients need for as long as they are there. A handle whose variable is gone is known as stale, and fails.
 * Parameters and variables that were kept belong to no scope, and live until they are released, or the tape is
 * destroyed.
 *
 * Threads. A tape, and its variables, belong to one thread at a time; any number of tapes may be used at once. A
 * variable of another tape is refused.
 */
#ifndef XCVM_TAPE_H
#define XCVM_TAPE_H

#include "xcvm.h"

#ifdef __cplusplus
#include <initializer_list>
extern "C" {
#endif

typedef struct xcvm_tape xcvm_tape;

/* A value on a tape. All zero, XCVM_ABSENT, it stands for an operand that is absent. */
typedef struct xcvm_var {
    struct xcvm_variable *at;
    uint64_t serial;
} xcvm_var;
#ifdef __cplusplus
#define XCVM_ABSENT (xcvm_var())
#else
#define XCVM_ABSENT ((xcvm_var){0})
#endif

/* Lists, as calls take them; they and what they point to are read until the call returns. XCVM_VARS(a, b),
 * XCVM_INTS(1, 1), XCVM_FLOATS(0.5), XCVM_TEXTS("a"). */
typedef struct xcvm_var_list {
    const xcvm_var *at;
    size_t count;
} xcvm_var_list;
typedef struct xcvm_var_array { /* where the results of a list go */
    xcvm_var *at;
    size_t count;
} xcvm_var_array;
typedef struct xcvm_int_list {
    const int64_t *at;
    size_t count;
} xcvm_int_list;
typedef struct xcvm_float_list {
    const double *at;
    size_t count;
} xcvm_float_list;
typedef struct xcvm_text_list {
    const char *const *at;
    size_t count;
} xcvm_text_list;
#ifdef __cplusplus
extern "C++" {
/* The elements live until the end of the expression that the list is written in. */
template <typename List, typename Element> inline List xcvm_list_of(std::initializer_list<Element> elements)
{
    List list;
    list.at = elements.begin();
    list.count = elements.size();
    return list;
}
}
#define XCVM_LIST_(type, element, ...) (xcvm_list_of<type, element>({__VA_ARGS__}))
#define XCVM_VARS(...) XCVM_LIST_(xcvm_var_list, xcvm_var, __VA_ARGS__)
#define XCVM_INTS(...) XCVM_LIST_(xcvm_int_list, int64_t, __VA_ARGS__)
#define XCVM_FLOATS(...) XCVM_LIST_(xcvm_float_list, double, __VA_ARGS__)
#define XCVM_TEXTS(...) XCVM_LIST_(xcvm_text_list, const char *, __VA_ARGS__)
#else
#define XCVM_LIST_(type, element, ...)                                                                                 \
    ((type){(element[]){__VA_ARGS__}, sizeof((element[]){__VA_ARGS__}) / sizeof(element)})
#define XCVM_VARS(...) XCVM_LIST_(xcvm_var_list, const xcvm_var, __VA_ARGS__)
#define XCVM_INTS(...) XCVM_LIST_(xcvm_int_list, const int64_t, __VA_ARGS__)
#define XCVM_FLOATS(...) XCVM_LIST_(xcvm_float_list, const double, __VA_ARGS__)
#define XCVM_TEXTS(...) XCVM_LIST_(xcvm_text_list, const char *const, __VA_ARGS__)
#endif

/* ---- Tapes ---- */

/* What a call does. A tape that builds makes a graph in place of values: the way to a program without ONNX. Its
 * variables have types, whose dimensions may be open, and no elements. */
typedef enum xcvm_tape_mode {
    XCVM_TAPE_EAGER,    /* computes at once */
    XCVM_TAPE_BUILDING, /* becomes a part of the program that xcvm_tape_compile makes */
    XCVM_TAPE_LAZY      /* has its type at once, and computes when a value is asked for (xcvm_tape_forward) */
} xcvm_tape_mode;

/* Which calls of a lazy tape run together, as one call on all of their operands: calls of one instruction, with equal
 * attributes, operands of equal types, and the same parameters. Values are those of the calls one by one, and so are
 * gradients, but for the order in which sums are taken. Results that were made together share memory: it is free when
 * the last of them is gone, and a call in place on one counts as one on all; results of Reshape, made together, may
 * have elements of their own, which a call in place on its operand does not change. */
typedef enum xcvm_batching {
    XCVM_BATCHING_NONE,
    XCVM_BATCHING_AGENDA, /* of the calls that can run, those that are alike and the least deep on average come next */
    XCVM_BATCHING_DEPTH,  /* calls that are alike and as deep as each other */
    XCVM_BATCHING_TIMED   /* both, once each, then what was faster */
} xcvm_batching;

typedef struct xcvm_tape_options {
    size_t size;
    const xcvm_allocator *allocator;             /* NULL: malloc's */
    int threads;                                 /* including the caller's; 0: what affinity and cgroup quota allow */
    size_t memory_limit;                         /* bytes of elements that the tape may hold at once; 0: no limit */
    uint64_t seed;                               /* for random instructions that have no seed of their own */
    bool (*print)(void *user, const char *text); /* receives what Print prints; NULL: discarded */
    void *user;
    const xcvm_host_function *functions; /* lent for the tape's life; for HostCall */
    size_t function_count;
    xcvm_tape_mode mode;
    bool check_nan;         /* a call that makes NaN of operands without any fails */
    xcvm_batching batching; /* of a lazy tape */
} xcvm_tape_options;

XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_create(const xcvm_tape_options *options, xcvm_tape **tape,
                                                    xcvm_error *error);
XCVM_API void xcvm_tape_destroy(xcvm_tape *tape);
/* The failure that stays with the tape, if there is one, which the tape is rid of then. */
XCVM_API xcvm_status xcvm_tape_status(xcvm_tape *tape, xcvm_error *error);
/* Ends what was recorded: all calls are forgotten, and all variables but those that were kept and parameters, of which
 * those that calls had made are constants from here on. A failure that nobody was told of stays. On a lazy tape what
 * was kept is evaluated: it goes if it cannot be computed; if memory runs out, nothing is forgotten, and the tape
 * fails. */
XCVM_API void xcvm_tape_reset(xcvm_tape *tape);

typedef struct xcvm_tape_stats {
    size_t size;        /* of this struct, set by the caller */
    uint64_t calls;     /* made so far, recorded or not */
    size_t recorded;    /* that are recorded now */
    size_t variables;   /* that live now */
    size_t live_bytes;  /* of elements */
    size_t peak_bytes;  /* the most that this has been */
    size_t total_bytes; /* taken from the allocator, for elements and all else */
} xcvm_tape_stats;
XCVM_API void xcvm_tape_get_stats(const xcvm_tape *tape, xcvm_tape_stats *stats);

/* What memory is held for, in bytes. Elements that several variables share count once: as a parameter's, else as a
 * gradient's. A reset gives back all but parameters, what was kept, and their gradients. */
typedef struct xcvm_tape_memory {
    size_t size;       /* of this struct, set by the caller */
    size_t values;     /* elements of variables that are none of what follows */
    size_t gradients;  /* elements that backwards have added up */
    size_t parameters; /* elements of what no call made and that requires a gradient */
    size_t scratch;    /* of kernels, between calls, and of weights that are packed for them */
    size_t records;    /* calls, variables, and all else that is no elements */
} xcvm_tape_memory;
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_get_memory(xcvm_tape *tape, xcvm_tape_memory *memory, xcvm_error *error);

/* Whether calls are recorded, which they are at first; returns what it was before. What is computed meanwhile is
 * constant to the gradient. */
XCVM_API bool xcvm_tape_set_recording(xcvm_tape *tape, bool recording);

/* What a tape that executes does, before and after each call: for profiles, and to follow it. */
typedef struct xcvm_call_event {
    const char *name;  /* of the instruction, or of the host's operation */
    uint64_t number;   /* of the call */
    bool backward;     /* a backward makes it */
    bool done;         /* after the call, if it has succeeded */
    uint64_t ns;       /* that it took, when it is done */
    size_t live_bytes; /* of elements, now */
} xcvm_call_event;
/* NULL: nobody is told. The observer must not call the tape. */
XCVM_API void xcvm_tape_set_observer(xcvm_tape *tape, void (*observer)(void *user, const xcvm_call_event *event),
                                     void *user);
/* The calls that are recorded, and the variables between them, as a graph for Graphviz (DOT): calls are boxes, those
 * that a backward made dashed, parameters filled. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_draw(xcvm_tape *tape, xcvm_sink sink, void *user, xcvm_error *error);

/* What goes at the latest revert that has not been: calls that are made from here on, and the variables that are, but
 * for parameters and those that are kept, of which those that calls had made are constants then. Checkpoints nest; a
 * reset forgets them. Elements that were overwritten meanwhile, and gradients that were added up, stay as they are. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_checkpoint(xcvm_tape *tape, xcvm_error *error);
/* Back to the latest checkpoint, which is gone then. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_revert(xcvm_tape *tape, xcvm_error *error);

/* ---- Lazy tapes ---- */

/* On a lazy tape a call checks its operands and knows the type of its result; it runs when an element is asked for (by
 * xcvm_var_value, a backward, a call in place, what needs elements to know a shape), and then whatever that needs, and
 * no more. What cannot wait runs at once: calls whose results have shapes that depend on elements, or are no tensors,
 * calls of the host, conditions of branches and loops. What was set (xcvm_var_set) before a call runs is what it reads.
 * A failure names the call that was made, not what asked for it; its results can be asked for again. All calls stay on
 * the tape until it is reset or reverted, or nothing needs them. */

/* Evaluates v, or, if it is absent, all calls that wait. An eager tape has done so already. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_forward(xcvm_tape *tape, xcvm_var v, xcvm_error *error);
/* Calls that waited once wait again, to be evaluated by what their operands are then; those that have decided a shape
 * keep their results, and so do those that ran at once, with the calls that made what their gradients need. What
 * backwards have recorded (create_graph) is forgotten: another through it is refused. */
XCVM_API void xcvm_tape_invalidate(xcvm_tape *tape);

/* Variables that are made from here to the end of the scope go with it, but for those that are kept. Scopes nest. */
typedef struct xcvm_scope {
    uint64_t serial;
} xcvm_scope;
XCVM_API xcvm_scope xcvm_tape_scope_begin(xcvm_tape *tape);
/* `results` go on in the scope around it. */
XCVM_API void xcvm_tape_scope_end(xcvm_tape *tape, xcvm_scope scope, size_t count, const xcvm_var *results);

/* ---- Variables ---- */

/* Tensors of their own; `data` is copied, NULL is zeros. Constants have no gradient, parameters have. */
XCVM_API xcvm_var xcvm_tape_constant(xcvm_tape *tape, xcvm_dtype dtype, int rank, const int64_t *dims,
                                     const void *data);
XCVM_API xcvm_var xcvm_tape_parameter(xcvm_tape *tape, xcvm_dtype dtype, int rank, const int64_t *dims,
                                      const void *data);
/* A number of any real type or bool, of rank 0. */
XCVM_API xcvm_var xcvm_tape_scalar(xcvm_tape *tape, xcvm_dtype dtype, double number);
/* A constant of any kind, a list or strings, that is what `value` is; elements whose storage is counted are shared,
 * others copied. */
XCVM_API xcvm_var xcvm_tape_value(xcvm_tape *tape, const xcvm_value *value);

/* The tensor or list that a variable names, lent until the variable goes. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_var_value(xcvm_tape *tape, xcvm_var v, const xcvm_value **value,
                                                  xcvm_error *error);
/* The one element of a tensor, as a double; NaN, and a failure that stays with the tape, where it has not one. */
XCVM_API double xcvm_var_number(xcvm_tape *tape, xcvm_var v);
/* Other elements for a tensor, in place: as many bytes as it has. Views see them, too. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_var_set(xcvm_tape *tape, xcvm_var v, const void *data, size_t bytes,
                                                xcvm_error *error);

/* Takes a variable out of its scope: it lives until it is released, and a backward leaves its elements alone. Returns
 * it. */
XCVM_API xcvm_var xcvm_var_keep(xcvm_tape *tape, xcvm_var v);
/* The caller names it no more. What no recorded call needs either is free at once, with the calls that made it. Stale
 * and absent variables are accepted. */
XCVM_API void xcvm_var_release(xcvm_tape *tape, xcvm_var v);
/* A constant that shares the elements. */
XCVM_API xcvm_var xcvm_var_detach(xcvm_tape *tape, xcvm_var v);
/* Forgets the call that made a variable, and what that alone needed: it is constant from here on. */
XCVM_API void xcvm_var_unchain(xcvm_tape *tape, xcvm_var v);
/* Whether a gradient is wanted, of a float tensor that no call made; whether one can flow to a variable. */
XCVM_API xcvm_status xcvm_var_require_grad(xcvm_tape *tape, xcvm_var v, bool wanted, xcvm_error *error);
XCVM_API bool xcvm_var_requires_grad(xcvm_tape *tape, xcvm_var v);

/* The recorded call that made a variable. */
typedef struct xcvm_creator {
    size_t size;      /* of this struct, set by the caller */
    const char *name; /* of the instruction, or of the host's operation; lent while the call is recorded */
    uint64_t number;  /* of the call: operands were made by calls of lower numbers */
    size_t operand_count, result_count;
    size_t result; /* which of them the variable is */
    bool backward; /* a backward made it */
} xcvm_creator;
/* False if there is none: of parameters and constants, and where the call was not recorded or is forgotten. */
XCVM_API bool xcvm_var_creator(xcvm_tape *tape, xcvm_var v, xcvm_creator *creator);

/* ---- Gradients ---- */

/* What backwards have added up for a variable, as a variable of the tape; XCVM_ABSENT if there is none, which is zero.
 * It goes with `v`, or when it is cleared. The gradient of a weight that was kept as the factors of a product is made,
 * and takes memory, when it is first asked for; if there is none, XCVM_ABSENT, and the tape has failed. */
XCVM_API xcvm_var xcvm_var_grad(xcvm_tape *tape, xcvm_var v);
XCVM_API void xcvm_var_clear_grad(xcvm_tape *tape, xcvm_var v);
/* A backward keeps the gradient of a variable that a call made, too. */
XCVM_API void xcvm_var_retain_grad(xcvm_tape *tape, xcvm_var v);
/* Called with the gradient of v, when all of it is known; what it returns takes its place (XCVM_ABSENT: it stays). It
 * may return any variable, v itself too: the gradient then has its elements.
 * Calls on the tape are allowed in it, backwards are not. Several are called in the order in which they were added. */
typedef xcvm_var (*xcvm_grad_hook)(void *user, xcvm_tape *tape, xcvm_var gradient);
XCVM_API XCVM_MUST_USE xcvm_status xcvm_var_add_hook(xcvm_tape *tape, xcvm_var v, xcvm_grad_hook hook, void *user,
                                                     xcvm_error *error);

typedef struct xcvm_backward_options {
    size_t size;
    xcvm_var seed;     /* gradient of the root, of its type; absent: 1, if the root is one number */
    bool retain_graph; /* what was recorded stays, to go back over it again */
    bool create_graph; /* the backward's own calls are recorded, so that gradients can be differentiated; the graph is
                          retained */
} xcvm_backward_options;
/* Goes back from `root` over the calls that it depends on, latest first, and adds the gradients of parameters, and of
 * what else requires or retains one, to those that they have (xcvm_var_grad). Each call that is passed is forgotten,
 * unless the graph is retained, and the results that nobody keeps go with it, but for the root: memory is free again as
 * the backward proceeds, and a second backward over the same calls is refused. In failure no gradient has changed;
 * calls that were passed are gone. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_backward(xcvm_tape *tape, xcvm_var root,
                                                      const xcvm_backward_options *options, xcvm_error *error);
/* The gradients of several roots by `wrt`, given back in place of being added up: by any variables, over the calls
 * alone by which the roots depend on them. `seeds` may be NULL, or have absent ones. A gradient that is zero by
 * structure is absent. Hooks are not called. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_gradients(xcvm_tape *tape, size_t root_count, const xcvm_var *roots,
                                                       const xcvm_var *seeds, size_t wrt_count, const xcvm_var *wrt,
                                                       const xcvm_backward_options *options, xcvm_var *gradients,
                                                       xcvm_error *error);

/* ---- Functions ---- */

/* A function of variables, for those below: gives a value; what fails in it is their failure. It may call them itself,
 * for gradients of gradients (what fails there stays with the tape until the outermost has told), and is called once,
 * or for a check as often as said there. What it is given are variables of its own, which stand for those of the
 * caller. */
typedef xcvm_var (*xcvm_tape_function)(void *user, xcvm_tape *tape, size_t count, const xcvm_var *xs);

/* The value of f at xs, tensors of float types, and the gradients of it by each, weighted by `seed` (absent: 1, if the
 * value is one number): a vector-Jacobian product. Gradients that are zero by structure are absent. Results can be
 * differentiated by what xs depend on. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_value_and_gradients(xcvm_tape *tape, xcvm_tape_function f, void *user,
                                                                 size_t count, const xcvm_var *xs, xcvm_var seed,
                                                                 xcvm_var *value, xcvm_var *gradients,
                                                                 xcvm_error *error);
/* The value and its change along `directions`, of the types of xs (absent: 0): a Jacobian-vector product, made of two
 * vector-Jacobian ones (Townsend, 2017). An absent change is zero. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_value_and_change(xcvm_tape *tape, xcvm_tape_function f, void *user,
                                                              size_t count, const xcvm_var *xs,
                                                              const xcvm_var *directions, xcvm_var *value,
                                                              xcvm_var *change, xcvm_error *error);
/* The derivatives of each element of the value by each of x, a tensor of the dimensions of the value, then of x: a
 * backward for each element of the value. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_jacobian(xcvm_tape *tape, xcvm_tape_function f, void *user, xcvm_var x,
                                                      xcvm_var *jacobian, xcvm_error *error);
/* The Hessian of f, which gives one number, at x, times a vector of the type of x. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_hessian_vector_product(xcvm_tape *tape, xcvm_tape_function f, void *user,
                                                                    xcvm_var x, xcvm_var vector, xcvm_var *product,
                                                                    xcvm_error *error);

typedef struct xcvm_gradient_check {
    size_t size;
    int order;         /* derivatives up to this one; 0: 1 */
    double step;       /* of the differences; 0: 1e-5 for f64, 1e-2 for others */
    double rtol, atol; /* both 0: 1e-6 for f64, 2e-2 for others */
    uint64_t seed;     /* of the directions */
} xcvm_gradient_check;
/* Compares the derivatives of f, summed over its value's elements with random weights, with central differences along
 * random directions, both as changes (forward) and as gradients (reverse). Fails with OUT_OF_RANGE, and both numbers in
 * the message, where they do not agree. Calls f several times; it must give the same for the same. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_check_gradients(xcvm_tape *tape, xcvm_tape_function f, void *user,
                                                             size_t count, const xcvm_var *xs,
                                                             const xcvm_gradient_check *check, xcvm_error *error);

/* An operation of the host's, with a gradient of its own. */
typedef struct xcvm_operation {
    size_t size;
    const char *name; /* for messages */
    /* Makes the results, by calls that are not recorded or by constants. What fails makes a call fail, or returns a
     * status. */
    xcvm_status (*forward)(void *user, xcvm_tape *tape, size_t in_count, const xcvm_var *in, size_t out_count,
                           xcvm_var *out);
    /* From the gradients of the results (absent: zero) those of the operands, of their types, or absent for zero. The
     * calls are recorded if the gradient is to be differentiated; functions may be differentiated here, so that what
     * the operation has computed can be computed again instead of being kept. NULL: there is none, which is an error
     * where one is needed. */
    xcvm_status (*backward)(void *user, xcvm_tape *tape, size_t in_count, const xcvm_var *in, size_t out_count,
                            const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients);
    void *user;
} xcvm_operation;
/* Calls an operation, lent for as long as the call is recorded. Gives the first result (absent if there is none), and
 * all in `out`. */
XCVM_API xcvm_var xcvm_tape_operate(xcvm_tape *tape, const xcvm_operation *operation, size_t in_count,
                                    const xcvm_var *in, size_t out_count, xcvm_var *out);

/* ---- Programs ---- */

/* An input of the program that a tape builds. Dimensions below 0 are open: those of one name are equal; `dim_names`, or
 * a name in it, may be NULL, and is copied. */
XCVM_API xcvm_var xcvm_tape_input(xcvm_tape *tape, const char *name, xcvm_dtype dtype, int rank, const int64_t *dims,
                                  const char *const *dim_names);
typedef struct xcvm_tape_output {
    const char *name;
    xcvm_var v;
} xcvm_tape_output;
struct xcc_options; /* compiler.h */
struct xcc_report;
/* Compiles what was built to a program that gives the outputs; `sink` receives its bytes, as from xcc_compile.
 * Parameters become constants of the program; gradients by them are outputs like others (xcvm_tape_gradients).
 * With xcc_options.onnx they are those of an ONNX model. `options` and `report` may be NULL. The tape is at its end
 * then, whether this succeeds or not: it can be destroyed.
 */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_compile(xcvm_tape *tape, size_t count, const xcvm_tape_output *outputs,
                                                     const struct xcc_options *options, xcvm_sink sink, void *user,
                                                     struct xcc_report *report, xcvm_error *error);

/* ---- Control flow ---- */

/* A branch puts its results into `results`. An eager tape calls the one that cond, a bool of one element, says; a tape
 * that builds calls both, each in a graph of its own, whose variables are none outside. */
typedef void (*xcvm_tape_branch)(void *user, xcvm_tape *tape, size_t count, xcvm_var *results);
XCVM_API void xcvm_tape_if(xcvm_tape *tape, xcvm_var cond, xcvm_tape_branch then_branch, xcvm_tape_branch else_branch,
                           void *user, size_t count, xcvm_var *results);
/* A round of a loop: `states` are those of the round before, and become those of the next; `scans` are what the round
 * adds to each result that is stacked along a new first axis; `*go_on`, a bool of one element, ends the loop if it is
 * made false. An eager tape calls it for each round; one that builds calls it once. */
typedef void (*xcvm_tape_round)(void *user, xcvm_tape *tape, xcvm_var iteration, size_t state_count, xcvm_var *states,
                                size_t scan_count, xcvm_var *scans, xcvm_var *go_on);
/* As ONNX's Loop: at most `trips` rounds (i64, one element; absent: no limit) while `cond` (absent: true). `states` are
 * the first ones, and become the last; `scans` become what was stacked, which needs a round at least if the tape is
 * eager. */
XCVM_API void xcvm_tape_loop(xcvm_tape *tape, xcvm_var trips, xcvm_var cond, xcvm_tape_round body, void *user,
                             size_t state_count, xcvm_var *states, size_t scan_count, xcvm_var *scans);

/* ---- Calls ---- */

/* What the macros of tape_calls.h are made of: `call` is the struct of that instruction. */
XCVM_API xcvm_var xcvm_call(int32_t instruction, const void *call);

#include "xcvm/tape_calls.h"

#ifdef __cplusplus
}
#endif

#endif
