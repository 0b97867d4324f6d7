/* Types: parsing and printing. */
#include "values/type.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

bool type_parse(const char *text, size_t length, xcvm_type *type)
{
    *type = (xcvm_type){.kind = XCVM_KIND_TENSOR};
    const char *end = text + length;
    while (text < end && isdigit((unsigned char)*text)) {
        int64_t dim = 0;
        for (; text < end && isdigit((unsigned char)*text); text++)
            if (__builtin_mul_overflow(dim, 10, &dim) || __builtin_add_overflow(dim, *text - '0', &dim))
                return false;
        if (text == end || *text++ != 'x' || type->rank == XCVM_MAX_RANK)
            return false;
        type->dims[type->rank++] = dim;
    }
    char name[16] = "";
    if (text == end || (size_t)(end - text) >= sizeof name)
        return false;
    memcpy(name, text, (size_t)(end - text));
    type->dtype = xcvm_dtype_from_name(name);
    return type->dtype != XCVM_NO_DTYPE;
}

const char *type_prefix(xcvm_kind kind)
{
    switch (kind) {
    case XCVM_KIND_SEQUENCE:
        return "seq(";
    case XCVM_KIND_OPTIONAL:
        return "optional(";
    case XCVM_KIND_MAP:
        return "map(";
    default:
        return NULL;
    }
}

void type_print(struct buffer *text, const xcvm_type *type)
{
    const char *prefix = type_prefix(type->kind);
    if (prefix != NULL)
        buffer_text(text, prefix);
    else if (type->kind == XCVM_KIND_OPAQUE)
        buffer_text(text, "opaque ");
    buffer_text(text, type->dtype != XCVM_NO_DTYPE ? xcvm_dtype_name(type->dtype) : "?");
    if (type->rank < 0 && prefix == NULL)
        buffer_text(text, "[...]");
    for (int i = 0; i < type->rank && i < XCVM_MAX_RANK; i++) {
        buffer_text(text, i == 0 ? "[" : "x");
        if (type->dims[i] >= 0)
            buffer_format(text, "%" PRId64, type->dims[i]);
        else
            buffer_text(text, type->dim_names[i] != NULL && *type->dim_names[i] != '\0' ? type->dim_names[i] : "?");
    }
    if (type->rank > 0)
        buffer_text(text, "]");
    if (prefix != NULL)
        buffer_text(text, ")");
}

xcvm_type value_type(const xcvm_value *value)
{
    xcvm_type type = {.kind = value != NULL ? xcvm_value_kind(value) : XCVM_KIND_NULL, .rank = -1};
    if (type.kind == XCVM_KIND_NULL || type.kind == XCVM_KIND_OPAQUE)
        return type;
    type.dtype = xcvm_value_dtype(value);
    if (type.kind == XCVM_KIND_TENSOR)
        type.rank = xcvm_value_rank(value);
    for (int i = 0; i < type.rank; i++)
        type.dims[i] = xcvm_value_dims(value)[i];
    return type;
}

/* Lists that share their items have exponentially many: no more than `*left` values are looked at. */
static void types_print(struct buffer *text, const xcvm_value *value, size_t *left)
{
    enum { ITEMS_SHOWN = 4 };
    xcvm_kind kind = value != NULL ? xcvm_value_kind(value) : XCVM_KIND_NULL;
    if (kind == XCVM_KIND_NULL) {
        buffer_text(text, "null");
    } else if (kind == XCVM_KIND_OPAQUE) {
        buffer_text(text, "opaque");
    } else if (kind == XCVM_KIND_TENSOR) {
        xcvm_type type = value_type(value);
        type_print(text, &type);
    } else {
        size_t count = xcvm_value_count(value), i = 0;
        buffer_text(text, type_prefix(kind));
        for (; i < count && i < ITEMS_SHOWN && *left != 0; i++) {
            buffer_text(text, i != 0 ? ", " : "");
            --*left;
            types_print(text, xcvm_value_item_at(value, i), left);
        }
        if (i < count)
            buffer_format(text, "%s... %zu items", i != 0 ? ", " : "", count);
        buffer_text(text, ")");
    }
}

void value_type_print(struct buffer *text, const xcvm_value *value)
{
    size_t left = 64;
    types_print(text, value, &left);
}
