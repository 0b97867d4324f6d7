/* The instruction table for users of the library: constant text, expanded from the rows. */
#include "ops/op.h"

/* The element types of each set that a row may name, in the order of their numbers; a test compares them with the sets.
 */
#define SETS(X)                                                                                                        \
    X(FLOAT, "f32 f16 f64 bf16")                                                                                       \
    X(SIGNED, "i8 i16 i32 i64")                                                                                        \
    X(UNSIGNED, "u8 u16 u32 u64")                                                                                      \
    X(INT, "u8 i8 u16 i16 i32 i64 u32 u64")                                                                            \
    X(REAL, "f32 u8 i8 u16 i16 i32 i64 f16 f64 u32 u64 bf16")                                                          \
    X(BOOL, "bool")                                                                                                    \
    X(STRING, "str")                                                                                                   \
    X(REAL_OR_BOOL, "f32 u8 i8 u16 i16 i32 i64 bool f16 f64 u32 u64 bf16")                                             \
    X(FLOAT_OR_BOOL, "f32 bool f16 f64 bf16")                                                                          \
    X(INDEX, "i32 i64")                                                                                                \
    X(I64, "i64")                                                                                                      \
    X(I32, "i32")                                                                                                      \
    X(F32, "f32")                                                                                                      \
    X(F32_F64, "f32 f64")                                                                                              \
    X(U8, "u8")                                                                                                        \
    X(BYTE, "u8 i8")                                                                                                   \
    X(PLAIN, "f32 u8 i8 u16 i16 i32 i64 bool f16 f64 u32 u64 c64 c128 bf16 f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz "     \
             "f8e8m0")                                                                                                 \
    X(ANY_COMPARABLE, "f32 u8 i8 u16 i16 i32 i64 str bool f16 f64 u32 u64 bf16")                                       \
    X(TOKEN, "i32 i64 str")                                                                                            \
    X(ANY, "f32 u8 i8 u16 i16 i32 i64 str bool f16 f64 u32 u64 c64 c128 bf16 f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz "   \
           "u4 i4 f4e2m1 f8e8m0 u2 i2")

#define SET_INDEX(set, text) INDEX_OF_##set,
enum { SETS(SET_INDEX) SET_COUNT };
#define SET_TEXT(set, text) [INDEX_OF_##set] = text,
static const char type_texts[SET_COUNT][160] = {SETS(SET_TEXT)};

/* What the type variables of a row stand for must be known before its operands, which come first: for each row a type
 * whose member called T has a size that tells. */
#define OUT(kind, name, types)
#define IN(kind, name, types)
#define IN_PLACE(kind, name, types)
#define IN_VIEW(kind, name, types)
#define IN_SHAPE(kind, name, types)
#define INT(name, value, min, max)
#define INTS(name, min, max)
#define FLOAT(name, value)
#define FLOATS(name)
#define TEXT(name, value)
#define TEXTS(name)
#define DTYPE(name, value)
#define CHOICE(name, set, value)
#define TARGET(name)
#define TYPE(variable, set) char variable[INDEX_OF_##set + 1];
#define XCVM_OP(Name, number, operands, shape_rule, cost_rule, effect, gradient, text)                                 \
    typedef struct variables_of_##Name {                                                                               \
        char none;                                                                                                     \
        operands                                                                                                       \
    } variables_of_##Name;
#include "ops/instructions.def"
#undef OUT
#undef IN
#undef IN_PLACE
#undef IN_VIEW
#undef IN_SHAPE
#undef INT
#undef INTS
#undef FLOAT
#undef FLOATS
#undef TEXT
#undef TEXTS
#undef DTYPE
#undef CHOICE
#undef TARGET
#undef TYPE

#define INDEX_OF_T (sizeof(((VARIABLES *)0)->T) - 1)
#define INDEX_OF_U (sizeof(((VARIABLES *)0)->U) - 1)
#define INDEX_OF_V (sizeof(((VARIABLES *)0)->V) - 1)

#define OPERAND_TENSOR "tensor", .optional = false
#define OPERAND_OPTIONAL "tensor", .optional = true
#define OPERAND_SEQUENCE "sequence", .optional = false
#define OPERAND_ANY "any", .optional = false
#define OPERAND_LIST "list", .optional = false
#define OPERAND_ANYS "list of any", .optional = false
#define OPERAND(r, k, n, t)                                                                                            \
    {.name = #n, .role = r, .types = type_texts[INDEX_OF_##t], .choices = "", .kind = OPERAND_##k},
#define OUT(kind, name, types) OPERAND("output", kind, name, types)
#define IN(kind, name, types) OPERAND("input", kind, name, types)
#define IN_PLACE(kind, name, types) IN(kind, name, types)
#define IN_VIEW(kind, name, types) IN(kind, name, types)
#define IN_SHAPE(kind, name, types) IN(kind, name, types)
#define TYPE(variable, set)

#define DTYPE_TEXT_XCVM_NO_DTYPE ""
#define DTYPE_TEXT_XCVM_F32 "f32"
#define DTYPE_TEXT_XCVM_I32 "i32"
#define DTYPE_TEXT_XCVM_I64 "i64"
#define CHOICE_TEXT(set, name) "|" #name
#define ATTRIBUTE(k, n, text) {.name = #n, .role = "attribute", .kind = k, .types = "", .choices = text},
#define INT(n, value, low, high) ATTRIBUTE("int", n, #value)
#define INTS(n, low, high) ATTRIBUTE("ints", n, "")
#define FLOAT(n, value) ATTRIBUTE("float", n, #value)
#define FLOATS(n) ATTRIBUTE("floats", n, "")
#define TEXT(n, value) ATTRIBUTE("text", n, value)
#define TEXTS(n) ATTRIBUTE("texts", n, "")
#define DTYPE(n, value) ATTRIBUTE("dtype", n, DTYPE_TEXT_##value)
/* Without the first bar. */
#define CHOICE(n, set, value) ATTRIBUTE("choice", n, &("" XCVM_CHOICES_##set(CHOICE_TEXT))[1])
#define TARGET(n) ATTRIBUTE("target", n, "")

#define SHAPE(rule) .shape_rule = #rule
#define NO_GRAD .has_gradient = false
#define GRAD(rule) .has_gradient = true
#define XCVM_OP(Name, op_number, operand_list, shape, cost, effect, gradient, text)                                    \
    static const xcvm_op_info *op_##Name(void)                                                                         \
    {                                                                                                                  \
        typedef variables_of_##Name VARIABLES;                                                                         \
        static const xcvm_operand_info operands[] = {operand_list};                                                    \
        static const xcvm_op_info op = {.name = #Name,                                                                 \
                                        .number = op_number,                                                           \
                                        .sentence = text,                                                              \
                                        shape,                                                                         \
                                        gradient,                                                                      \
                                        .operand_count = sizeof operands / sizeof *operands,                           \
                                        .operands = operands};                                                         \
        (void)sizeof(VARIABLES);                                                                                       \
        return &op;                                                                                                    \
    }
#include "ops/instructions.def"

static const xcvm_op_info *(*const ops[])(void) = {
#define XCVM_OP(Name, ...) op_##Name,
#include "ops/instructions.def"
};

size_t xcvm_op_count(void) { return sizeof ops / sizeof *ops; }

const xcvm_op_info *xcvm_op(size_t index) { return index < xcvm_op_count() ? ops[index]() : NULL; }
