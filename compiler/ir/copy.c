/* Copies of nodes. */
#include "compiler/ir/builder.h"
#include "proto/arguments.h"

#include <string.h>

/* Copies one operand field. */
static xcvm_status copy_operands(const xcc_node *n, const xcvm_field *field, char *args, xcc_copied copied, void *user)
{
    xcc_module *m = n->graph->module;
    const size_t count = xcvm_field_count(field, n->args);
    xcvm_value **list = xcc_alloc(m, count * sizeof *list);
    if (list == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t k = 0; k < count; k++) {
        xcc_value *v = xcc_value_of(xcvm_field_value(field, n->args, k)), *copy = NULL;
        if (v != NULL)
            XCVM_TRY(copied(user, v, field, &copy));
        XCVM_CHECK(m->error,
                   copy != NULL || v == NULL || field->role != XCVM_ROLE_OUT || xcvm_field_may_be_absent(field),
                   INTERNAL, "a copy of %s (%s) lacks its result %s", n->name, n->schema->name, field->name);
        list[k] = XCC_OUT(copy);
    }
    /* Lists of operands and of results have the same layout. */
    if (xcvm_field_is_list(field)) {
        ((xcvm_outputs *)(void *)(args + field->offset))->at = list;
        return XCVM_OK;
    }
    *(xcvm_value **)(void *)(args + field->offset) = list[0];
    xcc_free(m, list, count * sizeof *list);
    return XCVM_OK;
}

xcc_node *xcc_node_copy(xcc_builder *b, const xcc_node *n, xcc_copied copied, void *user)
{
    xcc_module *m = n->graph->module;
    char *args = xcc_alloc(m, n->schema->args_size);
    if (args == NULL)
        return NULL;
    memcpy(args, n->args, n->schema->args_size);
    for (size_t f = 0; f < n->schema->field_count; f++)
        if (xcvm_field_is_operand(&n->schema->fields[f]) &&
            copy_operands(n, &n->schema->fields[f], args, copied, user) != XCVM_OK)
            return NULL;
    xcc_node *copy = xcc_append(b, n->schema->opcode, args);
    for (size_t f = 0; f < n->schema->field_count; f++) {
        const xcvm_field *field = &n->schema->fields[f];
        if (!xcvm_field_is_operand(field) || !xcvm_field_is_list(field))
            continue;
        const xcvm_outputs *list = (const void *)(args + field->offset);
        xcc_free(m, list->at, list->count * sizeof *list->at);
    }
    xcc_free(m, args, n->schema->args_size);
    return copy;
}
