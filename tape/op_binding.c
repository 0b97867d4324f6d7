/* Op bindings: convert the struct that a macro of tape_calls.h fills to the arguments of the kernel. Generated from
 * the op definitions. */
#include "tape/op_binding.h"

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
#define XCVM_OP(Name, number, operands, shape, cost, effect, gradient, onnx, summary)                                  \
    CALL_##effect(static void measure_##Name(const void *call, tape_op_sizes *s) {                                     \
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

/* ---- Binding ---- */

static const xcvm_value *bind_operand(tape_op_binder *k, xcvm_var v, const char *name)
{
    tape_variable *operand = tape_resolve_optional(k->tape, v, name);
    k->record->in[k->in++] = operand;
    return operand != NULL ? &operand->value.type : NULL;
}

static xcvm_inputs bind_operands(tape_op_binder *k, const xcvm_var_list *list, const char *name)
{
    /* A variable begins with its value, so this is an array of values too. */
    const xcvm_inputs inputs = {(const xcvm_value *const *)(void *)&k->record->in[k->in], list->count};
    for (size_t i = 0; i < list->count; i++)
        bind_operand(k, list->at[i], name);
    return inputs;
}

static xcvm_value *bind_result(tape_op_binder *k, bool wanted)
{
    tape_variable *v = wanted && !k->tape->failed ? tape_variable_create(k->tape) : NULL;
    k->record->out[k->out++] = v;
    return v != NULL ? &v->value.type : NULL;
}

static xcvm_outputs bind_results(tape_op_binder *k, size_t count)
{
    const xcvm_outputs outputs = {(xcvm_value *const *)(void *)&k->record->out[k->out], count};
    for (size_t i = 0; i < count; i++)
        bind_result(k, true);
    return outputs;
}

static int64_t bind_int(tape_op_binder *k, int64_t value, int64_t min, int64_t max, const char *name)
{
    if (value < min || value > max)
        tape_fail(k->tape, XCVM_OUT_OF_RANGE, "attribute '%s' is %lld, not between %lld and %lld", name,
                  (long long)value, (long long)min, (long long)max);
    return value;
}

/* Lists are copied, since a gradient rule may read them long after the call. */
static void *bind_array(tape_op_binder *k, const void *from, size_t bytes)
{
    void *copy = k->behind;
    if (bytes > 0)
        memcpy(copy, from, bytes);
    k->behind += xcvm_round_up(bytes, 16);
    return copy;
}

static xcvm_ints bind_ints(tape_op_binder *k, const xcvm_int_list *list, int64_t min, int64_t max, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        bind_int(k, list->at[i], min, max, name);
    return (xcvm_ints){bind_array(k, list->at, list->count * sizeof *list->at), list->count};
}

static xcvm_floats bind_floats(tape_op_binder *k, const xcvm_float_list *list)
{
    return (xcvm_floats){bind_array(k, list->at, list->count * sizeof *list->at), list->count};
}

static xcvm_text bind_text(tape_op_binder *k, const char *text)
{
    const char *given = text != NULL ? text : "";
    const size_t length = strlen(given);
    return (xcvm_text){bind_array(k, given, length + 1), length};
}

static xcvm_texts bind_texts(tape_op_binder *k, const xcvm_text_list *list)
{
    xcvm_text *texts = (void *)k->behind;
    k->behind += xcvm_round_up(list->count * sizeof *texts, 16);
    for (size_t i = 0; i < list->count; i++)
        texts[i] = bind_text(k, list->at[i]);
    return (xcvm_texts){texts, list->count};
}

static xcvm_dtype bind_dtype(tape_op_binder *k, xcvm_dtype dtype, const char *name)
{
    if (dtype != XCVM_NO_DTYPE && xcvm_dtype_bits(dtype) == 0)
        tape_fail(k->tape, XCVM_INVALID_ARGUMENT, "attribute '%s' is %d, which is no element type", name, (int)dtype);
    return dtype;
}

#define BIND_INTO_PURE k->into = c->into;
#define BIND_INTO_RANDOM k->into = c->into;
#define BIND_INTO_EFFECT
#define RESULT_TENSOR(name) a->name = bind_result(k, true);
#define RESULT_SEQUENCE(name) a->name = bind_result(k, true);
#define RESULT_ANY(name) a->name = bind_result(k, true);
/* The first result is always returned, even if it is optional. A random op, or one with an effect, cannot run again
 * for a rule that needs another result, so it returns all. */
