/* Tensor literals of text assembly: printing and parsing elements. */
#include "proto/literals.h"
#include "base/element.h"
#include "proto/floats.h"
#include "proto/image.h"

#include <string.h>

xcvm_string xcvm_string_span(const void *data, size_t index)
{
    xcvm_string span;
    memcpy(&span, (const char *)data + index * sizeof span, sizeof span);
    return span;
}

/* Returns the type of the parts of a complex type. */
static xcvm_dtype part_of(xcvm_dtype dtype)
{
    return dtype == XCVM_C64 ? XCVM_F32 : dtype == XCVM_C128 ? XCVM_F64 : XCVM_NO_DTYPE;
}

static bool is_signed(xcvm_dtype dtype)
{
    return xcvm_dtype_in(dtype, XCVM_TYPES_SIGNED | XCVM_DTYPE_BIT(I4) | XCVM_DTYPE_BIT(I2));
}

static int64_t sign_extend(uint64_t word, int bits)
{
    uint64_t sign = UINT64_C(1) << (bits - 1);
    return (int64_t)((word ^ sign) - sign);
}

/* ---- Writing ---- */

static void write_element(xcvm_writer *w, xcvm_dtype dtype, const void *data, size_t index)
{
    char text[XCVM_FLOAT_TEXT];
    if (dtype == XCVM_STRING) {
        xcvm_string span = xcvm_string_span(data, index);
        xcvm_writer_quoted(w, (const char *)data + span.offset, (size_t)span.length);
        return;
    }
    xcvm_dtype part = part_of(dtype);
    if (part != XCVM_NO_DTYPE) {
        int bits = xcvm_dtype_bits(part);
        xcvm_writer_text(w, "(");
        xcvm_writer_text(w, xcvm_float_text(part, xcvm_element_get(bits, data, index * 2), text));
        xcvm_writer_text(w, ",");
        xcvm_writer_text(w, xcvm_float_text(part, xcvm_element_get(bits, data, index * 2 + 1), text));
        xcvm_writer_text(w, ")");
        return;
    }
    int bits = xcvm_dtype_bits(dtype);
    uint64_t word = xcvm_element_get(bits, data, index);
    if (xcvm_float_format_of(dtype) != NULL)
        xcvm_writer_text(w, xcvm_float_text(dtype, word, text));
    else if (dtype == XCVM_BOOL)
        xcvm_writer_text(w, word != 0 ? "true" : "false");
    else if (is_signed(dtype))
        xcvm_writer_format(w, "%lld", (long long)sign_extend(word, bits));
    else
        xcvm_writer_format(w, "%llu", (unsigned long long)word);
}

void xcvm_elements_write(xcvm_writer *w, const xcvm_value *tensor)
{
    size_t count = xcvm_element_count(tensor);
    for (size_t i = 0; i < count && !w->failed; i++) {
        if (i > 0)
            xcvm_writer_text(w, " ");
        write_element(w, (xcvm_dtype)tensor->dtype, tensor->data, i);
    }
}

void xcvm_literal_write(xcvm_writer *w, const xcvm_value *tensor)
{
    xcvm_type type = {.kind = XCVM_KIND_TENSOR, .dtype = (xcvm_dtype)tensor->dtype, .rank = tensor->rank};
    memcpy(type.dims, tensor->dims, sizeof type.dims);
    xcvm_type_write(w, &type);
    if (xcvm_element_count(tensor) > 0) {
        xcvm_writer_text(w, " ");
        xcvm_elements_write(w, tensor);
    }
}

/* ---- Reading ---- */

static xcvm_status read_float(xcvm_reader *r, xcvm_dtype dtype, uint64_t *bits)
{
    char token[XCVM_TOKEN_SIZE];
    XCVM_TRY(xcvm_reader_token(r, "a number", token));
    const char *wrong = xcvm_float_parse(dtype, token, bits);
    if (wrong != NULL)
        return xcvm_reader_fail(r, "%s: `%.100s` %s", xcvm_dtype_name(dtype), token, wrong);
    return XCVM_OK;
}

/* Reads (re,im), or two numbers without parentheses. */
static xcvm_status read_complex(xcvm_reader *r, xcvm_dtype part, void *data, size_t index)
{
    int bits = xcvm_dtype_bits(part);
    uint64_t re, im;
    bool pair = xcvm_reader_accept(r, '(');
    XCVM_TRY(read_float(r, part, &re));
    if (pair)
        XCVM_TRY(xcvm_reader_expect(r, ','));
    XCVM_TRY(read_float(r, part, &im));
    if (pair)
        XCVM_TRY(xcvm_reader_expect(r, ')'));
    xcvm_element_set(bits, data, index * 2, re);
    xcvm_element_set(bits, data, index * 2 + 1, im);
    return XCVM_OK;
}

