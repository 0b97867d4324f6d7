/* Attributes in text assembly: printing and parsing a value of each field kind. */
#include "proto/attributes.h"
#include "base/array.h"
#include "proto/floats.h"
#include "proto/image.h"
#include "proto/name_index.h"
#include "proto/types.h"

#include <string.h>

/* ---- Writing ---- */

static void write_double(xcvm_writer *w, double value)
{
    char text[XCVM_FLOAT_TEXT];
    xcvm_writer_text(w, xcvm_double_text(value, text));
}

static void write_separator(xcvm_writer *w, size_t i)
{
    if (i > 0)
        xcvm_writer_text(w, " ");
}

static void write_ints(xcvm_writer *w, const xcvm_ints *ints)
{
    for (size_t i = 0; i < ints->count; i++) {
        write_separator(w, i);
        xcvm_writer_format(w, "%lld", (long long)ints->at[i]);
    }
}

static void write_floats(xcvm_writer *w, const xcvm_floats *floats)
{
    for (size_t i = 0; i < floats->count; i++) {
        write_separator(w, i);
        write_double(w, floats->at[i]);
    }
}

static void write_texts(xcvm_writer *w, const xcvm_texts *texts)
{
    for (size_t i = 0; i < texts->count; i++) {
        write_separator(w, i);
        xcvm_writer_quoted(w, texts->at[i].at, texts->at[i].length);
    }
}

static void write_list(xcvm_writer *w, const xcvm_field *f, const void *args)
{
    xcvm_writer_text(w, "[");
    if (f->kind == XCVM_FIELD_INTS)
        write_ints(w, XCVM_CFIELD(xcvm_ints, f, args));
    else if (f->kind == XCVM_FIELD_FLOATS)
        write_floats(w, XCVM_CFIELD(xcvm_floats, f, args));
    else
        write_texts(w, XCVM_CFIELD(xcvm_texts, f, args));
    xcvm_writer_text(w, "]");
}

void xcvm_attribute_write(xcvm_writer *w, const xcvm_field *f, const void *args)
{
    switch (f->kind) {
    case XCVM_FIELD_INT:
    case XCVM_FIELD_TARGET:
        xcvm_writer_format(w, "%lld", (long long)*XCVM_CFIELD(int64_t, f, args));
        break;
    case XCVM_FIELD_FLOAT:
        write_double(w, *XCVM_CFIELD(double, f, args));
        break;
    case XCVM_FIELD_TEXT: {
        const xcvm_text *text = XCVM_CFIELD(xcvm_text, f, args);
        xcvm_writer_quoted(w, text->at != NULL ? text->at : "", text->length);
        break;
    }
    case XCVM_FIELD_DTYPE: {
        xcvm_dtype dtype = *XCVM_CFIELD(xcvm_dtype, f, args);
        xcvm_writer_text(w, dtype == XCVM_NO_DTYPE ? "none" : xcvm_dtype_name(dtype));
        break;
    }
    case XCVM_FIELD_CHOICE:
        xcvm_writer_text(w, f->choices[*XCVM_CFIELD(int, f, args)]);
        break;
    default:
        write_list(w, f, args);
        break;
    }
}

const char *xcvm_attributes_describe(const xcvm_schema *schema, const void *args, char *text, size_t size)
{
    xcvm_cut_text cut = {text, size, 0};
    xcvm_writer w;
    bool first = true;
    if (size > 0)
        text[0] = '\0';
    xcvm_writer_start(&w, (xcvm_sink){xcvm_cut_text_sink, &cut});
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *f = &schema->fields[i];
        if (!xcvm_field_is_attribute(f))
            continue;
        if (!first)
            xcvm_writer_text(&w, " ");
        first = false;
        xcvm_writer_text(&w, f->name);
        xcvm_writer_text(&w, "=");
        xcvm_attribute_write(&w, f, args);
    }
    (void)xcvm_writer_finish(&w, NULL);
    return text;
}

/* ---- Reading ---- */

static xcvm_status read_double(xcvm_reader *r, double *value)
{
    char token[XCVM_TOKEN_SIZE];
    XCVM_TRY(xcvm_reader_token(r, "a number", token));
    const char *wrong = xcvm_double_parse(token, value);
    return wrong == NULL ? XCVM_OK : xcvm_reader_fail(r, "`%.100s` %s", token, wrong);
}

