/* Shape data of constants, Shape, Gather, Concat, Slice and integer arithmetic. */
#include "compiler/ir/shape_data.h"

/* Maximum number of values visited, because a model can make a value depend on another in exponentially many ways. */
enum { BUDGET = 256 };

static int shape_data_at(const xcc_value *v, xcc_shape_datum *sizes, int *budget);

static xcc_shape_datum number(int64_t value) { return (xcc_shape_datum){XCC_SIZE_NUMBER, value}; }

static xcc_shape_datum dimension(int64_t dim)
{
    if (dim >= 0)
        return number(dim);
    return (xcc_shape_datum){dim == XCVM_ANY_DIM ? XCC_SIZE_DIMENSION : XCC_SIZE_SYMBOL, dim};
}

static bool is_index_type(const xcc_value *v) { return v->type.dtype == XCVM_I64 || v->type.dtype == XCVM_I32; }

static int of_constant(const xcc_value *v, xcc_shape_datum *sizes)
{
    size_t count = xcvm_element_count(&v->type);
    if (count > XCC_SHAPE_DATA_LIMIT)
        return -1;
    for (size_t i = 0; i < count; i++)
        sizes[i] = number(xcvm_element_as_int(&v->type, i));
    return (int)count;
}

static int of_shape(const xcc_node *n, xcc_shape_datum *sizes)
{
    const xcvm_Shape_args *a = XCC_ARGS(Shape, n);
    int rank = a->x->kind == XCVM_KIND_TENSOR ? a->x->rank : -1;
    if (rank < 0)
        return -1;
    int64_t start = a->start < 0 ? a->start + rank : a->start, end = a->end < 0 ? a->end + rank : a->end;
    start = start < 0 ? 0 : start;
    end = end > rank ? rank : end;
    int count = 0;
    for (int64_t i = start; i < end; i++)
        sizes[count++] = dimension(a->x->dims[i]);
    return count;
}

static int of_gather(const xcc_node *n, xcc_shape_datum *sizes, int *budget)
{
    const xcvm_Gather_args *a = XCC_ARGS(Gather, n);
    xcc_shape_datum from[XCC_SHAPE_DATA_LIMIT], at[XCC_SHAPE_DATA_LIMIT];
    if (a->x->rank != 1)
        return -1;
    int count = shape_data_at(xcc_value_of(a->x), from, budget),
        indices = shape_data_at(xcc_value_of(a->indices), at, budget);
    for (int i = 0; i < indices; i++) {
        if (at[i].kind != XCC_SIZE_NUMBER || at[i].value < -count || at[i].value >= count)
            return -1;
        sizes[i] = from[at[i].value < 0 ? at[i].value + count : at[i].value];
    }
    return count < 0 ? -1 : indices;
}

static int of_concat(const xcc_node *n, xcc_shape_datum *sizes, int *budget)
{
    const xcvm_Concat_args *a = XCC_ARGS(Concat, n);
    xcc_shape_datum part[XCC_SHAPE_DATA_LIMIT];
    int total = 0;
    for (size_t i = 0; i < a->xs.count; i++) {
        int count = shape_data_at(xcc_value_of(a->xs.at[i]), part, budget);
        if (count < 0 || total + count > XCC_SHAPE_DATA_LIMIT)
            return -1;
        for (int k = 0; k < count; k++)
            sizes[total++] = part[k];
    }
    return total;
}

static bool one_number(const xcvm_value *v, int64_t absent, int *budget, int64_t *value)
{
    xcc_shape_datum size[XCC_SHAPE_DATA_LIMIT];
    *value = absent;
    if (v == NULL)
        return true;
    if (shape_data_at(xcc_value_of(v), size, budget) != 1 || size[0].kind != XCC_SIZE_NUMBER)
        return false;
    *value = size[0].value;
    return true;
}

static int of_slice(const xcc_node *n, xcc_shape_datum *sizes, int *budget)
{
    const xcvm_Slice_args *a = XCC_ARGS(Slice, n);
    xcc_shape_datum from[XCC_SHAPE_DATA_LIMIT];
    int64_t start, end, step, axis;
    int count = shape_data_at(xcc_value_of(a->x), from, budget);
    if (count < 0 || a->x->rank != 1 || !one_number(a->starts, 0, budget, &start) ||
        !one_number(a->ends, 0, budget, &end) || !one_number(a->steps, 1, budget, &step) ||
        !one_number(a->axes, 0, budget, &axis) || step != 1)
        return -1;
    start = start < 0 ? start + count : start;
    end = end < 0 ? end + count : end;
    start = start < 0 ? 0 : start > count ? count : start;
    end = end < 0 ? 0 : end > count ? count : end;
    int kept = 0;
    for (int64_t i = start; i < end; i++)
        sizes[kept++] = from[i];
    return kept;
}

