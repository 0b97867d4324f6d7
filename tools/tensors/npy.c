/* .npy files: reading and writing headers and elements, in either byte order and index order. */
#include "tensors/npy.h"
#include "cli/buffer.h"
#include "cli/memory.h"
#include "values/number.h"
#include "cli/report.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char magic[] = "\x93NUMPY";

/* The header of a .npy file. */
struct header {
    char kind;    /* f i u b c V U S */
    bool swapped; /* big-endian */
    size_t size;  /* bytes of an element; of a text array, U: 4 for each character */
    bool fortran; /* the first index runs fastest */
    int rank;
    int64_t dims[XCVM_MAX_RANK];
};

/* ---- The header, a Python dictionary ---- */

struct scanner {
    const char *at, *end;
};

static void skip_space(struct scanner *scanner)
{
    while (scanner->at < scanner->end && isspace((unsigned char)*scanner->at))
        scanner->at++;
}

static bool take(struct scanner *scanner, char c)
{
    skip_space(scanner);
    if (scanner->at == scanner->end || *scanner->at != c)
        return false;
    scanner->at++;
    return true;
}

static bool take_string(struct scanner *scanner, char *text, size_t size)
{
    skip_space(scanner);
    if (scanner->at == scanner->end || (*scanner->at != '\'' && *scanner->at != '"'))
        return false;
    char quote = *scanner->at++;
    size_t length = 0;
    while (scanner->at < scanner->end && *scanner->at != quote) {
        if (length + 1 == size)
            return false;
        text[length++] = *scanner->at++;
    }
    text[length] = '\0';
    return take(scanner, quote);
}

static bool take_word(struct scanner *scanner, const char *word)
{
    skip_space(scanner);
    size_t length = strlen(word);
    if ((size_t)(scanner->end - scanner->at) < length || memcmp(scanner->at, word, length) != 0)
        return false;
    scanner->at += length;
    return true;
}

static bool take_dim(struct scanner *scanner, int64_t *dim)
{
    skip_space(scanner);
    const char *start = scanner->at;
    *dim = 0;
    while (scanner->at < scanner->end && isdigit((unsigned char)*scanner->at)) {
        int digit = *scanner->at++ - '0';
        if (__builtin_mul_overflow(*dim, 10, dim) || __builtin_add_overflow(*dim, digit, dim))
            return false;
    }
    bool any = scanner->at > start;
    if (any && scanner->at < scanner->end && *scanner->at == 'L')
        scanner->at++;
    return any;
}

static bool take_shape(struct scanner *scanner, struct header *header)
{
    if (!take(scanner, '('))
        return false;
    header->rank = 0;
    while (!take(scanner, ')')) {
        if (header->rank == XCVM_MAX_RANK || !take_dim(scanner, &header->dims[header->rank++]))
            return false;
        if (!take(scanner, ','))
            return take(scanner, ')');
    }
    return true;
}

static xcvm_status parse_descr(const char *descr, struct header *header, xcvm_error *error)
{
    const char *at = descr;
    header->swapped = *at == '>';
    if (*at != '\0' && strchr("<>|=", *at) != NULL)
        at++;
    header->kind = *at != '\0' ? *at++ : '?';
    size_t size = 0;
    for (; isdigit((unsigned char)*at); at++)
        if (__builtin_mul_overflow(size, (size_t)10, &size) || __builtin_add_overflow(size, (size_t)(*at - '0'), &size))
            size = SIZE_MAX / 16;
    if (header->kind == 'U' && __builtin_mul_overflow(size, (size_t)4, &size))
        size = SIZE_MAX;
    header->size = size;
    if (*at != '\0' || strchr("fiubcVUS", header->kind) == NULL)
        return error_set(error, XCVM_UNSUPPORTED, "elements of type '%s' (numbers and text can be read)", descr);
    return XCVM_OK;
}

static xcvm_status parse_header(const char *text, size_t length, struct header *header, xcvm_error *error)
{
    struct scanner scanner = {text, text + length};
    bool descr = false, order = false, shape = false, good = take(&scanner, '{');
    while (good && !take(&scanner, '}')) {
        char key[32], value[32];
        good = take_string(&scanner, key, sizeof key) && take(&scanner, ':');
        if (good && strcmp(key, "descr") == 0) {
            if (take(&scanner, '['))
                return error_set(error, XCVM_UNSUPPORTED, "an array of records, not of numbers");
            good = take_string(&scanner, value, sizeof value);
            if (good)
                TRY(parse_descr(value, header, error));
            descr = true;
        } else if (good && strcmp(key, "fortran_order") == 0) {
            header->fortran = take_word(&scanner, "True");
            good = header->fortran || take_word(&scanner, "False");
            order = true;
        } else if (good && strcmp(key, "shape") == 0) {
            good = take_shape(&scanner, header);
            shape = true;
        } else {
            good = false;
        }
        if (good && !take(&scanner, ',')) {
            good = take(&scanner, '}');
            break;
        }
    }
    if (!good || !descr || !order || !shape)
        return error_set(error, XCVM_INVALID_ARGUMENT,
                         "the header is broken; it must name descr, fortran_order and shape (of at most %d dimensions)",
                         XCVM_MAX_RANK);
    return XCVM_OK;
}

