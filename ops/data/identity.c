/* Identity and Print. */
#include "base/decimal.h"
#include "ops/util/move.h"

#include <inttypes.h>
#include <stdio.h>

XCVM_KERNEL(Identity)
{
    if (a->x->kind == XCVM_KIND_TENSOR && a->y->data != NULL)
        return xcvm_move_all(k, a->y, a->x);
    xcvm_value_clear(a->y);
    return xcvm_kernel_keep(k, a->y, a->x);
}

enum {
    PRINTED = 64,      /* maximum elements of a tensor and items of a list that are printed */
    MOST_VALUES = 1024 /* limit per instruction, because lists that share items may have exponentially many values */
};

static bool print(const xcvm_kernel *k, const char *text) { return k->print(k->print_user, text); }

static bool print_element(const xcvm_kernel *k, const xcvm_value *v, size_t i)
{
    char text[128], number[XCVM_DECIMAL_TEXT], imaginary[XCVM_DECIMAL_TEXT];
    switch ((xcvm_dtype)v->dtype) {
    case XCVM_STRING: {
        size_t length;
        const char *string = xcvm_string_at(v, i, &length);
        int shown = length < 64 ? (int)length : 64;
        snprintf(text, sizeof text, " \"%.*s\"%s", shown, string, length > 64 ? "..." : "");
        break;
    }
    case XCVM_C64:
        snprintf(text, sizeof text, " (%s, %s)", xcvm_decimal_text((double)XCVM_CDATA(float, v)[2 * i], 6, number),
                 xcvm_decimal_text((double)XCVM_CDATA(float, v)[2 * i + 1], 6, imaginary));
        break;
    case XCVM_C128:
        snprintf(text, sizeof text, " (%s, %s)", xcvm_decimal_text(XCVM_CDATA(double, v)[2 * i], 6, number),
                 xcvm_decimal_text(XCVM_CDATA(double, v)[2 * i + 1], 6, imaginary));
        break;
    case XCVM_BOOL:
        snprintf(text, sizeof text, " %s", XCVM_CDATA(uint8_t, v)[i] ? "true" : "false");
        break;
    case XCVM_U64:
        snprintf(text, sizeof text, " %" PRIu64, XCVM_CDATA(uint64_t, v)[i]);
        break;
    default:
        if (xcvm_dtype_in(v->dtype, XCVM_TYPES_FLOAT))
            snprintf(text, sizeof text, " %s", xcvm_decimal_text(xcvm_element_as_double(v, i), 9, number));
        else if (xcvm_dtype_in(v->dtype, XCVM_TYPES_INT))
            snprintf(text, sizeof text, " %" PRId64, xcvm_element_as_int(v, i));
        else if (xcvm_dtype_size(v->dtype) == 1)
            snprintf(text, sizeof text, " 0x%02x", XCVM_CDATA(uint8_t, v)[i]);
        else
            snprintf(text, sizeof text, " ?");
        break;
    }
    return print(k, text);
}

/* `left`: number of values that may still be printed. */
static bool print_value(const xcvm_kernel *k, const xcvm_value *v, size_t *left)
{
    char text[256];
    if (*left == 0)
        return print(k, " ...");
    --*left;
    if (v == NULL)
        return print(k, " absent");
    if (!print(k, " ") || !print(k, xcvm_value_describe(v, text, sizeof text)))
        return false;
    if (xcvm_kind_is_list(v->kind)) {
        bool more = print(k, " (");
        size_t i = 0;
        for (; i < v->count && i < PRINTED && *left != 0 && more; i++)
            more = print_value(k, xcvm_items(v) + i, left);
        return more && print(k, i < v->count ? " ... )" : " )");
    }
    if (v->kind != XCVM_KIND_TENSOR)
        return true;
    size_t count = xcvm_element_count(v);
    for (size_t i = 0; i < count && i < PRINTED; i++)
        if (!print_element(k, v, i))
            return false;
    return count <= PRINTED || print(k, " ...");
}

XCVM_KERNEL(Print)
{
    if (k->print == NULL)
        return XCVM_OK;
    bool more = print(k, a->label.at);
    size_t left = MOST_VALUES;
    for (size_t i = 0; i < a->xs.count && more; i++)
        more = print_value(k, a->xs.at[i], &left);
    XCVM_CHECK(k->error, more && print(k, "\n"), IO, "the session's print function failed");
    return XCVM_OK;
}
