/*
 * The tape: define-by-run networks. A call computes at once and is recorded; the backward pass then differentiates what
 * was recorded, with the compiler's gradient rules. Part of libxcvm-compiler. docs/tape.md is the guide; the
 * conventions of xcvm.h apply.
 *
 *     xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 2, (const int64_t[]){5, 5}, xs);
 *     xcvm_var y = xcvm_ReduceMean(t, xcvm_Mul(t, x, xcvm_Sigmoid(t, x)));
 *     if (xcvm_tape_backward(t, y, NULL, &error) == XCVM_OK)
 *         show(xcvm_var_get_gradient(t, x));
 *
 * Calls: xcvm/tape_calls.h has a call per instruction, with operands in the order of `xcvm ops` and attributes by name,
 * as in xcvm_Conv(t, x, w, b, .strides = XCVM_INTS(2, 2)). `.out = {&y, &indices}` requests all results. `.into = w`
 * writes the first result into w; no gradient may flow through it.
 *
 * Failures: the first failure stays with the tape. Later calls do nothing and return failed variables. The next
 * function that returns a status reports the failure with the call's number in error.pc; then the tape can be used
 * again.
 *
 * Variables are 16-byte handles that may be copied freely. The tape owns the value. It lives until it is released, its
 * scope ends, or the tape is reset. Parameters and kept variables have no scope. Using a stale handle fails.
 *
 * Threads: a tape and its variables belong to one thread at a time. A variable of another tape is refused.
 */
#ifndef XCVM_TAPE_H
#define XCVM_TAPE_H

#include "xcvm.h"

