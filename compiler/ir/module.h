/* The module: the limits, the memory, the names and the symbolic dimensions of one compilation's graph. */
#ifndef XCVM_COMPILER_IR_MODULE_H
#define XCVM_COMPILER_IR_MODULE_H

#include "base/budget.h"
#include "base/hash.h"
#include "base/heap.h"
#include "compiler/ir/recorder.h"
#include "compiler/ir/stop.h"
#include "xcvm/compiler.h"

typedef struct xcc_module xcc_module;
typedef struct xcc_graph xcc_graph;
typedef struct xcc_node xcc_node;
typedef struct xcc_value xcc_value;
typedef struct xcc_group xcc_group;
typedef struct xcc_compilation xcc_compilation;

/* A hash table from names to numbers in the module's arena. Models choose the names, so the hash is keyed. */
typedef struct xcc_table {
    struct xcc_table_entry {
        const char *name;
        int64_t value;
    } * at;
    size_t count, capacity;
    const xcvm_hash_key *key; /* the module's key */
} xcc_table;

/* Pieces of memory larger than 16 times this are not reused before the module is released. */
enum { XCC_SPARE_CLASSES = 256 };

/* A symbolic dimension. */
typedef struct xcc_symbol_entry {
    const char *name;       /* NULL: made up */
    const xcc_value *owner; /* the loop state that it was made for; no other value need agree with it */
} xcc_symbol_entry;

/* Metadata keys of models and programs: class names, one per line, and the output with their scores. */
#define XCC_CLASS_NAMES "class_names"
#define XCC_CLASS_OUTPUT "class_output"

struct xcc_module {
    xcvm_budget budget;              /* of all memory of the compilation */
    const xcvm_allocator *allocator; /* the budget's allocator */
    uint64_t deadline_ns;            /* monotonic clock; 0: none */
    const uint32_t *cancelled;       /* atomic; nonzero: stop. NULL: never */
    uint32_t polls;                  /* number of xcc_poll calls */
    xcvm_hash_key key;               /* of the tables' hashes */
    xcvm_arena arena;
    void *spare[XCC_SPARE_CLASSES]; /* released arena memory: free lists of pieces of 16, 32 ... bytes, linked through
                                       the first word */
    xcc_value *spare_values;        /* discarded values, reused with their ids */
    xcvm_heap *heap;                /* of folded constants */
    xcc_value *owned;               /* values with storage on the heap */
    xcc_value *variables;           /* created as parameters and states, in order; some may be constants now */
    xcc_value **last_variable;      /* end of that list; NULL: empty */
    bool frozen;                    /* parameters are created as constants */
    xcc_table value_names, dim_names;
    const xcc_options *options;
    xcvm_error *error;         /* of the compilation: set by every function here */
    xcc_graph *graph;          /* top level */
    xcc_symbol_entry *symbols; /* dimension -2 - i is symbols[i] */
    size_t symbol_count, symbol_capacity;
    uint32_t value_count;
    size_t constant_bytes;  /* of all constants except those on the heap, mainly the model's */
    size_t copied_bytes;    /* of weights rewritten by rules */
    uint64_t folding_ns;    /* used by folding so far */
    uint64_t changes;       /* made by passes so far */
    xcc_recorder *recorder; /* executes nodes as they are built; NULL: nodes are kept */
    xcc_group *groups;      /* list of all groups */
    uint32_t group_count;
    xcc_compilation *compilation; /* switches and results of passes (compilation.h) */
};

/* ---- Limits and memory. Failures leave module->error filled and return NULL or a status. ---- */

/* Reads a caller's options, from an older or newer header, or NULL. */
xcvm_status xcc_options_read(xcc_options *o, const xcc_options *given, xcvm_error *error);
/* Returns zeroed memory, or NULL with the error set. */
void *xcc_alloc(xcc_module *m, size_t bytes);
/* Releases memory of xcc_alloc with that size (xcc_string: including the NUL) for reuse. Accepts NULL. */
void xcc_free(xcc_module *m, const void *memory, size_t bytes);
/* xcvm_arena_grow in the module's arena; returns NULL with the error set. */
void *xcc_grow(xcc_module *m, void *array, size_t count, size_t *capacity, size_t size);
xcvm_status xcc_out_of_memory(xcc_module *m);
xcvm_status xcc_out_of_time(xcc_module *m);
/* Sets the error of an operation that failed with `status` for lack of memory or time, or because it was cancelled. */
void xcc_name_limit(xcc_module *m, xcvm_status status);
/* Returns OUT_OF_TIME after the deadline, and CANCELLED after a cancellation. Loops that scale with the model must call
 * it about every microsecond. */
xcvm_status xcc_poll(xcc_module *m);
/* The same for calls that are milliseconds apart. */
xcvm_status xcc_poll_now(xcc_module *m);
/* Returns the deadline, or `ns` nanoseconds from now if that is earlier. */
uint64_t xcc_deadline_within(const xcc_module *m, uint64_t ns);
/* When the reader of a message stops. */
static inline xcc_stop xcc_stop_of(const xcc_module *m) { return (xcc_stop){m->deadline_ns, m->cancelled}; }
const char *xcc_string(xcc_module *m, const char *text, size_t length);

/* ---- Names ---- */

/* Returns the entry of a name, or the free one (name NULL) for it; the table must have room. */
struct xcc_table_entry *xcc_table_find(const xcc_table *t, const char *name);
/* Ensures room for one more entry. The caller increments the count. */
bool xcc_table_reserve(xcc_module *m, xcc_table *t);
/* Returns NULL if the table does not contain the name. */
const struct xcc_table_entry *xcc_table_lookup(const xcc_table *table, const char *name);
/* Removes a name if present. The name itself is not freed. */
void xcc_table_remove(xcc_table *t, const char *name);
/* Adds the name, which must outlive the table, or changes its value. */
xcvm_status xcc_table_put(xcc_module *m, xcc_table *table, const char *name, int64_t value);

/* ---- Symbolic dimensions ---- */

/* Returns the dimension of that name: the size that options->dims gives, else a symbol; NULL: a new symbol. Because 0
 * is a size, failure (out of memory) is visible only in m->error and gives XCVM_ANY_DIM. */
int64_t xcc_symbol(xcc_module *m, const char *name);
/* Creates a symbol for a dimension of `owner` that changes between iterations. */
int64_t xcc_symbol_of(xcc_module *m, const xcc_value *owner);
bool xcc_symbol_is_of(const xcc_module *m, int64_t dim, const xcc_value *owner);
bool xcc_symbol_known(const xcc_module *m, const char *name);  /* true if xcc_symbol has created it */
const char *xcc_symbol_name(const xcc_module *m, int64_t dim); /* NULL for a number or a made-up symbol */

#endif
