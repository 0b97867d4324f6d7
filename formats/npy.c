/* .npy files: reading headers and elements, in either byte order and index order. */
#include "formats/npy.h"
#include "base/clock.h"
#include "base/scan.h"
#include "base/utf8.h"

#include <ctype.h>

static const char magic[] = "\x93NUMPY";

/* ---- The header, a Python dictionary ---- */

static bool take_string(xcvm_scanner *s, char *text, size_t size)
{
    xcvm_scan_space(s);
    if (s->at == s->end || (*s->at != '\'' && *s->at != '"'))
        return false;
    const char quote = *s->at++;
    size_t length = 0;
    while (s->at < s->end && *s->at != quote) {
        if (length + 1 == size)
            return false;
        text[length++] = *s->at++;
    }
    text[length] = '\0';
    return xcvm_scan_take(s, quote);
}

static bool take_word(xcvm_scanner *s, const char *word)
{
    xcvm_scan_space(s);
    const size_t length = strlen(word);
    if ((size_t)(s->end - s->at) < length || memcmp(s->at, word, length) != 0)
        return false;
    s->at += length;
    return true;
}

/* Python 2 writes 3L for 3. */
static bool take_dim(xcvm_scanner *s, int64_t *dim)
{
    if (!xcvm_scan_size(s, dim))
        return false;
    if (s->at < s->end && *s->at == 'L')
        s->at++;
    return true;
}

static bool take_shape(xcvm_scanner *s, xcvm_npy *npy)
{
    if (!xcvm_scan_take(s, '('))
        return false;
    npy->rank = 0;
    while (!xcvm_scan_take(s, ')')) {
        if (npy->rank == XCVM_MAX_RANK || !take_dim(s, &npy->dims[npy->rank++]))
            return false;
        if (!xcvm_scan_take(s, ','))
            return xcvm_scan_take(s, ')');
    }
    return true;
}

static xcvm_status parse_descr(const char *descr, xcvm_npy *npy, xcvm_error *error)
{
    const char *at = descr;
    npy->swapped = *at == '>';
    if (*at != '\0' && strchr("<>|=", *at) != NULL)
        at++;
    npy->kind = *at != '\0' ? *at++ : '?';
    size_t size = 0;
    for (; isdigit((unsigned char)*at); at++)
        if (!xcvm_size_mul(size, 10, &size) || !xcvm_size_add(size, (size_t)(*at - '0'), &size))
            size = SIZE_MAX / 16;
    if (npy->kind == 'U' && !xcvm_size_mul(size, 4, &size))
        size = SIZE_MAX;
    npy->size = size;
    XCVM_CHECK(error, *at == '\0' && strchr("fiubcVUS", npy->kind) != NULL, UNSUPPORTED,
               "elements of type '%s' (numbers and text can be read)", descr);
    return XCVM_OK;
}

static xcvm_status parse_header(const char *text, size_t length, xcvm_npy *npy, xcvm_error *error)
{
    xcvm_scanner s = {text, text + length};
    bool descr = false, order = false, shape = false, good = xcvm_scan_take(&s, '{');
    while (good && !xcvm_scan_take(&s, '}')) {
        char key[32], value[32];
        good = take_string(&s, key, sizeof key) && xcvm_scan_take(&s, ':');
        if (good && strcmp(key, "descr") == 0) {
            XCVM_CHECK(error, !xcvm_scan_take(&s, '['), UNSUPPORTED, "an array of records, not of numbers");
            good = take_string(&s, value, sizeof value);
            if (good)
                XCVM_TRY(parse_descr(value, npy, error));
            descr = true;
        } else if (good && strcmp(key, "fortran_order") == 0) {
            npy->fortran = take_word(&s, "True");
            good = npy->fortran || take_word(&s, "False");
            order = true;
        } else if (good && strcmp(key, "shape") == 0) {
            good = take_shape(&s, npy);
            shape = true;
        } else {
            good = false;
        }
        if (good && !xcvm_scan_take(&s, ',')) {
            good = xcvm_scan_take(&s, '}');
            break;
        }
    }
    XCVM_CHECK(error, good && descr && order && shape, INVALID_ARGUMENT,
               "the header is broken; it must name descr, fortran_order and shape (of at most %d dimensions)",
               XCVM_MAX_RANK);
    return XCVM_OK;
}

