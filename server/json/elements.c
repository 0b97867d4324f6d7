/* JSON arrays of numbers and booleans to tensor memory, and back. */
#include "server/json/elements.h"

#include "base/element.h"
#include "server/json/number.h"

typedef struct array_reader {
    const char *at, *end;
    xcvm_value *tensor;
    const int64_t *dims;
    int rank;
    xcvm_dtype dtype;
    char *data;
    size_t count, next; /* elements */
    xcvm_error *error;
} array_reader;

static void skip_space(array_reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r'))
        r->at++;
}

static bool skip_word(array_reader *r, const char *word)
{
    const size_t length = strlen(word);
    if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0)
        return false;
    r->at += length;
    return true;
}

static xcvm_status refuse(const array_reader *r, const char *expected)
{
    const size_t left = (size_t)(r->end - r->at);
    int shown = 0;
    while ((size_t)shown < left && shown < 24 && strchr(",] \n\r\t", r->at[shown]) == NULL)
        shown++;
    XCVM_FAIL(r->error, INVALID_ARGUMENT, "element %zu is \"%.*s\"; expected %s", r->next, shown, r->at, expected);
}

static xcvm_status read_bool(array_reader *r)
{
    const bool is_true = skip_word(r, "true");
    if (!is_true && !skip_word(r, "false"))
        return refuse(r, "true or false");
    r->data[r->next] = is_true;
    return XCVM_OK;
}

static bool store_integer(array_reader *r, const xcs_number *n)
{
    const int bits = xcvm_dtype_bits(r->dtype);
    int64_t value = 0;
    uint64_t natural = 0;
    if (r->dtype == XCVM_U8 || r->dtype == XCVM_U16 || r->dtype == XCVM_U32 || r->dtype == XCVM_U64) {
        if (!xcs_number_unsigned(n, &natural) || (bits < 64 && natural >> bits != 0))
            return false;
    } else {
        const int64_t greatest = (int64_t)((UINT64_C(1) << (bits - 1)) - 1);
        if (!xcs_number_signed(n, &value) || value > greatest || value < -greatest - 1)
            return false;
        natural = (uint64_t)value;
    }
    xcvm_element_set(bits, r->data, r->next, natural);
    return true;
}

static xcvm_status read_number(array_reader *r)
{
    xcs_number n;
    const xcvm_float_format *format = xcvm_float_format_of(r->dtype);
    if (!xcs_number_scan(r->at, r->end, &n))
        return refuse(r, "a number");
    if (r->dtype == XCVM_F32) {
        const float value = (float)xcs_number_double(&n);
        if (isinf(value))
            return refuse(r, "a number that FP32 can represent");
        memcpy(r->data + r->next * sizeof value, &value, sizeof value);
    } else if (format != NULL) {
        bool exceeds;
        const double value = xcs_number_double(&n);
        const uint64_t bits = xcvm_float_encode(format, value, &exceeds);
        if (exceeds || isinf(value))
            return refuse(r, "a number that the datatype can represent");
        xcvm_element_set(format->bits, r->data, r->next, bits);
    } else if (!store_integer(r, &n)) {
        return refuse(r, "an integer that the datatype can represent");
    }
    r->at = n.end;
    return XCVM_OK;
}

static xcvm_status read_element(array_reader *r)
{
    XCVM_CHECK(r->error, r->next < r->count, INVALID_ARGUMENT, "more than %zu elements, which the shape has", r->count);
    XCVM_TRY(r->dtype == XCVM_BOOL ? read_bool(r) : read_number(r));
    r->next++;
    return XCVM_OK;
}

/* Reads FP32 numbers of the common form. Returns true if the last one has no comma after it. */
static bool read_plain(array_reader *r, int64_t *items)
{
    float *const to = (float *)(void *)r->data;
    while (r->next < r->count) {
        const char *const end = xcs_number_read_plain(r->at, r->end, &to[r->next]);
        if (end == NULL)
            return false;
        r->at = end;
        r->next++;
        ++*items;
        skip_space(r);
        if (r->at >= r->end || *r->at != ',')
            return true;
        r->at++;
        skip_space(r);
    }
    return false;
}

