/* Element-wise instructions as C: loops over the formulas that the kernels are made of (ops/elementwise/formulas.h). */
#include "compiler/export_c/export_c.h"

#include "ops/elementwise/activation.h"
#include "ops/elementwise/formulas.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A line of formulas.h, with its formulas as text: "EACH(-v)". */
typedef struct line {
    const char *name, *f32, *f64, *integers, *booleans;
} line;

#define UNARY_LINE(Name, kernel, grain, f32, f64, integers) {#Name, #f32, #f64, #integers, "NONE"},
static const line of_one[] = {XCVM_UNARY_FORMULAS(UNARY_LINE)};
#define BINARY_LINE(Name, kernel, grain, result, f32, f64, integers, booleans)                                         \
    {#Name, #f32, #f64, #integers, #booleans},
static const line of_two[] = {XCVM_BINARY_FORMULAS(BINARY_LINE)};

static const line *find(const line *lines, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(lines[i].name, name) == 0)
            return &lines[i];
    return NULL;
}
#define FIND(lines, name) find(lines, sizeof(lines) / sizeof *(lines), name)

/* A parsed formula: the word in front, and the formulas of both kinds of numbers. */
typedef struct formula {
    char kind[16], first[400], second[100];
} formula;

static bool take_apart(const char *text, formula *f)
{
    const size_t word = strcspn(text, "(");
    *f = (formula){.kind = ""};
    if (word >= sizeof f->kind)
        return false;
    memcpy(f->kind, text, word);
    if (text[word] == '\0')
        return true;
    const char *at = text + word + 1, *const end = text + strlen(text) - 1;
    const bool two = strcmp(f->kind, "WIDE") == 0 || strcmp(f->kind, "PERIODIC") == 0;
    int depth = 0;
    const char *comma = at;
    for (; comma < end && (!two || *comma != ',' || depth > 0); comma++)
        depth += (*comma == '(') - (*comma == ')');
    if ((size_t)(comma - at) >= sizeof f->first)
        return false;
    memcpy(f->first, at, (size_t)(comma - at));
    if (comma < end) {
        comma += comma[1] == ' ' ? 2 : 1;
        if ((size_t)(end - comma) >= sizeof f->second)
            return false;
        memcpy(f->second, comma, (size_t)(end - comma));
    }
    return true;
}

static bool is(const formula *f, const char *kind) { return strcmp(f->kind, kind) == 0; }

/* ---- Loops ---- */

enum { MOST_OPERANDS = 3 };
static const char *const letters[] = {"a", "b", "c"};

typedef struct nest {
    int rank;
    int64_t dims[XCVM_MAX_RANK], strides[MOST_OPERANDS][XCVM_MAX_RANK]; /* in elements */
    int operands;
} nest;

/* Loops over y. Axes are merged if all operands step over them as over one. */
static void make_nest(nest *n, const xcvm_value *y, const xcvm_value *const *in, int operands)
{
    *n = (nest){.operands = operands};
    for (int axis = 0; axis < y->rank; axis++) {
        int64_t strides[MOST_OPERANDS] = {0};
        bool joins = n->rank > 0;
        if (y->dims[axis] == 1)
            continue;
        for (int k = 0; k < operands; k++) {
            const int own = axis - (y->rank - in[k]->rank);
            if (own >= 0 && in[k]->dims[own] != 1)
                strides[k] = xcc_c_product(in[k]->dims, own + 1, in[k]->rank);
            joins = joins && n->strides[k][n->rank - 1] == strides[k] * y->dims[axis];
        }
        if (!joins)
            n->rank++;
        n->dims[n->rank - 1] = joins ? n->dims[n->rank - 1] * y->dims[axis] : y->dims[axis];
        for (int k = 0; k < operands; k++)
            n->strides[k][n->rank - 1] = strides[k];
    }
    if (n->rank == 0) {
        n->rank = 1;
        n->dims[0] = (int64_t)xcvm_element_count(y);
    }
}