static xcvm_dtype header_dtype(const struct header *header, xcvm_dtype wanted)
{
    static const xcvm_dtype signed_types[] = {XCVM_I8, XCVM_I16, XCVM_NO_DTYPE, XCVM_I32};
    static const xcvm_dtype unsigned_types[] = {XCVM_U8, XCVM_U16, XCVM_NO_DTYPE, XCVM_U32};
    switch (header->kind) {
    case 'f':
        return header->size == 2   ? XCVM_F16
               : header->size == 4 ? XCVM_F32
               : header->size == 8 ? XCVM_F64
                                   : XCVM_NO_DTYPE;
    case 'c':
        return header->size == 8 ? XCVM_C64 : header->size == 16 ? XCVM_C128 : XCVM_NO_DTYPE;
    case 'b':
        return header->size == 1 ? XCVM_BOOL : XCVM_NO_DTYPE;
    case 'i':
        return header->size == 8 ? XCVM_I64 : header->size - 1 < 4 ? signed_types[header->size - 1] : XCVM_NO_DTYPE;
    case 'u':
        return header->size == 8 ? XCVM_U64 : header->size - 1 < 4 ? unsigned_types[header->size - 1] : XCVM_NO_DTYPE;
    case 'V':
        if (header->size == 2 || header->size == 3)
            return header->size == 2 ? XCVM_BF16 : XCVM_F24;
        return header->size == 1 && wanted != XCVM_BOOL && xcvm_dtype_bits(wanted) <= 8 ? wanted : XCVM_NO_DTYPE;
    default:
        return XCVM_STRING;
    }
}

/* ---- Elements ---- */

/* Where element `index` in row-major order lies in a file in which the first index runs fastest. */
static size_t fortran_place(const struct header *header, size_t index)
{
    size_t place = 0, stride[XCVM_MAX_RANK], step = 1;
    for (int i = 0; i < header->rank; i++) {
        stride[i] = step;
        step *= (size_t)header->dims[i];
    }
    for (int i = header->rank; i-- > 0;) {
        place += index % (size_t)header->dims[i] * stride[i];
        index /= (size_t)header->dims[i];
    }
    return place;
}

static void copy_swapped(unsigned char *to, const unsigned char *from, size_t size)
{
    for (size_t i = 0; i < size; i++)
        to[i] = from[size - 1 - i];
}

static void append_utf8(struct buffer *text, uint32_t code)
{
    unsigned char bytes[4];
    size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = length; i-- > 1; code >>= 6)
        bytes[i] = (unsigned char)(0x80 | (code & 0x3f));
    bytes[0] = (unsigned char)(lead[length] | code);
    buffer_append(text, bytes, length);
}

static xcvm_status read_strings(const struct header *header, const unsigned char *data, size_t count,
                                xcvm_value **tensor, xcvm_error *error)
{
    struct buffer characters = {0};
    size_t *lengths = memory_take(count, sizeof *lengths);
    const char **strings = memory_take(count, sizeof *strings);
    xcvm_status status = XCVM_OK;
    for (size_t i = 0; i < count && status == XCVM_OK; i++) {
        const unsigned char *from = data + (header->fortran ? fortran_place(header, i) : i) * header->size;
        size_t before = characters.length, size = header->size;
        if (header->kind == 'S') {
            while (size > 0 && from[size - 1] == 0)
                size--;
            buffer_append(&characters, from, size);
        } else {
            for (; size > 0 && memcmp(from + size - 4, "\0\0\0\0", 4) == 0;)
                size -= 4;
            for (size_t at = 0; at < size && status == XCVM_OK; at += 4) {
                unsigned char word[4];
                uint32_t code;
                if (header->swapped)
                    copy_swapped(word, from + at, 4);
                else
                    memcpy(word, from + at, 4);
                memcpy(&code, word, 4);
                if (code > 0x10ffff)
                    status =
                        error_set(error, XCVM_INVALID_ARGUMENT, "element %zu has a character that does not exist", i);
                else
                    append_utf8(&characters, code);
            }
        }
        lengths[i] = characters.length - before;
    }
    const char *at = buffer_string(&characters);
    for (size_t i = 0; i < count; at += lengths[i++])
        strings[i] = at;
    if (status == XCVM_OK)
        status = xcvm_string_tensor_create(NULL, header->rank, header->dims, strings, lengths, tensor, error);
    free(strings);
    free(lengths);
    buffer_release(&characters);
    return status;
}

