/* Services for shape rules: type variables, broadcasting, axes, and dimensions from elements. */
#include "ops/util/shape.h"

#include <math.h>

/* ---- Helpers for rules ---- */

xcvm_status xcvm_resolve_axis(xcvm_error *error, int64_t axis, int rank, int *resolved)
{
    XCVM_CHECK(error, axis >= -rank && axis < rank, OUT_OF_RANGE, "axis %lld is not in [-%d, %d)", (long long)axis,
               rank, rank);
    *resolved = (int)(axis < 0 ? axis + rank : axis);
    return XCVM_OK;
}

xcvm_status xcvm_read_ints(xcvm_error *error, const xcvm_value *tensor, const char *what, int64_t *ints,
                           size_t capacity, size_t *count, bool *known)
{
    *known = false;
    if (tensor->kind == XCVM_KIND_NULL && tensor->rank < 0)
        return XCVM_OK;
    XCVM_CHECK(error, tensor->rank <= 1, SHAPE_MISMATCH, "%s has the wrong rank (%d; expected at most 1)", what,
               tensor->rank);
    if (!xcvm_dims_known(tensor))
        return XCVM_OK;
    size_t n = xcvm_element_count(tensor);
    XCVM_CHECK(error, n <= capacity, SHAPE_MISMATCH, "%s has too many elements (%zu; expected at most %zu)", what, n,
               capacity);
    if (tensor->data == NULL && n != 0)
        return XCVM_OK;
    for (size_t i = 0; i < n; i++)
        ints[i] = xcvm_element_as_int(tensor, i);
    *count = n;
    *known = true;
    return XCVM_OK;
}

xcvm_status xcvm_scalar_check(xcvm_error *error, const xcvm_value *scalar, const char *what, bool *known)
{
    *known = false;
    if (!xcvm_dims_known(scalar))
        return XCVM_OK;
    const size_t count = xcvm_element_count(scalar);
    XCVM_CHECK(error, count == 1, SHAPE_MISMATCH, "%s has the wrong number of elements (%zu; expected 1)", what, count);
    *known = scalar->data != NULL;
    return XCVM_OK;
}

static xcvm_status check_there(xcvm_error *error, const xcvm_value *scalar, const char *what)
{
    bool known;
    XCVM_TRY(xcvm_scalar_check(error, scalar, what, &known));
    XCVM_CHECK(error, known, INTERNAL, "the value of %s is not known here", what);
    return XCVM_OK;
}

xcvm_status xcvm_read_int(xcvm_error *error, const xcvm_value *scalar, const char *what, int64_t *value)
{
    XCVM_TRY(check_there(error, scalar, what));
    *value = xcvm_element_as_int(scalar, 0);
    return XCVM_OK;
}

xcvm_status xcvm_read_double(xcvm_error *error, const xcvm_value *scalar, const char *what, double *value)
{
    XCVM_TRY(check_there(error, scalar, what));
    *value = xcvm_element_as_double(scalar, 0);
    return XCVM_OK;
}

xcvm_status xcvm_read_shape(xcvm_error *error, const xcvm_value *tensor, int64_t dims[XCVM_MAX_RANK], size_t *count,
                            bool *known)
{
    XCVM_CHECK(error, tensor->rank != 1 || tensor->dims[0] <= XCVM_MAX_RANK, UNSUPPORTED,
               "the result has an unsupported rank (%lld; expected at most %d)", (long long)tensor->dims[0],
               XCVM_MAX_RANK);
    return xcvm_read_ints(error, tensor, "shape", dims, XCVM_MAX_RANK, count, known);
}

double xcvm_element_as_double(const xcvm_value *tensor, size_t index)
{
    switch ((xcvm_dtype)tensor->dtype) {
    case XCVM_F32:
        return (double)XCVM_CDATA(float, tensor)[index];
    case XCVM_F64:
        return XCVM_CDATA(double, tensor)[index];
    case XCVM_F16:
        return (double)xcvm_f16_to_f32(XCVM_CDATA(uint16_t, tensor)[index]);
    case XCVM_BF16:
        return (double)xcvm_bf16_to_f32(XCVM_CDATA(uint16_t, tensor)[index]);
    case XCVM_U64:
        return (double)XCVM_CDATA(uint64_t, tensor)[index];
    default:
        return (double)xcvm_element_as_int(tensor, index);
    }
}