/* Reads an array at nesting depth `depth`. Nesting is bounded by the rank. */
static xcvm_status read_array(array_reader *r, int depth)
{
    int64_t items = 0;
    bool nested = false;
    XCVM_CHECK(r->error, r->at < r->end && *r->at == '[', INVALID_ARGUMENT, "element %zu: expected an array", r->next);
    r->at++;
    skip_space(r);
    bool more = r->at < r->end && *r->at != ']';
    while (more) {
        if (r->dtype == XCVM_F32 && !nested && read_plain(r, &items))
            break;
        if (r->at >= r->end)
            return refuse(r, "an element");
        const bool array = *r->at == '[';
        XCVM_CHECK(r->error, items == 0 || array == nested, INVALID_ARGUMENT,
                   "element %zu: elements and arrays are mixed", r->next);
        XCVM_CHECK(r->error, !array || depth + 1 < r->rank, INVALID_ARGUMENT,
                   "element %zu: arrays are nested deeper than the shape (%d dimensions)", r->next, r->rank);
        nested = array;
        XCVM_TRY(array ? read_array(r, depth + 1) : read_element(r));
        items++;
        skip_space(r);
        more = r->at < r->end && *r->at == ',';
        if (more) {
            r->at++;
            skip_space(r);
        }
    }
    if (r->at >= r->end || *r->at != ']')
        return refuse(r, "\",\" or \"]\"");
    r->at++;
    XCVM_CHECK(r->error, (depth == 0 && !nested) || items == r->dims[depth], SHAPE_MISMATCH,
               "element %zu: an array of %lld items; dimension %d of the shape is %lld", r->next, (long long)items,
               depth, (long long)r->dims[depth]);
    return XCVM_OK;
}

xcvm_status xcs_elements_read(const char *at, const char *end, xcvm_value *tensor, xcvm_error *error)
{
    array_reader r = {.at = at,
                      .end = end,
                      .tensor = tensor,
                      .dims = xcvm_value_dims(tensor),
                      .rank = xcvm_value_rank(tensor),
                      .dtype = xcvm_value_dtype(tensor),
                      .data = xcvm_value_data(tensor),
                      .count = xcvm_value_count(tensor),
                      .error = error};
    const bool is_number = xcvm_float_format_of(r.dtype) != NULL || r.dtype == XCVM_BOOL ||
                           (r.dtype <= XCVM_I64 && r.dtype >= XCVM_U8) || r.dtype == XCVM_U32 || r.dtype == XCVM_U64;
    XCVM_CHECK(error, is_number, UNSUPPORTED, "elements of type %s have no JSON form", xcvm_dtype_name(r.dtype));
    XCVM_TRY(read_array(&r, 0));
    XCVM_CHECK(error, r.next == r.count, SHAPE_MISMATCH, "%zu elements; the shape has %zu", r.next, r.count);
    return XCVM_OK;
}

/* ---- Writing ---- */

static void write_element(xcs_text *text, xcvm_dtype dtype, const void *data, size_t i)
{
    const int bits = xcvm_dtype_bits(dtype);
    const xcvm_float_format *format = xcvm_float_format_of(dtype);
    const uint64_t word = xcvm_element_get(bits, data, i);
    if (dtype == XCVM_F32)
        xcs_number_write_float(text, ((const float *)data)[i]);
    else if (dtype == XCVM_F64)
        xcs_number_write_double(text, ((const double *)data)[i]);
    else if (format != NULL)
        xcs_number_write_float(text, (float)xcvm_float_decode(format, word));
    else if (dtype == XCVM_BOOL)
        xcs_text_put(text, word != 0 ? "true" : "false");
    else if (dtype == XCVM_I8 || dtype == XCVM_I16 || dtype == XCVM_I32 || dtype == XCVM_I64)
        xcs_text_format(text, "%lld", (long long)((int64_t)(word << (64 - bits)) >> (64 - bits)));
    else
        xcs_text_format(text, "%llu", (unsigned long long)word);
}

xcvm_status xcs_elements_write(xcs_text *text, const xcvm_value *tensor, xcvm_error *error)
{
    const xcvm_dtype dtype = xcvm_value_dtype(tensor);
    const size_t count = xcvm_value_count(tensor);
    const bool strings = dtype == XCVM_STRING;
    XCVM_CHECK(error, strings || (xcvm_dtype_bits(dtype) >= 8 && xcvm_dtype_bits(dtype) <= 64 && dtype != XCVM_C64),
               UNSUPPORTED, "elements of type %s have no JSON form", xcvm_dtype_name(dtype));
    xcs_text_put(text, "[");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            xcs_text_put(text, ",");
        if (strings) {
            size_t length;
            const char *bytes = xcvm_value_string_at(tensor, i, &length);
            xcs_text_quote(text, bytes, length);
        } else {
            write_element(text, dtype, xcvm_value_data(tensor), i);
        }
    }
    xcs_text_put(text, "]");
    XCVM_CHECK(error, !text->failed, OUT_OF_MEMORY, "no memory for the text of %zu elements", count);
    return XCVM_OK;
}
