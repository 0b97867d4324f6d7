/* The parser of case files. */
#include "tests/case_text.h"

#include "proto/floats.h"

#include <stdio.h>
#include <string.h>

/* ---- Values ---- */

static bool is_word(const char *word, size_t length, const char *name)
{
    return strlen(name) == length && memcmp(word, name, length) == 0;
}

static bool accept_word(xcvm_reader *r, const char *name)
{
    const char *word;
    size_t length = xcvm_reader_peek_word(r, &word);
    if (!is_word(word, length, name))
        return false;
    r->at += length;
    return true;
}

static xcvm_status read_value(xcvm_reader *r, int depth, case_value *value);

/* The items of a sequence or optional, up to the closing parenthesis. */
static xcvm_status read_items(xcvm_reader *r, int depth, case_value *value)
{
    enum { MOST = 64 };
    if (depth > 8)
        return xcvm_reader_fail(r, "values are nested too deeply");
    XCVM_TRY(xcvm_reader_expect(r, '('));
    value->items = xcvm_arena_allocate(r->arena, MOST * sizeof *value->items);
    if (value->items == NULL)
        return xcvm_reader_no_memory(r);
    while (xcvm_reader_peek(r) != ')') {
        if (value->count > 0)
            XCVM_TRY(xcvm_reader_expect(r, ','));
        if (value->count == MOST)
            return xcvm_reader_fail(r, "a list of a case has up to %d items", MOST);
        XCVM_TRY(read_value(r, depth + 1, &value->items[value->count++]));
    }
    return xcvm_reader_expect(r, ')');
}

static xcvm_status read_value(xcvm_reader *r, int depth, case_value *value)
{
    *value = (case_value){.kind = XCVM_KIND_TENSOR};
    if (accept_word(r, "null")) {
        value->kind = XCVM_KIND_NULL;
        return XCVM_OK;
    }
    if (accept_word(r, "seq"))
        value->kind = XCVM_KIND_SEQUENCE;
    else if (accept_word(r, "optional"))
        value->kind = XCVM_KIND_OPTIONAL;
    else if (accept_word(r, "map"))
        value->kind = XCVM_KIND_MAP;
    else
        return xcvm_literal_read(r, &value->tensor);
    return read_items(r, depth, value);
}

static xcvm_status read_double(xcvm_reader *r, double *value)
{
    char token[XCVM_TOKEN_SIZE];
    XCVM_TRY(xcvm_reader_token(r, "a number", token));
    const char *wrong = xcvm_double_parse(token, value);
    return wrong == NULL ? XCVM_OK : xcvm_reader_fail(r, "`%s` %s", token, wrong);
}

/* ---- Lines that are no program text ---- */

static const char *register_name(xcvm_reader *r, int32_t reg)
{
    char name[32];
    int length = snprintf(name, sizeof name, "register %d", reg);
    return xcvm_arena_string(r->arena, name, (size_t)length);
}

/* expect $1 [rtol=x] [atol=x] VALUE | type TYPE | between LOW HIGH; or an output's name, or state and its name, in
 * place of the register. */
static xcvm_status read_expectation(xcvm_reader *r, test_case *c)
{
    if (c->expectation_count == CASE_LIMIT)
        return xcvm_reader_fail(r, "a case has up to %d expectations", CASE_LIMIT);
    if (accept_word(r, "print")) {
        size_t length;
        return xcvm_reader_string(r, &c->printed, &length);
    }
    case_expectation *e = &c->expectations[c->expectation_count++];
    *e = (case_expectation){.line = r->line, .rtol = -1, .atol = -1};
    if (xcvm_reader_accept(r, '$')) {
        int64_t reg;
        XCVM_TRY(xcvm_reader_int(r, 1, INT32_MAX, &reg));
        e->reg = (int32_t)reg;
        e->output = register_name(r, e->reg);
        if (e->output == NULL)
            return xcvm_reader_no_memory(r);
    } else {
        e->state = accept_word(r, "state");
        XCVM_TRY(xcvm_reader_name(r, &e->output));
    }
    for (;;) {
        bool rtol = accept_word(r, "rtol");
        if (!rtol && !accept_word(r, "atol"))
            break;
        XCVM_TRY(xcvm_reader_expect(r, '='));
        XCVM_TRY(read_double(r, rtol ? &e->rtol : &e->atol));
    }
    if (accept_word(r, "type")) {
        e->check = CASE_TYPE;
        return xcvm_type_read(r, &e->type);
    }
    if (accept_word(r, "between")) {
        e->check = CASE_BETWEEN;
        XCVM_TRY(read_double(r, &e->low));
        return read_double(r, &e->high);
    }
    return read_value(r, 0, &e->value);
}

