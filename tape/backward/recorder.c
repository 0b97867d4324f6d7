/* The recorder of the tape's module: the builder of a rule executes the nodes that it appends. */
#include "ops/table/table.h"
#include "tape/backward/backward.h"

#include <string.h>

static xcvm_tape *tape_of(xcc_recorder *r) { return (xcvm_tape *)(void *)r; }

static xcc_value *value_of(tape_variable *v) { return v != NULL ? &v->value : NULL; }

static xcc_value *make_value(xcc_recorder *r) { return value_of(tape_variable_create(tape_of(r))); }

static xcc_value *make_constant(xcc_recorder *r, xcvm_dtype dtype, int rank, const int64_t *dims, const void *data,
                                size_t bytes)
{
    (void)bytes; /* rules make no string tensors */
    return value_of(tape_tensor(tape_of(r), dtype, rank, dims, data));
}

/* ---- Arguments ---- */

/* Bytes that copies of the lists and texts of an argument need, each rounded up. */
static size_t extra_of(const xcvm_field *f, const void *at)
{
    const xcvm_texts *texts = at;
    size_t bytes = 0;
    switch (f->kind) {
    case XCVM_FIELD_INTS:
        return xcvm_round_up(((const xcvm_ints *)at)->count * sizeof(int64_t), 16);
    case XCVM_FIELD_FLOATS:
        return xcvm_round_up(((const xcvm_floats *)at)->count * sizeof(double), 16);
    case XCVM_FIELD_TEXT:
        return xcvm_round_up(((const xcvm_text *)at)->length + 1, 16);
    case XCVM_FIELD_TEXTS:
        for (size_t i = 0; i < texts->count; i++)
            bytes += xcvm_round_up(texts->at[i].length + 1, 16);
        return bytes + xcvm_round_up(texts->count * sizeof *texts->at, 16);
    default:
        return 0;
    }
}

static void *copy_bytes(char **behind, const void *from, size_t bytes)
{
    void *to = *behind;
    if (bytes > 0 && from != NULL)
        memcpy(to, from, bytes);
    *behind += xcvm_round_up(bytes, 16);
    return to;
}

static void copy_text(char **behind, xcvm_text *text)
{
    char *to = *behind;
    if (text->length > 0)
        memcpy(to, text->at, text->length);
    to[text->length] = '\0';
    text->at = to;
    *behind += xcvm_round_up(text->length + 1, 16);
}

static void copy_lists(const xcvm_field *f, void *at, char **behind)
{
    xcvm_ints *ints = at;
    xcvm_floats *floats = at;
    xcvm_texts *texts = at;
    xcvm_text *copies;
    switch (f->kind) {
    case XCVM_FIELD_INTS:
        ints->at = copy_bytes(behind, ints->at, ints->count * sizeof *ints->at);
        break;
    case XCVM_FIELD_FLOATS:
        floats->at = copy_bytes(behind, floats->at, floats->count * sizeof *floats->at);
        break;
    case XCVM_FIELD_TEXT:
        copy_text(behind, at);
        break;
    case XCVM_FIELD_TEXTS:
        copies = copy_bytes(behind, texts->at, texts->count * sizeof *texts->at);
        for (size_t i = 0; i < texts->count; i++)
            copy_text(behind, &copies[i]);
        texts->at = copies;
        break;
    default:
        break;
    }
}

/* Copies the operands or results of a field to the record, and makes a list refer to that copy. */
static void bind_list(const xcvm_field *f, void *at, tape_variable **list, size_t count)
{
    if (!xcvm_field_is_list(f)) {
        list[0] = tape_variable_of(*(xcc_value *const *)at);
        return;
    }
    xcvm_inputs *inputs = at; /* results have the same layout */
    if (count > 0)
        memcpy(list, inputs->at, count * sizeof *list);
    inputs->at = (const xcvm_value *const *)(void *)list;
}

xcvm_status tape_op_execute_args(xcvm_tape *t, const xcvm_schema *schema, const void *args)
{
    size_t in = 0, out = 0, extra = 0;
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *f = &schema->fields[i];
        if (xcvm_field_is_operand(f))
            *(f->role == XCVM_ROLE_OUT ? &out : &in) += xcvm_field_count(f, args);
        else
            extra += extra_of(f, (const char *)args + f->offset);
    }
    void *behind;
    tape_op_record *r = t->failed ? NULL : tape_op_record_create(t, schema, in, out, extra, &behind);
    if (r == NULL)
        return t->error.status;
    char *free_bytes = behind;
    memcpy(r->args, args, schema->args_size);
    in = out = 0;
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *f = &schema->fields[i];
        void *at = (char *)r->args + f->offset;
        if (!xcvm_field_is_operand(f)) {
            copy_lists(f, at, &free_bytes);
            continue;
        }
        const size_t count = xcvm_field_count(f, args);
        const bool result = f->role == XCVM_ROLE_OUT;
        bind_list(f, at, result ? &r->out[out] : &r->in[in], count);
        *(result ? &out : &in) += count;
    }
    return tape_op_execute(t, r);
}