static void write_indent(xcc_c_export *x, int depth) { xcc_c_line(x, "%*s", 8 + 4 * depth, ""); }

static void begin_nest(xcc_c_export *x, const nest *n)
{
    for (int axis = 0; axis < n->rank; axis++) {
        if (axis == n->rank - 1) {
            write_indent(x, axis);
            xcc_c_line(x, "XCVM_INDEPENDENT\n");
        }
        write_indent(x, axis);
        xcc_c_line(x, "for (size_t i%d = 0; i%d < %lld; i%d++) {\n", axis, axis, (long long)n->dims[axis], axis);
    }
}

static void end_nest(xcc_c_export *x, const nest *n)
{
    for (int axis = n->rank; axis-- > 0;) {
        write_indent(x, axis);
        xcc_c_line(x, "}\n");
    }
}

/* "i0 * 4 + i1", of the first axes. */
static const char *element_index(xcc_c_export *x, const int64_t *strides, int axes)
{
    char text[300] = "";
    size_t used = 0;
    for (int axis = 0; axis < axes; axis++) {
        const long long stride = strides[axis];
        if (stride == 1)
            used += (size_t)snprintf(text + used, sizeof text - used, "%si%d", used > 0 ? " + " : "", axis);
        else if (stride != 0)
            used +=
                (size_t)snprintf(text + used, sizeof text - used, "%si%d * %lld", used > 0 ? " + " : "", axis, stride);
    }
    return xcc_c_format(x, "%s", used > 0 ? text : "0");
}

static const char *element(xcc_c_export *x, const nest *n, int operand)
{
    return xcc_c_format(x, "%s[%s]", letters[operand], element_index(x, n->strides[operand], n->rank));
}

static const char *result_place(xcc_c_export *x, const nest *n, int axes)
{
    int64_t strides[XCVM_MAX_RANK] = {0}, stride = 1;
    for (int axis = n->rank; axis-- > 0; stride *= n->dims[axis])
        strides[axis] = stride;
    return element_index(x, strides, axes);
}

static const char *result(xcc_c_export *x, const nest *n)
{
    return xcc_c_format(x, "y[%s]", result_place(x, n, n->rank));
}

static void write_operands(xcc_c_export *x, const xcvm_value *y, const xcvm_value *const *in, int operands)
{
    for (int k = 0; k < operands; k++)
        xcc_c_line(x, "        const %s *const %s = %s;\n", xcc_c_type((xcvm_dtype)in[k]->dtype), letters[k],
                   xcc_c_read(x, in[k]));
    xcc_c_line(x, "        %s *const y = %s;\n", xcc_c_type((xcvm_dtype)y->dtype), xcc_c_write(x, y));
}

/* ---- One operand ---- */

static void write_scalar(xcc_c_export *x, const char *type, const char *name, xcvm_dtype dtype, double value)
{
    xcc_c_line(x, "        const %s %s = ", type, name);
    xcc_c_put_number(&x->body, dtype, dtype == XCVM_F32 ? (double)(float)value : value);
    xcc_c_line(x, ";\n        (void)%s;\n", name);
}

