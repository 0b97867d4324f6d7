/* Reductions, normalizations and attention as C. */
#include "compiler/export_c/export_c.h"
#include "compiler/export_c/c_runtime/workspace.h"

#include "ops/attention/attention_operands.h"
#include "ops/reduce/reduction.h"

#include <string.h>

static const char *suffix_of(const xcvm_value *v) { return xcc_c_suffix((xcvm_dtype)v->dtype); }
static const char *type_of(const xcvm_value *v) { return xcc_c_type((xcvm_dtype)v->dtype); }

/* ---- Reductions ---- */

/* A reduction for floating point and for integers: the initial accumulator, its update by an element v, and the result
 * from it and the number n of elements. */
typedef struct reduction {
    xcvm_opcode opcode;
    const char *start, *step, *result, *whole_step, *whole_result;
} reduction;

/* A product of many numbers leaves the range of f64 on the way, so its exponent is kept apart, as the VM does
 * in long rows of f32. */
#define MULTIPLY                                                                                                       \
    "sum *= v;\n"                                                                                                      \
    "                if ((fabs(sum) < 1e-90 && sum != 0) || (fabs(sum) > 1e90 && fabs(sum) < (double)INFINITY)) {\n"   \
    "                    int moved;\n"                                                                                 \
    "                    sum = frexp(sum, &moved);\n"                                                                  \
    "                    exponent += moved;\n"                                                                         \
    "                }"

static const reduction reductions[] = {
    {XCVM_OP_ReduceSum, "0", "sum += v", "sum", "sum += (uint64_t)v", "sum"},
    {XCVM_OP_ReduceMean, "0", "sum += v", "sum / n", "sum += (uint64_t)v", "n == 0 ? 0 : (int64_t)sum / (int64_t)n"},
    {XCVM_OP_ReduceProd, "1", MULTIPLY, "ldexp(sum, exponent < -9999 ? -9999 : exponent > 9999 ? 9999 : (int)exponent)",
     "sum *= (uint64_t)v", "sum"},
    {XCVM_OP_ReduceL1, "0", "sum += fabs(v)", "sum", "sum += v < 0 ? 0 - (uint64_t)v : (uint64_t)v", "sum"},
    {XCVM_OP_ReduceL2, "0", "sum += v * v", "sqrt(sum)", "sum += (uint64_t)v * (uint64_t)v", "sqrt((double)sum)"},
    {XCVM_OP_ReduceSumSquare, "0", "sum += v * v", "sum", "sum += (uint64_t)v * (uint64_t)v", "sum"},
    {XCVM_OP_ReduceLogSumExp, "0", "sum += exp(v - base)", "log(sum) + base", NULL, NULL},
    {XCVM_OP_ReduceMax, "-(double)INFINITY", "sum = v > sum || v != v ? v : sum", "sum", "sum = v > sum ? v : sum",
     "sum"},
    {XCVM_OP_ReduceMin, "(double)INFINITY", "sum = v < sum || v != v ? v : sum", "sum", "sum = v < sum ? v : sum",
     "sum"}};

typedef struct loops {
    int kept, reduced;
    int64_t kept_dims[XCVM_MAX_RANK], kept_steps[XCVM_MAX_RANK], dims[XCVM_MAX_RANK], steps[XCVM_MAX_RANK], count;
} loops;

static void add(int64_t *dims, int64_t *steps, int *rank, int64_t dim, int64_t step)
{
    if (*rank > 0 && steps[*rank - 1] == dim * step) {
        dims[*rank - 1] *= dim;
        steps[*rank - 1] = step;
        return;
    }
    dims[*rank] = dim;
    steps[(*rank)++] = step;
}

static void find_loops(const xcvm_value *v, uint32_t mask, loops *l)
{
    *l = (loops){.count = 1};
    for (int i = 0; i < v->rank; i++) {
        const int64_t step = xcc_c_product(v->dims, i + 1, v->rank);
        if ((mask >> i & 1) != 0) {
            add(l->dims, l->steps, &l->reduced, v->dims[i], step);
            l->count *= v->dims[i];
        } else {
            add(l->kept_dims, l->kept_steps, &l->kept, v->dims[i], step);
        }
    }
}

