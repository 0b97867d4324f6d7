/* Values: printing, statistics, conversion. */
#include "values/value.h"
#include "cli/memory.h"
#include "cli/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Strings ---- */

void string_print(struct buffer *text, const char *string, size_t length)
{
    buffer_text(text, "\"");
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)string[i];
        if (c == '"' || c == '\\')
            buffer_format(text, "\\%c", c);
        else if (c == '\n')
            buffer_text(text, "\\n");
        else if (c == '\t')
            buffer_text(text, "\\t");
        else if (c == '\r')
            buffer_text(text, "\\r");
        else if (c < 0x20 || c == 0x7f)
            buffer_format(text, "\\x%02x", c);
        else
            buffer_append(text, &c, 1);
    }
    buffer_text(text, "\"");
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

const char *string_parse(const char *text, struct buffer *characters)
{
    for (text++; *text != '\0' && *text != '"'; text++) {
        char c = *text;
        if (c == '\\') {
            c = *++text;
            int high = c == 'x' ? hex_digit(text[1]) : -1, low = high >= 0 ? hex_digit(text[2]) : -1;
            if (c == '\0')
                return NULL;
            if (low >= 0) {
                c = (char)(high * 16 + low);
                text += 2;
            } else {
                c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c == '0' ? '\0' : c;
            }
        }
        buffer_append(characters, &c, 1);
    }
    return *text == '"' ? text + 1 : NULL;
}

/* ---- Values ---- */

void index_print(struct buffer *text, const xcvm_value *tensor, size_t index)
{
    int rank = xcvm_value_rank(tensor);
    size_t position[XCVM_MAX_RANK] = {0};
    for (int i = rank; i-- > 0;) {
        size_t size = (size_t)xcvm_value_dims(tensor)[i];
        position[i] = size != 0 ? index % size : 0;
        index = size != 0 ? index / size : 0;
    }
    buffer_text(text, "[");
    for (int i = 0; i < rank; i++)
        buffer_format(text, i != 0 ? ",%zu" : "%zu", position[i]);
    buffer_text(text, "]");
}

static void element_print(struct buffer *text, const xcvm_value *tensor, size_t index)
{
    xcvm_dtype dtype = xcvm_value_dtype(tensor);
    if (dtype == XCVM_STRING) {
        size_t length = 0;
        const char *string = xcvm_value_string_at(tensor, index, &length);
        string_print(text, string, string != NULL ? length : 0);
        return;
    }
    char digits[NUMBER_TEXT];
    size_t parts = number_parts(dtype), length;
    length = number_print(digits, number_type(dtype), xcvm_value_data(tensor), index * parts);
    buffer_append(text, digits, length);
    if (parts == 2) {
        length = number_print(digits, number_type(dtype), xcvm_value_data(tensor), index * parts + 1);
        buffer_format(text, "%s%.*si", *digits == '-' ? "" : "+", (int)length, digits);
    }
}

static void tensor_print(struct buffer *text, const xcvm_value *tensor, size_t limit)
{
    size_t count = xcvm_value_count(tensor);
    for (int i = 0; i < xcvm_value_rank(tensor); i++)
        buffer_format(text, "%" PRId64 "x", xcvm_value_dims(tensor)[i]);
    buffer_text(text, xcvm_dtype_name(xcvm_value_dtype(tensor)));
    if (count <= limit) {
        for (size_t i = 0; i < count; i++) {
            buffer_text(text, i != 0 ? " " : "=");
            element_print(text, tensor, i);
        }
        if (count == 0)
            buffer_text(text, "=");
        return;
    }
    struct statistics statistics;
    if (value_statistics(tensor, &statistics)) {
        buffer_text(text, " ");
        statistics_print(text, &statistics);
    }
    size_t shown = limit < 8 ? limit : 8;
    if (shown != 0)
        buffer_text(text, " first");
    for (size_t i = 0; i < shown; i++) {
        buffer_text(text, " ");
        element_print(text, tensor, i);
    }
    if (shown != 0)
        buffer_text(text, " ...");
}

static void values_print(struct buffer *text, const xcvm_value *value, size_t limit, size_t *left)
{
    enum { ITEMS_SHOWN = 64 };
    xcvm_kind kind = value != NULL ? xcvm_value_kind(value) : XCVM_KIND_NULL;
    if (kind == XCVM_KIND_TENSOR) {
        tensor_print(text, value, limit);
    } else if (type_prefix(kind) == NULL) {
        value_type_print(text, value);
    } else {
        size_t count = xcvm_value_count(value), i = 0;
        buffer_text(text, type_prefix(kind));
        for (; i < count && i < ITEMS_SHOWN && *left != 0; i++) {
            buffer_text(text, i != 0 ? "; " : "");
            --*left;
            values_print(text, xcvm_value_item_at(value, i), limit, left);
        }
        if (i < count)
            buffer_format(text, "%s... %zu items", i != 0 ? "; " : "", count);
        buffer_text(text, ")");
    }
}

void value_print(struct buffer *text, const xcvm_value *value, size_t limit)
{
    size_t left = 4096;
    values_print(text, value, limit, &left);
}

