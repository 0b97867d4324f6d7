/* Writing a module as an ONNX model, instruction by instruction, as they are spelt as ONNX spells its operators.
 * write.c makes the model, graphs and tensors, write_nodes.c the nodes. Messages are made in the module's arena and
 * lend the constants' elements. */
#ifndef XCVM_COMPILER_EXPORT_ONNX_EXPORT_ONNX_H
#define XCVM_COMPILER_EXPORT_ONNX_EXPORT_ONNX_H

#include "compiler/ir/graph.h"
#include "compiler/onnx_model/onnx_model.h"

/* Writes the model to `sink`; `find` looks up operators. Fails with UNSUPPORTED, and lists all reasons, if ONNX cannot
 * express an instruction, a type or a state. Then the sink has received nothing. External data is written to onnx_data
 * of the options. */
xcvm_status xcc_onnx_write(xcc_module *m, xcc_operator_info_finder find, xcvm_sink sink);

/* ---- What the files share ---- */

typedef struct xcc_onnx_nodes {
    Onnx__NodeProto **at;
    size_t count, capacity;
} xcc_onnx_nodes;

typedef struct xcc_onnx_writer {
    xcc_module *m;
    xcc_operator_info_finder find_operator;
    int64_t opset; /* the lowest opset that has all operators so far */
    Onnx__TensorProto **initializers;
    size_t initializer_count, initializer_capacity;
    xcc_onnx_nodes literals; /* Constant nodes, which are the first of the model, so that its bodies see them */
    char **names;            /* name of a constant's initializer or node, by its id; NULL: not yet written */
    size_t numbered;         /* names that were made up */
    xcc_table node_names;
    xcc_table output_names; /* of the model */
    /* List of everything that is refused. */
    char refusals[400];
    size_t refused;
    const xcc_node *node; /* at hand */
} xcc_onnx_writer;

/* Records why the current node, or the model if there is none, cannot be written. Returns XCVM_OK, so that the others
 * are checked, too. */
xcvm_status xcc_onnx_refuse(xcc_onnx_writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends a node with space for these numbers of names; NULL with the module's error set. The caller fills in `outputs`
 * and `inputs`. */
Onnx__NodeProto *xcc_onnx_node(xcc_onnx_writer *w, xcc_onnx_nodes *nodes, const char *operator_name, size_t inputs,
                               size_t outputs, size_t attributes);
/* The name of a value, "" for none. Constants become initializers, or nodes if they are literals of floats. NULL with
 * the module's error set. */
char *xcc_onnx_name(xcc_onnx_writer *w, const xcc_value *v);
/* A name that no value has. */
char *xcc_onnx_new_name(xcc_onnx_writer *w);
Onnx__AttributeProto *xcc_onnx_attribute(xcc_onnx_writer *w, Onnx__NodeProto *node, const char *name,
                                         Onnx__AttributeProto__AttributeType type);
Onnx__TensorProto *xcc_onnx_tensor(xcc_onnx_writer *w, const xcvm_value *v, const char *name);
/* Adds an initializer of integers by name. */
char *xcc_onnx_ints(xcc_onnx_writer *w, size_t count, const int64_t *ints);
/* The body of a control node. */
xcvm_status xcc_onnx_graph(xcc_onnx_writer *w, xcc_graph *g, Onnx__GraphProto **graph);
/* All nodes of a graph. */
xcvm_status xcc_onnx_write_nodes(xcc_onnx_writer *w, const xcc_graph *g, xcc_onnx_nodes *nodes);

#endif
