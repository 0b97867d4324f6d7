/* The steps of an import. */
#ifndef XCVM_COMPILER_IMPORT_ONNX_IMPORT_H
#define XCVM_COMPILER_IMPORT_ONNX_IMPORT_H

#include "compiler/import_onnx/lower/importer.h"

/* The opset of a domain that `frame` imports; 0 if it imports none. */
int64_t xcc_opset_version(const xcc_frame *frame, const char *domain);
/* The versions that a model or a function imports, by domain; the highest, where it imports several. */
xcvm_status xcc_opsets_read(xcc_module *m, Onnx__OperatorSetIdProto *const *opsets, size_t count, xcc_table *table);

/* Lists the model's functions (import_functions.c). */
xcvm_status xcc_functions_read(xcc_importer *imp);
/* The model's function that a node calls; NULL if it calls none. */
xcvm_status xcc_function_find(xcc_importer *imp, const Onnx__NodeProto *node, xcc_function **function);
/* Fills its tables. */
xcvm_status xcc_function_open(xcc_importer *imp, xcc_function *function);

/* Records module->error as a problem of the node, so that import can continue and find others. Returns statuses that do
 * not concern the node, such as OUT_OF_MEMORY. */
xcvm_status xcc_problem_note(xcc_importer *imp, const Onnx__NodeProto *node, int64_t version);
/* Notes every operator in `nodes`, their subgraphs and the functions they call that cannot be imported. */
xcvm_status xcc_import_survey(xcc_importer *imp, const xcc_frame *frame, Onnx__NodeProto *const *nodes, size_t count);

/* Sorts the nodes into an order that can be executed, and keeps their order if possible. Checks that each name is
 * defined exactly once. */
xcvm_status xcc_import_order(xcc_importer *imp, const xcc_scope *scope, Onnx__NodeProto *const *nodes, size_t count,
                             size_t *order);
/* Lowers nodes at the end of scope->graph and binds their results. */
xcvm_status xcc_import_nodes(xcc_importer *imp, xcc_scope *scope, Onnx__NodeProto *const *nodes, size_t count);
/* Initializers and nodes of a graph whose inputs are bound. */
xcvm_status xcc_import_graph(xcc_importer *imp, xcc_scope *scope, const Onnx__GraphProto *graph);

#endif