static xcvm_status read_int(xcvm_reader *r, const xcvm_field *f, int64_t *value)
{
    XCVM_TRY(xcvm_reader_int(r, INT64_MIN, INT64_MAX, value));
    xcvm_status status = xcvm_field_check_int(r->error, f, *value);
    if (status != XCVM_OK)
        xcvm_error_prefix(r->error, "line %d", r->line);
    return status;
}

/* Entries in brackets, separated by blanks or commas; reads one into `array`. */
static xcvm_status read_entry(xcvm_reader *r, const xcvm_field *f, void *array, size_t i)
{
    if (f->kind == XCVM_FIELD_INTS)
        return read_int(r, f, (int64_t *)array + i);
    if (f->kind == XCVM_FIELD_FLOATS)
        return read_double(r, (double *)array + i);
    xcvm_text *text = (xcvm_text *)array + i;
    return xcvm_reader_string(r, &text->at, &text->length);
}

static xcvm_status read_list(xcvm_reader *r, const xcvm_field *f, void *args)
{
    size_t count = 0, capacity = 0;
    size_t size = f->kind == XCVM_FIELD_INTS     ? sizeof(int64_t)
                  : f->kind == XCVM_FIELD_FLOATS ? sizeof(double)
                                                 : sizeof(xcvm_text);
    void *array = NULL;
    XCVM_TRY(xcvm_reader_expect(r, '['));
    r->depth++;
    while (xcvm_reader_peek(r) != ']') {
        if (count > 0)
            (void)xcvm_reader_accept(r, ',');
        array = xcvm_arena_grow(r->arena, array, count, &capacity, size);
        if (array == NULL)
            return xcvm_reader_no_memory(r);
        XCVM_TRY(read_entry(r, f, array, count));
        count++;
    }
    XCVM_TRY(xcvm_reader_expect(r, ']'));
    r->depth--;
    if (f->kind == XCVM_FIELD_INTS)
        *XCVM_FIELD(xcvm_ints, f, args) = (xcvm_ints){array, count};
    else if (f->kind == XCVM_FIELD_FLOATS)
        *XCVM_FIELD(xcvm_floats, f, args) = (xcvm_floats){array, count};
    else
        *XCVM_FIELD(xcvm_texts, f, args) = (xcvm_texts){array, count};
    return XCVM_OK;
}

static xcvm_status read_choice(xcvm_reader *r, const xcvm_field *f, int *index)
{
    char names[300] = "", here[48];
    const char *word;
    size_t length = xcvm_reader_peek_word(r, &word);
    *index = xcvm_choice_index(f, word, length);
    if (length > 0 && *index >= 0) {
        r->at += length;
        return XCVM_OK;
    }
    for (size_t i = 0; f->choices[i] != NULL && strlen(names) + strlen(f->choices[i]) + 3 < sizeof names; i++) {
        strcat(names, i > 0 ? ", " : "");
        strcat(names, f->choices[i]);
    }
    return xcvm_reader_fail(r, "%s is one of %s, not %s", f->name, names, xcvm_reader_here(r, here));
}

static xcvm_status read_dtype(xcvm_reader *r, const xcvm_field *f, xcvm_dtype *dtype)
{
    char here[48];
    const char *word;
    size_t length = xcvm_reader_peek_word(r, &word);
    *dtype = xcvm_dtype_of_word(word, length);
    bool none = length == 4 && memcmp(word, "none", 4) == 0;
    if (*dtype == XCVM_NO_DTYPE && !none)
        return xcvm_reader_fail(r, "%s is an element type, as f32, or none; not %s", f->name,
                                xcvm_reader_here(r, here));
    r->at += length;
    return XCVM_OK;
}

xcvm_status xcvm_attribute_read(xcvm_reader *r, const xcvm_field *f, void *args)
{
    switch (f->kind) {
    case XCVM_FIELD_INT:
        return read_int(r, f, XCVM_FIELD(int64_t, f, args));
    case XCVM_FIELD_FLOAT:
        return read_double(r, XCVM_FIELD(double, f, args));
    case XCVM_FIELD_TEXT: {
        xcvm_text *text = XCVM_FIELD(xcvm_text, f, args);
        return xcvm_reader_string(r, &text->at, &text->length);
    }
    case XCVM_FIELD_DTYPE:
        return read_dtype(r, f, XCVM_FIELD(xcvm_dtype, f, args));
    case XCVM_FIELD_CHOICE:
        return read_choice(r, f, XCVM_FIELD(int, f, args));
    default:
        return read_list(r, f, args);
    }
}