static xcvm_status append_op(xcc_recorder *r, xcvm_opcode opcode, const void *args)
{
    return tape_op_execute_args(tape_of(r), xcvm_schema_of(opcode), args);
}

/* ---- Functions of tapes only ---- */

/* Runs the op again for a result that it did not return. Random ops always return all results. */
static xcc_value *extra_result(xcc_recorder *recorder, xcc_node *n, size_t wanted)
{
    xcvm_tape *t = tape_of(recorder);
    char *args = xcc_alloc(&t->module, n->schema->args_size);
    tape_variable *extra = NULL;
    if (args == NULL)
        return NULL;
    memcpy(args, n->args, n->schema->args_size);
    for (size_t i = 0, result = 0; i < n->schema->field_count; i++) {
        const xcvm_field *f = &n->schema->fields[i];
        if (f->role != XCVM_ROLE_OUT)
            continue;
        if (f->kind == XCVM_FIELD_OPTIONAL && result != wanted) {
            *(xcvm_value **)(void *)(args + f->offset) = NULL;
        } else {
            tape_variable *v = tape_variable_create(t);
            if (v == NULL)
                return NULL;
            *(xcvm_value **)(void *)(args + f->offset) = &v->value.type;
            extra = result == wanted ? v : extra;
        }
        result++;
    }
    return tape_op_execute_args(t, n->schema, args) == XCVM_OK ? value_of(extra) : NULL;
}

tape_variable *tape_variable_alias(xcvm_tape *t, tape_variable *from)
{
    tape_variable *v;
    if (!t->recording || !from->requires) {
        if ((v = tape_variable_share(t, from)) != NULL)
            tape_variable_require(v, true);
        return v;
    }
    if ((v = tape_variable_create(t)) == NULL)
        return NULL;
    const xcvm_Identity_args args = {.y = &v->value.type, .x = &from->value.type};
    return tape_op_execute_args(t, xcvm_schema_of(XCVM_OP_Identity), &args) == XCVM_OK ? v : NULL;
}

/* Recording is on for the formula alone if the rule's gradients are not differentiable. */
static xcc_value *alias_value(xcc_recorder *recorder, xcc_value *x)
{
    xcvm_tape *t = tape_of(recorder);
    if (tape_variable_check_readable(t, tape_variable_of(x)) != XCVM_OK)
        return NULL;
    const bool connects = t->recording && !t->formula;
    t->recording = connects;
    tape_variable *v = tape_variable_alias(t, tape_variable_of(x));
    t->formula = !connects;
    t->recording = true;
    return value_of(v);
}

static xcvm_status differentiate(xcc_recorder *recorder, const xcc_seed *seeds, size_t seed_count,
                                 xcc_value *const *wrt, size_t count, xcc_value **gradients)
{
    xcvm_tape *t = tape_of(recorder);
    const bool once = t->formula;
    tape_variable **lists = xcc_alloc(&t->module, (2 * seed_count + count) * sizeof *lists);
    if (lists == NULL)
        return tape_latch_failure(t, XCVM_OUT_OF_MEMORY);
    for (size_t i = 0; i < seed_count; i++) {
        lists[i] = tape_variable_of(seeds[i].value);
        lists[seed_count + i] = tape_variable_of(seeds[i].gradient);
    }
    for (size_t i = 0; i < count; i++)
        lists[2 * seed_count + i] = tape_variable_of(wrt[i]);
    t->formula = false;
    const tape_backward_request request = {.kind = TAPE_GRADIENTS,
                                           .root_count = seed_count,
                                           .roots = lists,
                                           .seeds = lists + seed_count,
                                           .wrt_count = count,
                                           .wrt = lists + 2 * seed_count,
                                           .gradients = (tape_variable **)(void *)gradients,
                                           .retain = !once,
                                           .create = !once};
    const xcvm_status status = tape_backward_run(t, &request);
    if (once)
        t->recording = false;
    return status;
}

void tape_recorder_init(xcvm_tape *t)
{
    t->recorder = (xcc_recorder){.node = &t->recorded_node,
                                 .value = make_value,
                                 .constant = make_constant,
                                 .append = append_op,
                                 .extra_result = extra_result,
                                 .alias = alias_value,
                                 .differentiate = differentiate};
    t->module.recorder = &t->recorder;
}