#ifdef __cplusplus
#include <initializer_list>
extern "C" {
#endif

typedef struct xcvm_tape xcvm_tape;

/* A value on a tape. XCVM_ABSENT, all zero, is an absent operand. */
typedef struct xcvm_var {
    struct xcvm_variable *at;
    uint64_t serial;
} xcvm_var;
#ifdef __cplusplus
#define XCVM_ABSENT (xcvm_var())
#else
#define XCVM_ABSENT ((xcvm_var){0})
#endif

/* Lists for calls, read only until the call returns: XCVM_VARS(a, b), XCVM_INTS(1, 1), XCVM_FLOATS(0.5),
 * XCVM_TEXTS("a"). */
typedef struct xcvm_var_list {
    const xcvm_var *at;
    size_t count;
} xcvm_var_list;
typedef struct xcvm_var_array { /* receives a list of results */
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

/* Determines what a call does. A building tape creates a graph, the way to a program without ONNX. Its variables have
 * types, possibly with dynamic dimensions, but no elements. */
typedef enum xcvm_tape_mode {
    XCVM_TAPE_EAGER,    /* computes at once */
    XCVM_TAPE_BUILDING, /* adds a node to the program of xcvm_tape_compile */
    XCVM_TAPE_LAZY      /* determines the type; computes when a value is needed */
} xcvm_tape_mode;

/* Automatic batching on a lazy tape: calls of the same instruction, attributes, operand types and parameters run as one
 * call. Results equal those of single calls except for the order of sums. Batched results share memory, which is free
 * when the last of them is released; an in-place call on one counts as one on all. */
typedef enum xcvm_batching {
    XCVM_BATCHING_NONE,
    XCVM_BATCHING_AGENDA, /* run the ready signature of least average depth first */
    XCVM_BATCHING_DEPTH,  /* batch calls of equal depth */
    XCVM_BATCHING_TIMED   /* try both once, then use the faster one */
} xcvm_batching;

typedef struct xcvm_tape_options {
    size_t size;
    const xcvm_allocator *allocator;     /* NULL: malloc and free */
    int threads;                         /* including the caller's; 0: affinity and cgroup quota decide */
    size_t memory_limit;                 /* bytes of elements that the tape may hold; 0: no limit */
    uint64_t seed;                       /* for random instructions without a seed of their own */
    xcvm_printer print;                  /* none: the text of Print is discarded */
    const xcvm_host_function *functions; /* for HostCall; borrowed for the tape's life */
    size_t function_count;
    xcvm_tape_mode mode;
    bool check_nan;         /* fail a call that creates a NaN */
    xcvm_batching batching; /* of a lazy tape */
    /* Nonzero makes running calls fail with CANCELLED. Read atomically; another thread or a signal handler may set it.
     * NULL: never. */
    const uint32_t *cancelled;
} xcvm_tape_options;

XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_create(const xcvm_tape_options *options, xcvm_tape **tape,
                                                    xcvm_error *error);
XCVM_API void xcvm_tape_destroy(xcvm_tape *tape);
/* Returns and clears the tape's failure. */
XCVM_API xcvm_status xcvm_tape_status(xcvm_tape *tape, xcvm_error *error);
/* Releases all recorded calls, and all variables except parameters and kept ones, which become constants if a call
 * made them. An unreported failure stays. */
XCVM_API void xcvm_tape_reset(xcvm_tape *tape);

typedef struct xcvm_tape_info {
    size_t size;
    uint64_t calls;     /* made so far, recorded or not */
    size_t recorded;    /* calls recorded now */
    size_t variables;   /* alive now */
    size_t live_bytes;  /* of elements */
    size_t peak_bytes;  /* maximum of live_bytes */
    size_t total_bytes; /* taken from the allocator in total */
} xcvm_tape_info;
XCVM_API void xcvm_tape_get_info(const xcvm_tape *tape, xcvm_tape_info *stats);

/* Memory by purpose, in bytes. Shared elements count once. A reset releases everything except parameters, kept
 * variables and their gradients. */
typedef struct xcvm_tape_memory_info {
    size_t size;
    size_t values;     /* elements of other variables */
    size_t gradients;  /* accumulated gradients */
    size_t parameters; /* elements of leaves that require a gradient */
    size_t scratch;    /* kernel workspace and packed weights */
    size_t records;    /* calls, variables and other bookkeeping */
} xcvm_tape_memory_info;
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_get_memory_info(xcvm_tape *tape, xcvm_tape_memory_info *memory,
                                                             xcvm_error *error);

/* Switches recording, which is on at first, and returns the previous setting. Results of unrecorded calls are constants
 * for gradients. */
XCVM_API bool xcvm_tape_set_recording(xcvm_tape *tape, bool recording);

/* One executed call, before and after it. */
typedef struct xcvm_call_event {
    const char *name;  /* instruction or host operation */
    uint64_t number;   /* call number */
    bool backward;     /* made by a backward pass */
    bool done;         /* the call has succeeded */
    uint64_t ns;       /* duration, if done */
    size_t live_bytes; /* of elements, now */
} xcvm_call_event;
typedef struct xcvm_tape_observer {
    void (*call)(void *user, const xcvm_call_event *event);
    void *user;
} xcvm_tape_observer;
/* Sets the observer, which is copied; NULL removes it. The observer must not call the tape. */
XCVM_API void xcvm_tape_set_observer(xcvm_tape *tape, const xcvm_tape_observer *observer);
/* Writes the recorded calls as a Graphviz graph: calls are boxes (dashed if a backward pass made them), parameters are
 * filled. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_draw(xcvm_tape *tape, xcvm_sink sink, xcvm_error *error);

/* Sets a checkpoint. A revert to it releases all later calls and variables except parameters and kept ones. Checkpoints
 * nest; a reset removes them. Overwritten elements and accumulated gradients are not restored. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_checkpoint(xcvm_tape *tape, xcvm_error *error);
/* Reverts to the latest checkpoint and removes it. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_revert(xcvm_tape *tape, xcvm_error *error);

/* ---- Lazy tapes ---- */

/* On a lazy tape a call checks its operands and infers its result type. It runs when its elements are needed, together
 * with the calls that it depends on. Calls with data-dependent shapes, host calls and conditions run at once. A failure
 * names the call itself. */

/* Evaluates v, or all waiting calls if v is absent. Does nothing on an eager tape. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_forward(xcvm_tape *tape, xcvm_var v, xcvm_error *error);
/* Makes evaluated lazy calls wait again, so that they read current operands. Calls that decided a shape or ran at once
 * keep their results. Graphs recorded by create_graph are released. */
XCVM_API void xcvm_tape_invalidate(xcvm_tape *tape);

/* Variables created in a scope are released at its end, except kept ones. Scopes nest. */
typedef struct xcvm_scope {
    uint64_t serial;
} xcvm_scope;
XCVM_API xcvm_scope xcvm_tape_scope_begin(xcvm_tape *tape);
/* Ends a scope; `results` move to the enclosing scope. */
XCVM_API void xcvm_tape_scope_end(xcvm_tape *tape, xcvm_scope scope, size_t count, const xcvm_var *results);

/* ---- Variables ---- */

/* Create tensors from a copy of `data`; NULL means zeros. Constants have no gradient; parameters have one. */
XCVM_API xcvm_var xcvm_tape_constant(xcvm_tape *tape, xcvm_dtype dtype, int rank, const int64_t *dims,
                                     const void *data);
XCVM_API xcvm_var xcvm_tape_parameter(xcvm_tape *tape, xcvm_dtype dtype, int rank, const int64_t *dims,
                                      const void *data);
/* Names a parameter of a building tape. Its gradient, its state in training and its initializer in ONNX have the name.
 * The name must not belong to another value. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_var_set_name(xcvm_tape *tape, xcvm_var v, const char *name, xcvm_error *error);
/* Creates a rank-0 tensor of a real type or bool. */
XCVM_API xcvm_var xcvm_tape_scalar(xcvm_tape *tape, xcvm_dtype dtype, double number);
/* Creates a constant from any value. Counted storage is shared; other elements are copied. */
XCVM_API xcvm_var xcvm_tape_value(xcvm_tape *tape, const xcvm_value *value);

/* Lends the value until the variable is released. Evaluates it on a lazy tape. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_var_get_value(xcvm_tape *tape, xcvm_var v, const xcvm_value **value,
                                                      xcvm_error *error);
/* Stores the type of a variable, without evaluating it. On a building tape dimensions may be dynamic: they are
 * negative, equal numbers are equal sizes, and their names are lent until the tape is destroyed. The rank of a list is
 * -1. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_var_get_type(xcvm_tape *tape, xcvm_var v, xcvm_type *type, xcvm_error *error);
/* Returns the only element as a double. Returns NaN and sets the tape's failure if there is not exactly one. */
XCVM_API double xcvm_var_get_number(xcvm_tape *tape, xcvm_var v);
/* Overwrites the elements of a tensor and its views. `bytes` must be its size. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_var_set_data(xcvm_tape *tape, xcvm_var v, const void *data, size_t bytes,
                                                     xcvm_error *error);

/* Takes a variable out of its scope and returns it. It lives until it is released. */
XCVM_API xcvm_var xcvm_var_keep(xcvm_tape *tape, xcvm_var v);
/* Releases a handle. Values and calls that nothing needs are freed at once. Stale and absent handles are ignored. */
XCVM_API void xcvm_var_release(xcvm_tape *tape, xcvm_var v);
/* Returns a constant that shares the elements. */
XCVM_API xcvm_var xcvm_var_detach(xcvm_tape *tape, xcvm_var v);
/* Makes a variable a constant and releases the call that made it. */
XCVM_API void xcvm_var_unchain(xcvm_tape *tape, xcvm_var v);
/* Sets whether a float leaf requires a gradient; tells whether a gradient can flow to a variable. */
XCVM_API xcvm_status xcvm_var_set_requires_gradient(xcvm_tape *tape, xcvm_var v, bool wanted, xcvm_error *error);
XCVM_API bool xcvm_var_requires_gradient(xcvm_tape *tape, xcvm_var v);

/* The recorded call that made a variable. */
typedef struct xcvm_creator_info {
    size_t size;
    const char *name; /* instruction or host operation; lent while the call is recorded */
    uint64_t number;  /* call number; operands have lower numbers */
    size_t operand_count, result_count;
    size_t result; /* index of the variable among the results */
    bool backward; /* made by a backward pass */
} xcvm_creator_info;
/* Returns false for parameters, constants and unrecorded or released calls. */
XCVM_API bool xcvm_var_get_creator(xcvm_tape *tape, xcvm_var v, xcvm_creator_info *creator);

/* ---- Gradients ---- */

/* Returns the accumulated gradient, or XCVM_ABSENT for zero. It lives as long as `v` or until it is cleared. A gradient
 * kept as two factors is materialized here; without memory for it the tape fails. */
XCVM_API xcvm_var xcvm_var_get_gradient(xcvm_tape *tape, xcvm_var v);
XCVM_API void xcvm_var_clear_gradient(xcvm_tape *tape, xcvm_var v);
/* Makes backward passes keep the gradient of a result. */
XCVM_API void xcvm_var_retain_gradient(xcvm_tape *tape, xcvm_var v);
/* Receives the complete gradient of v and may return a replacement (XCVM_ABSENT: none). A hook may make calls but not
 * run a backward pass. Hooks run in the order in which they were added. */
typedef struct xcvm_gradient_hook {
    xcvm_var (*call)(void *user, xcvm_tape *tape, xcvm_var gradient);
    void *user;
} xcvm_gradient_hook;
XCVM_API XCVM_MUST_USE xcvm_status xcvm_var_add_hook(xcvm_tape *tape, xcvm_var v, xcvm_gradient_hook hook,
                                                     xcvm_error *error);

/* Sets whether xcvm_tape_backward stores the gradient of Gather along axis 0 as rows instead of a full tensor. Use it
 * for tables of which few rows are read. Hooks are not called for rows. create_graph ignores the setting. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_var_set_sparse_gradient(xcvm_tape *tape, xcvm_var v, bool sparse,
                                                                xcvm_error *error);
/* Returns the distinct rows (i64, ascending) that have a gradient, and their gradients, as new variables; XCVM_ABSENT
 * if there are none. xcvm_var_clear_gradient clears them. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_var_get_gradient_rows(xcvm_tape *tape, xcvm_var v, xcvm_var *rows,
                                                              xcvm_var *gradients, xcvm_error *error);

typedef struct xcvm_backward_options {
    size_t size;
    xcvm_var seed;     /* gradient of the root; absent: 1, for a root of one element */
    bool retain_graph; /* keep the recorded calls for another backward pass */
    bool create_graph; /* record the backward pass, so that gradients can be differentiated; implies
                          retain_graph */
} xcvm_backward_options;
/* Runs the backward pass from `root` and adds gradients to the variables that require or retain one. Unless the graph
 * is retained, visited calls and their unkept results are released, and a second pass over them fails. A failed pass
 * changes no gradient, but the calls that it visited are gone. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_backward(xcvm_tape *tape, xcvm_var root,
                                                      const xcvm_backward_options *options, xcvm_error *error);
/* Returns the gradients of several roots with respect to any variables, without accumulating them. `seeds` may be NULL
 * or contain absent entries. Structural zeros are absent. Hooks are not called. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_gradients(xcvm_tape *tape, size_t root_count, const xcvm_var *roots,
                                                       const xcvm_var *seeds, size_t wrt_count, const xcvm_var *wrt,
                                                       const xcvm_backward_options *options, xcvm_var *gradients,
                                                       xcvm_error *error);

/* ---- Functions ---- */

/* A function of variables that returns a value. Its failure is the failure of the function that called it. It may
 * differentiate in turn. The arguments are stand-ins for the caller's variables. */
typedef struct xcvm_tape_function {
    xcvm_var (*call)(void *user, xcvm_tape *tape, size_t count, const xcvm_var *xs);
    void *user;
} xcvm_tape_function;

/* Vector-Jacobian product: the value of f at float tensors xs, and its gradients weighted by `seed` (absent: 1, for a
 * value of one element). Structural zeros are absent. Results are differentiable. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_vector_jacobian_product(xcvm_tape *tape, xcvm_tape_function f,
                                                                     size_t count, const xcvm_var *xs, xcvm_var seed,
                                                                     xcvm_var *value, xcvm_var *gradients,
                                                                     xcvm_error *error);
/* Jacobian-vector product along `directions` (absent: 0), computed by two vector-Jacobian products (Townsend, 2017). An
 * absent change is zero. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_jacobian_vector_product(xcvm_tape *tape, xcvm_tape_function f,
                                                                     size_t count, const xcvm_var *xs,
                                                                     const xcvm_var *directions, xcvm_var *value,
                                                                     xcvm_var *change, xcvm_error *error);
/* Jacobian of f at x: a tensor of the value's dimensions followed by those of x. Runs a backward pass per element. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_jacobian(xcvm_tape *tape, xcvm_tape_function f, xcvm_var x,
                                                      xcvm_var *jacobian, xcvm_error *error);
/* Hessian of f at x times a vector of the type of x. f returns one element. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_hessian_vector_product(xcvm_tape *tape, xcvm_tape_function f, xcvm_var x,
                                                                    xcvm_var vector, xcvm_var *product,
                                                                    xcvm_error *error);

typedef struct xcvm_gradient_check_options {
    size_t size;
    int order;         /* highest derivative; 0: 1 */
    double step;       /* difference step; 0: 1e-5 for f64, 1e-2 for others */
    double rtol, atol; /* both 0: 1e-6 for f64, 2e-2 for others */
    uint64_t seed;     /* of the directions */
} xcvm_gradient_check_options;
/* Compares the derivatives of f, forward and reverse, with central differences along random directions. Fails with
 * OUT_OF_RANGE and both numbers if they disagree. f is called several times and must be deterministic. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_check_gradients(xcvm_tape *tape, xcvm_tape_function f, size_t count,
                                                             const xcvm_var *xs,
                                                             const xcvm_gradient_check_options *check,
                                                             xcvm_error *error);

/* A host operation with its own gradient. */
typedef struct xcvm_operation {
    size_t size;
    const char *name; /* for messages */
    /* Computes the results with unrecorded calls or constants. */
    xcvm_status (*forward)(void *user, xcvm_tape *tape, size_t in_count, const xcvm_var *in, size_t out_count,
                           xcvm_var *out);
    /* Computes the operands' gradients from the results' gradients; absent means zero. Recorded if the gradient is to
     * be differentiated. NULL: not differentiable. */
    xcvm_status (*backward)(void *user, xcvm_tape *tape, size_t in_count, const xcvm_var *in, size_t out_count,
                            const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients);
    void *user;
} xcvm_operation;
/* Calls an operation, which is borrowed while the call is recorded. Returns the first result and stores all in `out`.
 */
