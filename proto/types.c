/* Types in text assembly: printing and parsing. */
#include "proto/types.h"
#include "proto/image.h"

#include <string.h>

/* Returns true if a name can be written between the x of two dimensions without quotes. */
static bool is_plain_dim(const char *name)
{
    return xcvm_name_is_plain(name, strlen(name)) && strchr(name, 'x') == NULL && strchr(name, '.') == NULL;
}

static void write_dims(xcvm_writer *w, const xcvm_type *type)
{
    if (type->rank < 0) {
        xcvm_writer_text(w, "[...]");
        return;
    }
    xcvm_writer_text(w, "[");
    for (int i = 0; i < type->rank; i++) {
        const char *name = type->dim_names[i];
        if (i > 0)
            xcvm_writer_text(w, "x");
        if (type->dims[i] >= 0)
            xcvm_writer_format(w, "%lld", (long long)type->dims[i]);
        else if (name == NULL)
            xcvm_writer_text(w, "?");
        else if (is_plain_dim(name))
            xcvm_writer_text(w, name);
        else
            xcvm_writer_quoted(w, name, strlen(name));
    }
    xcvm_writer_text(w, "]");
}

static const char *kind_word(xcvm_kind kind)
{
    switch (kind) {
    case XCVM_KIND_SEQUENCE:
        return "seq";
    case XCVM_KIND_OPTIONAL:
        return "optional";
    case XCVM_KIND_MAP:
        return "map";
    case XCVM_KIND_OPAQUE:
        return "opaque";
    case XCVM_KIND_NULL:
    case XCVM_KIND_TENSOR:
        break;
    }
    return "?";
}

void xcvm_type_write(xcvm_writer *w, const xcvm_type *type)
{
    bool list = type->kind != XCVM_KIND_TENSOR && type->kind != XCVM_KIND_NULL && type->kind != XCVM_KIND_OPAQUE;
    if (type->kind != XCVM_KIND_TENSOR)
        xcvm_writer_text(w, kind_word(type->kind));
    if (list)
        xcvm_writer_text(w, "(");
    if (list || type->kind == XCVM_KIND_TENSOR)
        xcvm_writer_text(w, xcvm_dtype_name(type->dtype));
    if (type->kind == XCVM_KIND_TENSOR || (list && type->rank >= 0))
        write_dims(w, type);
    if (list)
        xcvm_writer_text(w, ")");
}

const char *xcvm_type_describe(const xcvm_type *type, char *text, size_t size)
{
    xcvm_cut_text cut = {text, size, 0};
    xcvm_writer w;
    if (size > 0)
        text[0] = '\0';
    xcvm_writer_start(&w, (xcvm_sink){xcvm_cut_text_sink, &cut});
    xcvm_type_write(&w, type);
    (void)xcvm_writer_finish(&w, NULL);
    return text;
}

xcvm_dtype xcvm_dtype_of_word(const char *word, size_t length)
{
    char name[16];
    if (length >= sizeof name)
        return XCVM_NO_DTYPE;
    memcpy(name, word, length);
    name[length] = '\0';
    return xcvm_dtype_from_name(name);
}

/* Reads letters and digits up to the x after a dimension. */
static xcvm_status read_plain_dim(xcvm_reader *r, xcvm_type *type, int i)
{
    char here[48];
    const char *start = r->at;
    while (r->at < r->end && *r->at != 'x' && xcvm_name_is_plain((char[]){'_', *r->at}, 2) && *r->at != '.')
        r->at++;
    size_t length = (size_t)(r->at - start);
    if (length == 0)
        return xcvm_reader_fail(r, "a dimension (a number, a name or ?) is expected, not %s",
                                xcvm_reader_here(r, here));
    char *name = xcvm_arena_string(r->arena, start, length);
    if (name == NULL)
        return xcvm_reader_no_memory(r);
    if (*start < '0' || *start > '9') {
        type->dim_names[i] = name;
        return XCVM_OK;
    }
    uint64_t dim;
    if (!xcvm_uint_parse(name, &dim) || dim > INT64_MAX)
        return xcvm_reader_fail(r, "`%.100s` is not a dimension; a name like this needs quotes", name);
    type->dims[i] = (int64_t)dim;
    return XCVM_OK;
}

static xcvm_status read_dims(xcvm_reader *r, xcvm_type *type)
{
    type->rank = 0;
    if (xcvm_reader_accept(r, '.')) {
        XCVM_TRY(xcvm_reader_expect(r, '.'));
        XCVM_TRY(xcvm_reader_expect(r, '.'));
        type->rank = -1;
        return xcvm_reader_expect(r, ']');
    }
    if (xcvm_reader_accept(r, ']'))
        return XCVM_OK;
    do {
        int i = type->rank;
        if (i == XCVM_MAX_RANK)
            return xcvm_reader_fail(r, "a tensor has up to %d dimensions", XCVM_MAX_RANK);
        type->rank++;
        type->dims[i] = XCVM_ANY_DIM;
        type->dim_names[i] = NULL;
        if (xcvm_reader_peek(r) == '"')
            XCVM_TRY(xcvm_reader_name(r, &type->dim_names[i]));
        else if (!xcvm_reader_accept(r, '?'))
            XCVM_TRY(read_plain_dim(r, type, i));
    } while (xcvm_reader_accept(r, 'x'));
    return xcvm_reader_expect(r, ']');
}

/* Reads an element type (or ?) and dimensions. Without dimensions, sets *bare and leaves the rank unchanged. */
static xcvm_status read_tensor_type(xcvm_reader *r, xcvm_type *type, bool *bare)
{
    char here[48];
    const char *word;
    size_t length = xcvm_reader_peek_word(r, &word);
    if (!xcvm_reader_accept(r, '?')) {
        type->dtype = xcvm_dtype_of_word(word, length);
        if (type->dtype == XCVM_NO_DTYPE)
            return xcvm_reader_fail(r, "a type is expected, as in f32[2x3], not %s", xcvm_reader_here(r, here));
        r->at += length;
    }
    *bare = !xcvm_reader_accept(r, '[');
    return *bare ? XCVM_OK : read_dims(r, type);
}

xcvm_status xcvm_type_read(xcvm_reader *r, xcvm_type *type)
{
    const char *word;
    bool bare;
    size_t length = xcvm_reader_peek_word(r, &word);
    *type = (xcvm_type){.kind = XCVM_KIND_TENSOR, .rank = -1};
    static const xcvm_kind kinds[] = {XCVM_KIND_SEQUENCE, XCVM_KIND_OPTIONAL, XCVM_KIND_MAP, XCVM_KIND_OPAQUE};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *name = kind_word(kinds[i]);
        if (length != strlen(name) || memcmp(word, name, length) != 0)
            continue;
        r->at += length;
        type->kind = kinds[i];
        if (type->kind == XCVM_KIND_OPAQUE)
            return XCVM_OK;
        XCVM_TRY(xcvm_reader_expect(r, '('));
        XCVM_TRY(read_tensor_type(r, type, &bare));
        return xcvm_reader_expect(r, ')');
    }
    XCVM_TRY(read_tensor_type(r, type, &bare));
    /* A single question mark declares nothing. */
    if (bare && type->dtype == XCVM_NO_DTYPE)
        type->kind = XCVM_KIND_NULL;
    else if (bare)
        type->rank = 0;
    return XCVM_OK;
}
