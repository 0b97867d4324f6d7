/* .npy files: headers, and elements, which are converted in portions if they differ from those in memory. */
#include "formats/npy_write.h"
#include "base/clock.h"
#include "base/element.h"
#include "base/status.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Types and sizes ---- */

/* Returns NumPy's name of an element type, or that of raw bytes. */
static const char *descr_of(xcvm_dtype dtype)
{
    static const struct {
        xcvm_dtype dtype;
        const char *descr;
    } types[] = {{XCVM_F16, "<f2"},  {XCVM_F32, "<f4"}, {XCVM_F64, "<f8"},   {XCVM_BF16, "<V2"},
                 {XCVM_I8, "|i1"},   {XCVM_I16, "<i2"}, {XCVM_I32, "<i4"},   {XCVM_I64, "<i8"},
                 {XCVM_U8, "|u1"},   {XCVM_U16, "<u2"}, {XCVM_U32, "<u4"},   {XCVM_U64, "<u8"},
                 {XCVM_BOOL, "|b1"}, {XCVM_C64, "<c8"}, {XCVM_C128, "<c16"}, {XCVM_F24, "<V3"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].dtype == dtype)
            return types[i].descr;
    return "|V1";
}

/* Characters of the longest string, at least 1. */
static size_t longest_string(const xcvm_value *tensor)
{
    size_t longest = 1;
    for (size_t i = 0; i < xcvm_element_count(tensor); i++) {
        size_t length, characters = 0;
        uint32_t code;
        const unsigned char *text = (const unsigned char *)xcvm_string_at(tensor, i, &length);
        for (size_t at = 0; at < length; characters++)
            at += xcvm_utf8_decode(text + at, length - at, &code);
        longest = characters > longest ? characters : longest;
    }
    return longest;
}

/* Bytes of an element in a file. A character of a string takes four. */
static size_t element_size(const xcvm_value *tensor)
{
    if (tensor->dtype == XCVM_STRING)
        return 4 * longest_string(tensor);
    const int bits = xcvm_dtype_bits((xcvm_dtype)tensor->dtype);
    return bits < 8 ? 1 : (size_t)bits / 8;
}

xcvm_status xcvm_npy_size(const xcvm_value *tensor, uint64_t *bytes, xcvm_error *error)
{
    XCVM_CHECK(error, tensor->kind == XCVM_KIND_TENSOR, INVALID_ARGUMENT,
               "a NumPy file can only contain a tensor. Write a .pb file");
    XCVM_CHECK(error,
               !__builtin_mul_overflow((uint64_t)element_size(tensor), (uint64_t)xcvm_element_count(tensor), bytes),
               OUT_OF_RANGE, "the array would be too large for a file");
    return XCVM_OK;
}

/* ---- Elements ---- */

/* Converted bytes on their way to the sink. */
typedef struct portion {
    unsigned char bytes[8192];
    size_t used;
    xcvm_sink sink;
    uint64_t deadline_ns;
    xcvm_error *error;
} portion;

static xcvm_status flush(portion *p)
{
    const size_t used = p->used;
    p->used = 0;
    XCVM_CHECK(p->error, used == 0 || p->sink.call(p->sink.user, p->bytes, used), IO, "the array cannot be written");
    XCVM_CHECK(p->error, p->deadline_ns == 0 || xcvm_clock_ns() < p->deadline_ns, OUT_OF_TIME,
               "the time limit is reached while an array is written");
    return XCVM_OK;
}

/* Appends the low `count` bytes of a word. */
static xcvm_status append(portion *p, uint32_t word, size_t count)
{
    if (p->used + count > sizeof p->bytes)
        XCVM_TRY(flush(p));
    for (size_t i = 0; i < count; i++)
        p->bytes[p->used++] = (unsigned char)(word >> (8 * i));
    return XCVM_OK;
}

/* Appends a string, padded with zeros to `size` bytes. */
static xcvm_status append_string(portion *p, const xcvm_value *tensor, size_t index, size_t size)
{
    size_t length, done = 0;
    const unsigned char *text = (const unsigned char *)xcvm_string_at(tensor, index, &length);
    for (size_t at = 0; at < length; done += 4) {
        uint32_t code;
        at += xcvm_utf8_decode(text + at, length - at, &code);
        XCVM_TRY(append(p, code, 4));
    }
    for (; done < size; done += 4)
        XCVM_TRY(append(p, 0, 4));
    return XCVM_OK;
}

static xcvm_status convert_elements(portion *p, const xcvm_value *tensor, size_t size)
{
    const int bits = tensor->dtype == XCVM_STRING ? 0 : xcvm_dtype_bits((xcvm_dtype)tensor->dtype);
    for (size_t i = 0; i < xcvm_element_count(tensor); i++)
        if (tensor->dtype == XCVM_STRING)
            XCVM_TRY(append_string(p, tensor, i, size));
        else
            XCVM_TRY(append(p, (uint32_t)xcvm_element_get(bits, tensor->data, i), 1));
    return flush(p);
}

/* ---- Files ---- */

enum { HEADER_ROOM = 512, HEADER_UNIT = 64, BEFORE = 10 };

/* Writes the header, padded so that the elements begin at a multiple of 64 bytes. Returns its length. */
static size_t make_header(const xcvm_value *tensor, size_t size, char header[HEADER_ROOM])
{
    char descr[32], shape[256] = "";
    size_t used = 0;
    for (int i = 0; i < tensor->rank; i++)
        used += (size_t)snprintf(shape + used, sizeof shape - used, i > 0 ? ", %" PRId64 : "%" PRId64, tensor->dims[i]);
    if (tensor->dtype == XCVM_STRING)
        snprintf(descr, sizeof descr, "<U%zu", size / 4);
    else
        snprintf(descr, sizeof descr, "%s", descr_of((xcvm_dtype)tensor->dtype));
    const size_t length = BEFORE + (size_t)snprintf(header + BEFORE, HEADER_ROOM - BEFORE,
                                                    "{'descr': '%s', 'fortran_order': False, 'shape': (%s%s), }", descr,
                                                    shape, tensor->rank == 1 ? "," : "");
    const size_t total = xcvm_round_up(length + 1, HEADER_UNIT);
    memset(header + length, ' ', total - length - 1);
    header[total - 1] = '\n';
    memcpy(header, "\x93NUMPY\1", 8);
    header[8] = (char)((total - BEFORE) & 0xff);
    header[9] = (char)((total - BEFORE) >> 8);
    return total;
}

xcvm_status xcvm_npy_write(const xcvm_value *tensor, uint64_t deadline_ns, xcvm_sink sink, xcvm_error *error)
{
    char header[HEADER_ROOM];
    uint64_t bytes;
    XCVM_TRY(xcvm_npy_size(tensor, &bytes, error));
    const size_t size = element_size(tensor), length = make_header(tensor, size, header);
    XCVM_CHECK(error, sink.call(sink.user, header, length), IO, "the array cannot be written");
    if (tensor->dtype == XCVM_STRING || xcvm_dtype_bits((xcvm_dtype)tensor->dtype) < 8) {
        portion p = {.used = 0, .sink = sink, .deadline_ns = deadline_ns, .error = error};
        return convert_elements(&p, tensor, size);
    }
    XCVM_CHECK(error, bytes == 0 || sink.call(sink.user, tensor->data, (size_t)bytes), IO,
               "the array cannot be written");
    return XCVM_OK;
}