XCVM_API xcvm_var xcvm_tape_call_operation(xcvm_tape *tape, const xcvm_operation *operation, size_t in_count,
                                           const xcvm_var *in, size_t out_count, xcvm_var *out);

/* ---- Programs ---- */

/* Adds an input to the program of a building tape. Negative dimensions are dynamic, and equal names are equal sizes.
 * `dim_names` and its entries may be NULL. */
XCVM_API xcvm_var xcvm_tape_input(xcvm_tape *tape, const char *name, xcvm_dtype dtype, int rank, const int64_t *dims,
                                  const char *const *dim_names);
typedef struct xcvm_tape_output {
    const char *name;
    xcvm_var v;
} xcvm_tape_output;
struct xcc_options; /* compiler.h */
struct xcc_report;
/* Compiles the built graph to a program with the given outputs, or to an ONNX model (xcc_options.onnx_export).
 * Parameters become constants. `options` and `report` may be NULL. Afterwards, even on failure, the tape can only be
 * destroyed. */
XCVM_API XCVM_MUST_USE xcvm_status xcvm_tape_compile(xcvm_tape *tape, size_t count, const xcvm_tape_output *outputs,
                                                     const struct xcc_options *options, xcvm_sink sink,
                                                     struct xcc_report *report, xcvm_error *error);