/* Alpha and beta are the FLOAT attributes in row order; of Clip, its bounds. */
static void write_parameters(xcc_c_export *x, const xcc_c_step *step, xcvm_dtype dtype)
{
    static const char *const names[] = {"alpha", "beta"};
    const char *const type = xcc_c_type(dtype);
    size_t count = 0;
    if (step->schema->opcode == XCVM_OP_Clip) {
        const xcvm_Clip_args *a = step->args;
        const bool integers = !xcvm_dtype_is_float(dtype), without_sign = xcvm_dtype_in(dtype, XCVM_TYPES_UNSIGNED);
        const char *const wide = without_sign ? "uint64_t" : "int64_t";
        const xcvm_value *const bounds[] = {a->min, a->max};
        for (size_t i = 0; i < 2; i++) {
            const char *const name = integers ? i == 0 ? "low" : "high" : names[i];
            if (bounds[i] != NULL)
                xcc_c_line(x, "        const %s %s = (%s)[0];\n", integers ? wide : type, name,
                           xcc_c_read(x, bounds[i]));
            else if (integers)
                xcc_c_line(x, "        const %s %s = %s;\n", wide, name,
                           without_sign ? i == 0 ? "0" : "UINT64_MAX"
                           : i == 0     ? "INT64_MIN"
                                        : "INT64_MAX");
            else
                write_scalar(x, type, name, dtype, i == 0 ? -(double)INFINITY : (double)INFINITY);
        }
        return;
    }
    for (size_t f = 0; f < step->schema->field_count && count < 2; f++) {
        double value;
        if (step->schema->fields[f].kind != XCVM_FIELD_FLOAT)
            continue;
        memcpy(&value, (const char *)step->args + step->schema->fields[f].offset, sizeof value);
        write_scalar(x, type, names[count++], dtype, value);
    }
}

/* The statements that make y's element of v's, for one line of the list. */
static bool write_formula(xcc_c_export *x, const line *l, xcvm_dtype dtype, const char *from, const char *to, int depth)
{
    const char *const type = xcc_c_type(dtype);
    const bool narrow = dtype == XCVM_F32;
    formula f;
    if (!take_apart(narrow ? l->f32 : dtype == XCVM_F64 ? l->f64 : l->integers, &f))
        return xcc_c_refuse(x, "its formula is too long");
    write_indent(x, depth);
    if (is(&f, "EACH") || is(&f, "SCALAR")) {
        xcc_c_line(x, "const %s v = %s;\n", type, from);
        write_indent(x, depth);
        xcc_c_line(x, "%s = %s;\n", to, f.first);
    } else if (is(&f, "FUNCTION")) {
        xcc_c_line(x, "%s = %s(%s);\n", to, f.first, from);
    } else if (is(&f, "PERIODIC")) {
        /* The vectors' function is for arguments that are not large. */
        xcc_c_line(x, "%s = %s(%s);\n", to, f.second, from);
    } else if (is(&f, "INTEGER")) {
        const bool without_sign = xcvm_dtype_in(dtype, XCVM_TYPES_UNSIGNED);
        const char *const wide = without_sign ? "uint64_t" : "int64_t";
        xcc_c_line(x, "const %s v = %s, negated = (%s)(0 - (uint64_t)v);\n", wide, from, wide);
        write_indent(x, depth);
        xcc_c_line(x, "(void)negated;\n");
        write_indent(x, depth);
        xcc_c_line(x, "%s = (%s)(%s);\n", to, type, f.first);
    } else {
        return xcc_c_refuse(x, "C export does not support it on %s", xcvm_dtype_name(dtype));
    }
    return true;
}

static bool write_unary(xcc_c_export *x, const xcc_c_step *step, const line *l)
{
    const xcvm_value *v = step->in[0], *y = step->out[0];
    nest n;
    make_nest(&n, y, &v, 1);
    write_operands(x, y, &v, 1);
    write_parameters(x, step, (xcvm_dtype)v->dtype);
    begin_nest(x, &n);
    const bool done = write_formula(x, l, (xcvm_dtype)v->dtype, element(x, &n, 0), result(x, &n), n.rank);
    end_nest(x, &n);
    return done;
}

/* Formulas of instructions that the list lacks; NULL: none. */
static const char *unary_expression(const xcc_c_step *step)
{
    switch (step->schema->opcode) {
    case XCVM_OP_Not:
        return "v == 0";
    case XCVM_OP_BitwiseNot:
        return "~v";
    case XCVM_OP_IsNaN:
        return "v != v";
    case XCVM_OP_IsInf: {
        const xcvm_IsInf_args *a = step->args;
        return a->detect_negative && a->detect_positive ? "v != 0 && v == v + v && v == v"
               : a->detect_positive                     ? "v > 0 && v == v + v"
               : a->detect_negative                     ? "v < 0 && v == v + v"
                                                        : "0 * (v > 0)";
    }
    default:
        return NULL;
    }
}

