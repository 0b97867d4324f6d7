/* The compiler's graph: nodes that are instructions, or structured control flow around graphs.
 *
 * A node carries its instruction's own argument struct, whose operands point to the graph's values; so shape rules,
 * kernels (for folding) and the emitter work on nodes as they are. Everything lives in the module's arena and is freed
 * with it; removed nodes and values are unlinked, not freed. */
#ifndef XCVM_COMPILER_IR_GRAPH_H
#define XCVM_COMPILER_IR_GRAPH_H

#include "base/budget.h"
#include "base/hash.h"
#include "compiler/ir/recorder.h"
#include "ops/util/kernel.h"
#include "xcvm/compiler.h"

typedef struct xcc_module xcc_module;
typedef struct xcc_graph xcc_graph;
typedef struct xcc_node xcc_node;
typedef struct xcc_value xcc_value;
typedef struct xcc_group xcc_group;

/* One position that refers to a value: operand `index` of a node or, where node is NULL, output `index` of a graph. */
typedef struct xcc_use {
    xcc_value *value; /* NULL: absent, and in no list */
    xcc_node *node;
    xcc_graph *graph; /* of the node, or whose output it is */
    uint32_t index;
    struct xcc_use *previous, *next; /* of the same value */
} xcc_use;

/* Where a value's elements come from. */
typedef enum xcc_value_kind {
    XCC_RESULT,    /* of a node, which there may not be yet */
    XCC_INPUT,     /* of its graph: given to the program, or to a body by its node */
    XCC_CONSTANT,  /* known and the same for ever */
    XCC_PARAMETER, /* a tensor that learning changes; known is what it begins with */
    XCC_STATE      /* a tensor that a session keeps from one run to the next; known is what it begins with */
} xcc_value_kind;

struct xcc_value {
    xcvm_value type; /* first, so that operand pointers of argument structs are xcc_values. data: the elements of a
                        constant; NULL for all others, so that shape rules take nothing for known that may change.
                        Unknown dims as in base/value.h, symbols below XCVM_ANY_DIM index module->symbols */
    xcc_value_kind kind;
    const char *name;    /* as in the model; made up and unique where the model has none; never NULL */
    xcc_node *producer;  /* of a result that has a node; else NULL */
    const void *initial; /* elements that a parameter or a state begins with, as many bytes as initial_bytes */
    size_t initial_bytes;
    uint8_t initial_lead; /* bytes in front of them, of a copy that is the module's */
    bool initial_copied;
    xcc_graph *graph; /* where it is defined */
    uint32_t uses;    /* positions that refer to it, those in bodies and graph outputs included */
    uint32_t id;      /* index into per-module tables */
    xcc_use *users;   /* those positions */
    uint32_t mark;    /* scratch for passes */
    /* Of module->owned, of module->variables or, of what was discarded, of module->spare_values. */
    xcc_value *next_owned;
    xcc_value **owned_link; /* what points to it in that list; NULL: it is in none */
};

typedef enum xcc_node_kind {
    XCC_INSTRUCTION,
    XCC_IF,  /* inputs: cond. bodies: then, else, without parameters. outputs: those of the bodies */
    XCC_LOOP /* inputs: trip count or NULL, cond or NULL, states. body: (iteration, cond, states) -> (cond, states,
                scans). outputs: final states, then scans stacked along a new axis 0. Scan becomes Loop at import. */
} xcc_node_kind;

struct xcc_node {
    xcc_node_kind kind;
    const xcvm_schema *schema; /* XCC_INSTRUCTION */
    void *args;                /* XCC_INSTRUCTION: the row's argument struct */
    xcc_value **inputs;        /* control flow only; entries may be NULL */
    size_t input_count;
    xcc_value **outputs; /* control flow only; entries may be NULL where unused */
    size_t output_count;
    xcc_value **captures; /* control flow only, filled by canonicalize: values of enclosing graphs used in the bodies */
    size_t capture_count;
    xcc_graph *bodies[2];
    size_t body_count;
    const char *name;   /* of the model's node; never NULL */
    const char *origin; /* the model's operator, as in "Conv"; never NULL */
    xcc_graph *graph;
    xcc_use *uses; /* of its operands, in their order */
    xcc_node *previous, *next;
    xcc_node *pending; /* scratch list of passes */
    bool removed;
    xcc_group *group; /* that it runs in; NULL: it runs by itself */
    uint32_t mark;    /* scratch for passes */
    uint32_t order;   /* position, set by xcc_graph_number */
};