/* The loops over the reduced axes, around one statement. */
static void write_pass(xcc_c_export *x, const loops *l, const char *type, const char *statement)
{
    for (int i = 0; i < l->reduced; i++)
        xcc_c_line(x, "            for (size_t r%d = 0; r%d != %lld; r%d++)\n", i, i, (long long)l->dims[i], i);
    xcc_c_line(x, "            {\n                const %s v = from[0", type);
    for (int i = 0; i < l->reduced; i++)
        xcc_c_line(x, " + r%d * %lld", i, (long long)l->steps[i]);
    xcc_c_line(x, "];\n                %s;\n            }\n", statement);
}

static bool write_reduction(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_ReduceSum_args *a = step->args; /* all reductions have the same fields */
    uint32_t mask;
    bool known;
    const reduction *r = reductions;
    while (r->opcode != step->schema->opcode)
        r++;
    if (xcvm_reduction_axes(NULL, a->axes, a->noop_with_empty_axes != 0, a->x->rank, &mask, &known) != XCVM_OK ||
        !known)
        return xcc_c_refuse(x, "axes is not constant");
    const xcvm_dtype dtype = (xcvm_dtype)a->x->dtype;
    const bool is_float = xcvm_dtype_is_float(dtype),
               compares = r->opcode == XCVM_OP_ReduceMax || r->opcode == XCVM_OP_ReduceMin;
    const bool without_sign = xcvm_dtype_in(dtype, XCVM_TYPES_UNSIGNED | XCVM_TYPES_BOOL);
    if (!is_float && r->whole_step == NULL)
        return xcc_c_refuse(x, "C export does not support it on %s", xcvm_dtype_name(dtype));
    loops l;
    find_loops(a->x, mask, &l);
    const char *start = r->start;
    if (!is_float && compares)
        start = r->opcode == XCVM_OP_ReduceMax
                    ? without_sign ? "0" : xcc_c_format(x, "INT%d_MIN", xcvm_dtype_bits(dtype))
                : without_sign ? "UINT64_MAX"
                               : xcc_c_format(x, "INT%d_MAX", xcvm_dtype_bits(dtype));
    const char *whole_result = r->whole_result;
    if (without_sign && r->opcode == XCVM_OP_ReduceMean)
        whole_result = "n == 0 ? 0 : sum / (uint64_t)n";
    const char *const wide = without_sign ? "uint64_t" : "int64_t";
    xcc_c_line(
        x, "        const %s *const x = %s;\n        %s *y = %s;\n        const double n = %lld;\n        (void)n;\n",
        type_of(a->x), xcc_c_read(x, a->x), type_of(a->y), xcc_c_write(x, a->y), (long long)l.count);
    for (int i = 0; i < l.kept; i++)
        xcc_c_line(x, "        for (size_t k%d = 0; k%d < %lld; k%d++)\n", i, i, (long long)l.kept_dims[i], i);
    xcc_c_line(x, "        {\n            const %s *const from = x", type_of(a->x));
    for (int i = 0; i < l.kept; i++)
        xcc_c_line(x, " + k%d * %lld", i, (long long)l.kept_steps[i]);
    xcc_c_line(x, ";\n            %s sum = %s;\n", is_float ? "double" : compares ? wide : "uint64_t", start);
    if (is_float && r->opcode == XCVM_OP_ReduceProd)
        xcc_c_line(x, "            long long exponent = 0;\n");
    if (r->opcode == XCVM_OP_ReduceLogSumExp) {
        xcc_c_line(x, "            double greatest = -(double)INFINITY, base;\n");
        write_pass(x, &l, "double", "greatest = v > greatest || v != v ? v : greatest");
        xcc_c_line(x, "            base = greatest == -(double)INFINITY ? 0 : greatest;\n"
                      "            base = base == (double)INFINITY ? 0 : base;\n");
    }
    write_pass(x, &l, is_float ? "double" : wide, is_float ? r->step : r->whole_step);
    xcc_c_line(x, "            *y++ = (%s)(%s);\n        }\n", type_of(a->y), is_float ? r->result : whole_result);
    return true;
}