static xcvm_dtype element_type(const xcvm_npy *npy, xcvm_dtype wanted)
{
    static const xcvm_dtype signed_types[] = {XCVM_I8, XCVM_I16, XCVM_NO_DTYPE, XCVM_I32};
    static const xcvm_dtype unsigned_types[] = {XCVM_U8, XCVM_U16, XCVM_NO_DTYPE, XCVM_U32};
    const size_t size = npy->size;
    switch (npy->kind) {
    case 'f':
        return size == 2 ? XCVM_F16 : size == 4 ? XCVM_F32 : size == 8 ? XCVM_F64 : XCVM_NO_DTYPE;
    case 'c':
        return size == 8 ? XCVM_C64 : size == 16 ? XCVM_C128 : XCVM_NO_DTYPE;
    case 'b':
        return size == 1 ? XCVM_BOOL : XCVM_NO_DTYPE;
    case 'i':
        return size == 8 ? XCVM_I64 : size - 1 < 4 ? signed_types[size - 1] : XCVM_NO_DTYPE;
    case 'u':
        return size == 8 ? XCVM_U64 : size - 1 < 4 ? unsigned_types[size - 1] : XCVM_NO_DTYPE;
    case 'V':
        if (size == 2 || size == 3)
            return size == 2 ? XCVM_BF16 : XCVM_F24;
        return size == 1 && wanted != XCVM_BOOL && xcvm_dtype_bits(wanted) <= 8 ? wanted : XCVM_NO_DTYPE;
    default:
        return XCVM_STRING;
    }
}

xcvm_status xcvm_npy_parse(const void *bytes, size_t count, size_t total, xcvm_dtype wanted, xcvm_npy *npy,
                           xcvm_error *error)
{
    const unsigned char *at = bytes;
    XCVM_CHECK(error, count >= 10 && memcmp(at, magic, 6) == 0, INVALID_ARGUMENT, "not a NumPy array file");
    const size_t start = at[6] == 1 ? 10 : 12;
    size_t length = (size_t)at[8] | (size_t)at[9] << 8;
    XCVM_CHECK(error, at[6] >= 1 && at[6] <= 3, UNSUPPORTED, "version %d of NumPy's format (1 to 3 can be read)",
               at[6]);
    if (start == 12 && count >= 12)
        length |= (size_t)at[10] << 16 | (size_t)at[11] << 24;
    XCVM_CHECK(error, count >= start && length <= count - start, INVALID_ARGUMENT, "the file ends within its header");
    *npy = (xcvm_npy){.data = at + start + length};
    XCVM_TRY(parse_header((const char *)at + start, length, npy, error));
    npy->dtype = element_type(npy, wanted);
    XCVM_CHECK(error, npy->dtype != XCVM_NO_DTYPE, UNSUPPORTED, "elements of kind '%c' and %zu bytes%s", npy->kind,
               npy->size, npy->kind == 'V' ? "; say which type they are, as in 2x3xf8e4m3fn=@file.npy" : "");
    npy->count = 1;
    for (int i = 0; i < npy->rank; i++)
        XCVM_CHECK(error, xcvm_size_mul(npy->count, (size_t)npy->dims[i], &npy->count), INVALID_ARGUMENT,
                   "the shape is too large to exist");
    const size_t left = total - start - length;
    size_t needed;
    XCVM_CHECK(error, xcvm_size_mul(npy->count, npy->size, &needed) && needed <= left, INVALID_ARGUMENT,
               "the file holds %zu bytes of elements, its header asks for more", left);
    /* If elements have no bytes, the file size does not limit their number. */
    XCVM_CHECK(error, npy->dtype != XCVM_STRING || npy->size != 0 || npy->count <= total, INVALID_ARGUMENT,
               "more texts than the file has bytes");
    return XCVM_OK;
}

bool xcvm_npy_plain(const xcvm_npy *npy)
{
    /* Bools other than 0 and 1 are invalid, so they are checked. */
    return !npy->fortran && !npy->swapped && npy->dtype != XCVM_STRING && npy->dtype != XCVM_BOOL &&
           xcvm_dtype_bits(npy->dtype) >= 8;
}

/* ---- Elements ---- */

/* Returns the position of element `index`, in row-major order, in the file. */
static const unsigned char *element(const xcvm_npy *npy, size_t index)
{
    if (!npy->fortran)
        return npy->data + index * npy->size;
    size_t place = 0, stride[XCVM_MAX_RANK], step = 1;
    for (int i = 0; i < npy->rank; i++) {
        stride[i] = step;
        step *= (size_t)npy->dims[i];
    }
    for (int i = npy->rank; i-- > 0;) {
        place += index % (size_t)npy->dims[i] * stride[i];
        index /= (size_t)npy->dims[i];
    }
    return npy->data + place * npy->size;
}

static void copy_swapped(unsigned char *to, const unsigned char *from, size_t size)
{
    for (size_t i = 0; i < size; i++)
        to[i] = from[size - 1 - i];
}

/* Writes a text of the array as UTF-8 to `to`, if that is not NULL. Returns its bytes. */
static xcvm_status read_text(const xcvm_npy *npy, size_t index, char *to, size_t *length, xcvm_error *error)
{
    const unsigned char *from = element(npy, index);
    size_t size = npy->size;
    *length = 0;
    if (npy->kind == 'S') {
        while (size > 0 && from[size - 1] == 0)
            size--;
        if (to != NULL && size > 0)
            memcpy(to, from, size);
        *length = size;
        return XCVM_OK;
    }
    while (size > 0 && memcmp(from + size - 4, "\0\0\0\0", 4) == 0)
        size -= 4;
    for (size_t at = 0; at < size; at += 4) {
        unsigned char word[4];
        uint32_t code;
        if (npy->swapped)
            copy_swapped(word, from + at, 4);
        else
            memcpy(word, from + at, 4);
        memcpy(&code, word, 4);
        XCVM_CHECK(error, code <= 0x10ffff, INVALID_ARGUMENT, "element %zu has a character that does not exist", index);
        *length += xcvm_utf8_encode(to != NULL ? to + *length : NULL, code);
    }
    return XCVM_OK;
}

