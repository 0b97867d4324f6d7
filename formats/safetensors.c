/* Safetensors reader and writer. The JSON parser accepts the subset that the format uses. */
#include "formats/safetensors.h"

#include "base/array.h"
#include "base/scan.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { PREFIX = 8, HEADER_LIMIT = 100000000 };
static const char metadata[] = "__metadata__";

static const struct {
    const char *name;
    xcvm_dtype dtype;
} types[] = {{"F32", XCVM_F32},          {"F64", XCVM_F64},        {"F16", XCVM_F16},   {"BF16", XCVM_BF16},
             {"I64", XCVM_I64},          {"I32", XCVM_I32},        {"I16", XCVM_I16},   {"I8", XCVM_I8},
             {"U64", XCVM_U64},          {"U32", XCVM_U32},        {"U16", XCVM_U16},   {"U8", XCVM_U8},
             {"F8_E4M3", XCVM_F8E4M3FN}, {"F8_E5M2", XCVM_F8E5M2}, {"BOOL", XCVM_BOOL}, {"C64", XCVM_C64}};
enum { TYPES = sizeof types / sizeof *types };

static const char *type_name(xcvm_dtype dtype)
{
    for (size_t i = 0; i < TYPES; i++)
        if (types[i].dtype == dtype)
            return types[i].name;
    return NULL;
}

/* ---- Reading the header ---- */

typedef struct scanner {
    xcvm_scanner text;
    xcvm_arena *arena;
    const unsigned char *data; /* first byte of the elements */
    size_t data_count;
    xcvm_error *error;
} scanner;

static xcvm_status broken(const scanner *s, const char *what)
{
    return xcvm_error_set(s->error, XCVM_INVALID_ARGUMENT, "broken safetensors: %s", what);
}

static bool take_char(scanner *s, char c) { return xcvm_scan_take(&s->text, c); }

static bool take_hex(xcvm_scanner *s, uint32_t *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++, s->at++) {
        const char c = s->at < s->end ? *s->at : '?';
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0)
            return false;
        *code = *code << 4 | (uint32_t)digit;
    }
    return true;
}

