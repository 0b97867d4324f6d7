/* Calls of instructions in the fuzz target of the tape: each instruction, with random operands and attributes. */
#include "tests/fuzz/tape_fuzz.h"

#include <stdio.h>

/* ---- Arguments ---- */

/* The common types and shapes of one call. */
typedef struct drawn {
    tape_fuzz *f;
    xcvm_dtype dtype; /* of most operands */
    xcvm_var first;
} drawn;

static xcvm_var draw_operand(drawn *d, const char *types)
{
    tape_fuzz *f = d->f;
    if (fuzz_chance(f, 4))
        return fuzz_variable(f);
    const xcvm_dtype dtype = strcmp(types, "I64") == 0 || strcmp(types, "INDEX") == 0 ? XCVM_I64
                             : strcmp(types, "BOOL") == 0                             ? XCVM_BOOL
                                                                                      : d->dtype;
    const xcvm_var v = fuzz_variable_of(f, dtype, fuzz_chance(f, 70) ? d->first : XCVM_ABSENT);
    if (d->first.at == NULL && dtype == d->dtype)
        d->first = v;
    return v;
}

static xcvm_var draw_optional(drawn *d, const char *types)
{
    return fuzz_chance(d->f, 50) ? draw_operand(d, types) : XCVM_ABSENT;
}

static xcvm_var_list draw_operands(drawn *d, const char *types)
{
    tape_fuzz *f = d->f;
    xcvm_var *list = f->lists[f->list++ % FUZZ_LISTS];
    const size_t count = fuzz_pick(f, FUZZ_LIST + 1);
    for (size_t i = 0; i < count; i++)
        list[i] = draw_operand(d, types);
    return (xcvm_var_list){list, count};
}

static int64_t draw_int(tape_fuzz *f, int64_t value)
{
    return fuzz_chance(f, 75) ? value : (int64_t)fuzz_pick(f, 7) - 2;
}

static xcvm_int_list draw_ints(tape_fuzz *f)
{
    int64_t *list = f->ints[f->list++ % FUZZ_LISTS];
    const size_t count = fuzz_chance(f, 50) ? 0 : fuzz_pick(f, FUZZ_LIST + 1);
    for (size_t i = 0; i < count; i++)
        list[i] = fuzz_pick(f, 4);
    return (xcvm_int_list){list, count};
}

static xcvm_float_list draw_floats(tape_fuzz *f)
{
    double *list = f->floats[f->list++ % FUZZ_LISTS];
    const size_t count = fuzz_chance(f, 60) ? 0 : fuzz_pick(f, FUZZ_LIST + 1);
    for (size_t i = 0; i < count; i++)
        list[i] = fuzz_pick(f, 5) / 2.0 - 0.5;
    return (xcvm_float_list){list, count};
}

static const char *draw_text(tape_fuzz *f, const char *value)
{
    static const char *const texts[] = {"", "host", "ij,jk->ik", "ij->j", "ii", "a"};
    return fuzz_chance(f, 40) ? value : texts[fuzz_pick(f, sizeof texts / sizeof *texts)];
}

static xcvm_text_list draw_texts(tape_fuzz *f)
{
    static const char *const texts[] = {"Tanh", "Sigmoid", "Relu", "a"};
    return (xcvm_text_list){texts + fuzz_pick(f, 3), fuzz_pick(f, 3) / 2};
}

static xcvm_dtype draw_dtype(tape_fuzz *f, xcvm_dtype value)
{
    static const xcvm_dtype dtypes[] = {XCVM_F32, XCVM_F64, XCVM_I64, XCVM_F16, XCVM_BOOL, XCVM_I32, (xcvm_dtype)77};
    return fuzz_chance(f, 40) ? value : dtypes[fuzz_pick(f, sizeof dtypes / sizeof *dtypes)];
}

/* ---- Op calls ---- */

typedef struct results {
    xcvm_var at[4];
    size_t count;
} results;

static xcvm_var *draw_result(tape_fuzz *f, results *r)
{
    return r->count < 4 && fuzz_chance(f, 60) ? &r->at[r->count++] : NULL;
}

