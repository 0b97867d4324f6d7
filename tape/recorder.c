/* What the builder of a tape's module does: it executes. */
#include "tape/tape.h"
#include "ops/table/table.h"

#include <string.h>

static xcvm_tape *tape_of(xcc_recorder *r) { return (xcvm_tape *)(void *)r; }

static xcc_value *value_of(tape_variable *v) { return v != NULL ? &v->value : NULL; }

static xcc_value *make_value(xcc_recorder *r) { return value_of(tape_variable_make(tape_of(r))); }

static xcc_value *make_constant(xcc_recorder *r, xcvm_dtype dtype, int rank, const int64_t *dims, const void *data,
                                size_t bytes)
{
    (void)bytes; /* of tensors, which rules make no strings of, as many as they have */
    return value_of(tape_tensor(tape_of(r), dtype, rank, dims, data));
}

/* ---- Arguments ---- */

/* Lists and texts of an argument struct: how many bytes copies of them take, each rounded up. */
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

static void *copy(char **behind, const void *from, size_t bytes)
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
        ints->at = copy(behind, ints->at, ints->count * sizeof *ints->at);
        break;
    case XCVM_FIELD_FLOATS:
        floats->at = copy(behind, floats->at, floats->count * sizeof *floats->at);
        break;
    case XCVM_FIELD_TEXT:
        copy_text(behind, at);
        break;
    case XCVM_FIELD_TEXTS:
        copies = copy(behind, texts->at, texts->count * sizeof *texts->at);
        for (size_t i = 0; i < texts->count; i++)
            copy_text(behind, &copies[i]);
        texts->at = copies;
        break;
    default:
        break;
    }
}

/* Puts the operands, or results, of a field into the record's list; the struct's own list is that from here on. */
static void place(const xcvm_field *f, void *at, tape_variable **list, size_t count)
{
    if (!xcvm_field_is_list(f)) {
        list[0] = tape_variable_of(*(xcc_value *const *)at);
        return;
    }
    xcvm_inputs *inputs = at; /* results are laid out alike */
    if (count > 0)
        memcpy(list, inputs->at, count * sizeof *list);
    inputs->at = (const xcvm_value *const *)(void *)list;
}

xcvm_status tape_execute_args(xcvm_tape *t, const xcvm_schema *schema, const void *args)
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
    tape_record *r = t->failed ? NULL : tape_record_make(t, schema, in, out, extra, &behind);
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
        place(f, at, result ? &r->out[out] : &r->in[in], count);
        *(result ? &out : &in) += count;
    }
    return tape_execute(t, r);
}

static xcvm_status append(xcc_recorder *r, xcvm_opcode opcode, const void *args)
{
    return tape_execute_args(tape_of(r), xcvm_schema_of(opcode), args);
}

/* ---- What only a tape can do otherwise ---- */

/* The call once more, for the one result that it was not asked for; calls that are random were asked for all. */
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
            tape_variable *v = tape_variable_make(t);
            if (v == NULL)
                return NULL;
            *(xcvm_value **)(void *)(args + f->offset) = &v->value.type;
            extra = result == wanted ? v : extra;
        }
        result++;
    }
    return tape_execute_args(t, n->schema, args) == XCVM_OK ? value_of(extra) : NULL;
}

tape_variable *tape_stand_in(xcvm_tape *t, tape_variable *from)
{
    tape_variable *v;
    if (!t->recording || !from->requires) {
        if ((v = tape_variable_share(t, from)) != NULL)
            tape_variable_require(v, true);
        return v;
    }
    if ((v = tape_variable_make(t)) == NULL)
        return NULL;
    const xcvm_Identity_args args = {.y = &v->value.type, .x = &from->value.type};
    return tape_execute_args(t, xcvm_schema_of(XCVM_OP_Identity), &args) == XCVM_OK ? v : NULL;
}

/* In a rule whose gradients are not to be differentiated, recording is on for the formula alone. */
static xcc_value *stand_in(xcc_recorder *recorder, xcc_value *x)
{
    xcvm_tape *t = tape_of(recorder);
    if (tape_check_read(t, tape_variable_of(x)) != XCVM_OK)
        return NULL;
    const bool connects = t->recording && !t->formula;
    t->recording = connects;
    tape_variable *v = tape_stand_in(t, tape_variable_of(x));
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
        return tape_stick(t, XCVM_OUT_OF_MEMORY);
    for (size_t i = 0; i < seed_count; i++) {
        lists[i] = tape_variable_of(seeds[i].value);
        lists[seed_count + i] = tape_variable_of(seeds[i].gradient);
    }
    for (size_t i = 0; i < count; i++)
        lists[2 * seed_count + i] = tape_variable_of(wrt[i]);
    t->formula = false;
    const tape_walk_request request = {.kind = TAPE_GRADIENTS,
                                       .root_count = seed_count,
                                       .roots = lists,
                                       .seeds = lists + seed_count,
                                       .wrt_count = count,
                                       .wrt = lists + 2 * seed_count,
                                       .gradients = (tape_variable **)(void *)gradients,
                                       .retain = !once,
                                       .create = !once};
    const xcvm_status status = tape_walk_back(t, &request);
    if (once)
        t->recording = false;
    return status;
}

void tape_recorder_init(xcvm_tape *t)
{
    t->recorder = (xcc_recorder){.node = &t->executed,
                                 .value = make_value,
                                 .constant = make_constant,
                                 .append = append,
                                 .extra_result = extra_result,
                                 .stand_in = stand_in,
                                 .differentiate = differentiate};
    t->module.recorder = &t->recorder;
}