/* Checks the deadline once per million elements. */
static xcvm_status check_time(const xcvm_npy *npy, size_t index, xcvm_error *error)
{
    enum { MILLION_MASK = (1 << 20) - 1 };
    XCVM_CHECK(error, (index & MILLION_MASK) != 0 || npy->deadline_ns == 0 || xcvm_clock_ns() < npy->deadline_ns,
               OUT_OF_TIME, "reading the array exceeds the time limit");
    return XCVM_OK;
}

static xcvm_status copy_plain(const xcvm_npy *npy, unsigned char *to, xcvm_error *error)
{
    const size_t bytes = npy->count * npy->size, portion = (size_t)1 << 20;
    for (size_t at = 0; at < bytes; at += portion) {
        XCVM_TRY(check_time(npy, at, error));
        memcpy(to + at, npy->data + at, bytes - at < portion ? bytes - at : portion);
    }
    return XCVM_OK;
}

static xcvm_status read_strings(const xcvm_npy *npy, const xcvm_allocator *allocator, xcvm_value **tensor,
                                xcvm_error *error)
{
    size_t characters = 0, length = 0, heads, bytes;
    xcvm_status status = XCVM_OK;
    for (size_t i = 0; i < npy->count; i++) {
        XCVM_TRY(check_time(npy, i, error));
        XCVM_TRY(read_text(npy, i, NULL, &length, error));
        characters += length;
    }
    /* An address and a length for each text, followed by all characters. */
    char *memory = NULL;
    if (xcvm_size_mul(npy->count, sizeof(char *) + sizeof(size_t), &heads) && xcvm_size_add(heads, characters, &bytes))
        memory = xcvm_allocate(allocator, bytes);
    XCVM_CHECK(error, memory != NULL, OUT_OF_MEMORY, "no memory for %zu texts", npy->count);
    const char **strings = (const char **)(void *)memory;
    size_t *lengths = (size_t *)(void *)(strings + npy->count);
    char *at = memory + heads;
    for (size_t i = 0; i < npy->count && status == XCVM_OK; i++) {
        status = check_time(npy, i, error);
        if (status == XCVM_OK)
            status = read_text(npy, i, at, &lengths[i], error);
        strings[i] = at;
        at += lengths[i];
    }
    if (status == XCVM_OK)
        status = xcvm_string_tensor_create(allocator, npy->rank, npy->dims, strings, lengths, tensor, error);
    xcvm_deallocate(allocator, memory, bytes);
    return status;
}

static void read_element(const xcvm_npy *npy, unsigned char *to, size_t index, int bits)
{
    const unsigned char *from = element(npy, index);
    const size_t parts = npy->kind == 'c' ? 2 : 1, size = npy->size / parts;
    if (bits < 8) {
        const size_t per_byte = 8 / (size_t)bits;
        to[index / per_byte] |= (unsigned char)((*from & ((1U << bits) - 1)) << (index % per_byte * (unsigned)bits));
    } else if (npy->dtype == XCVM_BOOL) {
        to[index] = *from != 0;
    } else if (npy->swapped) {
        for (size_t part = 0; part < parts; part++)
            copy_swapped(to + (index * parts + part) * size, from + part * size, size);
    } else {
        memcpy(to + index * npy->size, from, npy->size);
    }
}

static xcvm_status read_elements(const xcvm_npy *npy, xcvm_value *tensor, xcvm_error *error)
{
    unsigned char *to = xcvm_value_data(tensor);
    const int bits = xcvm_dtype_bits(npy->dtype);
    if (xcvm_npy_plain(npy))
        return copy_plain(npy, to, error);
    if (bits < 8)
        memset(to, 0, xcvm_value_bytes(tensor));
    for (size_t i = 0; i < npy->count; i++) {
        XCVM_TRY(check_time(npy, i, error));
        read_element(npy, to, i, bits);
    }
    return XCVM_OK;
}

xcvm_status xcvm_npy_tensor(const xcvm_npy *npy, const xcvm_allocator *allocator, xcvm_value **tensor,
                            xcvm_error *error)
{
    if (npy->dtype == XCVM_STRING)
        return read_strings(npy, allocator, tensor, error);
    XCVM_TRY(xcvm_tensor_create(allocator, npy->dtype, npy->rank, npy->dims, tensor, error));
    const xcvm_status status = npy->count != 0 ? read_elements(npy, *tensor, error) : XCVM_OK;
    if (status != XCVM_OK) {
        xcvm_value_release(*tensor);
        *tensor = NULL;
    }
    return status;
}