static bool write_arg(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_ArgMax_args *a = step->args; /* ArgMin has the same fields */
    const int axis = xcc_c_axis(a->axis, a->x->rank);
    xcc_c_line(x, "        xc_arg_greatest_%s(%s, %s, %lld, %lld, %lld, %d, %d);\n", suffix_of(a->x),
               xcc_c_read(x, a->x), xcc_c_write(x, a->y), (long long)xcc_c_product(a->x->dims, 0, axis),
               (long long)a->x->dims[axis], (long long)xcc_c_product(a->x->dims, axis + 1, a->x->rank),
               step->schema->opcode == XCVM_OP_ArgMin, (int)a->select_last_index);
    return true;
}

static bool write_cumulative(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_CumSum_args *a = step->args; /* CumProd has the same fields */
    int64_t given;
    size_t count;
    if (!xcc_c_ints(x, a->axis, "axis", &given, 1, &count))
        return false;
    const int axis = xcc_c_axis(given, a->x->rank);
    if (axis < 0 || axis >= a->x->rank)
        return xcc_c_refuse(x, "axis is out of range");
    xcc_c_line(x, "        xc_cumulate_%s(%s, %s, %lld, %lld, %lld, %d, %d, %d);\n", suffix_of(a->x),
               xcc_c_read(x, a->x), xcc_c_write(x, a->y), (long long)xcc_c_product(a->x->dims, 0, axis),
               (long long)a->x->dims[axis], (long long)xcc_c_product(a->x->dims, axis + 1, a->x->rank),
               (int)a->exclusive, (int)a->reverse, step->schema->opcode == XCVM_OP_CumProd);
    return true;
}

static bool write_top(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_TopK_args *a = step->args;
    const int axis = xcc_c_axis(a->axis, a->x->rank);
    const xcvm_value *y = a->values != NULL ? a->values : a->indices;
    if (y == NULL)
        return true;
    xcc_c_line(x, "        xc_top_%s(%s, %s, %s, %lld, %lld, %lld, %lld, %d);\n", suffix_of(a->x), xcc_c_read(x, a->x),
               xcc_c_write(x, a->values), xcc_c_write(x, a->indices), (long long)xcc_c_product(a->x->dims, 0, axis),
               (long long)a->x->dims[axis], (long long)xcc_c_product(a->x->dims, axis + 1, a->x->rank),
               (long long)y->dims[axis], (int)a->largest);
    return true;
}

static const xcc_c_row reduction_rows[] = {{XCVM_OP_ReduceSum, write_reduction},
                                           {XCVM_OP_ReduceMean, write_reduction},
                                           {XCVM_OP_ReduceMax, write_reduction},
                                           {XCVM_OP_ReduceMin, write_reduction},
                                           {XCVM_OP_ReduceProd, write_reduction},
                                           {XCVM_OP_ReduceL1, write_reduction},
                                           {XCVM_OP_ReduceL2, write_reduction},
                                           {XCVM_OP_ReduceSumSquare, write_reduction},
                                           {XCVM_OP_ReduceLogSumExp, write_reduction},
                                           {XCVM_OP_ArgMax, write_arg},
                                           {XCVM_OP_ArgMin, write_arg},
                                           {XCVM_OP_CumSum, write_cumulative},
                                           {XCVM_OP_CumProd, write_cumulative},
                                           {XCVM_OP_TopK, write_top}};
const xcc_c_rows xcc_c_reduction_rows = {reduction_rows, sizeof reduction_rows / sizeof *reduction_rows};

/* ---- Normalizations ---- */

static bool write_softmax(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_Softmax_args *a = step->args; /* all three have the same fields */
    const int axis = xcc_c_axis(a->axis, a->x->rank);
    const int kind = step->schema->opcode == XCVM_OP_Softmax ? 0 : step->schema->opcode == XCVM_OP_LogSoftmax ? 1 : 2;
    if (axis < 0 || axis >= a->x->rank)
        return xcc_c_refuse(x, "C export does not support it on a number");
    xcc_c_line(x, "        xc_softmax_%s(%s, %s, %lld, %lld, %lld, %d);\n", suffix_of(a->x), xcc_c_read(x, a->x),
               xcc_c_write(x, a->y), (long long)xcc_c_product(a->x->dims, 0, axis), (long long)a->x->dims[axis],
               (long long)xcc_c_product(a->x->dims, axis + 1, a->x->rank), kind);
    return true;
}

