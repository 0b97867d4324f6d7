/* The calls of the tape, row by row: from the struct that a macro of tape_calls.h fills in to the arguments that the
 * kernel takes. All from the instruction table. */
#include "tape/tape.h"

#include <string.h>

/* ---- Measuring ---- */

static size_t text_room(const char *text) { return xcvm_round_up(text != NULL ? strlen(text) + 1 : 1, 16); }

static size_t texts_room(const xcvm_text_list *texts)
{
    size_t bytes = xcvm_round_up(texts->count * sizeof(xcvm_text), 16);
    for (size_t i = 0; i < texts->count; i++)
        bytes += text_room(texts->at[i]);
    return bytes;
}

#define RESULT_TENSOR(name) s->out++;
#define RESULT_SEQUENCE(name) s->out++;
#define RESULT_ANY(name) s->out++;
#define RESULT_OPTIONAL(name) s->out++;
#define RESULT_LIST(name) s->out += c->out.name.count;
#define OPERAND_TENSOR(name) s->in++;
#define OPERAND_OPTIONAL(name) s->in++;
#define OPERAND_SEQUENCE(name) s->in++;
#define OPERAND_ANY(name) s->in++;
#define OPERAND_LIST(name) s->in += c->name.count;
#define OPERAND_ANYS(name) s->in += c->name.count;

#define CALL_PURE(...) __VA_ARGS__
#define CALL_RANDOM(...) __VA_ARGS__
#define CALL_EFFECT(...) __VA_ARGS__
#define CALL_UPDATE(...)
#define CALL_CONTROL(...)

#define OUT(kind, name, types) RESULT_##kind(name)
#define OUT_DYNAMIC(kind, name, types) RESULT_##kind(name)
#define IN(kind, name, types) OPERAND_##kind(name)
#define IN_PLACE(kind, name, types) OPERAND_##kind(name)
#define IN_VIEW(kind, name, types) OPERAND_##kind(name)
#define IN_SHAPE(kind, name, types) OPERAND_##kind(name)
#define INTS(name, min, max) s->extra += xcvm_round_up(c->name.count * sizeof(int64_t), 16);
#define FLOATS(name) s->extra += xcvm_round_up(c->name.count * sizeof(double), 16);
#define TEXT(name, value) s->extra += text_room(c->name);
#define TEXTS(name) s->extra += texts_room(&c->name);
#define XCVM_OP(Name, number, operands, shape, cost, effect, gradient, summary)                                        \
    CALL_##effect(static void measure_##Name(const void *call, tape_sizes *s) {                                        \
        const struct xcvm_##Name##_call *c = call;                                                                     \
        (void)c;                                                                                                       \
        (void)s;                                                                                                       \
        operands                                                                                                       \
    })
#include "ops/instructions.def"
#undef RESULT_TENSOR
#undef RESULT_SEQUENCE
#undef RESULT_ANY
#undef RESULT_OPTIONAL
#undef RESULT_LIST
#undef OPERAND_TENSOR
#undef OPERAND_OPTIONAL
#undef OPERAND_SEQUENCE
#undef OPERAND_ANY
#undef OPERAND_LIST
#undef OPERAND_ANYS

/* ---- Taking ---- */

static const xcvm_value *take_operand(tape_taking *k, xcvm_var v, const char *name)
{
    tape_variable *operand = tape_operand(k->tape, v, name);
    k->record->in[k->in++] = operand;
    return operand != NULL ? &operand->value.type : NULL;
}

static xcvm_inputs take_operands(tape_taking *k, const xcvm_var_list *list, const char *name)
{
    /* A variable begins with its value, so the array is one of values too. */
    const xcvm_inputs inputs = {(const xcvm_value *const *)(void *)&k->record->in[k->in], list->count};
    for (size_t i = 0; i < list->count; i++)
        take_operand(k, list->at[i], name);
    return inputs;
}

