/* Names of a graph and their values; what all graphs of a model share. */
#include "compiler/import_onnx/lower/importer.h"

/* Limits of the bytes of all sparse tensors in dense form, absolute and as a multiple of the model's size. */
enum { DENSE_RATIO = 64 };
#define DENSE_BYTES ((size_t)64 << 20)

bool xcc_scope_find(const xcc_scope *scope, const char *name, xcc_value **value)
{
    for (; scope != NULL; scope = scope->parent) {
        const struct xcc_table_entry *entry = xcc_table_lookup(&scope->names, name);
        if (entry != NULL) {
            *value = (xcc_value *)(intptr_t)entry->value;
            return true;
        }
    }
    return false;
}

xcvm_status xcc_scope_bind(xcc_importer *imp, xcc_scope *scope, const char *name, xcc_value *value, const char *what)
{
    XCVM_CHECK(imp->m->error, xcc_table_lookup(&scope->names, name) == NULL, INVALID_MODEL,
               "%s '%s' has the name of another value", what, name);
    return xcc_table_put(imp->m, &scope->names, name, (intptr_t)value);
}

xcvm_status xcc_import_output(xcc_importer *imp, const xcc_scope *scope, const char *name, xcc_value **value)
{
    XCVM_CHECK(imp->m->error, name != NULL && name[0] != '\0', INVALID_MODEL, "an output of graph '%s' has no name",
               scope->graph->name);
    XCVM_CHECK(imp->m->error, xcc_scope_find(scope, name, value) && *value != NULL, INVALID_MODEL,
               "no node defines the output '%s'", name);
    return XCVM_OK;
}

xcvm_status xcc_sparse_read(xcc_importer *imp, const Onnx__SparseTensorProto *proto, xcc_tensor *tensor)
{
    xcc_module *m = imp->m;
    const size_t most = imp->model_bytes / DENSE_RATIO < DENSE_BYTES ? DENSE_BYTES : imp->model_bytes * DENSE_RATIO;
    XCVM_TRY(xcc_sparse_tensor_read(proto, &m->arena, &imp->files, most - imp->dense_bytes, tensor, m->error));
    imp->dense_bytes += tensor->bytes;
    return XCVM_OK;
}