/* ---- Control flow ---- */

/* A branch stores its results. An eager tape calls the branch that `cond`, a bool of one element, selects. A building
 * tape calls both, each in its own subgraph. */
typedef struct xcvm_tape_branch {
    void (*call)(void *user, xcvm_tape *tape, size_t count, xcvm_var *results);
    void *user;
} xcvm_tape_branch;
XCVM_API void xcvm_tape_if(xcvm_tape *tape, xcvm_var cond, xcvm_tape_branch then_branch, xcvm_tape_branch else_branch,
                           size_t count, xcvm_var *results);
/* One iteration of a loop. It replaces `states` by the next ones, stores the values to stack in `scans`, and may set
 * `*go_on` to false, a bool of one element. A building tape calls it once. */
typedef struct xcvm_tape_loop_body {
    void (*call)(void *user, xcvm_tape *tape, xcvm_var iteration, size_t state_count, xcvm_var *states,
                 size_t scan_count, xcvm_var *scans, xcvm_var *go_on);
    void *user;
} xcvm_tape_loop_body;
/* ONNX's Loop: at most `trips` iterations (i64, one element; absent: no limit) while `cond` is true (absent: true).
 * `states` holds the initial and then the final states; `scans` receives the stacked values. */
XCVM_API void xcvm_tape_loop(xcvm_tape *tape, xcvm_var trips, xcvm_var cond, xcvm_tape_loop_body body,
                             size_t state_count, xcvm_var *states, size_t scan_count, xcvm_var *scans);

/* ---- Calls ---- */

/* Executes the call struct of an instruction; used by the macros of tape_calls.h. */
XCVM_API xcvm_var xcvm_call(int32_t instruction, const void *call);

#include "xcvm/tape_calls.h"

#ifdef __cplusplus
}
#endif

#endif