/* Reads a \uXXXX escape, or a surrogate pair of them, as UTF-8. */
static bool take_unicode(xcvm_scanner *s, char *text, size_t *length)
{
    uint32_t code, low;
    if (!take_hex(s, &code))
        return false;
    if (code >= 0xd800 && code < 0xdc00) {
        if (s->end - s->at < 2 || s->at[0] != '\\' || s->at[1] != 'u')
            return false;
        s->at += 2;
        if (!take_hex(s, &low) || low < 0xdc00 || low > 0xdfff)
            return false;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if ((code >= 0xdc00 && code < 0xe000) || code == 0) {
        return false;
    }
    *length += xcvm_utf8_encode(text + *length, code);
    return true;
}

/* Reads a string in place. Unescaping never makes it longer. */
static xcvm_status take_text(scanner *s, char **text)
{
    if (!take_char(s, '"'))
        return broken(s, "a text is missing in its header");
    xcvm_scanner *t = &s->text;
    const char *end = t->at;
    while (end < t->end && *end != '"')
        end += *end == '\\' && end + 1 < t->end ? 2 : 1;
    if (end >= t->end)
        return broken(s, "its header ends within a text");
    *text = xcvm_arena_allocate(s->arena, (size_t)(end - t->at) + 1);
    XCVM_CHECK(s->error, *text != NULL, OUT_OF_MEMORY, "no memory for the header of a safetensors file");
    size_t length = 0;
    while (t->at < end) {
        static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
        const char c = *t->at++;
        if ((unsigned char)c < ' ')
            return broken(s, "a text of its header has a control character");
        if (c != '\\') {
            (*text)[length++] = c;
            continue;
        }
        const char escape = *t->at++;
        const char *letter = escape != '\0' ? strchr(letters, escape) : NULL;
        if (letter != NULL)
            (*text)[length++] = meanings[letter - letters];
        else if (escape != 'u' || !take_unicode(t, *text, &length))
            return broken(s, "a text of its header has an escape that there is not");
    }
    t->at = end + 1;
    return XCVM_OK;
}

/* Reads a list of at most `limit` sizes. */
static xcvm_status take_sizes(scanner *s, int64_t *sizes, int limit, int *count)
{
    *count = 0;
    if (!take_char(s, '['))
        return broken(s, "a list is missing in its header");
    if (take_char(s, ']'))
        return XCVM_OK;
    do {
        if (*count == limit)
            return xcvm_error_set(s->error, XCVM_UNSUPPORTED, "a tensor of more than %d dimensions", XCVM_MAX_RANK);
        if (!xcvm_scan_size(&s->text, &sizes[(*count)++]))
            return broken(s, "a size of its header is missing or too large");
    } while (take_char(s, ','));
    return take_char(s, ']') ? XCVM_OK : broken(s, "a list of its header does not end");
}

static xcvm_status take_type(scanner *s, xcvm_dtype *dtype)
{
    char *name = NULL;
    XCVM_TRY(take_text(s, &name));
    for (size_t i = 0; i < TYPES; i++)
        if (strcmp(types[i].name, name) == 0) {
            *dtype = types[i].dtype;
            return XCVM_OK;
        }
    return xcvm_error_set(s->error, XCVM_UNSUPPORTED, "elements of type %.40s", name);
}

static xcvm_status place_tensor(const scanner *s, xcvm_safetensor *tensor, uint64_t from, uint64_t to)
{
    size_t elements;
    XCVM_CHECK(s->error, xcvm_tensor_size(tensor->dtype, tensor->rank, tensor->dims, &elements, &tensor->bytes),
               INVALID_ARGUMENT, "broken safetensors: its shape is too large to exist");
    XCVM_CHECK(s->error, from <= to && to <= s->data_count, INVALID_ARGUMENT,
               "broken safetensors: it is at bytes %" PRIu64 " to %" PRIu64 " of the %zu that there are", from, to,
               s->data_count);
    XCVM_CHECK(s->error, to - from == tensor->bytes, INVALID_ARGUMENT,
               "broken safetensors: its type and shape take %zu bytes, it is at bytes %" PRIu64 " to %" PRIu64
               ", which are %" PRIu64,
               tensor->bytes, from, to, to - from);
    tensor->data = s->data + from;
    return XCVM_OK;
}

static xcvm_status take_tensor(scanner *s, xcvm_safetensor *tensor)
{
    int64_t offsets[2] = {0, -1};
    int offset_count = 0;
    tensor->rank = -1;
    if (!take_char(s, '{'))
        return broken(s, "a tensor of its header is not an object");
    do {
        char *key = NULL;
        XCVM_TRY(take_text(s, &key));
        if (!take_char(s, ':'))
            return broken(s, "its header is not JSON");
        if (strcmp(key, "dtype") == 0)
            XCVM_TRY(take_type(s, &tensor->dtype));
        else if (strcmp(key, "shape") == 0)
            XCVM_TRY(take_sizes(s, tensor->dims, XCVM_MAX_RANK, &tensor->rank));
        else if (strcmp(key, "data_offsets") == 0)
            XCVM_TRY(take_sizes(s, offsets, 2, &offset_count));
        else
            return broken(s, "a tensor has something else than dtype, shape and data_offsets");
    } while (take_char(s, ','));
    if (!take_char(s, '}') || tensor->dtype == XCVM_NO_DTYPE || tensor->rank < 0 || offset_count != 2)
        return broken(s, "a tensor does not have dtype, shape and data_offsets");
    return place_tensor(s, tensor, (uint64_t)offsets[0], (uint64_t)offsets[1]);
}

static xcvm_status take_notes(scanner *s, xcvm_safetensors *file)
{
    if (!take_char(s, '{'))
        return broken(s, "its metadata are not an object");
    if (take_char(s, '}'))
        return XCVM_OK;
    do {
        char *key = NULL, *text = NULL;
        XCVM_TRY(take_text(s, &key));
        if (!take_char(s, ':'))
            return broken(s, "its header is not JSON");
        XCVM_TRY(take_text(s, &text));
        xcvm_safetensors_note *notes =
            xcvm_arena_grow(&file->arena, file->notes, file->note_count, &file->note_capacity, sizeof *notes);
        XCVM_CHECK(s->error, notes != NULL, OUT_OF_MEMORY, "no memory for the header of a safetensors file");
        file->notes = notes;
        notes[file->note_count++] = (xcvm_safetensors_note){key, text};
    } while (take_char(s, ','));
    return take_char(s, '}') ? XCVM_OK : broken(s, "its metadata do not end");
}

static xcvm_status take_header(scanner *s, xcvm_safetensors *file)
{
    if (!take_char(s, '{'))
        return broken(s, "its header is not a JSON object");
    if (take_char(s, '}'))
        return XCVM_OK;
    do {
        char *name = NULL;
        XCVM_TRY(take_text(s, &name));
        if (!take_char(s, ':'))
            return broken(s, "its header is not JSON");
        if (strcmp(name, metadata) == 0) {
            XCVM_TRY(take_notes(s, file));
            continue;
        }
        xcvm_safetensor *tensors =
            xcvm_arena_grow(&file->arena, file->tensors, file->count, &file->capacity, sizeof *tensors);
        XCVM_CHECK(s->error, tensors != NULL, OUT_OF_MEMORY, "no memory for the header of a safetensors file");
        file->tensors = tensors;
        tensors[file->count] = (xcvm_safetensor){.name = name};
        xcvm_status status = take_tensor(s, &tensors[file->count]);
        if (status != XCVM_OK) {
            xcvm_error_prefix(s->error, "%.100s", name);
            return status;
        }
        file->count++;
    } while (take_char(s, ','));
    return take_char(s, '}') ? XCVM_OK : broken(s, "its header does not end");
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const xcvm_safetensor *const *)a)->name, (*(const xcvm_safetensor *const *)b)->name);
}