static bool write_plain_unary(xcc_c_export *x, const xcc_c_step *step, const char *expression)
{
    const xcvm_value *v = step->in[0], *y = step->out[0];
    nest n;
    make_nest(&n, y, &v, 1);
    write_operands(x, y, &v, 1);
    begin_nest(x, &n);
    write_indent(x, n.rank);
    xcc_c_line(x, "const %s v = %s;\n", xcc_c_type((xcvm_dtype)v->dtype), element(x, &n, 0));
    write_indent(x, n.rank);
    xcc_c_line(x, "%s = (%s)(%s);\n", result(x, &n), xcc_c_type((xcvm_dtype)y->dtype), expression);
    end_nest(x, &n);
    return true;
}

/* Conversions of numbers that an integer cannot represent give the results of the VM's Cast. */
static bool write_cast(xcc_c_export *x, const xcc_c_step *step)
{
    const xcvm_value *v = step->in[0], *y = step->out[0];
    const bool whole = !xcvm_dtype_is_float((xcvm_dtype)y->dtype),
               fractional = xcvm_dtype_is_float((xcvm_dtype)v->dtype);
    const char *const type = xcc_c_type((xcvm_dtype)y->dtype);
    const char *expression = xcc_c_format(x, "(%s)v", type);
    if (y->dtype == XCVM_BOOL)
        expression = "(uint8_t)(v != 0)";
    else if (v->dtype == XCVM_BOOL)
        expression = xcc_c_format(x, "(%s)(v != 0)", type);
    else if (whole && fractional && y->dtype == XCVM_U64)
        expression = "xc_u64_of((double)v)";
    else if (whole && fractional && (y->dtype == XCVM_I64))
        expression = "xc_i64_of((double)v)";
    else if (whole && fractional && y->dtype == XCVM_U32)
        expression = "(uint32_t)xc_i64_of((double)v)";
    else if (whole && fractional)
        expression = xcc_c_format(x, "(%s)xc_i32_of((double)v)", type);
    return write_plain_unary(x, step, expression);
}

/* ---- More operands ---- */

static bool write_pair(xcc_c_export *x, const formula *f, const char *type, const char *to_type, const char *u,
                       const char *v, const char *to, int depth)
{
    const char *wide = type, *expression = f->first;
    const bool without_sign = type[0] == 'u';
    if (is(f, "MODULAR") || is(f, "UNSIGNED"))
        wide = "uint64_t";
    else if (is(f, "WIDE"))
        wide = without_sign ? "uint64_t" : "int64_t";
    if (is(f, "WIDE") && without_sign)
        expression = f->second;
    write_indent(x, depth);
    xcc_c_line(x, "const %s u = (%s)%s, v = (%s)%s;\n", wide, wide, u, wide, v);
    if (is(f, "REMAINDER")) {
        write_indent(x, depth);
        xcc_c_line(x, "const %s r = %s(u, v);\n", type, type[0] == 'f' ? "fmodf" : "fmod");
    }
    write_indent(x, depth);
    xcc_c_line(x, "%s = (%s)(%s);\n", to, to_type, expression);
    return true;
}

/* Instructions whose divisor must not be 0. */
static bool divides(xcvm_opcode opcode) { return opcode == XCVM_OP_Div || opcode == XCVM_OP_Mod; }