/* Converts like C, but NaN gives 0 and values out of range saturate. */
static int64_t int_of_double(double value)
{
    if (isnan(value))
        return 0;
    if (value >= 0x1p63)
        return INT64_MAX;
    return value <= -0x1p63 ? INT64_MIN : (int64_t)value;
}

int64_t xcvm_element_as_int(const xcvm_value *tensor, size_t index)
{
    switch ((xcvm_dtype)tensor->dtype) {
    case XCVM_I64:
        return XCVM_CDATA(int64_t, tensor)[index];
    case XCVM_I32:
        return XCVM_CDATA(int32_t, tensor)[index];
    case XCVM_I16:
        return XCVM_CDATA(int16_t, tensor)[index];
    case XCVM_I8:
        return XCVM_CDATA(int8_t, tensor)[index];
    case XCVM_U64: {
        uint64_t value = XCVM_CDATA(uint64_t, tensor)[index];
        return value > INT64_MAX ? INT64_MAX : (int64_t)value;
    }
    case XCVM_U32:
        return XCVM_CDATA(uint32_t, tensor)[index];
    case XCVM_U16:
        return XCVM_CDATA(uint16_t, tensor)[index];
    case XCVM_U8:
        return XCVM_CDATA(uint8_t, tensor)[index];
    case XCVM_BOOL:
        return XCVM_CDATA(uint8_t, tensor)[index] != 0;
    case XCVM_F32:
    case XCVM_F64:
    case XCVM_F16:
    case XCVM_BF16:
        return int_of_double(xcvm_element_as_double(tensor, index));
    default:
        return 0;
    }
}

xcvm_status xcvm_broadcast_dim(xcvm_error *error, int64_t a, int64_t b, int64_t *dim)
{
    if (a == 1)
        *dim = b;
    else if (b == 1)
        *dim = a;
    else if (a == b)
        *dim = a;
    else if (a >= 0 && b >= 0)
        return xcvm_error_set(error, XCVM_SHAPE_MISMATCH, "dimensions %lld and %lld do not broadcast", (long long)a,
                              (long long)b);
    else
        /* A known dimension other than 1 determines the result: the other must be 1 or equal. */
        *dim = a >= 0 ? a : b >= 0 ? b : XCVM_ANY_DIM;
    return XCVM_OK;
}

xcvm_status xcvm_broadcast_shapes(xcvm_error *error, const xcvm_value *a, const xcvm_value *b, int *rank,
                                  int64_t dims[XCVM_MAX_RANK])
{
    if (a->rank < 0 || b->rank < 0) {
        *rank = -1;
        return XCVM_OK;
    }
    *rank = a->rank > b->rank ? a->rank : b->rank;
    for (int i = 0; i < *rank; i++) {
        int ia = i - (*rank - a->rank), ib = i - (*rank - b->rank);
        int64_t da = ia >= 0 ? a->dims[ia] : 1, db = ib >= 0 ? b->dims[ib] : 1;
        if (xcvm_broadcast_dim(NULL, da, db, &dims[i]) != XCVM_OK) {
            char ta[192], tb[192];
            return xcvm_error_set(error, XCVM_SHAPE_MISMATCH, "shapes %s and %s do not broadcast",
                                  xcvm_dims_describe(a->rank, a->dims, ta, sizeof ta),
                                  xcvm_dims_describe(b->rank, b->dims, tb, sizeof tb));
        }
    }
    return XCVM_OK;
}

bool xcvm_dims_differ(int64_t a, int64_t b) { return a >= 0 && b >= 0 && a != b; }

bool xcvm_shapes_differ(const xcvm_value *a, const xcvm_value *b)
{
    bool differs = a->rank >= 0 && b->rank >= 0 && a->rank != b->rank;
    for (int axis = 0; !differs && axis < a->rank && axis < b->rank; axis++)
        differs = xcvm_dims_differ(a->dims[axis], b->dims[axis]);
    return differs;
}