static const char *number(xcc_c_export *x, const xcvm_value *v, double value)
{
    const xcvm_dtype dtype = (xcvm_dtype)v->dtype;
    return xcc_c_number(x, dtype, dtype == XCVM_F32 ? (double)(float)value : value);
}

static bool write_rows(xcc_c_export *x, const xcvm_value *v, const xcvm_value *y, const xcvm_value *scale,
                       const xcvm_value *b, const xcvm_value *mean, const xcvm_value *deviation, int64_t given,
                       double epsilon, bool root)
{
    const int axis = xcc_c_axis(given, v->rank);
    if (axis < 0 || axis >= v->rank)
        return xcc_c_refuse(x, "axis is out of range");
    const long long rows = (long long)xcc_c_product(v->dims, 0, axis),
                    count = (long long)xcc_c_product(v->dims, axis, v->rank);
    const xcvm_value *const all[] = {scale, b};
    const xcvm_value *const stashed[] = {mean, deviation};
    for (int i = 0; i < 2; i++) {
        if (all[i] != NULL && (long long)xcvm_element_count(all[i]) != count)
            return xcc_c_refuse(x, "C export does not support its broadcast scale");
        if (stashed[i] != NULL && stashed[i]->dtype != v->dtype)
            return xcc_c_refuse(x, "C export does not support its stash_type");
    }
    xcc_c_line(x, "        xc_normalize_%s(%s, %s, %s, %s, %s, %s, %lld, %lld, %s, %d);\n", suffix_of(v),
               xcc_c_read(x, v), xcc_c_write(x, y), xcc_c_read(x, scale), xcc_c_read(x, b), xcc_c_write(x, mean),
               xcc_c_write(x, deviation), rows, count, number(x, v, epsilon), root);
    return true;
}

static bool write_layer(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_LayerNormalization_args *a = step->args;
    return write_rows(x, a->x, a->y, a->scale, a->b, a->mean, a->inv_std_dev, a->axis, a->epsilon, false);
}

static bool write_rms(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_RMSNormalization_args *a = step->args;
    return write_rows(x, a->x, a->y, a->scale, NULL, NULL, NULL, a->axis, a->epsilon, true);
}

static bool write_groups(xcc_c_export *x, const xcvm_value *v, const xcvm_value *y, const xcvm_value *scale,
                         const xcvm_value *b, int64_t groups, double epsilon)
{
    if (v->rank < 2 || groups <= 0 || v->dims[1] % groups != 0)
        return xcc_c_refuse(x, "%lld groups do not divide its channels", (long long)groups);
    xcc_c_line(x, "        xc_normalize_groups_%s(%s, %s, %s, %s, %lld, %lld, %lld, %lld, %s);\n", suffix_of(v),
               xcc_c_read(x, v), xcc_c_write(x, y), xcc_c_read(x, scale), xcc_c_read(x, b), (long long)v->dims[0],
               (long long)v->dims[1], (long long)groups, (long long)xcc_c_product(v->dims, 2, v->rank),
               number(x, v, epsilon));
    return (int64_t)xcvm_element_count(scale) == v->dims[1] && (int64_t)xcvm_element_count(b) == v->dims[1]
               ? true
               : xcc_c_refuse(x, "its scale is not one for each channel");
}

static bool write_instance(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_InstanceNormalization_args *a = step->args;
    return write_groups(x, a->x, a->y, a->scale, a->b, a->x->dims[1], a->epsilon);
}

static bool write_group(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_GroupNormalization_args *a = step->args;
    return write_groups(x, a->x, a->y, a->scale, a->b, a->num_groups, a->epsilon);
}