static bool write_binary(xcc_c_export *x, const xcc_c_step *step)
{
    const xcvm_opcode opcode = step->schema->opcode;
    const bool swapped = opcode == XCVM_OP_Less || opcode == XCVM_OP_LessOrEqual;
    const char *name = step->schema->name;
    if (opcode == XCVM_OP_Mod && XCC_C_ARGS(Mod, step)->fmod)
        name = "Fmod";
    else if (opcode == XCVM_OP_BitShift)
        name = XCC_C_ARGS(BitShift, step)->direction == XCVM_SHIFT_LEFT ? "ShiftLeft" : "ShiftRight";
    else if (swapped)
        name = opcode == XCVM_OP_Less ? "Greater" : "GreaterOrEqual";
    const line *l = FIND(of_two, name);
    if (l == NULL)
        return xcc_c_refuse(x, "C export does not support it");
    const xcvm_value *in[] = {step->in[swapped ? 1 : 0], step->in[swapped ? 0 : 1]}, *y = step->out[0];
    const xcvm_dtype dtype = (xcvm_dtype)in[0]->dtype;
    formula f;
    const bool is_float = xcvm_dtype_is_float(dtype);
    if (!take_apart(dtype == XCVM_F32    ? l->f32
                    : dtype == XCVM_F64  ? l->f64
                    : dtype == XCVM_BOOL ? l->booleans
                                         : l->integers,
                    &f) ||
        is(&f, "NONE") || (!is_float && xcvm_dtype_is_float((xcvm_dtype)in[1]->dtype)))
        return xcc_c_refuse(x, "C export does not support it on %s and %s", xcvm_dtype_name(dtype),
                            xcvm_dtype_name((xcvm_dtype)in[1]->dtype));
    nest n;
    make_nest(&n, y, in, 2);
    write_operands(x, y, in, 2);
    if (divides(opcode) && !is_float) {
        x->fails = true;
        xcc_c_line(
            x, "        for (size_t i = 0; i != %zu; i++)\n            if (b[i] == 0)\n                return %zu;\n",
            xcvm_element_count(in[1]), x->pc + 1);
    }
    begin_nest(x, &n);
    write_pair(x, &f, xcc_c_type(dtype), xcc_c_type((xcvm_dtype)y->dtype), element(x, &n, 0), element(x, &n, 1),
               result(x, &n), n.rank);
    end_nest(x, &n);
    return true;
}

bool xcc_c_write_rows(xcc_c_export *x, const xcc_c_step *step, const char *call)
{
    const xcvm_value *y = step->out[0];
    nest n;
    make_nest(&n, y, step->in, 2);
    nest outer = n;
    outer.rank--;
    write_operands(x, y, step->in, 2);
    begin_nest(x, &outer);
    write_indent(x, outer.rank);
    xcc_c_line(x, "%s", call);
    for (int k = 0; k < 2; k++)
        xcc_c_line(x, "%s + %s, %lld, ", letters[k], element_index(x, n.strides[k], outer.rank),
                   (long long)n.strides[k][outer.rank]);
    xcc_c_line(x, "y + %s, %lld);\n", result_place(x, &n, outer.rank), (long long)n.dims[outer.rank]);
    end_nest(x, &outer);
    return true;
}

static bool write_where(xcc_c_export *x, const xcc_c_step *step)
{
    const xcvm_value *y = step->out[0];
    nest n;
    make_nest(&n, y, step->in, 3);
    write_operands(x, y, step->in, 3);
    begin_nest(x, &n);
    write_indent(x, n.rank);
    xcc_c_line(x, "%s = %s != 0 ? %s : %s;\n", result(x, &n), element(x, &n, 0), element(x, &n, 1), element(x, &n, 2));
    end_nest(x, &n);
    return true;
}

bool xcc_c_is_elementwise(const xcvm_schema *schema)
{
    switch (schema->opcode) {
    case XCVM_OP_Not:
    case XCVM_OP_BitwiseNot:
    case XCVM_OP_IsNaN:
    case XCVM_OP_IsInf:
    case XCVM_OP_Cast:
    case XCVM_OP_Where:
    case XCVM_OP_Less:
    case XCVM_OP_LessOrEqual:
    case XCVM_OP_BitShift:
        return true;
    default:
        return (xcvm_schema_has_class(schema, XCVM_CLASS_unary) && FIND(of_one, schema->name) != NULL) ||
               (xcvm_schema_has_class(schema, XCVM_CLASS_binary) && FIND(of_two, schema->name) != NULL);
    }
}