/* gradient [straight] $1 [$2 ...] [rtol=x] [atol=x] [step=x] [only f64] [only sized] [only once] [= LITERAL, LITERAL
 * ...] */
static xcvm_status read_gradient(xcvm_reader *r, test_case *c)
{
    case_gradient *g = &c->gradient;
    *g = (case_gradient){.rtol = 1e-6, .atol = 1e-7, .step = 1e-5, .straight = accept_word(r, "straight")};
    while (xcvm_reader_accept(r, '$')) {
        int64_t reg;
        XCVM_TRY(xcvm_reader_int(r, 1, INT32_MAX, &reg));
        if (g->register_count == CASE_GRADIENTS)
            return xcvm_reader_fail(r, "a gradient is of up to %d registers", CASE_GRADIENTS);
        g->registers[g->register_count++] = (int32_t)reg;
    }
    if (g->register_count == 0)
        return xcvm_reader_fail(r, "`gradient` wants the registers that the loss is made of");
    for (;;) {
        double *to = accept_word(r, "rtol")   ? &g->rtol
                     : accept_word(r, "atol") ? &g->atol
                     : accept_word(r, "step") ? &g->step
                                              : NULL;
        if (to == NULL)
            break;
        XCVM_TRY(xcvm_reader_expect(r, '='));
        XCVM_TRY(read_double(r, to));
    }
    while (accept_word(r, "only")) {
        bool *to = accept_word(r, "f64")     ? &g->only_f64
                   : accept_word(r, "sized") ? &g->only_sized
                   : accept_word(r, "once")  ? &g->once
                                             : NULL;
        if (to == NULL)
            return xcvm_reader_fail(r, "`only` wants `f64`, `sized` or `once`");
        *to = true;
    }
    if (!xcvm_reader_accept(r, '='))
        return XCVM_OK;
    do {
        if (g->value_count == CASE_GRADIENTS)
            return xcvm_reader_fail(r, "a gradient states up to %d values", CASE_GRADIENTS);
        XCVM_TRY(xcvm_literal_read(r, &g->values[g->value_count++]));
    } while (xcvm_reader_accept(r, ','));
    return XCVM_OK;
}

/* refuse STATUS "part of the message" */
static xcvm_status read_refusal(xcvm_reader *r, test_case *c)
{
    size_t length;
    XCVM_TRY(xcvm_reader_name(r, &c->refuse));
    c->refuse_part = "";
    return xcvm_reader_at_line_end(r) ? XCVM_OK : xcvm_reader_string(r, &c->refuse_part, &length);
}

/* input NAME TYPE = ELEMENTS: binds the input; *end is where the part ends that belongs to the program. */
static xcvm_status read_binding(xcvm_reader *r, test_case *c, const char **end)
{
    xcvm_type type;
    if (c->binding_count == CASE_LIMIT)
        return xcvm_reader_fail(r, "a case has up to %d inputs", CASE_LIMIT);
    case_binding *binding = &c->bindings[c->binding_count++];
    XCVM_TRY(xcvm_reader_name(r, &binding->input));
    XCVM_TRY(xcvm_type_read(r, &type));
    *end = r->at;
    XCVM_TRY(xcvm_reader_expect(r, '='));
    return xcvm_literal_read(r, &binding->tensor);
}

/* ---- Cases ---- */

typedef struct text_buffer {
    char *at;
    size_t length, capacity;
} text_buffer;

static void append(text_buffer *b, const char *text, size_t length)
{
    if (length > b->capacity - b->length)
        length = b->capacity - b->length;
    memcpy(b->at + b->length, text, length);
    b->length += length;
}

/* Returns the end of the line that a statement of the program ends with: a backslash joins lines, also within strings.
 * Counts the lines before it in the reader and in *line. */
static const char *end_of_statement(xcvm_reader *r, int *line)
{
    for (const char *at = r->at;; at++) {
        const char *end = memchr(at, '\n', (size_t)(r->end - at));
        if (end == NULL || end == at || end[-1] != '\\')
            return end != NULL ? end : r->end;
        at = end;
        r->line++;
        ++*line;
    }
}

