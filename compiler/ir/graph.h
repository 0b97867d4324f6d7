/* The compiler's graph: nodes that are instructions, or structured control flow around graphs.
 *
 * A node carries its instruction's own argument struct, whose operands point to the graph's values; so shape rules,
 * kernels (for folding) and the emitter work on nodes as they are. Everything lives in the module's arena and is freed
 * with it; removed nodes and values are unlinked, not freed. */
#ifndef XCVM_COMPILER_IR_GRAPH_H
#define XCVM_COMPILER_IR_GRAPH_H

#include "compiler/ir/module.h"
#include "ops/util/kernel.h"

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

/* ---- Values and graphs. Failures leave module->error filled and return NULL or a status. ---- */

/* Begins a module with an empty top-level graph; `options` may be NULL; they and `error` must outlive it. A module that
 * was begun, successfully or not, must be released. */
xcvm_status xcc_module_init(xcc_module *m, const xcc_options *options, xcvm_error *error);
void xcc_module_release(xcc_module *m);
/* A new value without type (kind NULL, rank -1). `name` NULL or taken already: a unique one is made from it. */
xcc_value *xcc_value_create(xcc_graph *g, const char *name);
/* Gives a value another name, made unique likewise. */
xcvm_status xcc_value_rename(xcc_value *v, const char *name);
/* A value's type with the names of its dimensions, which the module lends. */
xcvm_type xcc_value_type(const xcc_module *m, const xcc_value *v);

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
/* A value as an operand or a result of an argument struct. NULL stays NULL. */
static inline xcvm_value *xcc_type_of(const xcc_value *v) { return v != NULL ? (xcvm_value *)&v->type : NULL; }
#define XCC_IN(v) xcc_type_of(v)
#define XCC_OUT(v) xcc_type_of(v)

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
xcvm_status xcc_graph_dump(const xcc_graph *g, xcvm_sink sink);

#endif