static xcvm_status read_bool(xcvm_reader *r, uint64_t *word)
{
    char token[XCVM_TOKEN_SIZE];
    XCVM_TRY(xcvm_reader_token(r, "true or false", token));
    *word = strcmp(token, "true") == 0 || strcmp(token, "1") == 0;
    if (*word == 0 && strcmp(token, "false") != 0 && strcmp(token, "0") != 0)
        return xcvm_reader_fail(r, "true or false is expected, not `%.100s`", token);
    return XCVM_OK;
}

static xcvm_status read_element(xcvm_reader *r, xcvm_dtype dtype, void *data, size_t index)
{
    int bits = xcvm_dtype_bits(dtype);
    uint64_t word;
    if (part_of(dtype) != XCVM_NO_DTYPE)
        return read_complex(r, part_of(dtype), data, index);
    if (xcvm_float_format_of(dtype) != NULL) {
        XCVM_TRY(read_float(r, dtype, &word));
    } else if (dtype == XCVM_BOOL) {
        XCVM_TRY(read_bool(r, &word));
    } else if (is_signed(dtype)) {
        int64_t value, max = (int64_t)(UINT64_MAX >> (65 - bits));
        XCVM_TRY(xcvm_reader_int(r, -max - 1, max, &value));
        word = (uint64_t)value & UINT64_MAX >> (64 - bits);
    } else {
        XCVM_TRY(xcvm_reader_uint(r, UINT64_MAX >> (64 - bits), &word));
    }
    xcvm_element_set(bits, data, index, word);
    return XCVM_OK;
}

/* Strings are collected first, because their total length determines the size of the data. */
static xcvm_status read_strings(xcvm_reader *r, xcvm_value *tensor, size_t count, size_t span_bytes)
{
    xcvm_text *strings = NULL;
    size_t bytes = span_bytes;
    if (count > 0 && (strings = xcvm_arena_allocate(r->arena, count * sizeof *strings)) == NULL)
        return xcvm_reader_no_memory(r);
    for (size_t i = 0; i < count; i++) {
        XCVM_TRY(xcvm_reader_string(r, &strings[i].at, &strings[i].length));
        bytes += strings[i].length;
    }
    char *data = xcvm_arena_allocate(r->arena, bytes);
    if (data == NULL)
        return xcvm_reader_no_memory(r);
    size_t used = span_bytes;
    for (size_t i = 0; i < count; i++) {
        xcvm_string span = {used, strings[i].length};
        memcpy(data + i * sizeof span, &span, sizeof span);
        memcpy(data + used, strings[i].at, strings[i].length);
        used += strings[i].length;
    }
    tensor->data = data;
    tensor->bytes = bytes;
    return XCVM_OK;
}

xcvm_status xcvm_tensor_of_type(xcvm_reader *r, const xcvm_type *type, xcvm_value *tensor)
{
    char text[200];
    bool known = type->kind == XCVM_KIND_TENSOR && type->dtype != XCVM_NO_DTYPE && type->rank >= 0;
    for (int i = 0; known && i < type->rank; i++)
        known = type->dims[i] >= 0;
    if (!known)
        return xcvm_reader_fail(r, "the type of a constant says all, as f32[2x3] does; %s does not",
                                xcvm_type_describe(type, text, sizeof text));
    size_t count, bytes;
    if (!xcvm_tensor_size(type->dtype, type->rank, type->dims, &count, &bytes))
        return xcvm_reader_fail(r, "%s is too large", xcvm_type_describe(type, text, sizeof text));
    *tensor = (xcvm_value){.memory_kind = XCVM_MEMORY_CONSTANT};
    xcvm_value_set_tensor(tensor, type->dtype, type->rank, type->dims);
    tensor->bytes = bytes;
    return XCVM_OK;
}

xcvm_status xcvm_elements_read(xcvm_reader *r, xcvm_value *tensor)
{
    char here[48];
    size_t count = xcvm_element_count(tensor);
    /* Every element takes at least one character, so memory stays proportional to the text. For small counts, the later
     * message is better, because it names the position where the elements end. */
    if (count > (size_t)(r->end - r->at) && count > 4096)
        return xcvm_reader_fail(r, "%zu elements are expected, more than the rest of the text has", count);
    if (tensor->dtype == XCVM_STRING)
        return read_strings(r, tensor, count, tensor->bytes);
    tensor->data = xcvm_arena_allocate(r->arena, tensor->bytes);
    if (tensor->data == NULL)
        return xcvm_reader_no_memory(r);
    for (size_t i = 0; i < count; i++) {
        if (xcvm_reader_at_line_end(r) || *r->at == ')' || *r->at == ']' || *r->at == ',')
            return xcvm_reader_fail(r, "%zu elements are expected, not %zu and then %s", count, i,
                                    xcvm_reader_here(r, here));
        XCVM_TRY(read_element(r, (xcvm_dtype)tensor->dtype, tensor->data, i));
    }
    return XCVM_OK;
}

xcvm_status xcvm_literal_read(xcvm_reader *r, xcvm_value *tensor)
{
    xcvm_type type;
    XCVM_TRY(xcvm_type_read(r, &type));
    XCVM_TRY(xcvm_tensor_of_type(r, &type, tensor));
    return xcvm_elements_read(r, tensor);
}
