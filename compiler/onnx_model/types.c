/* TypeProto: the types that a model declares. */
#include "compiler/onnx_model/tensor_proto.h"

#include <string.h>

static const int64_t largest_dim = (int64_t)1 << 40;

/* A name that some exporters give to every open dimension; sizes of the same name would have to agree. */
static bool is_anonymous(const char *name)
{
    return strcmp(name, "?") == 0 ||
           (name[0] == '-' && name[1] != '\0' && name[1 + strspn(name + 1, "0123456789")] == '\0');
}

static xcvm_status read_dims(xcc_module *m, const Onnx__TensorShapeProto *shape, int64_t dims[XCVM_MAX_RANK])
{
    xcvm_error *error = m->error;
    XCVM_CHECK(error, shape->n_dim <= XCVM_MAX_RANK, UNSUPPORTED, "it has %zu dimensions, %d are supported",
               shape->n_dim, XCVM_MAX_RANK);
    for (size_t i = 0; i < shape->n_dim; i++) {
        const Onnx__TensorShapeProto__Dimension *dim = shape->dim[i];
        const char *name = NULL;
        /* Some exporters write a negative number, such as -1, for an open dimension. */
        if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE && dim->dim_value >= 0) {
            dims[i] = dim->dim_value;
        } else {
            if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM)
                name = dim->dim_param != NULL && !is_anonymous(dim->dim_param) ? dim->dim_param : NULL;
            dims[i] = xcc_symbol(m, name);
            XCVM_CHECK(error, dims[i] != XCVM_ANY_DIM, OUT_OF_MEMORY, "no memory for the dimension");
            if (dims[i] < 0)
                continue;
        }
        XCVM_CHECK(error, dims[i] <= largest_dim, INVALID_MODEL,
                   "dimension %zu is %lld, which is more than any tensor has", i, (long long)dims[i]);
    }
    return XCVM_OK;
}

static xcvm_status read_tensor(xcc_module *m, bool has_type, int32_t type, const Onnx__TensorShapeProto *shape,
                               xcvm_value *value)
{
    xcvm_error *error = m->error;
    xcvm_dtype dtype;
    XCVM_CHECK(error, has_type, INVALID_MODEL, "it has no element type");
    XCVM_TRY(xcc_dtype_read(type, &dtype, error));
    value->kind = XCVM_KIND_TENSOR;
    value->dtype = (uint8_t)dtype;
    value->rank = -1;
    if (shape == NULL)
        return XCVM_OK;
    int64_t dims[XCVM_MAX_RANK];
    XCVM_TRY(read_dims(m, shape, dims));
    int64_t smallest[XCVM_MAX_RANK];
    for (size_t i = 0; i < shape->n_dim; i++)
        smallest[i] = dims[i] < 0 ? 1 : dims[i];
    size_t count, bytes;
    char text[160];
    XCVM_CHECK(error, xcvm_tensor_size(dtype, (int)shape->n_dim, smallest, &count, &bytes) && bytes <= PTRDIFF_MAX,
               INVALID_MODEL, "its dimensions %s are more than memory can hold",
               xcvm_dims_describe((int)shape->n_dim, smallest, text, sizeof text));
    xcvm_value_set_tensor(value, dtype, (int)shape->n_dim, dims);
    return XCVM_OK;
}

/* List types contain the element type and the nesting depth. */
static xcvm_status read_list(xcc_module *m, xcvm_kind kind, const Onnx__TypeProto *item, xcvm_value *value)
{
    xcvm_value inner = {.rank = -1};
    if (item != NULL && item->value_case != ONNX__TYPE_PROTO__VALUE__NOT_SET)
        XCVM_TRY(xcc_type_read(m, item, &inner));
    value->kind = (uint8_t)kind;
    value->dtype = inner.dtype;
    value->rank = -1;
    value->dims[0] = xcvm_kind_is_list(inner.kind) ? inner.dims[0] + 1 : 1;
    XCVM_CHECK(m->error, value->dims[0] <= XCVM_MAX_NESTING, INVALID_MODEL, "lists are nested deeper than %d",
               XCVM_MAX_NESTING);
    return XCVM_OK;
}

xcvm_status xcc_type_read(xcc_module *m, const Onnx__TypeProto *type, xcvm_value *value)
{
    xcvm_error *error = m->error;
    XCVM_CHECK(error, type != NULL, INVALID_MODEL, "it has no type");
    switch (type->value_case) {
    case ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE:
        XCVM_CHECK(error, type->tensor_type != NULL, INVALID_MODEL, "it has no type");
        return read_tensor(m, type->tensor_type->has_elem_type, type->tensor_type->elem_type, type->tensor_type->shape,
                           value);
    case ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE:
        XCVM_CHECK(error, type->sequence_type != NULL, INVALID_MODEL, "it has no type");
        return read_list(m, XCVM_KIND_SEQUENCE, type->sequence_type->elem_type, value);
    case ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE:
        XCVM_CHECK(error, type->optional_type != NULL, INVALID_MODEL, "it has no type");
        return read_list(m, XCVM_KIND_OPTIONAL, type->optional_type->elem_type, value);
    case ONNX__TYPE_PROTO__VALUE_MAP_TYPE:
        /* The type of a map is the type of its values. Its keys have a type of their own. */
        XCVM_CHECK(error, type->map_type != NULL, INVALID_MODEL, "it has no type");
        return read_list(m, XCVM_KIND_MAP, type->map_type->value_type, value);
    case ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE:
        return xcvm_error_set(error, XCVM_UNSUPPORTED, "sparse tensors are only supported as constants");
    default:
        return xcvm_error_set(error, XCVM_INVALID_MODEL, "it has no type");
    }
}