static xcc_shape_datum combine(xcvm_opcode opcode, xcc_shape_datum a, xcc_shape_datum b)
{
    xcc_shape_datum unknown = {XCC_SIZE_UNKNOWN, 0};
    int64_t result = 0;
    bool one = b.kind == XCC_SIZE_NUMBER && b.value == 1, zero = b.kind == XCC_SIZE_NUMBER && b.value == 0;
    if (a.kind == XCC_SIZE_SYMBOL && ((one && opcode != XCVM_OP_Add && opcode != XCVM_OP_Sub) ||
                                      (zero && (opcode == XCVM_OP_Add || opcode == XCVM_OP_Sub))))
        return a;
    if (a.kind != XCC_SIZE_NUMBER || b.kind != XCC_SIZE_NUMBER)
        return unknown;
    bool overflow = false;
    switch (opcode) {
    case XCVM_OP_Add:
        overflow = __builtin_add_overflow(a.value, b.value, &result);
        break;
    case XCVM_OP_Sub:
        overflow = __builtin_sub_overflow(a.value, b.value, &result);
        break;
    case XCVM_OP_Mul:
        overflow = __builtin_mul_overflow(a.value, b.value, &result);
        break;
    default:
        overflow = b.value <= 0 || a.value < 0;
        result = overflow ? 0 : a.value / b.value;
        break;
    }
    return overflow ? unknown : number(result);
}

static int of_arithmetic(const xcc_node *n, xcc_shape_datum *sizes, int *budget)
{
    xcc_shape_datum b[XCC_SHAPE_DATA_LIMIT];
    int count = shape_data_at(xcc_node_input(n, 0), sizes, budget),
        others = shape_data_at(xcc_node_input(n, 1), b, budget);
    if (count < 0 || others < 0 || (count != others && count != 1 && others != 1))
        return -1;
    int total = count > others ? count : others;
    for (int i = total - 1; i >= 0; i--)
        sizes[i] = combine(n->schema->opcode, sizes[count == 1 ? 0 : i], b[others == 1 ? 0 : i]);
    return count == 0 || others == 0 ? 0 : total;
}

static int shape_data_at(const xcc_value *v, xcc_shape_datum *sizes, int *budget)
{
    if (v == NULL || v->type.kind != XCVM_KIND_TENSOR || v->type.rank < 0 || v->type.rank > 1 || !is_index_type(v))
        return -1;
    if (xcc_is_constant(v))
        return of_constant(v, sizes);
    const xcc_node *n = v->producer;
    if (n == NULL || n->kind != XCC_INSTRUCTION || --*budget < 0)
        return -1;
    switch (n->schema->opcode) {
    case XCVM_OP_Shape:
        return of_shape(n, sizes);
    case XCVM_OP_Gather:
        return of_gather(n, sizes, budget);
    case XCVM_OP_Concat:
        return of_concat(n, sizes, budget);
    case XCVM_OP_Slice:
        return of_slice(n, sizes, budget);
    case XCVM_OP_Add:
    case XCVM_OP_Sub:
    case XCVM_OP_Mul:
    case XCVM_OP_Div:
        return of_arithmetic(n, sizes, budget);
    case XCVM_OP_Identity:
    case XCVM_OP_Reshape:
    case XCVM_OP_Squeeze:
    case XCVM_OP_Unsqueeze:
        return shape_data_at(xcc_node_input(n, 0), sizes, budget);
    case XCVM_OP_Cast: {
        /* For narrower types, only numbers that fit any dimension of a tensor that memory can hold. */
        int count = shape_data_at(xcc_node_input(n, 0), sizes, budget);
        for (int i = 0; i < count; i++)
            if (sizes[i].kind == XCC_SIZE_NUMBER && (sizes[i].value > INT32_MAX || sizes[i].value < INT32_MIN))
                return -1;
        return count;
    }
    default:
        return -1;
    }
}

int xcc_shape_data(const xcc_value *v, xcc_shape_datum sizes[XCC_SHAPE_DATA_LIMIT])
{
    int budget = BUDGET;
    return shape_data_at(v, sizes, &budget);
}