static xcvm_var_array draw_results(tape_fuzz *f, results *r)
{
    const size_t count = fuzz_pick(f, (uint32_t)(4 - r->count) + 1);
    xcvm_var *at = &r->at[r->count];
    r->count += count;
    return (xcvm_var_array){at, count};
}

#define CALL_PURE(...) __VA_ARGS__
#define CALL_RANDOM(...) __VA_ARGS__
#define CALL_EFFECT(...) __VA_ARGS__
#define CALL_UPDATE(...)
#define CALL_CONTROL(...)
#define INTO_PURE c.into = fuzz_chance(f, 6) ? fuzz_variable(f) : XCVM_ABSENT;
#define INTO_RANDOM INTO_PURE
#define INTO_EFFECT

#define RESULT_TENSOR(name) c.out.name = draw_result(f, &r);
#define RESULT_SEQUENCE(name) RESULT_TENSOR(name)
#define RESULT_ANY(name) RESULT_TENSOR(name)
#define RESULT_OPTIONAL(name) RESULT_TENSOR(name)
#define RESULT_LIST(name) c.out.name = draw_results(f, &r);
#define OPERAND_TENSOR(name, types) c.name = draw_operand(&d, #types);
#define OPERAND_SEQUENCE(name, types) c.name = fuzz_variable(f);
#define OPERAND_ANY(name, types) c.name = fuzz_variable(f);
#define OPERAND_OPTIONAL(name, types) c.name = draw_optional(&d, #types);
#define OPERAND_LIST(name, types) c.name = draw_operands(&d, #types);
#define OPERAND_ANYS(name, types) c.name = draw_operands(&d, #types);
#define OUT(kind, name, types) RESULT_##kind(name)
#define OUT_DYNAMIC(kind, name, types) RESULT_##kind(name)
#define IN(kind, name, types) OPERAND_##kind(name, types)
#define IN_PLACE(kind, name, types) OPERAND_##kind(name, types)
#define IN_VIEW(kind, name, types) OPERAND_##kind(name, types)
#define IN_SHAPE(kind, name, types) OPERAND_##kind(name, types)
#define INT(name, value, min, max) c.name = draw_int(f, value);
#define INTS(name, min, max) c.name = draw_ints(f);
#define FLOAT(name, value) c.name = fuzz_chance(f, 80) ? (value) : fuzz_pick(f, 5) / 2.0 - 0.5;
#define FLOATS(name) c.name = draw_floats(f);
#define TEXT(name, value) c.name = draw_text(f, value);
#define TEXTS(name) c.name = draw_texts(f);
#define DTYPE(name, value) c.name = draw_dtype(f, value);
#define CHOICE(name, set, value)                                                                                       \
    c.name = fuzz_chance(f, 60) ? (int)XCVM_##set##_##value : (int)fuzz_pick(f, XCVM_##set##_COUNT + 1);
#define XCVM_OP(Name, number, operands, shape, cost, effect, gradient, onnx, summary)                                  \
    CALL_##effect(static xcvm_var call_##Name(tape_fuzz *f, xcvm_dtype dtype) {                                        \
        struct xcvm_##Name##_call c = {.tape = f->tape};                                                               \
        drawn d = {.f = f, .dtype = dtype};                                                                            \
        results r = {.count = 0};                                                                                      \
        (void)d;                                                                                                       \
        (void)r;                                                                                                       \
        INTO_##effect operands const xcvm_var first = xcvm_call(number, &c);                                           \
        for (size_t i = 0; i < r.count; i++)                                                                           \
            fuzz_keep(f, r.at[i]);                                                                                     \
        return first;                                                                                                  \
    })
#include "ops/instructions.def"

typedef struct instruction {
    const char *name;
    xcvm_var (*call)(tape_fuzz *f, xcvm_dtype dtype);
} instruction;
static const instruction instructions[] = {
#define XCVM_OP(Name, number, operands, shape, cost, effect, gradient, onnx, summary)                                  \
    CALL_##effect({#Name, call_##Name}, )
#include "ops/instructions.def"
};

