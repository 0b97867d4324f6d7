/* The table of schemas, from the op definitions. */
#include "ops/table/table.h"

#define XCVM_CHOICE_TEXT(set, name) #name,
#define XCVM_CHOICE_LIST(set) static const char *const choices_##set[] = {XCVM_CHOICES_##set(XCVM_CHOICE_TEXT) NULL};
XCVM_CHOICE_SETS(XCVM_CHOICE_LIST)

/* A number that is used twice, or again, is an error. */
#define XCVM_OP(Name, number, ...) enum { NUMBER_##number = number };
#define XCVM_RESERVED(number) enum { NUMBER_##number = number };
#include "ops/instructions.def"

#define CLASS(kind) | XCVM_CLASS_##kind
#define IN_VIEW(kind, name, types) | XCVM_CLASS_view
#define XCVM_OP(Name, number, operands, ...) enum { CLASSES_OF_##Name = 0 operands };
#include "ops/instructions.def"

#define GRAD(rule, reads) XCVM_READS_##reads
#define GRAD_STEP(rule) XCVM_READS_BOTH
#define GRAD_ZERO XCVM_READS_BOTH
#define GRAD_NONE XCVM_READS_BOTH
#define XCVM_OP(Name, number, operands, shape, cost, effect, gradient, onnx, summary)                                  \
    enum { READS_OF_##Name = gradient };
#include "ops/instructions.def"
#undef GRAD
#undef GRAD_STEP
#undef GRAD_ZERO
#undef GRAD_NONE

#define OPERAND(r, k, n, t, ...)                                                                                       \
    {.name = #n,                                                                                                       \
     .role = XCVM_ROLE_##r,                                                                                            \
     .kind = XCVM_FIELD_##k,                                                                                           \
     .types = XCVM_TYPES_##t,                                                                                          \
     .offset = offsetof(ARGS, n),                                                                                      \
     __VA_ARGS__},
#define OUT(kind, name, types) OPERAND(OUT, kind, name, types, )
#define OUT_DYNAMIC(kind, name, types) OPERAND(OUT, kind, name, types, .dynamic = true)
#define IN(kind, name, types) OPERAND(IN, kind, name, types, )
#define IN_PLACE(kind, name, types) OPERAND(IN_PLACE, kind, name, types, )
#define IN_VIEW(kind, name, types) OPERAND(IN_VIEW, kind, name, types, )
#define IN_SHAPE(kind, name, types) OPERAND(IN_SHAPE, kind, name, types, )
#define IN_STATE(kind, name, types) OPERAND(IN_STATE, kind, name, types, )
#define TYPE(v, set)                                                                                                   \
    {.name = #v,                                                                                                       \
     .role = XCVM_ROLE_TYPE,                                                                                           \
     .kind = XCVM_FIELD_NONE,                                                                                          \
     .types = XCVM_TYPES_##set,                                                                                        \
     .variable = XCVM_TYPES_##v},
#define ATTRIBUTE(k, n, ...)                                                                                           \
    {.name = #n, .role = XCVM_ROLE_ATTRIBUTE, .kind = XCVM_FIELD_##k, .offset = offsetof(ARGS, n), __VA_ARGS__},
#define INT(n, value, low, high) ATTRIBUTE(INT, n, .int_default = value, .min = low, .max = high)
#define INTS(n, low, high) ATTRIBUTE(INTS, n, .min = low, .max = high)
#define FLOAT(n, value) ATTRIBUTE(FLOAT, n, .float_default = value)
#define FLOATS(n) ATTRIBUTE(FLOATS, n, .min = 0)
#define TEXT(n, value) ATTRIBUTE(TEXT, n, .text_default = value)
#define TEXTS(n) ATTRIBUTE(TEXTS, n, .min = 0)
#define DTYPE(n, value) ATTRIBUTE(DTYPE, n, .int_default = value)
#define CHOICE(n, set, value) ATTRIBUTE(CHOICE, n, .int_default = XCVM_##set##_##value, .choices = choices_##set)
#define TARGET(n) ATTRIBUTE(TARGET, n, .min = 0)

/* Each entry is made in a function, where ARGS can name its own argument struct. */
#define SHAPE(rule) .shape = xcvm_shape_##rule, .shape_name = #rule
#define COST(rule) .cost = xcvm_flops_##rule
#define PURE .effect = XCVM_PURE
#define RANDOM .effect = XCVM_RANDOM
#define EFFECT .effect = XCVM_EFFECT
#define UPDATE .effect = XCVM_UPDATE
#define CONTROL .effect = XCVM_CONTROL
/* No commas outside braces: macros of op definitions pass these on. */
#define GRAD(name, reads) .gradient = {.rule = #name}
#define GRAD_STEP(name) .gradient = {.step = #name}
#define GRAD_ZERO .gradient = {.zero = true}
#define GRAD_NONE .gradient = {.zero = false}
#define XCVM_OP(Name, number, operands, shape_rule, cost_rule, effect_kind, gradient, onnx, text)                      \
    static const xcvm_schema *row_##Name(void)                                                                         \
    {                                                                                                                  \
        typedef xcvm_##Name##_args ARGS;                                                                               \
        static const xcvm_field fields[] = {operands};                                                                 \
        static const xcvm_schema schema = {.name = #Name,                                                              \
                                           .opcode = XCVM_OP_##Name,                                                   \
                                           shape_rule,                                                                 \
                                           cost_rule,                                                                  \
                                           effect_kind,                                                                \
                                           .classes = CLASSES_OF_##Name,                                               \
                                           gradient,                                                                   \
                                           .gradient_reads = READS_OF_##Name,                                          \
                                           .summary = text,                                                            \
                                           .fields = fields,                                                           \
                                           .field_count = sizeof fields / sizeof *fields,                              \
                                           .args_size = sizeof(ARGS)};                                                 \
        return &schema;                                                                                                \
    }
#include "ops/instructions.def"

#define XCVM_OP(Name, number, ...) _Static_assert((number) < XCVM_OPCODE_LIMIT, "raise XCVM_OPCODE_LIMIT");
#include "ops/instructions.def"

static const xcvm_schema *(*const rows[XCVM_OPCODE_LIMIT])(void) = {
#define XCVM_OP(Name, number, ...) [number] = row_##Name,
#include "ops/instructions.def"
};

const xcvm_schema *xcvm_schema_of(int64_t opcode)
{
    return opcode > 0 && opcode < XCVM_OPCODE_LIMIT && rows[opcode] ? rows[opcode]() : NULL;
}

const xcvm_schema *xcvm_schema_named(const char *name, size_t length)
{
    for (size_t i = 0; i < XCVM_OPCODE_LIMIT; i++) {
        const xcvm_schema *schema = rows[i] ? rows[i]() : NULL;
        if (schema != NULL && strlen(schema->name) == length && memcmp(schema->name, name, length) == 0)
            return schema;
    }
    return NULL;
}