static xcvm_value *take_result(tape_taking *k, bool wanted)
{
    tape_variable *v = wanted && !k->tape->failed ? tape_variable_make(k->tape) : NULL;
    k->record->out[k->out++] = v;
    return v != NULL ? &v->value.type : NULL;
}

static xcvm_outputs take_results(tape_taking *k, size_t count)
{
    const xcvm_outputs outputs = {(xcvm_value *const *)(void *)&k->record->out[k->out], count};
    for (size_t i = 0; i < count; i++)
        take_result(k, true);
    return outputs;
}

static int64_t take_int(tape_taking *k, int64_t value, int64_t min, int64_t max, const char *name)
{
    if (value < min || value > max)
        tape_fail(k->tape, XCVM_OUT_OF_RANGE, "attribute '%s' is %lld, not between %lld and %lld", name,
                  (long long)value, (long long)min, (long long)max);
    return value;
}

/* Copies of lists, which the rule may read long after the call. */
static void *take_array(tape_taking *k, const void *from, size_t bytes)
{
    void *copy = k->behind;
    if (bytes > 0)
        memcpy(copy, from, bytes);
    k->behind += xcvm_round_up(bytes, 16);
    return copy;
}

static xcvm_ints take_ints(tape_taking *k, const xcvm_int_list *list, int64_t min, int64_t max, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        take_int(k, list->at[i], min, max, name);
    return (xcvm_ints){take_array(k, list->at, list->count * sizeof *list->at), list->count};
}

static xcvm_floats take_floats(tape_taking *k, const xcvm_float_list *list)
{
    return (xcvm_floats){take_array(k, list->at, list->count * sizeof *list->at), list->count};
}

static xcvm_text take_text(tape_taking *k, const char *text)
{
    const char *given = text != NULL ? text : "";
    const size_t length = strlen(given);
    return (xcvm_text){take_array(k, given, length + 1), length};
}

static xcvm_texts take_texts(tape_taking *k, const xcvm_text_list *list)
{
    xcvm_text *texts = (void *)k->behind;
    k->behind += xcvm_round_up(list->count * sizeof *texts, 16);
    for (size_t i = 0; i < list->count; i++)
        texts[i] = take_text(k, list->at[i]);
    return (xcvm_texts){texts, list->count};
}

static xcvm_dtype take_dtype(tape_taking *k, xcvm_dtype dtype, const char *name)
{
    if (dtype != XCVM_NO_DTYPE && xcvm_dtype_bits(dtype) == 0)
        tape_fail(k->tape, XCVM_INVALID_ARGUMENT, "attribute '%s' is %d, which is no element type", name, (int)dtype);
    return dtype;
}

#define TAKE_INTO_PURE k->into = c->into;
#define TAKE_INTO_RANDOM k->into = c->into;
#define TAKE_INTO_EFFECT
#define RESULT_TENSOR(name) a->name = take_result(k, true);
#define RESULT_SEQUENCE(name) a->name = take_result(k, true);
#define RESULT_ANY(name) a->name = take_result(k, true);
/* The call gives its first result, whether it may be absent or not. What is random or has an effect cannot be computed
 * again for its rule, which may need any. */
#define RESULT_OPTIONAL(name) a->name = take_result(k, k->out == 0 || c->out.name != NULL || once);
#define RESULT_LIST(name) a->name = take_results(k, c->out.name.count);
#define OPERAND_TENSOR(name) a->name = take_operand(k, c->name, #name);
#define OPERAND_OPTIONAL(name) a->name = take_operand(k, c->name, #name);
#define OPERAND_SEQUENCE(name) a->name = take_operand(k, c->name, #name);
#define OPERAND_ANY(name) a->name = take_operand(k, c->name, #name);
#define OPERAND_LIST(name) a->name = take_operands(k, &c->name, #name);
#define OPERAND_ANYS(name) a->name = take_operands(k, &c->name, #name);