xcvm_var fuzz_instruction(tape_fuzz *f)
{
    const instruction *i = &instructions[fuzz_pick(f, sizeof instructions / sizeof *instructions)];
    static const xcvm_dtype dtypes[] = {XCVM_F32, XCVM_F32, XCVM_F32, XCVM_F32,
                                        XCVM_F32, XCVM_F64, XCVM_I64, XCVM_BOOL};
    if (f->trace)
        fprintf(stderr, "    %s\n", i->name);
    const xcvm_var v = i->call(f, dtypes[fuzz_pick(f, sizeof dtypes / sizeof *dtypes)]);
    fuzz_keep(f, v);
    return v;
}

/* ---- Expressions ---- */

static xcvm_var binary(tape_fuzz *f, xcvm_tape *t, xcvm_var a, xcvm_var b)
{
    switch (fuzz_pick(f, 9)) {
    case 0:
        return xcvm_Add(t, a, b);
    case 1:
        return xcvm_Sub(t, a, b);
    case 2:
        return xcvm_Mul(t, a, b);
    case 3:
        return xcvm_Div(t, a, b);
    case 4:
        return xcvm_Pow(t, a, b);
    case 5:
        return xcvm_MatMul(t, a, b);
    case 6:
        return xcvm_Gemm(t, a, b, XCVM_ABSENT, .transB = fuzz_chance(f, 50));
    case 7:
        return xcvm_Concat(t, XCVM_VARS(a, b), .axis = (int64_t)fuzz_pick(f, 2));
    default:
        return xcvm_Where(t, xcvm_Less(t, a, b), a, b);
    }
}

static xcvm_var unary(tape_fuzz *f, xcvm_tape *t, xcvm_var x)
{
    xcvm_var halves[2];
    switch (fuzz_pick(f, 12)) {
    case 0:
        return xcvm_Sigmoid(t, x);
    case 1:
        return xcvm_Relu(t, x);
    case 2:
        return xcvm_Softmax(t, x);
    case 3:
        return xcvm_ReduceSum(t, x, .keepdims = fuzz_chance(f, 40));
    case 4:
        return xcvm_ReduceMean(t, x, xcvm_tape_constant(t, XCVM_I64, 1, (const int64_t[]){1}, (const int64_t[]){0}));
    case 5:
        return xcvm_Reshape(t, x, xcvm_tape_constant(t, XCVM_I64, 1, (const int64_t[]){1}, (const int64_t[]){-1}));
    case 6:
        return xcvm_Transpose(t, x);
    case 7:
        xcvm_Split(t, x, .out.ys = {halves, 2});
        return halves[fuzz_pick(f, 2)];
    case 8:
        return xcvm_Compress(t, x, fuzz_variable_of(f, XCVM_BOOL, XCVM_ABSENT));
    case 9:
        return xcvm_Gather(t, x, fuzz_variable_of(f, XCVM_I64, XCVM_ABSENT));
    case 10:
        return xcvm_tape_scale_gradient(t, x, -1);
    default:
        return xcvm_Tanh(t, x);
    }
}

xcvm_var fuzz_expression(tape_fuzz *f, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    xcvm_var y = count > 0 && fuzz_chance(f, 90) ? xs[fuzz_pick(f, (uint32_t)count)] : fuzz_float(f);
    for (uint32_t left = 1 + fuzz_pick(f, 4); left > 0; left--) {
        const xcvm_var other = count > 0 && fuzz_chance(f, 50) ? xs[fuzz_pick(f, (uint32_t)count)] : fuzz_float(f);
        const xcvm_var before = y;
        xcvm_error error;
        y = fuzz_chance(f, 50) ? binary(f, t, y, other) : unary(f, t, y);
        if (y.at == NULL && fuzz_chance(f, 80)) { /* continue with the earlier value */
            (void)xcvm_tape_status(t, &error);
            y = before;
        }
        if (fuzz_chance(f, 50))
            fuzz_keep(f, y);
    }
    return y;
}
