/* The state of one import of an ONNX model, and the scopes of its names. */
#ifndef XCVM_COMPILER_IMPORT_ONNX_LOWER_IMPORTER_H
#define XCVM_COMPILER_IMPORT_ONNX_LOWER_IMPORTER_H

#include "compiler/ir/graph.h"
#include "compiler/onnx_model/onnx_model.h"

/* Names of one graph, or of one call of a function, with their values. Names of enclosing graphs are visible in a
 * body. */
typedef struct xcc_scope {
    const struct xcc_scope *parent;
    xcc_graph *graph;
    xcc_table names; /* addresses of xcc_values; 0: an operand that the caller of a function left out */
} xcc_scope;

/* A function of the model. */
typedef struct xcc_function {
    const Onnx__FunctionProto *proto;
    size_t bytes;       /* of its message */
    bool surveyed;      /* looked through for unknown operators */
    bool opened;        /* the tables are filled */
    xcc_table opsets;   /* versions of domains */
    xcc_table defaults; /* addresses of the attributes that it has defaults for */
} xcc_function;

/* The owner of the nodes that are imported: the model, or a function that it calls. */
typedef struct xcc_frame {
    const struct xcc_frame *caller; /* NULL: the model */
    const xcc_function *function;
    const xcc_table *opsets;         /* versions of domains */
    const struct xcc_lowering *call; /* whose attributes the function's nodes may refer to */
    int depth;
} xcc_frame;

/* A problem of one node. */
typedef struct xcc_problem {
    struct xcc_problem *next;
    xcvm_status status;
    const char *node, *op, *domain, *reason;
    int64_t version;
} xcc_problem;

typedef struct xcc_operator_row xcc_operator_row; /* lowering.h */
/* Returns the operator of that name in a domain, "" for ONNX's own; NULL if there is none. */
typedef const xcc_operator_row *(*xcc_operator_finder)(const char *domain, const char *name);

typedef struct xcc_importer xcc_importer;
/* Imports the initializers and nodes of a graph whose inputs are bound. */
typedef xcvm_status (*xcc_graph_importer)(xcc_importer *imp, xcc_scope *scope, const Onnx__GraphProto *graph);

struct xcc_importer {
    xcc_module *m;
    xcc_operator_finder find_operator;
    xcc_graph_importer import_graph;
    const Onnx__ModelProto *model;
    xcc_external_files files;
    const xcc_frame *frame;
    xcc_value *unsupported_result; /* the result of each node that could not be lowered */
    xcc_problem *problems, **last_problem;
    size_t problem_count;
    xcc_table likes;     /* names of values that lend their element type to CastLike */
    xcc_table defaults;  /* names of initializers that stay inputs */
    xcc_table outputs;   /* names of the model's outputs, which no other value may have */
    xcc_table opsets;    /* of the model: versions of domains */
    xcc_table functions; /* of the model, by what calls them: addresses of xcc_functions */
    char *key;           /* space for a name in that table */
    size_t key_bytes;
    size_t nodes;   /* of the model's graph and of its functions */
    size_t inlined; /* nodes of functions imported so far, once for each call, and their messages' bytes */
    size_t inlined_bytes;
    size_t gradient_values, gradient_steps; /* that operators Gradient have made, and values that they have looked at */
    size_t dense_bytes;                     /* of sparse tensors so far */
    size_t model_bytes;                     /* of its message */
    uint32_t lowerings;                     /* of nodes so far */
    size_t attempts;                        /* number of loop bodies that were lowered again */
    int64_t nchwc_block; /* channels in a block of the model's blocked weights; 0: not looked for yet */
};

/* false if nothing of that name is visible. */
bool xcc_scope_find(const xcc_scope *scope, const char *name, xcc_value **value);
/* Fails if the scope itself has that name already; `what` describes the named object. */
xcvm_status xcc_scope_bind(xcc_importer *imp, xcc_scope *scope, const char *name, xcc_value *value, const char *what);

/* Reads a sparse tensor, if it is not too large, with those before, for a model of this size. */
xcvm_status xcc_sparse_read(xcc_importer *imp, const Onnx__SparseTensorProto *proto, struct xcc_tensor *tensor);

/* The value of a graph's output. */
xcvm_status xcc_import_output(xcc_importer *imp, const xcc_scope *scope, const char *name, xcc_value **value);

#endif