bool xcvm_dims_agree(int64_t *dim, int64_t other)
{
    if (xcvm_dims_differ(*dim, other))
        return false;
    if (*dim < 0 && (other >= 0 || *dim == XCVM_ANY_DIM))
        *dim = other;
    return true;
}

int64_t xcvm_dims_product(const int64_t *dims, int begin, int end)
{
    int64_t product = 1, unknown = 1;
    int unknowns = 0;
    for (int i = begin; i < end; i++) {
        if (dims[i] == 0)
            return 0;
        if (dims[i] < 0) {
            unknown = dims[i];
            unknowns++;
        } else if (__builtin_mul_overflow(product, dims[i], &product)) {
            return XCVM_ANY_DIM;
        }
    }
    return unknowns == 0 ? product : unknowns == 1 && product == 1 ? unknown : XCVM_ANY_DIM;
}

void xcvm_set_unknown(xcvm_value *value, xcvm_dtype dtype, int rank)
{
    int64_t dims[XCVM_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = XCVM_ANY_DIM;
    xcvm_value_set_tensor(value, dtype, rank, dims);
}

void xcvm_set_list(xcvm_value *value, xcvm_kind kind, xcvm_dtype dtype)
{
    xcvm_value_set_tensor(value, dtype, -1, NULL);
    value->kind = (uint8_t)kind;
}

/* ---- Inference ---- */

/* The element types of the op definition's type variables, after the first operand that determined each. */
typedef struct binding {
    xcvm_dtype dtype;
    const char *operand;
} binding;

static binding *binding_of(binding bindings[3], xcvm_dtypes variable)
{
    return &bindings[variable == XCVM_TYPES_T ? 0 : variable == XCVM_TYPES_U ? 1 : 2];
}

/* Returns true for a value that the compiler knows nothing about; null values at run time have rank 0. */
static bool is_unknown(const xcvm_value *v) { return v->kind == XCVM_KIND_NULL && v->rank < 0; }

static xcvm_status check_kind(const xcvm_inference *t, const xcvm_field *f, const xcvm_value *v)
{
    if (is_unknown(v) || f->kind == XCVM_FIELD_ANY || f->kind == XCVM_FIELD_ANYS)
        return XCVM_OK;
    xcvm_kind wanted = f->kind == XCVM_FIELD_SEQUENCE ? XCVM_KIND_SEQUENCE : XCVM_KIND_TENSOR;
    if (v->kind == wanted)
        return XCVM_OK;
    char text[192];
    return xcvm_error_set(t->error, XCVM_TYPE_MISMATCH, "%s has the wrong type (%s; expected a %s)", f->name,
                          xcvm_value_describe(v, text, sizeof text),
                          wanted == XCVM_KIND_TENSOR ? "tensor" : "sequence");
}

static xcvm_status check_set(const xcvm_inference *t, const xcvm_field *f, xcvm_dtype dtype)
{
    const xcvm_dtypes set = xcvm_field_types(t->schema, f);
    char text[256];
    if (dtype == XCVM_NO_DTYPE || xcvm_dtype_in(dtype, set))
        return XCVM_OK;
    return xcvm_error_set(t->error, XCVM_TYPE_MISMATCH, "%s has element type %s, allowed are %s", f->name,
                          xcvm_dtype_name(dtype), xcvm_dtypes_describe(set, text, sizeof text));
}

static xcvm_status check_dtype(const xcvm_inference *t, const xcvm_field *f, const xcvm_value *v, binding bindings[3])
{
    xcvm_dtype dtype = v->dtype;
    XCVM_TRY(check_set(t, f, dtype));
    if (dtype == XCVM_NO_DTYPE)
        return XCVM_OK;
    if (!(f->types & XCVM_TYPE_VARIABLES))
        return XCVM_OK;
    binding *b = binding_of(bindings, f->types);
    if (b->dtype == XCVM_NO_DTYPE)
        *b = (binding){dtype, f->name};
    XCVM_CHECK(t->error, b->dtype == dtype, TYPE_MISMATCH,
               "%s has element type %s and %s %s, but they must be the same", b->operand, xcvm_dtype_name(b->dtype),
               f->name, xcvm_dtype_name(dtype));
    return XCVM_OK;
}

static xcvm_status check_inputs(const xcvm_inference *t, binding bindings[3])
{
    size_t at = 0;
    for (size_t i = 0; i < t->schema->field_count; i++) {
        const xcvm_field *f = &t->schema->fields[i];
        if (!xcvm_field_is_input(f))
            continue;
        size_t count = xcvm_field_count(f, t->args);
        for (size_t j = 0; j < count; j++, at++) {
            const xcvm_value *v = t->in[at];
            if (v == NULL) {
                XCVM_CHECK(t->error, f->kind == XCVM_FIELD_OPTIONAL || f->kind == XCVM_FIELD_ANYS, INVALID_ARGUMENT,
                           "%s is absent, but must be given", f->name);
                continue;
            }
            XCVM_TRY(check_kind(t, f, v));
            XCVM_TRY(check_dtype(t, f, v, bindings));
        }
    }
    return XCVM_OK;
}

/* The element type of a set with a single one, else none. */
static xcvm_dtype only_type(xcvm_dtypes set)
{
    return set != 0 && (set & (set - 1)) == 0 ? (xcvm_dtype)__builtin_ctz(set) : XCVM_NO_DTYPE;
}

static void start_results(const xcvm_inference *t, binding bindings[3])
{
    size_t at = 0;
    for (size_t i = 0; i < t->schema->field_count; i++) {
        const xcvm_field *f = &t->schema->fields[i];
        if (f->role != XCVM_ROLE_OUT)
            continue;
        xcvm_dtype dtype = f->types & XCVM_TYPE_VARIABLES ? binding_of(bindings, f->types)->dtype : XCVM_NO_DTYPE;
        if (dtype == XCVM_NO_DTYPE)
            dtype = only_type(xcvm_field_types(t->schema, f));
        size_t count = xcvm_field_count(f, t->args);
        for (size_t j = 0; j < count; j++, at++) {
            if (t->out[at] == NULL)
                continue;
            xcvm_value_set_tensor(t->out[at], dtype, -1, NULL);
            if (f->kind == XCVM_FIELD_SEQUENCE)
                t->out[at]->kind = XCVM_KIND_SEQUENCE;
        }
    }
}

/* Attributes may name types that the op definition's results do not allow. */
static xcvm_status check_results(const xcvm_inference *t)
{
    size_t at = 0;
    for (size_t i = 0; i < t->schema->field_count; i++) {
        const xcvm_field *f = &t->schema->fields[i];
        if (f->role != XCVM_ROLE_OUT)
            continue;
        for (size_t left = xcvm_field_count(f, t->args); left > 0; left--, at++)
            if (t->out[at] != NULL)
                XCVM_TRY(check_set(t, f, t->out[at]->dtype));
    }
    return XCVM_OK;
}

xcvm_status xcvm_infer(const xcvm_inference *t)
{
    binding bindings[3] = {{0}};
    XCVM_TRY(check_inputs(t, bindings));
    start_results(t, bindings);
    XCVM_TRY(t->schema->shape(t));
    return check_results(t);
}

xcvm_status xcvm_infer_run(const xcvm_inference *t)
{
    XCVM_TRY(xcvm_infer(t));
    size_t at = 0;
    for (size_t i = 0; i < t->schema->field_count; i++) {
        const xcvm_field *f = &t->schema->fields[i];
        if (f->role != XCVM_ROLE_OUT)
            continue;
        for (size_t left = xcvm_field_count(f, t->args); left > 0; left--, at++) {
            const xcvm_value *result = t->out[at];
            char text[192];
            XCVM_CHECK(
                t->error,
                f->dynamic || result == NULL || result->kind != XCVM_KIND_TENSOR || result->dtype != XCVM_NO_DTYPE,
                INVALID_ARGUMENT, "the element type of %s follows neither from operands nor from attributes", f->name);
            XCVM_CHECK(t->error,
                       f->dynamic || result == NULL || result->kind != XCVM_KIND_TENSOR || xcvm_dims_known(result),
                       INTERNAL, "the dimensions of %s, %s, do not follow from the operands", f->name,
                       xcvm_value_describe(result, text, sizeof text));
        }
    }
    return XCVM_OK;
}
