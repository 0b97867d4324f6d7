/* The assembler: text to an image. Names used by statements are resolved at the end. */
#include "proto/assembler.h"
#include "proto/recognize.h"

#include <string.h>

static xcvm_status read_format(xcvm_reader *r)
{
    const char *word;
    uint64_t format;
    while (!xcvm_reader_at_text_end(r) && xcvm_reader_at_line_end(r))
        XCVM_TRY(xcvm_reader_next_line(r));
    size_t length = xcvm_reader_word(r, &word);
    if (length != 4 || memcmp(word, "xcvm", 4) != 0)
        return xcvm_reader_fail(r, "the text must begin with `xcvm %d`", XCVM_FORMAT);
    XCVM_TRY(xcvm_reader_uint(r, UINT64_MAX, &format));
    XCVM_CHECK(r->error, format <= XCVM_FORMAT, UNSUPPORTED,
               "line %d: program format %llu is newer than this library's %d", r->line, (unsigned long long)format,
               XCVM_FORMAT);
    if (format == 0)
        return xcvm_reader_fail(r, "program formats begin with 1");
    return xcvm_reader_next_line(r);
}

static xcvm_status read_statement(xcvm_assembler *a)
{
    xcvm_reader *r = &a->r;
    const char *word;
    if (xcvm_reader_peek(r) == '$' || xcvm_reader_peek(r) == '_')
        return xcvm_assemble_instruction(a);
    xcvm_reader start = *r;
    size_t length = xcvm_reader_word(r, &word);
    if (length > 0 && xcvm_reader_accept(r, ':')) {
        if (!xcvm_name_index_add(&a->labels, &a->scratch, word, length, a->image.instruction_count))
            return xcvm_reader_no_memory(r);
        return XCVM_OK;
    }
    if (length == 0 || xcvm_reader_peek(r) == '(') {
        *r = start;
        return xcvm_assemble_instruction(a);
    }
    return xcvm_assemble_header(a, word, length);
}

static xcvm_status check_labels(xcvm_assembler *a)
{
    for (size_t i = 1; i < a->labels.count; i++) {
        const xcvm_indexed_name *one = &a->labels.at[i - 1], *other = &a->labels.at[i];
        bool twice = one->length == other->length && memcmp(one->text, other->text, one->length) == 0;
        XCVM_CHECK(a->r.error, !twice, INVALID_PROGRAM, "label `%.*s` is defined twice",
                   (int)(one->length < 100 ? one->length : 100), one->text);
    }
    return XCVM_OK;
}

static xcvm_status resolve_constant(xcvm_assembler *a, const xcvm_reference *reference)
{
    size_t number = reference->number;
    if (reference->name != NULL) {
        const xcvm_indexed_name *first;
        size_t found = xcvm_name_index_find(&a->constants, reference->name, strlen(reference->name), &first);
        if (found == 0)
            return xcvm_reader_fail(&a->r, "there is no constant `%.200s`", reference->name);
        if (found > 1)
            return xcvm_reader_fail(&a->r, "constant `%.200s` is there more than once; @# and its number say which",
                                    reference->name);
        number = first->number;
    }
    if (number >= a->image.constant_count)
        return xcvm_reader_fail(&a->r, "there is no constant number %zu; there are %zu", number,
                                a->image.constant_count);
    if (reference->state != 0)
        a->image.states[reference->state - 1].initial = (uint32_t)number + 1;
    else
        *reference->operand = -1 - (int32_t)number;
    return XCVM_OK;
}

static xcvm_status resolve_references(xcvm_assembler *a)
{
    xcvm_name_index_sort(&a->constants);
    xcvm_name_index_sort(&a->labels);
    XCVM_TRY(check_labels(a));
    for (size_t i = 0; i < a->reference_count; i++) {
        const xcvm_reference *reference = &a->references[i];
        const xcvm_indexed_name *label;
        a->r.line = reference->line;
        if (reference->target == NULL) {
            XCVM_TRY(resolve_constant(a, reference));
            continue;
        }
        if (xcvm_name_index_find(&a->labels, reference->name, strlen(reference->name), &label) == 0)
            return xcvm_reader_fail(&a->r, "there is no label `%.200s`", reference->name);
        *reference->target = (int64_t)label->number;
    }
    return XCVM_OK;
}

static xcvm_status read_program(xcvm_assembler *a)
{
    XCVM_TRY(read_format(&a->r));
    while (!xcvm_reader_at_text_end(&a->r)) {
        if (!xcvm_reader_at_line_end(&a->r))
            XCVM_TRY(read_statement(a));
        XCVM_TRY(xcvm_reader_next_line(&a->r));
    }
    return resolve_references(a);
}

xcvm_status xcvm_image_assemble(const char *text, size_t length, const char *base_dir, const xcvm_allocator *allocator,
                                xcvm_arena *arena, xcvm_image *image, xcvm_error *error)
{
    xcvm_assembler a = {.scratch = {.allocator = allocator},
                        .files = {.base_dir = base_dir, .allocator = allocator},
                        .image = {.format = XCVM_FORMAT, .producer = ""}};
    XCVM_CHECK(error, text != NULL || length == 0, INVALID_ARGUMENT, "there is no text");
    xcvm_reader_start(&a.r, text != NULL ? text : "", length, arena, error);
    a.r.files = &a.files;
    xcvm_status status = read_program(&a);
    xcvm_arena_release(&a.scratch);
    xcvm_literal_files_release(&a.files);
    if (status == XCVM_OK)
        *image = a.image;
    return status;
}

xcvm_status xcvm_assemble(const char *text, size_t length, const char *base_dir, xcvm_sink sink, xcvm_error *error)
{
    xcvm_arena arena = {0};
    xcvm_image image;
    xcvm_status status = xcvm_image_assemble(text, length, base_dir, NULL, &arena, &image, error);
    status = xcvm_recognize_failure(status, text, length, XCVM_FILE_ASSEMBLY, error);
    if (status == XCVM_OK)
        status = xcvm_image_encode(&image, NULL, sink, error);
    xcvm_arena_release(&arena);
    return status;
}