/* Nodes that stand next to each other and may run as one: what any of them reads from outside is needed until the last
 * has run. Whoever makes a group keeps more behind it. */
struct xcc_group {
    uint32_t number; /* among the module's */
    xcc_node **nodes;
    size_t node_count;
    xcc_value **xs; /* what they read from outside, constants of one element apart */
    size_t x_count;
    xcc_group *next; /* of the module's */
};

struct xcc_graph {
    xcc_module *module;
    xcc_node *owner; /* the control-flow node of a body; NULL at the top */
    const char *name;
    xcc_node *first, *last;        /* in an order that can be executed */
    xcc_value **inputs, **outputs; /* set with xcc_graph_set_inputs and _outputs */
    size_t input_count, output_count, output_capacity;
    const char **output_names; /* as they were set: a pass may put another value in an output's place */
    xcc_value **output_states; /* of each output: the state that it is stored in; NULL: none, it is given to the caller.
                                  NULL where there are none at all */
    xcc_use *uses;             /* of its outputs */
    uint32_t depth;            /* 0 at the top, 1 in its bodies, ... */
};

/* Names and what they stand for; all in the module's arena. Models choose the names, so the hash has a key. */
typedef struct xcc_table {
    struct xcc_table_entry {
        const char *name;
        int64_t value;
    } * at;
    size_t count, capacity;
    const xcvm_hash_key *key; /* the module's */
} xcc_table;

/* Larger pieces of memory than so many times 16 bytes are not used again before the module is released. */
enum { XCC_SPARE_CLASSES = 256 };

/* A symbolic dimension. */
typedef struct xcc_symbol_entry {
    const char *name;       /* NULL: made up */
    const xcc_value *owner; /* the loop's state that it was made for, which no other value need agree with */
} xcc_symbol_entry;

/* Keys of metadata, in models and programs, that classes have their names in, one on a line, and the output that has
 * their scores. */
#define XCC_CLASS_NAMES "class_names"
#define XCC_CLASS_OUTPUT "class_output"

struct xcc_module {
    xcvm_budget budget;              /* of all memory that the compilation takes */
    const xcvm_allocator *allocator; /* the budget's */
    uint64_t deadline_ns;            /* monotonic clock; 0: none */
    uint32_t polls;                  /* calls of xcc_poll so far */
    xcvm_hash_key key;               /* of the tables' hashes */
    xcvm_arena arena;
    void *spare[XCC_SPARE_CLASSES]; /* of the arena, given back: lists through the first word, of pieces of 16, 32 ...
                                       bytes */
    xcc_value *spare_values;        /* discarded, to be created again under their ids */
    xcvm_heap *heap;                /* of folded constants */
    xcc_value *owned;               /* values whose storage is of the heap */
    xcc_value *variables;           /* made as parameters and states, in order; some may be constants now */
    xcc_value **last_variable;      /* end of that list; NULL: it is empty */
    bool frozen;                    /* there are no parameters: what would be one is a constant */
    xcc_table value_names, dim_names;
    const xcc_options *options;
    xcvm_error *error;         /* of the compilation: every function here fills it */
    xcc_graph *graph;          /* top level */
    xcc_symbol_entry *symbols; /* dimension -2 - i is symbols[i] */
    size_t symbol_count, symbol_capacity;
    uint32_t value_count;
    /* Where forward and backward become two programs: how many inputs and outputs, the first, are the model's. */
    size_t forward_inputs, forward_outputs;
    uint32_t value_limit;     /* 0: none; differentiation makes no values beyond so many in all */
    xcvm_sink report_problem; /* may be NULL: gets every node that cannot be differentiated, a line each */
    void *problem_user;
    /* For the report. */
    size_t gradient_count, retained_count;
    uint64_t gradient_bytes, retained_bytes;
    size_t constant_bytes;    /* of all constants but those on the heap: those of the model, above all */
    size_t copied_bytes;      /* of weights that rules wrote anew */
    uint64_t folding_ns;      /* that folding has taken so far */
    uint64_t changes;         /* that passes have made so far */
    const char *resolved_dir; /* the folder of the model's file behind symbolic links; NULL: there are none */
    const char *producer;     /* of the model, for metadata */
    xcc_value *loss; /* that is differentiated, once it is added or found; NULL: an output of the options' name */
    const char *class_names, *class_output; /* of the model, for metadata (docs/training.md); NULL: it has none */
    xcc_recorder *recorder;                 /* executes what is built; NULL: nodes are kept */
    const char *optimizer;                  /* of a training program, for metadata; NULL: it is none */
    xcc_group *groups;                      /* all of them */
    uint32_t group_count;
    uint8_t library_hash[32]; /* of the kernel library that was built for them */
    xcc_node **unscheduled;   /* nodes of the top-level graph in the order that scheduling changed; NULL: it did not */
    struct {
        uint64_t peak_before, peak; /* bytes without recomputation, and with it as planned */
        double time;                /* that a step is estimated to take, as a multiple of one without */
        size_t copies;              /* nodes that are computed again */
    } recomputation;
    /* For the report: constants that could be compressed, as packed and as they are; how many are out of range. */
    uint64_t weight_bytes_before, weight_bytes_after;
    size_t uncompressed;
    /* For the report: products and convolutions in bf16, and those that stay f32, where bf16 was asked for. */
    size_t bf16_products, exact_products;
    size_t tuned; /* for the report: forms of convolutions that were measured */
    /* For the report: convolutions and products by quantized weights in integers, and those that stayed in floats, of
     * which so many are faster so. */
    struct {
        size_t made, left, slower;
    } integers;
    size_t training_nodes; /* for the report: in training form as imported */
};