static xcvm_status read_numbers(const struct header *header, xcvm_dtype dtype, const unsigned char *data, size_t count,
                                xcvm_value **tensor, xcvm_error *error)
{
    TRY(xcvm_tensor_create(NULL, dtype, header->rank, header->dims, tensor, error));
    unsigned char *to = xcvm_value_data(*tensor);
    size_t parts = header->kind == 'c' ? 2 : 1, size = header->size / parts;
    int bits = xcvm_dtype_bits(dtype);
    if (bits < 8 && xcvm_value_bytes(*tensor) != 0)
        memset(to, 0, xcvm_value_bytes(*tensor));
    if (count != 0 && bits >= 8 && !header->fortran && !header->swapped) {
        memcpy(to, data, count * header->size);
        return XCVM_OK;
    }
    for (size_t i = 0; i < count; i++) {
        const unsigned char *from = data + (header->fortran ? fortran_place(header, i) : i) * header->size;
        if (bits < 8) {
            size_t per_byte = 8 / (size_t)bits;
            to[i / per_byte] |= (unsigned char)((*from & ((1U << bits) - 1)) << (i % per_byte * (unsigned)bits));
            continue;
        }
        for (size_t part = 0; part < parts; part++) {
            if (header->swapped)
                copy_swapped(to + (i * parts + part) * size, from + part * size, size);
            else
                memcpy(to + (i * parts + part) * size, from + part * size, size);
        }
    }
    return XCVM_OK;
}

/* Bools of other values than 0 and 1 would be no bools. */
static void clean_bools(xcvm_value *tensor)
{
    unsigned char *data = xcvm_value_data(tensor);
    for (size_t i = 0; i < xcvm_value_count(tensor); i++)
        data[i] = data[i] != 0;
}

xcvm_status npy_read(const void *bytes, size_t count, xcvm_dtype wanted, xcvm_value **tensor, xcvm_error *error)
{
    const unsigned char *at = bytes;
    if (count < 10 || memcmp(at, magic, 6) != 0)
        return error_set(error, XCVM_INVALID_ARGUMENT, "not a NumPy array file");
    size_t start = at[6] == 1 ? 10 : 12, length = (size_t)at[8] | (size_t)at[9] << 8;
    if (at[6] < 1 || at[6] > 3)
        return error_set(error, XCVM_UNSUPPORTED, "version %d of NumPy's format (1 to 3 can be read)", at[6]);
    if (start == 12 && count >= 12)
        length |= (size_t)at[10] << 16 | (size_t)at[11] << 24;
    if (count < start || length > count - start)
        return error_set(error, XCVM_INVALID_ARGUMENT, "the file ends within its header");
    struct header header = {0};
    TRY(parse_header((const char *)at + start, length, &header, error));
    xcvm_dtype dtype = header_dtype(&header, wanted);
    if (dtype == XCVM_NO_DTYPE)
        return error_set(error, XCVM_UNSUPPORTED, "elements of kind '%c' and %zu bytes%s", header.kind, header.size,
                         header.kind == 'V' ? "; say which type they are, as in 2x3xf8e4m3fn=@file.npy" : "");
    size_t elements = 1, needed;
    for (int i = 0; i < header.rank; i++)
        if (__builtin_mul_overflow(elements, (size_t)header.dims[i], &elements))
            return error_set(error, XCVM_INVALID_ARGUMENT, "the shape is too large to exist");
    if (__builtin_mul_overflow(elements, header.size, &needed) || needed > count - start - length)
        return error_set(error, XCVM_INVALID_ARGUMENT, "the file holds %zu bytes of elements, its header asks for more",
                         count - start - length);
    if (dtype == XCVM_STRING) {
        /* Elements of no bytes say nothing about how many there may be. */
        if (header.size == 0 && elements > count)
            return error_set(error, XCVM_INVALID_ARGUMENT, "more texts than the file has bytes");
        return read_strings(&header, at + start + length, elements, tensor, error);
    }
    TRY(read_numbers(&header, dtype, at + start + length, elements, tensor, error));
    if (dtype == XCVM_BOOL)
        clean_bools(*tensor);
    return XCVM_OK;
}

/* ---- Writing ---- */

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
