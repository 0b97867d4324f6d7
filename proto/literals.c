/* Tensor literals of text assembly: printing and parsing elements. */
#include "proto/literals.h"
#include "base/element.h"
#include "proto/floats.h"
#include "proto/image.h"
#include "proto/literal_files.h"

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

/* ---- Random elements ---- */

/* Returns the next output of SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
 */
static uint64_t split_mix(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* A range of numbers from `low` to below `high`, and the number of equal steps from one integer to the next. */
typedef struct random_range {
    int64_t low, high;
    int steps;
} random_range;

/* Reads [SEED] or [SEED LOW HIGH]. */
static xcvm_status read_random_range(xcvm_reader *r, uint64_t *seed, random_range *range)
{
    XCVM_TRY(xcvm_reader_expect(r, '['));
    XCVM_TRY(xcvm_reader_uint(r, UINT64_MAX, seed));
    if (xcvm_reader_peek(r) != ']') {
        XCVM_TRY(xcvm_reader_int(r, -(1 << 20), 1 << 20, &range->low));
        XCVM_TRY(xcvm_reader_int(r, -(1 << 20), 1 << 20, &range->high));
        if (range->low >= range->high)
            return xcvm_reader_fail(r, "HIGH of random[SEED LOW HIGH] must be greater than LOW");
    }
    return xcvm_reader_expect(r, ']');
}

/* Returns true if the type has every number of the range. Floats may round; elements that are too great fail later. */
static bool range_fits(random_range range, xcvm_dtype dtype)
{
    const int bits = dtype == XCVM_BOOL ? 1 : xcvm_dtype_bits(dtype);
    const xcvm_float_format *format = xcvm_float_format_of(dtype);
    if (format != NULL)
        return range.low >= 0 || format->sign != 0;
    const int64_t low = is_signed(dtype) ? -(INT64_C(1) << (bits < 32 ? bits - 1 : 31)) : 0;
    const int64_t high = INT64_C(1) << (bits > 32 ? 32 : is_signed(dtype) ? bits - 1 : bits);
    return range.low >= low && range.high <= high;
}

/* Returns the range of random[SEED], which is exact in most types. */
static random_range default_range(xcvm_dtype dtype)
{
    const bool narrow = dtype != XCVM_BOOL && xcvm_dtype_bits(dtype) < 4;
    if (xcvm_float_format_of(dtype) != NULL)
        return (random_range){-2, 2, 16};
    if (dtype == XCVM_BOOL)
        return (random_range){0, 2, 1};
    if (is_signed(dtype))
        return (random_range){narrow ? -2 : -8, narrow ? 2 : 8, 1};
    return (random_range){0, narrow ? 4 : 16, 1};
}

/* Element i is output i of the generator, scaled to the range. Complex elements are two floats. */
static xcvm_status draw_elements(xcvm_reader *r, uint64_t seed, random_range range, xcvm_dtype dtype, size_t count,
                                 void *data)
{
    const int bits = xcvm_dtype_bits(dtype);
    const xcvm_float_format *format = xcvm_float_format_of(dtype);
    const uint64_t choices = (uint64_t)(range.high - range.low) * (uint64_t)range.steps;
    for (size_t i = 0; i < count; i++) {
        const int64_t chosen = (int64_t)((split_mix(&seed) >> 32) * choices >> 32);
        const double number = (double)range.low + (double)chosen / range.steps;
        bool exceeds = false;
        const uint64_t word = format != NULL ? xcvm_float_encode(format, number, &exceeds)
                                             : (uint64_t)(range.low + chosen) & UINT64_MAX >> (64 - bits);
        if (exceeds)
            return xcvm_reader_fail(r, "%g is too great for %s", number, xcvm_dtype_name(dtype));
        xcvm_element_set(bits, data, i, word);
    }
    return XCVM_OK;
}

/* Reads the range after `random`, and draws all elements. The total of a text is limited, because elements take memory
 * that the text's length does not limit. */
static xcvm_status read_random(xcvm_reader *r, xcvm_value *tensor)
{
    enum { RANDOM_LIMIT = 1 << 22 };
    const xcvm_dtype part = part_of((xcvm_dtype)tensor->dtype);
    const xcvm_dtype dtype = part != XCVM_NO_DTYPE ? part : (xcvm_dtype)tensor->dtype;
    const size_t count = xcvm_element_count(tensor), numbers = part != XCVM_NO_DTYPE ? 2 * count : count;
    uint64_t seed;
    random_range range = default_range(dtype);
    if (dtype == XCVM_STRING)
        return xcvm_reader_fail(r, "there are no random strings; expected strings in quotes");
    XCVM_TRY(read_random_range(r, &seed, &range));
    if (!range_fits(range, dtype))
        return xcvm_reader_fail(r, "%s does not have all numbers from %lld to below %lld", xcvm_dtype_name(dtype),
                                (long long)range.low, (long long)range.high);
    if (count > RANDOM_LIMIT - r->random_count)
        return xcvm_reader_fail(r,
                                "random literals of a text have up to %d elements in total; larger ones belong into "
                                "a file",
                                RANDOM_LIMIT);
    r->random_count += count;
    tensor->data = xcvm_arena_allocate(r->arena, tensor->bytes);
    if (tensor->data == NULL)
        return xcvm_reader_no_memory(r);
    memset(tensor->data, 0, tensor->bytes);
    return draw_elements(r, seed, range, dtype, numbers, tensor->data);
}

static bool accept_random(xcvm_reader *r)
{
    const char *word;
    const size_t length = xcvm_reader_peek_word(r, &word);
    const bool random = length == 6 && memcmp(word, "random", 6) == 0;
    if (random)
        r->at += length;
    return random;
}

/* ---- All elements ---- */

xcvm_status xcvm_elements_read(xcvm_reader *r, xcvm_value *tensor)
{
    char here[48];
    size_t count = xcvm_element_count(tensor);
    if (xcvm_reader_accept(r, '@'))
        return xcvm_file_reference_read(r, tensor);
    if (accept_random(r))
        return read_random(r, tensor);
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