bool xcc_c_write_elementwise(xcc_c_export *x, xcc_c_step *step, bool *known)
{
    const char *name = step->schema->name;
    const char *const expression = unary_expression(step);
    *known = true;
    if (expression != NULL)
        return write_plain_unary(x, step, expression);
    if (step->schema->opcode == XCVM_OP_Cast)
        return write_cast(x, step);
    if (step->schema->opcode == XCVM_OP_Where)
        return write_where(x, step);
    if (step->schema->opcode == XCVM_OP_Gelu && XCC_C_ARGS(Gelu, step)->approximate == XCVM_GELU_tanh)
        name = "GeluTanh";
    const line *l = xcvm_schema_has_class(step->schema, XCVM_CLASS_unary) ? FIND(of_one, name) : NULL;
    if (l != NULL)
        return write_unary(x, step, l);
    if (xcvm_schema_has_class(step->schema, XCVM_CLASS_binary))
        return write_binary(x, step);
    *known = false;
    return false;
}

/* ---- Activations ---- */

bool xcc_c_write_activation(xcc_c_export *x, const xcvm_value *v, int activation, xcvm_floats params,
                            xcvm_floats affine)
{
    static const char *const names[XCVM_ACTIVATION_COUNT] = {[XCVM_ACTIVATION_LeakyRelu] = "LeakyRelu",
                                                             [XCVM_ACTIVATION_Sigmoid] = "Sigmoid",
                                                             [XCVM_ACTIVATION_Tanh] = "Tanh",
                                                             [XCVM_ACTIVATION_HardSigmoid] = "HardSigmoid",
                                                             [XCVM_ACTIVATION_HardSwish] = "HardSwish",
                                                             [XCVM_ACTIVATION_Swish] = "Swish",
                                                             [XCVM_ACTIVATION_Gelu] = "Gelu"};
    if (activation == XCVM_ACTIVATION_none && affine.count == 0)
        return true;
    const xcvm_activation f = xcvm_activation_of(activation, params);
    const xcvm_dtype dtype = (xcvm_dtype)v->dtype;
    const char *const type = xcc_c_type(dtype);
    const line *l = NULL;
    if (f.kind != XCVM_ACTIVATION_none)
        l = FIND(of_one, f.kind == XCVM_ACTIVATION_Gelu && f.alpha != 0.0f ? "GeluTanh" : names[f.kind]);
    xcc_c_line(x, "        %s *const activated = %s;\n", type, xcc_c_write(x, v));
    write_scalar(x, type, "alpha", dtype, f.kind == XCVM_ACTIVATION_none ? (double)f.low : (double)f.alpha);
    write_scalar(x, type, "beta", dtype, f.kind == XCVM_ACTIVATION_none ? (double)f.high : (double)f.beta);
    xcc_c_line(x, "        XCVM_INDEPENDENT\n        for (size_t i = 0; i < %zu; i++) {\n", xcvm_element_count(v));
    bool done = true;
    if (l != NULL)
        done = write_formula(x, l, dtype, "activated[i]", "activated[i]", 1);
    else
        xcc_c_line(x, "            activated[i] = xcvm_clamp_%s(activated[i], alpha, beta);\n", xcc_c_suffix(dtype));
    if (affine.count == 2) {
        xcc_c_line(x, "            activated[i] = activated[i] * ");
        xcc_c_put_number(&x->body, dtype, affine.at[0]);
        xcc_c_line(x, " + ");
        xcc_c_put_number(&x->body, dtype, affine.at[1]);
        xcc_c_line(x, ";\n");
    }
    xcc_c_line(x, "        }\n");
    return done;
}
