/* .npy files: writing headers and elements. Reading them is the trainer's (xcvm/train.h). */
#include "tensors/npy.h"
#include "cli/buffer.h"
#include "values/number.h"
#include "cli/report.h"

#include <inttypes.h>
#include <string.h>

static const char *descr_of(xcvm_dtype dtype)
{
    switch (dtype) {
    case XCVM_BOOL:
        return "|b1";
    case XCVM_U8:
        return "|u1";
    case XCVM_I8:
        return "|i1";
    case XCVM_U16:
        return "<u2";
    case XCVM_I16:
        return "<i2";
    case XCVM_U32:
        return "<u4";
    case XCVM_I32:
        return "<i4";
    case XCVM_U64:
        return "<u8";
    case XCVM_I64:
        return "<i8";
    case XCVM_F16:
        return "<f2";
    case XCVM_F32:
        return "<f4";
    case XCVM_F64:
        return "<f8";
    case XCVM_C64:
        return "<c8";
    case XCVM_C128:
        return "<c16";
    case XCVM_BF16:
        return "<V2";
    case XCVM_F24:
        return "<V3";
    default:
        return "|V1";
    }
}

/* The next character of UTF-8, or the byte itself where that is none. */
static uint32_t next_character(const unsigned char *text, size_t length, size_t *at)
{
    unsigned char lead = text[(*at)++];
    size_t more = lead >= 0xf0 && lead < 0xf8   ? 3
                  : lead >= 0xe0 && lead < 0xf0 ? 2
                  : lead >= 0xc0 && lead < 0xe0 ? 1
                                                : 0;
    if (more == 0 || more > length - *at)
        return lead;
    uint32_t code = lead & (0x3fU >> more);
    for (size_t i = 0; i < more; i++) {
        if ((text[*at + i] & 0xc0) != 0x80)
            return lead;
        code = code << 6 | (text[*at + i] & 0x3f);
    }
    *at += more;
    return code;
}

/* Characters of the strings, four bytes each, padded with zeros to the longest. */
static void write_strings(struct buffer *data, const xcvm_value *tensor, size_t longest)
{
    for (size_t i = 0; i < xcvm_value_count(tensor); i++) {
        size_t length = 0, at = 0, characters = 0;
        const unsigned char *string = (const unsigned char *)xcvm_value_string(tensor, i, &length);
        for (; at < length; characters++) {
            uint32_t code = next_character(string, length, &at);
            buffer_append(data, &code, 4);
        }
        for (; characters < longest; characters++)
            buffer_append(data, "\0\0\0", 4);
    }
}

static size_t longest_string(const xcvm_value *tensor)
{
    size_t longest = 1;
    for (size_t i = 0; i < xcvm_value_count(tensor); i++) {
        size_t length = 0, at = 0, characters = 0;
        const unsigned char *string = (const unsigned char *)xcvm_value_string(tensor, i, &length);
        for (; at < length; characters++)
            next_character(string, length, &at);
        longest = characters > longest ? characters : longest;
    }
    return longest;
}

xcvm_status npy_write(const xcvm_value *tensor, xcvm_sink sink, void *user, xcvm_error *error)
{
    if (xcvm_value_kind(tensor) != XCVM_KIND_TENSOR)
        return error_set(error, XCVM_INVALID_ARGUMENT, "a NumPy file holds a tensor, nothing else (.pb holds more)");
    xcvm_dtype dtype = xcvm_value_dtype(tensor);
    size_t longest = dtype == XCVM_STRING ? longest_string(tensor) : 0, count = xcvm_value_count(tensor);
    struct buffer text = {0}, data = {0};
    if (dtype == XCVM_STRING)
        buffer_format(&text, "{'descr': '<U%zu', 'fortran_order': False, 'shape': (", longest);
    else
        buffer_format(&text, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr_of(dtype));
    for (int i = 0; i < xcvm_value_rank(tensor); i++)
        buffer_format(&text, "%s%" PRId64, i != 0 ? ", " : "", xcvm_value_dims(tensor)[i]);
    buffer_text(&text, xcvm_value_rank(tensor) == 1 ? ",), }" : "), }");
    /* The elements start on a multiple of 64. */
    while ((10 + text.length + 1) % 64 != 0)
        buffer_text(&text, " ");
    buffer_text(&text, "\n");
    unsigned char head[10] = {
        0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)text.length, (unsigned char)(text.length >> 8)};
    const void *bytes = xcvm_value_data(tensor);
    size_t size = xcvm_value_bytes(tensor);
    if (dtype == XCVM_STRING) {
        write_strings(&data, tensor, longest);
    } else if (xcvm_dtype_bits(dtype) < 8) {
        /* NumPy's extension types of fewer than 8 bits take a byte each. */
        unsigned bits = (unsigned)xcvm_dtype_bits(dtype), per_byte = 8 / bits;
        unsigned char *to = buffer_extend(&data, count);
        for (size_t i = 0; i < count; i++)
            to[i] = (unsigned char)((unsigned)((const unsigned char *)bytes)[i / per_byte] >> (i % per_byte * bits) &
                                    ((1U << bits) - 1));
    }
    if (dtype == XCVM_STRING || xcvm_dtype_bits(dtype) < 8) {
        bytes = data.data;
        size = data.length;
    }
    bool good =
        sink(user, head, sizeof head) && sink(user, text.data, text.length) && (size == 0 || sink(user, bytes, size));
    buffer_release(&text);
    buffer_release(&data);
    return good ? XCVM_OK : error_set(error, XCVM_IO, "the array cannot be written");
}