static bool write_batch(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_BatchNormalization_args *a = step->args;
    if (a->scale->dtype != a->x->dtype || a->b->dtype != a->x->dtype || a->mean->dtype != a->x->dtype)
        return xcc_c_refuse(x, "C export does not support operands of different types");
    if (a->training_mode) {
        xcc_c_line(x, "        xc_batch_norm_training_%s(%s, %s, %s, %s, %s, %s, %s, %s, %lld, %lld, %lld, %s, %s);\n",
                   suffix_of(a->x), xcc_c_read(x, a->x), xcc_c_write(x, a->y), xcc_c_read(x, a->scale),
                   xcc_c_read(x, a->b), xcc_c_read(x, a->mean), xcc_c_read(x, a->var), xcc_c_write(x, a->running_mean),
                   xcc_c_write(x, a->running_var), (long long)a->x->dims[0],
                   (long long)(a->x->rank > 1 ? a->x->dims[1] : 1), (long long)xcc_c_product(a->x->dims, 2, a->x->rank),
                   xcc_c_number(x, XCVM_F64, a->epsilon), xcc_c_number(x, XCVM_F64, a->momentum));
        return true;
    }
    const xcvm_value *const kept[][2] = {{a->running_mean, a->mean}, {a->running_var, a->var}};
    for (size_t i = 0; i < 2; i++)
        if (kept[i][0] != NULL)
            xcc_c_line(x, "        memcpy(%s, %s, %zu);\n", xcc_c_write(x, kept[i][0]), xcc_c_read(x, kept[i][1]),
                       kept[i][0]->bytes);
    xcc_c_line(x, "        xc_batch_norm_%s(%s, %s, %s, %s, %s, %s, %lld, %lld, %lld, %s);\n", suffix_of(a->x),
               xcc_c_read(x, a->x), xcc_c_write(x, a->y), xcc_c_read(x, a->scale), xcc_c_read(x, a->b),
               xcc_c_read(x, a->mean), xcc_c_read(x, a->var), (long long)a->x->dims[0],
               (long long)(a->x->rank > 1 ? a->x->dims[1] : 1), (long long)xcc_c_product(a->x->dims, 2, a->x->rank),
               number(x, a->x, a->epsilon));
    return true;
}

static bool write_batch_gradient(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_BatchNormalizationGradient_args *a = step->args;
    if (a->scale->dtype != a->x->dtype)
        return xcc_c_refuse(x, "C export does not support operands of different types");
    xcc_c_line(x, "        xc_batch_norm_gradient_%s(%s, %s, %s, %s, %s, %s, %lld, %lld, %lld, %s);\n", suffix_of(a->x),
               xcc_c_read(x, a->g), xcc_c_read(x, a->x), xcc_c_read(x, a->scale), xcc_c_write(x, a->dx),
               xcc_c_write(x, a->dscale), xcc_c_write(x, a->db), (long long)a->x->dims[0], (long long)a->x->dims[1],
               (long long)xcc_c_product(a->x->dims, 2, a->x->rank), xcc_c_number(x, XCVM_F64, a->epsilon));
    return true;
}

static bool write_lp(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_LpNormalization_args *a = step->args;
    const int axis = xcc_c_axis(a->axis, a->x->rank);
    if (axis < 0 || axis >= a->x->rank)
        return xcc_c_refuse(x, "axis is out of range");
    xcc_c_line(x, "        xc_lp_normalize_%s(%s, %s, %lld, %lld, %lld, %d);\n", suffix_of(a->x), xcc_c_read(x, a->x),
               xcc_c_write(x, a->y), (long long)xcc_c_product(a->x->dims, 0, axis), (long long)a->x->dims[axis],
               (long long)xcc_c_product(a->x->dims, axis + 1, a->x->rank), (int)a->p);
    return true;
}

static bool write_lrn(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_LRN_args *a = step->args;
    if (a->x->rank < 2)
        return xcc_c_refuse(x, "it has rank %d, at least 2 is needed", a->x->rank);
    xcc_c_line(x, "        xc_lrn_%s(%s, %s, %lld, %lld, %lld, %lld, %s, %s, %s);\n", suffix_of(a->x),
               xcc_c_read(x, a->x), xcc_c_write(x, a->y), (long long)a->x->dims[0], (long long)a->x->dims[1],
               (long long)xcc_c_product(a->x->dims, 2, a->x->rank), (long long)a->size, number(x, a->x, a->alpha),
               number(x, a->x, a->beta), number(x, a->x, a->bias));
    return true;
}

