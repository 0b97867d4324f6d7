/* Retained elements: elements that no gradient rule reads are freed as soon as no handle names the variable. The
 * type stays for the rules. */
#include "tape/mode.h"

static bool rule_reads(const tape_op_record *r, unsigned what) { return (r->read_elements & what) != 0; }

void tape_retain_elements(tape_op_record *r)
{
    /* An op that waits, or may run again, reads all operands. */
    r->read_elements =
        (uint8_t)(r->operation != NULL || r->tape->mode->defers ? XCVM_READS_BOTH : r->schema->gradient_reads);
    const uint32_t of_operands = rule_reads(r, XCVM_READS_OPERANDS), of_results = rule_reads(r, XCVM_READS_RESULTS);
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

void tape_unretain_elements(tape_op_record *r)
{
    const uint32_t of_operands = rule_reads(r, XCVM_READS_OPERANDS), of_results = rule_reads(r, XCVM_READS_RESULTS);
    for (uint32_t i = 0; i < r->in_count; i++)
        if (r->in[i] != NULL) {
            r->in[i]->uses--;
            r->in[i]->readers -= of_operands;
        }
    for (uint32_t i = 0; i < r->out_count; i++)
        if (r->out[i] != NULL)
            r->out[i]->readers -= of_results;
}

void tape_replace_retained_result(tape_op_record *r, tape_variable *v, tape_variable *instead)
{
    size_t at = 0;
    for (size_t f = 0; f < r->schema->field_count; f++) {
        const xcvm_field *field = &r->schema->fields[f];
        if (field->role != XCVM_ROLE_OUT)
            continue;
        /* Lists refer to the record's arrays. */
        if (!xcvm_field_is_list(field) && r->out[at] == v)
            *(xcvm_value **)(void *)((char *)r->args + field->offset) = &instead->value.type;
        at += xcvm_field_count(field, r->args);
    }
    for (uint32_t i = 0; i < r->out_count; i++)
        if (r->out[i] == v)
            r->out[i] = instead;
    instead->creator = r;
    v->creator = NULL;
    v->readers -= rule_reads(r, XCVM_READS_RESULTS);
    instead->readers += rule_reads(r, XCVM_READS_RESULTS);
}

void tape_free_unused_elements(tape_variable *v)
{
    xcvm_value *type = &v->value.type;
    if (!v->requires || v->creator == NULL || type->kind != XCVM_KIND_TENSOR || type->storage == NULL)
        return;
    xcvm_storage_release(type->storage);
    type->storage = NULL;
    type->data = NULL;
    v->elements_freed = true;
}