/* ---- Building. Failures leave module->error filled and return NULL or a status. ---- */

/* A caller's options, of an older or a newer header or NULL, as this library knows them. */
xcvm_status xcc_options_read(xcc_options *o, const xcc_options *given, xcvm_error *error);
/* Begins a module with an empty top-level graph; `options` may be NULL; they and `error` must outlive it. A module that
 * was begun, successfully or not, must be released. */
xcvm_status xcc_module_init(xcc_module *m, const xcc_options *options, xcvm_error *error);
void xcc_module_release(xcc_module *m);
/* Zeroed. NULL, with the error set, when there is none. */
void *xcc_alloc(xcc_module *m, size_t bytes);
/* Gives back memory that xcc_alloc gave for as many bytes (xcc_string: with the NUL), to be used again. NULL is none.
 */
void xcc_give_back(xcc_module *m, const void *memory, size_t bytes);
/* xcvm_arena_grow in the module's arena; NULL with the error set. */
void *xcc_grow(xcc_module *m, void *array, size_t count, size_t *capacity, size_t size);
xcvm_status xcc_out_of_memory(xcc_module *m);
xcvm_status xcc_out_of_time(xcc_module *m);
/* At the end of what failed with `status`: whoever found memory or time used up may not have known of the limits. */
void xcc_name_limit(xcc_module *m, xcvm_status status);
/* Whatever goes on for as long as a model is large calls this every microsecond or so: OUT_OF_TIME behind the deadline.
 */
xcvm_status xcc_poll(xcc_module *m);
/* The same where what is between two calls may take milliseconds. */
xcvm_status xcc_poll_now(xcc_module *m);
/* The deadline, or `ns` nanoseconds from now where that is sooner. */
uint64_t xcc_deadline_within(const xcc_module *m, uint64_t ns);
const char *xcc_string(xcc_module *m, const char *text, size_t length);
/* A new value without type (kind NULL, rank -1). `name` NULL or taken already: a unique one is made from it. */
xcc_value *xcc_value_create(xcc_graph *g, const char *name);
/* Gives a value another name, made unique likewise. */
xcvm_status xcc_value_rename(xcc_value *v, const char *name);
/* The entry of a name, or the free one (name NULL) where it belongs; the table must have room. */
struct xcc_table_entry *xcc_table_find(const xcc_table *t, const char *name);
/* Makes sure that one more entry fits; whoever fills it counts it. */
bool xcc_table_reserve(xcc_module *m, xcc_table *t);
/* NULL if the table does not have the name. */
const struct xcc_table_entry *xcc_table_lookup(const xcc_table *table, const char *name);
/* Takes a name out, if it is there; what it pointed to remains its owner's. */
void xcc_table_remove(xcc_table *t, const char *name);
/* Adds the name, which must live as long as the table, or gives it a new value. */
xcvm_status xcc_table_put(xcc_module *m, xcc_table *table, const char *name, int64_t value);
/* A constant tensor; `data` is copied unless `lend`, when it must outlive the module. */
xcc_value *xcc_constant(xcc_graph *g, const char *name, xcvm_dtype dtype, int rank, const int64_t *dims,
                        const void *data, bool lend);