#define RESULT_OPTIONAL(name) a->name = bind_result(k, k->out == 0 || c->out.name != NULL || once);
#define RESULT_LIST(name) a->name = bind_results(k, c->out.name.count);
#define OPERAND_TENSOR(name) a->name = bind_operand(k, c->name, #name);
#define OPERAND_OPTIONAL(name) a->name = bind_operand(k, c->name, #name);
#define OPERAND_SEQUENCE(name) a->name = bind_operand(k, c->name, #name);
#define OPERAND_ANY(name) a->name = bind_operand(k, c->name, #name);
#define OPERAND_LIST(name) a->name = bind_operands(k, &c->name, #name);
#define OPERAND_ANYS(name) a->name = bind_operands(k, &c->name, #name);

#define OUT(kind, name, types) RESULT_##kind(name)
#define OUT_DYNAMIC(kind, name, types) RESULT_##kind(name)
#define IN(kind, name, types) OPERAND_##kind(name)
#define IN_PLACE(kind, name, types) OPERAND_##kind(name)
#define IN_VIEW(kind, name, types) OPERAND_##kind(name)
#define IN_SHAPE(kind, name, types) OPERAND_##kind(name)
#define INT(name, value, min, max) a->name = bind_int(k, c->name, min, max, #name);
#define INTS(name, min, max) a->name = bind_ints(k, &c->name, min, max, #name);
#define FLOAT(name, value) a->name = c->name;
#define FLOATS(name) a->name = bind_floats(k, &c->name);
#define TEXT(name, value) a->name = bind_text(k, c->name);
#define TEXTS(name) a->name = bind_texts(k, &c->name);
#define DTYPE(name, value) a->name = bind_dtype(k, c->name, #name);
#define CHOICE(name, set, value) a->name = (int)bind_int(k, c->name, 0, XCVM_##set##_COUNT - 1, #name);
#define XCVM_OP(Name, number, operands, shape, cost, effect, gradient, onnx, summary)                                  \
    CALL_##effect(static void bind_##Name(tape_op_binder *k, const void *call, void *args) {                           \
        const struct xcvm_##Name##_call *c = call;                                                                     \
        xcvm_##Name##_args *a = args;                                                                                  \
        BIND_INTO_##effect const bool once = XCVM_##effect != XCVM_PURE;                                               \
        (void)once;                                                                                                    \
        operands                                                                                                       \
    })
#include "ops/instructions.def"
#undef RESULT_TENSOR
#undef RESULT_SEQUENCE
#undef RESULT_ANY
#undef RESULT_OPTIONAL
#undef RESULT_LIST

/* ---- Results ---- */

static xcvm_var result(const tape_op_record *r, size_t i)
{
    return r == NULL || r->out[i] == NULL ? TAPE_FAILED : tape_handle(r->out[i]);
}

static void store_result(xcvm_var *to, const tape_op_record *r, size_t i)
{
    if (to != NULL)
        *to = result(r, i);
}

#define RESULT_TENSOR(name) store_result(c->out.name, r, i++);
#define RESULT_SEQUENCE(name) store_result(c->out.name, r, i++);
#define RESULT_ANY(name) store_result(c->out.name, r, i++);
#define RESULT_OPTIONAL(name) store_result(c->out.name, r, i++);
#define RESULT_LIST(name)                                                                                              \
    for (size_t n = 0; n < c->out.name.count; n++)                                                                     \
        store_result(&c->out.name.at[n], r, i++);
#define OUT(kind, name, types) RESULT_##kind(name)
#define OUT_DYNAMIC(kind, name, types) RESULT_##kind(name)
#define XCVM_OP(Name, number, operands, shape, cost, effect, gradient, onnx, summary)                                  \
    CALL_##effect(static xcvm_var results_##Name(const void *call, const tape_op_record *r) {                          \
        const struct xcvm_##Name##_call *c = call;                                                                     \
        size_t i = 0;                                                                                                  \
        (void)c;                                                                                                       \
        operands return i > 0 ? result(r, 0) : r != NULL ? XCVM_ABSENT : TAPE_FAILED;                                  \
    })
#include "ops/instructions.def"

#define INTS(name, min, max) +1
#define XCVM_OP(Name, number, operands, shape, cost, effect, gradient, onnx, summary)                                  \
    enum { INT_LISTS_##Name = 0 operands };
#include "ops/instructions.def"

const tape_op_binding *tape_op_binding_of(int32_t opcode)
{
    static const tape_op_binding rows[XCVM_OPCODE_LIMIT] = {
#define XCVM_OP(Name, number, operands, shape, cost, effect, gradient, onnx, summary)                                  \
    CALL_##effect([number] = {measure_##Name, bind_##Name, results_##Name, INT_LISTS_##Name > 0}, )
#include "ops/instructions.def"
    };
    return opcode > 0 && opcode < XCVM_OPCODE_LIMIT && rows[opcode].bind != NULL ? &rows[opcode] : NULL;
}
