/* Functions of a model: finds the function that a node calls, and looks up names in it. */
#include "compiler/import_onnx/import.h"

#include <stdio.h>
#include <string.h>

/* Numbers of fields that came with later versions of the messages. */
enum { FUNCTION_ATTRIBUTE_DEFAULTS = 11, FUNCTION_OVERLOAD = 13, NODE_OVERLOAD = 8 };

/* A text that two functions have in common only if domain, name and overload are the same. */
static xcvm_status make_key(xcc_importer *imp, const char *domain, const char *name, const ProtobufCMessage *message,
                            uint32_t overload_number)
{
    const uint8_t *overload = NULL;
    size_t overload_length = 0;
    unsigned first = 0;
    xcc_message_unknown(message, overload_number, &first, &overload, &overload_length);
    domain = xcc_domain(domain);
    const size_t domain_length = strlen(domain), name_length = strlen(name);
    const size_t need = domain_length + name_length + 2 * overload_length + 64;
    if (need > imp->key_bytes) {
        imp->key = xcc_alloc(imp->m, 2 * need);
        if (imp->key == NULL)
            return XCVM_OUT_OF_MEMORY;
        imp->key_bytes = 2 * need;
    }
    int used = snprintf(imp->key, imp->key_bytes, "%zu %zu ", domain_length, name_length);
    char *to = imp->key + used;
    memcpy(to, domain, domain_length);
    memcpy(to + domain_length, name, name_length);
    to += domain_length + name_length;
    /* An overload is bytes, which may be 0. */
    for (size_t i = 0; i < overload_length; i++) {
        *to++ = (char)('a' + (overload[i] >> 4));
        *to++ = (char)('a' + (overload[i] & 15));
    }
    *to = '\0';
    return XCVM_OK;
}

xcvm_status xcc_functions_read(xcc_importer *imp)
{
    xcc_module *m = imp->m;
    const Onnx__ModelProto *model = imp->model;
    imp->nodes = model->graph->n_node;
    xcc_function *functions = xcc_alloc(m, model->n_functions * sizeof *functions);
    if (functions == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < model->n_functions; i++) {
        const Onnx__FunctionProto *f = model->functions[i];
        XCVM_TRY(xcc_poll(m));
        functions[i] = (xcc_function){.proto = f, .bytes = protobuf_c_message_get_packed_size(&f->base)};
        imp->nodes += f->n_node;
        if (f->name == NULL)
            continue;
        XCVM_TRY(make_key(imp, f->domain, f->name, &f->base, FUNCTION_OVERLOAD));
        /* The first, if there are several. */
        if (xcc_table_lookup(&imp->functions, imp->key) != NULL)
            continue;
        const char *key = xcc_string(m, imp->key, strlen(imp->key));
        if (key == NULL)
            return XCVM_OUT_OF_MEMORY;
        XCVM_TRY(xcc_table_put(m, &imp->functions, key, (intptr_t)&functions[i]));
    }
    return XCVM_OK;
}

xcvm_status xcc_function_find(xcc_importer *imp, const Onnx__NodeProto *node, xcc_function **function)
{
    *function = NULL;
    if (imp->functions.count == 0)
        return XCVM_OK;
    XCVM_TRY(make_key(imp, node->domain, node->op_type, &node->base, NODE_OVERLOAD));
    const struct xcc_table_entry *entry = xcc_table_lookup(&imp->functions, imp->key);
    if (entry != NULL)
        *function = (xcc_function *)(intptr_t)entry->value;
    return XCVM_OK;
}

xcvm_status xcc_opsets_read(xcc_module *m, Onnx__OperatorSetIdProto *const *opsets, size_t count, xcc_table *table)
{
    for (size_t i = 0; i < count; i++) {
        const char *domain = xcc_domain(opsets[i]->domain);
        const struct xcc_table_entry *known = xcc_table_lookup(table, domain);
        if (opsets[i]->version > (known != NULL ? known->value : 0))
            XCVM_TRY(xcc_table_put(m, table, domain, opsets[i]->version));
    }
    return XCVM_OK;
}

xcvm_status xcc_function_open(xcc_importer *imp, xcc_function *f)
{
    xcc_module *m = imp->m;
    const uint8_t *bytes;
    size_t count;
    unsigned next = 0;
    if (f->opened)
        return XCVM_OK;
    XCVM_TRY(xcc_opsets_read(m, f->proto->opset_import, f->proto->n_opset_import, &f->opsets));
    while (xcc_message_unknown(&f->proto->base, FUNCTION_ATTRIBUTE_DEFAULTS, &next, &bytes, &count)) {
        ProtobufCMessage *message;
        XCVM_TRY(xcc_message_unpack(&onnx__attribute_proto__descriptor, bytes, count, xcc_stop_of(m), &m->arena,
                                    &message, m->error));
        const Onnx__AttributeProto *a = (const Onnx__AttributeProto *)message;
        if (a->name != NULL && xcc_table_lookup(&f->defaults, a->name) == NULL)
            XCVM_TRY(xcc_table_put(m, &f->defaults, a->name, (intptr_t)a));
    }
    f->opened = true;
    return XCVM_OK;
}
