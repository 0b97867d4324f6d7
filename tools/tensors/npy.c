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

static size_t longest_string(const xcvm_value *tensor)
{
    size_t longest = 1;
    for (size_t i = 0; i < xcvm_value_count(tensor); i++) {
        size_t length = 0, at = 0, characters = 0;
        const unsigned char *string = (const unsigned char *)xcvm_value_string_at(tensor, i, &length);
        for (; at < length; characters++)
            next_character(string, length, &at);
        longest = characters > longest ? characters : longest;
    }
    return longest;
}

/* Bytes of an element in a file: of a text four for each character; types of fewer than 8 bits, NumPy's extensions,
 * take a byte each. */
static size_t element_size(const xcvm_value *tensor)
{
    const int bits = xcvm_dtype_bits(xcvm_value_dtype(tensor));
    if (xcvm_value_dtype(tensor) == XCVM_STRING)
        return 4 * longest_string(tensor);
    return bits < 8 ? 1 : (size_t)bits / 8;
}

/* ---- Portions ---- */

/* A buffer of converted elements for the sink. */
struct portion {
    struct buffer bytes;
    struct value_budget *budget;
    xcvm_sink sink;
};

static xcvm_status unwritable(xcvm_error *error) { return error_set(error, XCVM_IO, "the array cannot be written"); }

static xcvm_status hand_on(struct portion *portion, xcvm_error *error)
{
    const bool good = portion->bytes.length == 0 ||
                      portion->sink.call(portion->sink.user, portion->bytes.data, portion->bytes.length);
    portion->bytes.length = 0;
    return good ? value_budget_poll(portion->budget, 0, error) : unwritable(error);
}

/* A text, padded with zeros to `size` bytes. */
static void add_text(struct buffer *bytes, const xcvm_value *tensor, size_t index, size_t size)
{
    size_t length = 0, at = 0;
    const unsigned char *text = (const unsigned char *)xcvm_value_string_at(tensor, index, &length);
    unsigned char *to = buffer_extend(bytes, size), *end = to + size;
    for (; at < length; to += 4) {
        const uint32_t code = next_character(text, length, &at);
        memcpy(to, &code, 4);
    }
    memset(to, 0, (size_t)(end - to));
}

static unsigned char packed_at(const xcvm_value *tensor, size_t index)
{
    const unsigned bits = (unsigned)xcvm_dtype_bits(xcvm_value_dtype(tensor)), per_byte = 8 / bits;
    const unsigned char byte = ((const unsigned char *)xcvm_value_data(tensor))[index / per_byte];
    return (unsigned char)((unsigned)byte >> (index % per_byte * bits) & ((1U << bits) - 1));
}

static xcvm_status write_elements(struct portion *portion, const xcvm_value *tensor, size_t size, xcvm_error *error)
{
    enum { PORTION = 1 << 16 };
    for (size_t i = 0; i < xcvm_value_count(tensor); i++) {
        if (xcvm_value_dtype(tensor) == XCVM_STRING)
            add_text(&portion->bytes, tensor, i, size);
        else
            *(unsigned char *)buffer_extend(&portion->bytes, 1) = packed_at(tensor, i);
        if (portion->bytes.length >= PORTION)
            TRY(hand_on(portion, error));
    }
    return hand_on(portion, error);
}

/* ---- Files ---- */

static void write_header(struct buffer *text, const xcvm_value *tensor, size_t size)
{
    if (xcvm_value_dtype(tensor) == XCVM_STRING)
        buffer_format(text, "{'descr': '<U%zu', 'fortran_order': False, 'shape': (", size / 4);
    else
        buffer_format(text, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr_of(xcvm_value_dtype(tensor)));
    for (int i = 0; i < xcvm_value_rank(tensor); i++)
        buffer_format(text, "%s%" PRId64, i != 0 ? ", " : "", xcvm_value_dims(tensor)[i]);
    buffer_text(text, xcvm_value_rank(tensor) == 1 ? ",), }" : "), }");
    /* The elements start on a multiple of 64. */
    while ((10 + text->length + 1) % 64 != 0)
        buffer_text(text, " ");
    buffer_text(text, "\n");
}

static xcvm_status size_in_file(const xcvm_value *tensor, size_t element, uint64_t *bytes, xcvm_error *error)
{
    if (__builtin_mul_overflow((uint64_t)element, (uint64_t)xcvm_value_count(tensor), bytes))
        return error_set(error, XCVM_OUT_OF_RANGE, "the array would be too large for a file");
    return XCVM_OK;
}

xcvm_status npy_size(const xcvm_value *tensor, uint64_t *bytes, xcvm_error *error)
{
    return size_in_file(tensor, element_size(tensor), bytes, error);
}

xcvm_status npy_write(const xcvm_value *tensor, struct value_budget *budget, xcvm_sink sink, xcvm_error *error)
{
    if (xcvm_value_kind(tensor) != XCVM_KIND_TENSOR)
        return error_set(error, XCVM_INVALID_ARGUMENT, "a NumPy file can only contain a tensor. Write a .pb file");
    const bool as_it_is = xcvm_value_dtype(tensor) != XCVM_STRING && xcvm_dtype_bits(xcvm_value_dtype(tensor)) >= 8;
    const size_t size = element_size(tensor), bytes = xcvm_value_bytes(tensor);
    uint64_t needed;
    TRY(size_in_file(tensor, size, &needed, error));
    if (!as_it_is)
        TRY(value_budget_check(budget, needed, error));
    struct portion portion = {.budget = budget, .sink = sink};
    struct buffer text = {0};
    write_header(&text, tensor, size);
    unsigned char head[10] = {
        0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)text.length, (unsigned char)(text.length >> 8)};
    const bool good = sink.call(sink.user, head, sizeof head) && sink.call(sink.user, text.data, text.length) &&
                      (!as_it_is || bytes == 0 || sink.call(sink.user, xcvm_value_data(tensor), bytes));
    xcvm_status status = good ? XCVM_OK : unwritable(error);
    if (status == XCVM_OK && !as_it_is)
        status = write_elements(&portion, tensor, size, error);
    buffer_release(&text);
    buffer_release(&portion.bytes);
    return status;
}