static xcvm_status sort_names(xcvm_safetensors *file, xcvm_error *error)
{
    const xcvm_safetensor **sorted = xcvm_arena_allocate(&file->arena, (file->count + 1) * sizeof *sorted);
    XCVM_CHECK(error, sorted != NULL, OUT_OF_MEMORY, "no memory for the header of a safetensors file");
    for (size_t i = 0; i < file->count; i++)
        sorted[i] = &file->tensors[i];
    qsort(sorted, file->count, sizeof *sorted, compare_names);
    for (size_t i = 1; i < file->count; i++)
        XCVM_CHECK(error, strcmp(sorted[i - 1]->name, sorted[i]->name) != 0, INVALID_ARGUMENT,
                   "broken safetensors: two tensors are named %.100s", sorted[i]->name);
    file->by_name = sorted;
    return XCVM_OK;
}

xcvm_status xcvm_safetensors_read(xcvm_safetensors *file, const void *bytes, size_t count, xcvm_error *error)
{
    uint64_t size = 0;
    const char *at = bytes;
    if (count >= PREFIX)
        memcpy(&size, at, sizeof size);
    XCVM_CHECK(error,
               count > PREFIX && size <= count - PREFIX && size <= HEADER_LIMIT && size >= 2 && at[PREFIX] == '{',
               INVALID_ARGUMENT, "not a safetensors file");
    scanner s = {.text = {at + PREFIX, at + PREFIX + size},
                 .arena = &file->arena,
                 .data = (const unsigned char *)at + PREFIX + size,
                 .data_count = count - PREFIX - (size_t)size,
                 .error = error};
    XCVM_TRY(take_header(&s, file));
    xcvm_scan_space(&s.text);
    if (s.text.at != s.text.end)
        return broken(&s, "its header is followed by other characters");
    return sort_names(file, error);
}

const xcvm_safetensor *xcvm_safetensors_find(const xcvm_safetensors *file, const char *name)
{
    const xcvm_safetensor key = {.name = name}, *wanted = &key;
    const xcvm_safetensor **found =
        file->by_name == NULL ? NULL : bsearch(&wanted, file->by_name, file->count, sizeof wanted, compare_names);
    return found != NULL ? *found : NULL;
}

const char *xcvm_safetensors_note_find(const xcvm_safetensors *file, const char *key)
{
    for (size_t i = 0; i < file->note_count; i++)
        if (strcmp(file->notes[i].key, key) == 0)
            return file->notes[i].text;
    return NULL;
}

void xcvm_safetensors_release(xcvm_safetensors *file)
{
    const xcvm_allocator *allocator = file->arena.allocator;
    xcvm_arena_release(&file->arena);
    *file = (xcvm_safetensors){.arena = {.allocator = allocator}};
}