/* A tensor that learning changes from `data`, lent or copied as for a constant, which it is in a frozen module. */
xcc_value *xcc_parameter(xcc_graph *g, const char *name, xcvm_dtype dtype, int rank, const int64_t *dims,
                         const void *data, bool lend);
/* A tensor that is kept from run to run and begins as `data`; NULL: as zeros. */
xcc_value *xcc_state(xcc_graph *g, const char *name, xcvm_dtype dtype, int rank, const int64_t *dims, const void *data,
                     bool lend);
/* Makes states of parameters, or of inputs of the top graph, which then begin as zeros, their open dimensions 0. */
void xcc_values_keep(size_t count, xcc_value *const *values);
/* Makes constants of all parameters, those there are and those to come. The first step of compiling for inference
 * (compile.c), or the last of differentiating; here alone parameters as such go: what looks for constants finds them
 * from then on. */
void xcc_parameters_freeze(xcc_module *m);
/* Makes a constant of one parameter, if v is one: of what the structure of the graph depends on, as shapes, which
 * cannot be learned. v may be NULL. */
void xcc_parameter_fix(xcc_value *v);
/* A constant tensor of unnamed elements that the caller fills in. Unlike the others it has memory of its own, which
 * xcc_constant_release gives back when nobody uses it any more; that does nothing for other constants. */
xcc_value *xcc_constant_blank(xcc_graph *g, xcvm_dtype dtype, int rank, const int64_t *dims);
void xcc_constant_release(xcc_value *v);
/* Whether weights of so many bytes may be written anew: that goes on for as long as it is in proportion to the model,
 * in which many nodes may read the same ones. Counts them, if so. */
bool xcc_may_copy(xcc_module *m, size_t bytes);
/* Bytes that a copy of so many bytes of elements takes of the arena. */
size_t xcc_elements_room(size_t bytes);
xcc_value *xcc_constant_i64(xcc_graph *g, size_t count, const int64_t *ints); /* rank 1 */
xcc_value *xcc_scalar_i64(xcc_graph *g, int64_t value);                       /* rank 0 */
/* Rank 0, converted to `dtype` (any real type or bool). */
xcc_value *xcc_scalar(xcc_graph *g, xcvm_dtype dtype, double value);
/* The dimension of that name: the size that options->dims fixes it to, else a symbol; NULL: a new symbol. 0 is a size,
 * so a failure (out of memory) shows in m->error alone and gives XCVM_ANY_DIM. */
int64_t xcc_symbol(xcc_module *m, const char *name);
/* A new symbol for a dimension of `owner` that changes from one iteration to the next. */
int64_t xcc_symbol_of(xcc_module *m, const xcc_value *owner);
bool xcc_symbol_is_of(const xcc_module *m, int64_t dim, const xcc_value *owner);
bool xcc_symbol_known(const xcc_module *m, const char *name);  /* whether xcc_symbol was asked for it */
const char *xcc_symbol_name(const xcc_module *m, int64_t dim); /* NULL for a number or a made-up one */

/* A value's type with the names of its dimensions, which the module lends. */
xcvm_type xcc_value_type(const xcc_module *m, const xcc_value *v);

/* Where new nodes go: before `before`, or at the end of `graph` if NULL. name and origin are given to each. */
typedef struct xcc_builder {
    xcc_graph *graph;
    xcc_node *before;
    const char *name, *origin;
} xcc_builder;

/* Appends an instruction and infers its results: args is the row's struct, operands and results xcc_values (cast to
 * xcvm_value *); it is copied. NULL on failure. */