#define OUT(kind, name, types) RESULT_##kind(name)
#define OUT_DYNAMIC(kind, name, types) RESULT_##kind(name)
#define IN(kind, name, types) OPERAND_##kind(name)
#define IN_PLACE(kind, name, types) OPERAND_##kind(name)
#define IN_VIEW(kind, name, types) OPERAND_##kind(name)
#define IN_SHAPE(kind, name, types) OPERAND_##kind(name)
#define INT(name, value, min, max) a->name = take_int(k, c->name, min, max, #name);
#define INTS(name, min, max) a->name = take_ints(k, &c->name, min, max, #name);
#define FLOAT(name, value) a->name = c->name;
#define FLOATS(name) a->name = take_floats(k, &c->name);
#define TEXT(name, value) a->name = take_text(k, c->name);
#define TEXTS(name) a->name = take_texts(k, &c->name);
#define DTYPE(name, value) a->name = take_dtype(k, c->name, #name);
#define CHOICE(name, set, value) a->name = (int)take_int(k, c->name, 0, XCVM_##set##_COUNT - 1, #name);
#define XCVM_OP(Name, number, operands, shape, cost, effect, gradient, summary)                                        \
    CALL_##effect(static void take_##Name(tape_taking *k, const void *call, void *args) {                              \
        const struct xcvm_##Name##_call *c = call;                                                                     \
        xcvm_##Name##_args *a = args;                                                                                  \
        TAKE_INTO_##effect const bool once = XCVM_##effect != XCVM_PURE;                                               \
        (void)once;                                                                                                    \
        operands                                                                                                       \
    })
#include "ops/instructions.def"
#undef RESULT_TENSOR
#undef RESULT_SEQUENCE
#undef RESULT_ANY
#undef RESULT_OPTIONAL
#undef RESULT_LIST

/* ---- Giving ---- */

static xcvm_var result(const tape_record *r, size_t i)
{
    return r == NULL || r->out[i] == NULL ? TAPE_FAILED : tape_handle(r->out[i]);
}

static void give_result(xcvm_var *to, const tape_record *r, size_t i)
{
    if (to != NULL)
        *to = result(r, i);
}

#define RESULT_TENSOR(name) give_result(c->out.name, r, i++);
#define RESULT_SEQUENCE(name) give_result(c->out.name, r, i++);
#define RESULT_ANY(name) give_result(c->out.name, r, i++);
#define RESULT_OPTIONAL(name) give_result(c->out.name, r, i++);
#define RESULT_LIST(name)                                                                                              \
    for (size_t n = 0; n < c->out.name.count; n++)                                                                     \
        give_result(&c->out.name.at[n], r, i++);
#define OUT(kind, name, types) RESULT_##kind(name)
#define OUT_DYNAMIC(kind, name, types) RESULT_##kind(name)
#define XCVM_OP(Name, number, operands, shape, cost, effect, gradient, summary)                                        \
    CALL_##effect(static xcvm_var give_##Name(const void *call, const tape_record *r) {                                \
        const struct xcvm_##Name##_call *c = call;                                                                     \
        size_t i = 0;                                                                                                  \
        (void)c;                                                                                                       \
        operands return i > 0 ? result(r, 0) : r != NULL ? XCVM_ABSENT : TAPE_FAILED;                                  \
    })
#include "ops/instructions.def"

#define INTS(name, min, max) +1
#define XCVM_OP(Name, number, operands, shape, cost, effect, gradient, summary) enum { INT_LISTS_##Name = 0 operands };
#include "ops/instructions.def"

const tape_row *tape_row_of(int32_t opcode)
{
    static const tape_row rows[XCVM_OPCODE_LIMIT] = {
#define XCVM_OP(Name, number, operands, shape, cost, effect, gradient, summary)                                        \
    CALL_##effect([number] = {measure_##Name, take_##Name, give_##Name, INT_LISTS_##Name > 0}, )
#include "ops/instructions.def"
    };
    return opcode > 0 && opcode < XCVM_OPCODE_LIMIT && rows[opcode].take != NULL ? &rows[opcode] : NULL;
}