/* ---- Attention ---- */

static void put_rows(xcc_c_text *to, const char *name, const xcvm_attention_rows *rows)
{
    xcc_c_put(to, ", .%s = {%zu, %zu, %zu}", name, rows->batch, rows->head, rows->row);
}

/* Copies past and new rows of each head to `to`, one after another; `rows` then describes them. */
static void write_joined(xcc_c_export *x, const xcvm_attention *d, const xcvm_value *past, const char *fresh,
                         size_t width, size_t size, const char *to, xcvm_attention_rows *rows)
{
    const xcvm_attention_rows all = {d->kv_heads * d->keys * width, d->keys * width, width};
    const size_t before = past != NULL ? (size_t)past->dims[2] : 0;
    const xcvm_attention_rows old = {d->kv_heads * before * width, before * width, width};
    for (int i = 0; i < 2; i++) {
        const xcvm_attention_rows *from = i == 0 ? &old : rows;
        const size_t count = i == 0 ? before : d->keys - before;
        xcc_c_axes axes = {.rank = 0};
        xcc_c_add_axis(&axes, (int64_t)d->batch, (int64_t)(all.batch * size), (int64_t)(from->batch * size));
        xcc_c_add_axis(&axes, (int64_t)d->kv_heads, (int64_t)(all.head * size), (int64_t)(from->head * size));
        xcc_c_add_axis(&axes, (int64_t)count, (int64_t)(all.row * size), (int64_t)(from->row * size));
        xcc_c_add_axis(&axes, (int64_t)width, (int64_t)size, (int64_t)size);
        if (count > 0)
            xcc_c_write_copy(x, &axes, size, to, i == 0 ? 0 : (int64_t)(before * width * size),
                             i == 0 ? xcc_c_read(x, past) : fresh, 0);
    }
    *rows = all;
}

/* A constant xc_attention, by name. */
static const char *attention_table(xcc_c_export *x, const xcvm_attention *d, bool boolean)
{
    const size_t index = x->table_count++;
    xcc_c_text *const t = &x->tables;
    xcc_c_put(
        t,
        "\nstatic const xc_attention xc_table_%zu = {.batch = %zu, .heads = %zu, .group = %zu, .queries = %zu, .keys = "
        "%zu, .width = %zu, .v_width = %zu, .mask_keys = %zu",
        index, d->batch, d->heads, d->group, d->queries, d->keys, d->width, d->v_width, d->mask_keys);
    put_rows(t, "q", &d->q);
    put_rows(t, "k", &d->k);
    put_rows(t, "v", &d->v);
    put_rows(t, "y", &d->y);
    put_rows(t, "mask", &d->mask_rows);
    xcc_c_put(t, ", .scale = ");
    xcc_c_put_number(t, XCVM_F64, d->scale);
    xcc_c_put(t, ", .softcap = ");
    xcc_c_put_number(t, XCVM_F64, d->softcap);
    xcc_c_put(t, ", .left = %lld, .right = %lld, .place = %lld, .causal = %d, .nan_rows = %d, .boolean = %d};\n",
              (long long)d->left, (long long)d->right, (long long)d->place, d->causal, d->nan_rows, boolean);
    return xcc_c_format(x, "xc_table_%zu", index);
}