/* Parses one line of the case: an expectation or setting of the runner, or program text. */
static xcvm_status read_line(xcvm_reader *r, test_case *c, text_buffer *program)
{
    const char *start = r->at, *end = start;
    int line = r->line;
    if (accept_word(r, "expect")) {
        XCVM_TRY(read_expectation(r, c));
    } else if (accept_word(r, "gradient")) {
        XCVM_TRY(read_gradient(r, c));
    } else if (accept_word(r, "refuse")) {
        XCVM_TRY(read_refusal(r, c));
    } else if (accept_word(r, "input")) {
        XCVM_TRY(read_binding(r, c, &end));
    } else {
        r->at = end = end_of_statement(r, &line);
    }
    append(program, start, (size_t)(end - start));
    XCVM_TRY(xcvm_reader_next_line(r));
    for (; line < r->line; line++)
        append(program, "\n", 1);
    return XCVM_OK;
}

/* Outputs for the registers that are looked at. */
static void add_outputs(const test_case *c, text_buffer *program)
{
    char text[160];
    for (size_t i = 0; i < c->expectation_count; i++) {
        const case_expectation *e = &c->expectations[i];
        bool repeated = e->reg == 0;
        for (size_t j = 0; j < i; j++)
            repeated = repeated || c->expectations[j].reg == e->reg;
        if (repeated)
            continue;
        int length =
            snprintf(text, sizeof text, "\noutput \"%s\" ?\nOut($%d, name=\"%s\")\n", e->output, e->reg, e->output);
        append(program, text, (size_t)length);
    }
}

static bool at_case(xcvm_reader *r)
{
    const char *word;
    size_t length = xcvm_reader_peek_word(r, &word);
    return is_word(word, length, "case");
}

static xcvm_status skip_empty_lines(xcvm_reader *r)
{
    while (!xcvm_reader_at_text_end(r) && xcvm_reader_at_line_end(r))
        XCVM_TRY(xcvm_reader_next_line(r));
    return XCVM_OK;
}

static xcvm_status read_case(xcvm_reader *r, test_case *c, bool *more)
{
    char here[48];
    memset(c, 0, sizeof *c);
    XCVM_TRY(skip_empty_lines(r));
    *more = !xcvm_reader_at_text_end(r);
    if (!*more)
        return XCVM_OK;
    c->line = r->line;
    if (!accept_word(r, "case"))
        return xcvm_reader_fail(r, "`case` is expected, not %s", xcvm_reader_here(r, here));
    XCVM_TRY(xcvm_reader_name(r, &c->name));
    XCVM_TRY(xcvm_reader_next_line(r));
    text_buffer program = {NULL, 0, (size_t)(r->end - r->at) + (size_t)r->line + CASE_LIMIT * 160 + 16};
    program.at = xcvm_arena_allocate(r->arena, program.capacity);
    if (program.at == NULL)
        return xcvm_reader_no_memory(r);
    append(&program, "xcvm 1", 6);
    for (int line = 1; line < r->line; line++)
        append(&program, "\n", 1);
    while (!xcvm_reader_at_text_end(r) && !at_case(r))
        XCVM_TRY(read_line(r, c, &program));
    add_outputs(c, &program);
    c->program = program.at;
    c->program_length = program.length;
    if (c->refuse == NULL && c->expectation_count == 0 && c->printed == NULL && c->gradient.register_count == 0)
        return xcvm_reader_fail(r, "case %s expects nothing", c->name);
    return XCVM_OK;
}

/* ---- Files ---- */

bool case_file_open(case_file *f, const char *path)
{
    const char *slash = strrchr(path, '/');
    *f = (case_file){.text = test_file_read(path)};
    snprintf(f->folder, sizeof f->folder, "%.*s", slash != NULL ? (int)(slash - path) : 1, slash != NULL ? path : ".");
    f->files.base_dir = f->folder;
    xcvm_reader_start(&f->reader, f->text.at, f->text.length, &f->arena, &f->error);
    f->reader.files = &f->files;
    return f->text.at != NULL;
}

xcvm_status case_file_next(case_file *f, test_case *c, bool *more)
{
    f->reader.random_count = 0; /* its limit is that of a program */
    return read_case(&f->reader, c, more);
}

xcvm_status case_assemble(const case_file *f, const test_case *c, test_bytes *program, xcvm_error *error)
{
    return xcvm_assemble(c->program, c->program_length, f->folder, (xcvm_sink){test_bytes_sink, program}, error);
}

void case_file_close(case_file *f)
{
    xcvm_literal_files_release(&f->files);
    xcvm_arena_release(&f->arena);
    test_bytes_free(&f->text);
}
