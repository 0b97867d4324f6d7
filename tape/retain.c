/* Retained elements: a recorded call refers to its operands, since gradients flow to them, but its rule need not read
 * them. What no rule reads, and nobody can name, is given back at once; its type stays. */
#include "tape/tape.h"

static bool reads(const tape_record *r, unsigned what) { return (r->spares & what) == 0; }

void tape_retain(tape_record *r)
{
    /* What waits, or is evaluated again, reads what it is called with. */
    r->spares = r->operation != NULL || r->tape->lazy ? 0 : (uint8_t)xcc_gradient_spares(r->schema->opcode);
    const uint32_t of_operands = reads(r, XCC_SPARES_OPERANDS), of_results = reads(r, XCC_SPARES_RESULTS);
    for (uint32_t i = 0; i < r->in_count; i++)
        if (r->in[i] != NULL) {
            r->in[i]->refs++;
            r->in[i]->uses++;
            r->in[i]->readers += of_operands;
        }
    for (uint32_t i = 0; i < r->out_count; i++)
        if (r->out[i] != NULL) {
            r->out[i]->creator = r;
            r->out[i]->readers += of_results;
        }
}

void tape_retain_no_more(tape_record *r)
{
    const uint32_t of_operands = reads(r, XCC_SPARES_OPERANDS), of_results = reads(r, XCC_SPARES_RESULTS);
    for (uint32_t i = 0; i < r->in_count; i++)
        if (r->in[i] != NULL) {
            r->in[i]->uses--;
            r->in[i]->readers -= of_operands;
        }
    for (uint32_t i = 0; i < r->out_count; i++)
        if (r->out[i] != NULL)
            r->out[i]->readers -= of_results;
}

void tape_retain_instead(tape_record *r, tape_variable *v, tape_variable *instead)
{
    size_t at = 0;
    for (size_t f = 0; f < r->schema->field_count; f++) {
        const xcvm_field *field = &r->schema->fields[f];
        if (field->role != XCVM_ROLE_OUT)
            continue;
        /* Lists are the record's own. */
        if (!xcvm_field_is_list(field) && r->out[at] == v)
            *(xcvm_value **)(void *)((char *)r->args + field->offset) = &instead->value.type;
        at += xcvm_field_count(field, r->args);
    }
    for (uint32_t i = 0; i < r->out_count; i++)
        if (r->out[i] == v)
            r->out[i] = instead;
    instead->creator = r;
    v->creator = NULL;
    v->readers -= reads(r, XCC_SPARES_RESULTS);
    instead->readers += reads(r, XCC_SPARES_RESULTS);
}

void tape_spare(tape_variable *v)
{
    xcvm_value *type = &v->value.type;
    if (!v->requires || v->creator == NULL || type->kind != XCVM_KIND_TENSOR || type->storage == NULL)
        return;
    xcvm_storage_release(type->storage);
    type->storage = NULL;
    type->data = NULL;
    v->spared = true;
}