static bool write_attention(xcc_c_export *x, xcc_c_step *step)
{
    /* The lengths are not known before the C runs. */
    xcvm_Attention_args own = *(const xcvm_Attention_args *)step->args;
    const xcvm_Attention_args *a = &own;
    const xcvm_value *nonpad = own.nonpad_kv_seqlen;
    const char *const type = type_of(a->q);
    own.nonpad_kv_seqlen = NULL;
    if (a->qk != NULL)
        return xcc_c_refuse(x, "C export does not support its scores as a result");
    if ((a->v != NULL && a->v->dtype != a->q->dtype) ||
        (a->mask != NULL && a->mask->dtype != a->q->dtype && !xcc_c_is(a->mask, XCVM_BOOL)))
        return xcc_c_refuse(x, "C export does not support operands of different types");
    xcvm_attention d;
    if (xcvm_attention_read(x->error, a, &d) != XCVM_OK)
        return xcc_c_refuse(x, "%s", x->error->message);
    const size_t size = xcvm_dtype_size((xcvm_dtype)a->q->dtype),
                 attend = xc_attend_workspace_of(d.keys, d.width).all * size;
    const char *const q = xcc_c_read(x, a->q);
    const size_t k_at = a->k != NULL ? 0 : d.heads * d.width, v_at = k_at + d.kv_heads * d.width;
    const char *k = a->k != NULL ? xcc_c_read(x, a->k) : xcc_c_format(x, "%s + %zu", q, k_at);
    const char *v = a->k != NULL ? xcc_c_read(x, a->v) : xcc_c_format(x, "%s + %zu", q, v_at);
    const size_t each = xcvm_round_up(attend, XCVM_ALIGNMENT), units = d.batch * d.kv_heads * d.keys * size;
    const size_t keys = a->past_key != NULL && a->present_key == NULL ? units * d.width : 0;
    const size_t values = a->past_value != NULL && a->present_value == NULL ? units * d.v_width : 0;
    const char *const workspace = xcc_c_scratch(x, each + keys + values);
    d.place = a->past_key == NULL && nonpad != NULL ? -1 : d.place;
    if (a->past_key != NULL || a->present_key != NULL) {
        const char *const to = a->present_key != NULL
                                   ? xcc_c_write(x, a->present_key)
                                   : xcc_c_format(x, "(%s *)(void *)((char *)(%s) + %zu)", type, workspace, each);
        write_joined(x, &d, a->past_key, k, d.width, size, to, &d.k);
        k = to;
    }
    if (a->past_value != NULL || a->present_value != NULL) {
        const char *const to = a->present_value != NULL ? xcc_c_write(x, a->present_value)
                                                        : xcc_c_format(x, "(%s *)(void *)((char *)(%s) + %zu)", type,
                                                                       workspace, each + keys);
        write_joined(x, &d, a->past_value, v, d.v_width, size, to, &d.v);
        v = to;
    }
    if (nonpad != NULL) {
        x->fails = true;
        xcc_c_line(x,
                   "        for (size_t i = 0; i < %zu; i++)\n            if ((%s)[i] < 0 || (%s)[i] > %zu)\n"
                   "                return %zu;\n",
                   d.batch, xcc_c_read(x, nonpad), xcc_c_read(x, nonpad), d.keys, x->pc + 1);
    }
    xcc_c_line(x, "        xc_attend_%s(&%s, %s, %s, %s, %s, %s, %s, (%s *)(void *)(%s));\n", suffix_of(a->q),
               attention_table(x, &d, a->mask != NULL && xcc_c_is(a->mask, XCVM_BOOL)), q, k, v, xcc_c_read(x, a->mask),
               xcc_c_read(x, nonpad), xcc_c_write(x, a->y), type, workspace);
    return true;
}

static const xcc_c_row norm_rows[] = {{XCVM_OP_Softmax, write_softmax},
                                      {XCVM_OP_LogSoftmax, write_softmax},
                                      {XCVM_OP_Hardmax, write_softmax},
                                      {XCVM_OP_LayerNormalization, write_layer},
                                      {XCVM_OP_RMSNormalization, write_rms},
                                      {XCVM_OP_InstanceNormalization, write_instance},
                                      {XCVM_OP_GroupNormalization, write_group},
                                      {XCVM_OP_BatchNormalization, write_batch},
                                      {XCVM_OP_BatchNormalizationGradient, write_batch_gradient},
                                      {XCVM_OP_LpNormalization, write_lp},
                                      {XCVM_OP_LRN, write_lrn},
                                      {XCVM_OP_Attention, write_attention}};
const xcc_c_rows xcc_c_norm_rows = {norm_rows, sizeof norm_rows / sizeof *norm_rows};