xcc_node *xcc_append(xcc_builder *b, xcvm_opcode opcode, const void *args);
/* xcc_emit(b, Conv, .y = XCC_OUT(y), .x = XCC_IN(x), .w = XCC_IN(w), .group = 1) */
#define xcc_emit(b, Name, ...) xcc_append((b), XCVM_OP_##Name, &(const xcvm_##Name##_args){__VA_ARGS__})
static inline xcvm_value *xcc_type_of(const xcc_value *v) { return v != NULL ? (xcvm_value *)&v->type : NULL; }
#define XCC_IN(v) xcc_type_of(v)
#define XCC_OUT(v) xcc_type_of(v)
#define XCC_INTS(...)                                                                                                  \
    ((xcvm_ints){(const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)})
/* Emits an instruction with one result, which is returned (NULL on failure):
 * xcc_value *s = xcc_apply(b, Add, y, .a = XCC_IN(p), .b = XCC_IN(q)) where y names the row's result field. */
#define xcc_apply(b, Name, result, ...)                                                                                \
    xcc_apply_at((b), XCVM_OP_##Name, &(xcvm_##Name##_args){__VA_ARGS__}, offsetof(xcvm_##Name##_args, result))
xcc_value *xcc_apply_at(xcc_builder *b, xcvm_opcode opcode, void *args, size_t result_offset);
/* The value that replaces an operand or a result of a node in a copy of the node. A result becomes a new value, or NULL
 * if nothing reads it and its field may be absent (xcvm_field_may_be_absent). */
typedef xcvm_status (*xcc_copied)(void *user, xcc_value *v, const xcvm_field *field, xcc_value **copy);
/* A copy of an instruction where the builder stands; NULL on failure. */
xcc_node *xcc_node_copy(xcc_builder *b, const xcc_node *n, xcc_copied copied, void *user);
/* Control flow; its bodies are made, empty, and its results have no types until xcc_node_infer, which the infer pass
 * and whoever filled the bodies calls. */
xcc_node *xcc_append_control(xcc_builder *b, xcc_node_kind kind, size_t input_count, xcc_value *const *inputs,
                             size_t output_count, xcc_value *const *outputs, size_t body_count);
xcc_graph *xcc_graph_create(xcc_module *m, xcc_node *owner, const char *name);
/* What a graph takes and gives; the array is copied. For bodies: bodies[i] of a control node is made by
 * xcc_append_control with the node as its owner. */
xcvm_status xcc_graph_set_inputs(xcc_graph *g, size_t count, xcc_value *const *values);
/* Outputs that are stored in states stay so at their index: whoever sets more puts them behind. */
xcvm_status xcc_graph_set_outputs(xcc_graph *g, size_t count, xcc_value *const *values);
/* More outputs behind those that there are, which keep their names. What states has a state for is stored in it, and
 * the others, all if `states` is NULL, are given to the caller; arrays are copied. */
xcvm_status xcc_graph_add_outputs(xcc_graph *g, size_t count, xcc_value *const *values, const char *const *names,
                                  xcc_value *const *states);
/* At the end of a run of the program, the state is `value`: one more output, called as the state is. */
xcvm_status xcc_graph_store(xcc_graph *g, xcc_value *state, xcc_value *value);
/* All of which `removed`, of output_count entries, is true. */
xcvm_status xcc_graph_remove_outputs(xcc_graph *g, const bool *removed);
static inline xcc_value *xcc_graph_output_state(const xcc_graph *g, size_t index)
{
    return g->output_states != NULL ? g->output_states[index] : NULL;
}

/* ---- Walking and changing ---- */

size_t xcc_node_input_count(const xcc_node *n); /* lists spread out; absent ones are counted */
xcc_value *xcc_node_input(const xcc_node *n, size_t i);
/* The operand field of an instruction that an input belongs to; NULL for control flow. */
const xcvm_field *xcc_node_input_field(const xcc_node *n, size_t i);
void xcc_node_set_input(xcc_node *n, size_t i, xcc_value *v); /* keeps `uses` right */
size_t xcc_node_output_count(const xcc_node *n);
xcc_value *xcc_node_output(const xcc_node *n, size_t i);
static inline bool xcc_is(const xcc_node *n, xcvm_opcode op)
{
    return n != NULL && n->kind == XCC_INSTRUCTION && n->schema->opcode == op;
}
/* Whether it updates states in place; such nodes come last. */
static inline bool xcc_updates(const xcc_node *n)
{
    return n->kind == XCC_INSTRUCTION && n->schema->effect == XCVM_UPDATE;
}
/* Whether input `i` is a state that the node writes. */
bool xcc_writes_input(const xcc_node *n, size_t i);
#define XCC_ARGS(Name, node) ((xcvm_##Name##_args *)(node)->args)
/* The last node at which a value that `user` reads is needed: that of the group, if `user` is in one that the value
 * comes to from outside. */
const xcc_node *xcc_last_needed(const xcc_node *user, const xcc_value *v);
static inline bool xcc_is_constant(const xcc_value *v) { return v != NULL && v->kind == XCC_CONSTANT; }
/* A parameter or a state: there before the run, and changed by it or by learning. */
static inline bool xcc_is_variable(const xcc_value *v)
{
    return v != NULL && (v->kind == XCC_PARAMETER || v->kind == XCC_STATE);
}
static inline xcc_value *xcc_value_of(const xcvm_value *operand) { return (xcc_value *)operand; }

/* The same for one position that refers to another value so far. */
void xcc_use_set(xcc_use *use, xcc_value *v);
/* Every use of `old`, in this graph, its bodies and its outputs, becomes `new_value`. */
void xcc_replace_uses(xcc_graph *g, xcc_value *old, xcc_value *new_value);
/* Unlinks a node whose results have no uses, giving its operands' uses back. */
void xcc_node_remove(xcc_node *n);
/* Removes an instruction whose results have no uses, and gives back its memory, its results and their names: what keeps
 * a module small that records call after call. Control flow is removed only. No pointers to any of it may be left, and
 * the arguments must be as xcc_append copied them, so passes, which keep lists of nodes and put arguments of their own
 * in, remove and do not discard. */
void xcc_node_discard(xcc_node *n);
/* Gives back a value that nothing uses and no node makes: a constant, a parameter or a state, or an input that is none
 * any more. Its id and its name may become others'. */
void xcc_value_discard(xcc_value *v);
/* Puts a value at the front of a list of owned ones; takes it out of the list that it is in, if any. */
void xcc_value_own(xcc_value **list, xcc_value *v);
void xcc_value_disown(xcc_value *v);
/* Moves a body's nodes out of it, before a node of the graph around it. The body has no outputs afterwards; uses of its
 * inputs must have been replaced. */
void xcc_graph_inline(xcc_graph *body, xcc_node *before);
void xcc_node_move_before(xcc_node *n, xcc_node *before);
/* What the builder puts a new node in place with. */
xcvm_status xcc_node_link_uses(xcc_node *n);
void xcc_node_insert(xcc_graph *g, xcc_node *n, xcc_node *before);
/* Infers a node's results anew after its operands changed. What was known of a result and no longer follows is kept.
 * For control flow, the types of the results follow from those in the bodies. */
xcvm_status xcc_node_infer(xcc_node *n);
/* Infers everything in a graph anew. */
xcvm_status xcc_graph_infer(xcc_graph *g);
/* Widens the types of a loop's states to what every iteration agrees on. *changed: a parameter of the body has become
 * less known, and whatever was derived in the body from its type no longer holds (xcc_loop_infer_body, or lower anew).
 */
xcvm_status xcc_loop_widen(xcc_node *loop, bool *changed);
/* How often a loop runs, if that is certain: the count is constant and nothing stops it early. */
bool xcc_loop_trips(const xcc_node *loop, int64_t *trips);
/* Infers everything in the body anew, forgetting what was known, and widens until nothing changes. */
xcvm_status xcc_loop_infer_body(xcc_node *loop);
uint64_t xcc_node_flops(const xcc_node *n);
void xcc_graph_number(xcc_graph *g);
/* In debug builds: links, uses, producers, order and types are consistent; INTERNAL with what is not. */
xcvm_status xcc_graph_verify(xcc_graph *g);
/* The graph as text, for dump_after: names of constants behind @, of parameters behind %, of states behind &. */
xcvm_status xcc_graph_dump(const xcc_graph *g, xcvm_sink sink, void *user);

#endif
