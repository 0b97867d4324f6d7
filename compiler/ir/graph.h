/* The compiler's graph: nodes are instructions, or structured control flow with bodies.
 *
 * A node has its instruction's argument struct, whose operands point to values of the graph. So shape rules, kernels
 * (for folding) and the emitter work on nodes directly. All objects are in the module's arena; removed nodes and values
 * are unlinked, but not freed. */
#ifndef XCVM_COMPILER_IR_GRAPH_H
#define XCVM_COMPILER_IR_GRAPH_H

#include "compiler/ir/module.h"
#include "ops/util/kernel.h"

/* A position that refers to a value: operand `index` of a node or, if node is NULL, output `index` of a graph. */
typedef struct xcc_use {
    xcc_value *value; /* NULL: absent, and in no list */
    xcc_node *node;
    xcc_graph *graph; /* graph of the node or of the output */
    uint32_t index;
    struct xcc_use *previous, *next; /* other uses of the value */
} xcc_use;

/* Origin of a value's elements. */
typedef enum xcc_value_kind {
    XCC_RESULT,    /* of a node, which may not exist yet */
    XCC_INPUT,     /* of its graph: passed to the program, or to a body by its node */
    XCC_CONSTANT,  /* known and immutable */
    XCC_PARAMETER, /* a trainable tensor with known initial elements */
    XCC_STATE      /* a tensor that a session keeps between runs, with known initial elements */
} xcc_value_kind;

struct xcc_value {
    xcvm_value type; /* first, so that operand pointers of argument structs are xcc_values. data: elements of a
                        constant, otherwise NULL, so that shape rules do not treat mutable elements as known. Unknown
                        dims as in base/value.h; symbols below XCVM_ANY_DIM index module->symbols */
    xcc_value_kind kind;
    const char *name;    /* as in the model, or made up and unique; never NULL */
    xcc_node *producer;  /* of a result that has a node; else NULL */
    const void *initial; /* initial elements of a parameter or state, of initial_bytes bytes */
    size_t initial_bytes;
    uint8_t initial_lead; /* bytes before them in a copy that the module owns */
    bool initial_copied;
    bool literal;     /* of a constant: see xcc_literal */
    xcc_graph *graph; /* where it is defined */
    uint32_t uses;    /* number of uses, including those in bodies and graph outputs */
    uint32_t id;      /* index into per-module tables */
    xcc_use *users;   /* list of its uses */
    uint32_t mark;    /* scratch for passes */
    /* Links in module->owned, module->variables or, after discarding, module->spare_values. */
    xcc_value *next_owned;
    xcc_value **owned_link; /* pointer to it in that list; NULL: in no list */
};

typedef enum xcc_node_kind {
    XCC_INSTRUCTION,
    XCC_IF,  /* inputs: cond. bodies: then, else, without parameters. outputs: those of the bodies */
    XCC_LOOP /* inputs: trip count or NULL, cond or NULL, states. body: (iteration, cond, states) -> (cond, states,
                scans). outputs: final states, then scans stacked on a new axis 0. Scan is imported as Loop */
} xcc_node_kind;

struct xcc_node {
    xcc_node_kind kind;
    const xcvm_schema *schema; /* XCC_INSTRUCTION */
    void *args;                /* XCC_INSTRUCTION: its argument struct */
    xcc_value **inputs;        /* control flow only; entries may be NULL */
    size_t input_count;
    xcc_value **outputs; /* control flow only; unused entries may be NULL */
    size_t output_count;
    xcc_value **captures; /* control flow only, set by canonicalize: values of enclosing graphs used in the bodies */
    size_t capture_count;
    xcc_graph *bodies[2];
    size_t body_count;
    const char *name;   /* of the model's node; never NULL */
    const char *origin; /* the model's operator, e.g. "Conv"; never NULL */
    xcc_graph *graph;
    xcc_use *uses; /* of its operands, in order */
    xcc_node *previous, *next;
    xcc_node *pending; /* scratch list of passes */
    bool removed;
    xcc_group *group; /* its group; NULL: none */
    uint32_t mark;    /* scratch for passes */
    uint32_t order;   /* position, set by xcc_graph_number */
};