bool value_statistics(const xcvm_value *value, struct statistics *statistics)
{
    *statistics = (struct statistics){0};
    if (value == NULL || xcvm_value_kind(value) != XCVM_KIND_TENSOR || xcvm_value_dtype(value) == XCVM_STRING)
        return false;
    xcvm_dtype dtype = xcvm_value_dtype(value), type = number_type(dtype);
    size_t parts = number_parts(dtype), count = xcvm_value_count(value) * parts;
    const void *data = xcvm_value_data(value);
    number sum = 0, squares = 0;
    size_t finite = 0;
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        number x = number_get(type, data, i);
        if (isnan(x)) {
            if (statistics->nan_count++ == 0)
                statistics->first_nan = i / parts;
            continue;
        }
        if (isinf(x)) {
            if (statistics->inf_count++ == 0)
                statistics->first_inf = i / parts;
        } else {
            finite++;
            sum += x;
            squares += x * x;
        }
        statistics->min = !any || x < statistics->min ? x : statistics->min;
        statistics->max = !any || x > statistics->max ? x : statistics->max;
        any = true;
    }
    statistics->count = count;
    if (finite != 0) {
        statistics->mean = sum / (number)finite;
        number variance = squares / (number)finite - statistics->mean * statistics->mean;
        statistics->deviation = variance > 0 ? sqrtl(variance) : 0;
    }
    return count != 0;
}

void statistics_print(struct buffer *text, const struct statistics *statistics)
{
    if (statistics->nan_count < statistics->count)
        buffer_format(text, "min=%.6Lg max=%.6Lg mean=%.6Lg std=%.6Lg", statistics->min, statistics->max,
                      statistics->mean, statistics->deviation);
    if (statistics->nan_count != 0)
        buffer_format(text, "%snan=%zu", statistics->nan_count < statistics->count ? " " : "", statistics->nan_count);
    if (statistics->inf_count != 0)
        buffer_format(text, " inf=%zu", statistics->inf_count);
}

/* ---- Conversion ---- */

/* Items take much longer than elements. */
static xcvm_status poll_item(const struct value_budget *budget, size_t index, xcvm_error *error)
{
    enum { ITEMS = 1 << 10 };
    return index % ITEMS == 0 ? value_budget_poll(budget, 0, error) : XCVM_OK;
}

static xcvm_status list_convert(const xcvm_value *list, xcvm_dtype dtype, struct value_budget *budget,
                                xcvm_value **converted, xcvm_error *error)
{
    size_t count = xcvm_value_count(list);
    xcvm_value **items = memory_take(count, sizeof *items);
    xcvm_status status = XCVM_OK;
    for (size_t i = 0; i < count && status == XCVM_OK; i++)
        if ((status = poll_item(budget, i, error)) == XCVM_OK)
            status =
                value_convert((xcvm_value *)(uintptr_t)xcvm_value_item_at(list, i), dtype, budget, &items[i], error);
    if (status == XCVM_OK)
        status =
            xcvm_list_create(value_budget_allocator(budget), xcvm_value_kind(list), count, items, converted, error);
    for (size_t i = 0; i < count; i++)
        xcvm_value_release(items[i]);
    free(items);
    return status;
}

static xcvm_status tensor_convert(const xcvm_value *tensor, xcvm_dtype dtype, struct value_budget *budget,
                                  xcvm_value **converted, xcvm_error *error)
{
    xcvm_dtype from = xcvm_value_dtype(tensor);
    if (from == XCVM_STRING || dtype == XCVM_STRING || number_parts(from) > number_parts(dtype))
        return error_set(error, XCVM_TYPE_MISMATCH, "%s cannot be converted to %s", xcvm_dtype_name(from),
                         xcvm_dtype_name(dtype));
    xcvm_value *result;
    TRY(value_zeros(budget, dtype, xcvm_value_rank(tensor), xcvm_value_dims(tensor), &result, error));
    size_t count = xcvm_value_count(tensor), parts_in = number_parts(from), parts_out = number_parts(dtype);
    const void *in = xcvm_value_data(tensor);
    void *out = xcvm_value_data(result);
    xcvm_status status = XCVM_OK;
    for (size_t i = 0; i < count && status == XCVM_OK; i++) {
        status = value_budget_poll(budget, i, error);
        for (size_t part = 0; part < parts_out && status == XCVM_OK; part++) {
            number x = part < parts_in ? number_get(number_type(from), in, i * parts_in + part) : 0;
            if (!number_set(number_type(dtype), out, i * parts_out + part, x))
                status = error_set(error, XCVM_TYPE_MISMATCH, "element %zu is %.9Lg, which %s cannot represent", i, x,
                                   xcvm_dtype_name(dtype));
        }
    }
    if (status == XCVM_OK)
        *converted = result;
    else
        xcvm_value_release(result);
    return status;
}

xcvm_status value_converts(const xcvm_value *value, xcvm_dtype dtype, const struct value_budget *budget, bool *converts,
                           xcvm_error *error)
{
    const xcvm_kind kind = xcvm_value_kind(value);
    const bool is_list = kind == XCVM_KIND_SEQUENCE || kind == XCVM_KIND_OPTIONAL;
    *converts = kind == XCVM_KIND_TENSOR && xcvm_value_dtype(value) != dtype;
    for (size_t i = 0; is_list && !*converts && i < xcvm_value_count(value); i++) {
        TRY(poll_item(budget, i, error));
        TRY(value_converts(xcvm_value_item_at(value, i), dtype, budget, converts, error));
    }
    return XCVM_OK;
}

xcvm_status value_convert(xcvm_value *value, xcvm_dtype dtype, struct value_budget *budget, xcvm_value **converted,
                          xcvm_error *error)
{
    xcvm_kind kind = xcvm_value_kind(value);
    if (kind == XCVM_KIND_SEQUENCE || kind == XCVM_KIND_OPTIONAL)
        return list_convert(value, dtype, budget, converted, error);
    if (kind != XCVM_KIND_TENSOR || dtype == XCVM_NO_DTYPE || xcvm_value_dtype(value) == dtype)
        return xcvm_value_copy(value_budget_allocator(budget), value, converted, error);
    return tensor_convert(value, dtype, budget, converted, error);
}
