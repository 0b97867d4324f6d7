/* The module: the limits, the memory, the names and the symbolic dimensions of one compilation's graph. */
#ifndef XCVM_COMPILER_IR_MODULE_H
#define XCVM_COMPILER_IR_MODULE_H

#include "base/budget.h"
#include "base/hash.h"
#include "base/heap.h"
#include "compiler/ir/recorder.h"
#include "xcvm/compiler.h"

typedef struct xcc_module xcc_module;
typedef struct xcc_graph xcc_graph;
typedef struct xcc_node xcc_node;
typedef struct xcc_value xcc_value;
typedef struct xcc_group xcc_group;
typedef struct xcc_compilation xcc_compilation;

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
    size_t constant_bytes;  /* of all constants but those on the heap: those of the model, above all */
    size_t copied_bytes;    /* of weights that rules wrote anew */
    uint64_t folding_ns;    /* that folding has taken so far */
    uint64_t changes;       /* that passes have made so far */
    xcc_recorder *recorder; /* executes what is built; NULL: nodes are kept */
    xcc_group *groups;      /* all of them */
    uint32_t group_count;
    xcc_compilation *compilation; /* switches and results of passes (compilation.h) */
};

/* ---- Limits and memory. Failures leave module->error filled and return NULL or a status. ---- */

/* A caller's options, of an older or a newer header or NULL, as this library knows them. */
xcvm_status xcc_options_read(xcc_options *o, const xcc_options *given, xcvm_error *error);
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

/* ---- Names ---- */

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

/* ---- Symbolic dimensions ---- */

/* The dimension of that name: the size that options->dims fixes it to, else a symbol; NULL: a new symbol. 0 is a size,
 * so a failure (out of memory) shows in m->error alone and gives XCVM_ANY_DIM. */
int64_t xcc_symbol(xcc_module *m, const char *name);
/* A new symbol for a dimension of `owner` that changes from one iteration to the next. */
int64_t xcc_symbol_of(xcc_module *m, const xcc_value *owner);
bool xcc_symbol_is_of(const xcc_module *m, int64_t dim, const xcc_value *owner);
bool xcc_symbol_known(const xcc_module *m, const char *name);  /* whether xcc_symbol was asked for it */
const char *xcc_symbol_name(const xcc_module *m, int64_t dim); /* NULL for a number or a made-up one */

#endif