/* Adjacent nodes that may run as one kernel. Values that any of them reads from outside are needed until the last one
 * has run. The creator of a group extends the struct. */
struct xcc_group {
    uint32_t number; /* index in the module */
    xcc_node **nodes;
    size_t node_count;
    xcc_value **xs; /* values read from outside, except constants of one element */
    size_t x_count;
    xcc_group *next; /* next group of the module */
};

struct xcc_graph {
    xcc_module *module;
    xcc_node *owner; /* the control-flow node of a body; NULL at the top */
    const char *name;
    xcc_node *first, *last;        /* in execution order */
    xcc_value **inputs, **outputs; /* set with xcc_graph_set_inputs and _outputs */
    size_t input_count, output_count, output_capacity;
    const char **output_names; /* names at that time; a pass may replace an output value */
    xcc_value **output_states; /* for each output, the state that it is stored in; NULL: returned to the caller. The
                                  array is NULL if there are none */
    xcc_use *uses;             /* of its outputs */
    uint32_t depth;            /* 0 at the top, 1 in its bodies, ... */
};

/* ---- Values and graphs. Failures leave module->error filled and return NULL or a status. ---- */

/* Initializes a module with an empty top-level graph. `options` (may be NULL) and `error` must outlive it. The module
 * must be released, also after failure. */
xcvm_status xcc_module_init(xcc_module *m, const xcc_options *options, xcvm_error *error);
void xcc_module_release(xcc_module *m);
/* Creates a value without type (kind NULL, rank -1). A unique name is derived if `name` is NULL or taken. */
xcc_value *xcc_value_create(xcc_graph *g, const char *name);
/* Renames a value, with a unique name likewise. */
xcvm_status xcc_value_rename(xcc_value *v, const char *name);
/* Returns a value's type with dimension names, which the module owns. */
xcvm_type xcc_value_type(const xcc_module *m, const xcc_value *v);

xcc_graph *xcc_graph_create(xcc_module *m, xcc_node *owner, const char *name);
/* Sets a graph's inputs; the array is copied. xcc_append_control makes the bodies of a control-flow node with it as
 * owner. */
xcvm_status xcc_graph_set_inputs(xcc_graph *g, size_t count, xcc_value *const *values);
/* Stored outputs keep their index, so further outputs must be appended. */
xcvm_status xcc_graph_set_outputs(xcc_graph *g, size_t count, xcc_value *const *values);
/* Appends outputs; existing ones keep their names. Those with an entry in `states` are stored in it; the others, or all
 * if `states` is NULL, are returned to the caller. Arrays are copied. */
xcvm_status xcc_graph_add_outputs(xcc_graph *g, size_t count, xcc_value *const *values, const char *const *names,
                                  xcc_value *const *states);
/* Stores `value` in the state at the end of a run: adds an output named after the state. */
xcvm_status xcc_graph_store(xcc_graph *g, xcc_value *state, xcc_value *value);
/* Removes the outputs whose entry in `removed`, of output_count entries, is true. */
xcvm_status xcc_graph_remove_outputs(xcc_graph *g, const bool *removed);
static inline xcc_value *xcc_graph_output_state(const xcc_graph *g, size_t index)
{
    return g->output_states != NULL ? g->output_states[index] : NULL;
}

/* ---- Traversal and modification ---- */

size_t xcc_node_input_count(const xcc_node *n); /* lists expanded, absent ones counted */
xcc_value *xcc_node_input(const xcc_node *n, size_t i);
/* The operand field of an instruction's input; NULL for control flow. */
const xcvm_field *xcc_node_input_field(const xcc_node *n, size_t i);
void xcc_node_set_input(xcc_node *n, size_t i, xcc_value *v); /* maintains `uses` */
size_t xcc_node_output_count(const xcc_node *n);
xcc_value *xcc_node_output(const xcc_node *n, size_t i);
static inline bool xcc_is(const xcc_node *n, xcvm_opcode op)
{
    return n != NULL && n->kind == XCC_INSTRUCTION && n->schema->opcode == op;
}
/* Returns true if it updates states in place; such nodes come last. */
static inline bool xcc_updates(const xcc_node *n)
{
    return n->kind == XCC_INSTRUCTION && n->schema->effect == XCVM_UPDATE;
}
/* Returns true if input `i` is a state that the node writes. */
bool xcc_writes_input(const xcc_node *n, size_t i);
#define XCC_ARGS(Name, node) ((xcvm_##Name##_args *)(node)->args)
/* The last node at which a value that `user` reads is needed: the end of user's group if the value comes from outside
 * the group. */