/* ---- Writing ---- */

/* Growable text. After a failure all later appends fail. */
typedef struct text {
    const xcvm_allocator *allocator;
    char *at;
    size_t length, capacity;
    bool failed;
} text;

static void put(text *t, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count && !t->failed; i++) {
        char *at = xcvm_array_grow(t->allocator, t->at, t->length, &t->capacity, 1);
        t->failed = at == NULL;
        if (at != NULL) {
            t->at = at;
            t->at[t->length++] = bytes[i];
        }
    }
}

static void put_string(text *t, const char *string)
{
    put(t, "\"", 1);
    for (; *string != '\0'; string++) {
        char escape[8];
        if (*string == '"' || *string == '\\') {
            put(t, "\\", 1);
            put(t, string, 1);
        } else if ((unsigned char)*string < ' ') {
            put(t, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", *string));
        } else {
            put(t, string, 1);
        }
    }
    put(t, "\"", 1);
}

static void put_literal(text *t, const char *literal) { put(t, literal, strlen(literal)); }

static void put_number(text *t, uint64_t number)
{
    char digits[24];
    put(t, digits, (size_t)snprintf(digits, sizeof digits, "%" PRIu64, number));
}

static void put_header(text *t, const xcvm_safetensor *tensors, size_t count, const xcvm_safetensors_note *notes,
                       size_t note_count)
{
    put_literal(t, "{");
    if (note_count > 0)
        put_literal(t, "\"__metadata__\":{");
    for (size_t i = 0; i < note_count; i++) {
        put_literal(t, i > 0 ? "," : "");
        put_string(t, notes[i].key);
        put_literal(t, ":");
        put_string(t, notes[i].text);
    }
    if (note_count > 0)
        put_literal(t, count > 0 ? "}," : "}");
    uint64_t offset = 0;
    for (size_t i = 0; i < count; i++) {
        put_literal(t, i > 0 ? "," : "");
        put_string(t, tensors[i].name);
        put_literal(t, ":{\"dtype\":\"");
        put_literal(t, type_name(tensors[i].dtype));
        put_literal(t, "\",\"shape\":[");
        for (int d = 0; d < tensors[i].rank; d++) {
            put_literal(t, d > 0 ? "," : "");
            put_number(t, (uint64_t)tensors[i].dims[d]);
        }
        put_literal(t, "],\"data_offsets\":[");
        put_number(t, offset);
        put_literal(t, ",");
        put_number(t, offset += tensors[i].bytes);
        put_literal(t, "]}");
    }
    put_literal(t, "}");
    while (!t->failed && (PREFIX + t->length) % XCVM_ALIGNMENT != 0)
        put_literal(t, " ");
}

xcvm_status xcvm_safetensors_write(const xcvm_safetensor *tensors, size_t count, const xcvm_safetensors_note *notes,
                                   size_t note_count, const xcvm_allocator *allocator, xcvm_sink sink,
                                   xcvm_error *error)
{
    for (size_t i = 0; i < count; i++)
        XCVM_CHECK(error, type_name(tensors[i].dtype) != NULL, UNSUPPORTED, "%.100s: safetensors have no type like %s",
                   tensors[i].name, xcvm_dtype_name(tensors[i].dtype));
    for (size_t i = 0; i < count; i++)
        XCVM_CHECK(error, strcmp(tensors[i].name, metadata) != 0, UNSUPPORTED,
                   "a tensor of a safetensors file cannot be called \"%s\"", metadata);
    text header = {.allocator = allocator};
    put_header(&header, tensors, count, notes, note_count);
    const uint64_t size = header.length;
    bool good =
        !header.failed && sink.call(sink.user, &size, sizeof size) && sink.call(sink.user, header.at, header.length);
    xcvm_deallocate(allocator, header.at, header.capacity);
    XCVM_CHECK(error, !header.failed, OUT_OF_MEMORY, "no memory for the header of a safetensors file");
    for (size_t i = 0; i < count && good; i++)
        good = tensors[i].bytes == 0 || sink.call(sink.user, tensors[i].data, tensors[i].bytes);
    XCVM_CHECK(error, good, IO, "the tensors cannot be written");
    return XCVM_OK;
}