const xcc_node *xcc_last_needed(const xcc_node *user, const xcc_value *v);
static inline bool xcc_is_constant(const xcc_value *v) { return v != NULL && v->kind == XCC_CONSTANT; }
/* True for a parameter or a state, whose elements runs or training change. */
static inline bool xcc_is_variable(const xcc_value *v)
{
    return v != NULL && (v->kind == XCC_PARAMETER || v->kind == XCC_STATE);
}
static inline xcc_value *xcc_value_of(const xcvm_value *operand) { return (xcc_value *)operand; }
/* A value as an operand or a result of an argument struct. NULL stays NULL. */
static inline xcvm_value *xcc_type_of(const xcc_value *v) { return v != NULL ? (xcvm_value *)&v->type : NULL; }
#define XCC_IN(v) xcc_type_of(v)
#define XCC_OUT(v) xcc_type_of(v)

/* The same for a single use. */
void xcc_use_set(xcc_use *use, xcc_value *v);
/* Replaces every use of `old`, in this graph, its bodies and its outputs, by `new_value`. */
void xcc_replace_uses(xcc_graph *g, xcc_value *old, xcc_value *new_value);
/* Unlinks a node whose results have no uses, and removes its own uses. */
void xcc_node_remove(xcc_node *n);
/* Removes an instruction whose results have no uses, and releases its memory, its results and their names, so that a
 * module that records many calls stays small. Control flow is only removed. There must be no other pointers to it, and
 * its arguments must be those that xcc_append copied. Passes keep node lists and replace arguments, so they must remove
 * nodes, not discard them. */
void xcc_node_discard(xcc_node *n);
/* Discards a value without users and producer: a constant, parameter, state, or former input. Its id and name may be
 * reused. */
void xcc_value_discard(xcc_value *v);
/* Inserts a value at the front of a list of owned ones; removes it from its current list. */
void xcc_value_own(xcc_value **list, xcc_value *v);
void xcc_value_disown(xcc_value *v);
/* Moves a body's nodes before a node of the enclosing graph. The body has no outputs afterwards. Uses of its inputs
 * must have been replaced. */
void xcc_graph_inline(xcc_graph *body, xcc_node *before);
void xcc_node_move_before(xcc_node *n, xcc_node *before);
/* Used by the builder to insert new nodes. */
xcvm_status xcc_node_link_uses(xcc_node *n);
void xcc_node_insert(xcc_graph *g, xcc_node *n, xcc_node *before);
/* Infers a node's results again after its operands changed. Known facts that no longer follow are kept. Results of
 * control flow get their types from the bodies. */
xcvm_status xcc_node_infer(xcc_node *n);
/* Infers everything in a graph again. */
xcvm_status xcc_graph_infer(xcc_graph *g);
/* Widens the types of a loop's states to what all iterations agree on. *changed: a body parameter has become less
 * known, so types derived from it in the body are invalid (use xcc_loop_infer_body, or lower again). */
xcvm_status xcc_loop_widen(xcc_node *loop, bool *changed);
/* Returns the certain number of a loop's iterations: the count is constant and no condition stops it early. */
bool xcc_loop_trips(const xcc_node *loop, int64_t *trips);
/* Infers everything in the body again without previous knowledge, and widens until nothing changes. */
xcvm_status xcc_loop_infer_body(xcc_node *loop);
uint64_t xcc_node_flops(const xcc_node *n);
void xcc_graph_number(xcc_graph *g);
/* In debug builds, checks that links, uses, producers, order and types are consistent; fails with INTERNAL. */
xcvm_status xcc_graph_verify(xcc_graph *g);
/* Writes the graph as text, for dump_after: names of constants after @, of parameters after %, of states after &. */
xcvm_status xcc_graph_dump(const xcc_graph *g, xcvm_sink sink);

#endif
