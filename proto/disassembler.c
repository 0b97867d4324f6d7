/* The disassembler: image to text. */
#include "proto/attributes.h"
#include "proto/image.h"
#include "proto/literals.h"
#include "proto/name_index.h"
#include "proto/recognize.h"

#include <string.h>

enum { LITERAL_LIMIT = 16 };

typedef struct constant_use {
    size_t uses;
    size_t order; /* position of the last use among all operands */
} constant_use;

typedef struct disassembler {
    const xcvm_image *image;
    xcvm_disassemble_options options;
    xcvm_arena arena;
    xcvm_name_index names; /* names of constants */
    size_t first_inline;   /* constants from this index are written as literals where they are used */
    bool *labeled;         /* jump targets; the last entry is the end */
    xcvm_writer w;
    xcvm_error *error;
} disassembler;

static bool is_small(const disassembler *d, const xcvm_constant *constant)
{
    return xcvm_element_count(&constant->value) <= d->options.literal_limit;
}

/* An assembler numbers constants in the order of their occurrence. Only a suffix of the constant table can become
 * literals: constants that are used exactly once, in table order. All others get lines of their own. */
static xcvm_status choose_literals(disassembler *d)
{
    const xcvm_image *image = d->image;
    constant_use *uses = xcvm_arena_allocate(&d->arena, image->constant_count * sizeof *uses);
    XCVM_CHECK(d->error, uses != NULL, OUT_OF_MEMORY, "no memory to write the text");
    size_t order = 0;
    for (size_t i = 0; i < image->instruction_count; i++)
        for (size_t j = 0; j < image->instructions[i].in_count; j++) {
            int32_t operand = image->instructions[i].in[j];
            if (operand < 0) {
                uses[-1 - operand].uses++;
                uses[-1 - operand].order = order++;
            }
        }
    /* The initial constant of a state is never a literal. */
    for (size_t i = 0; i < image->state_count; i++)
        if (image->states[i].initial != 0)
            uses[image->states[i].initial - 1].uses += 2;
    d->first_inline = image->constant_count;
    for (size_t i = image->constant_count; i-- > 0;) {
        bool ordered = i + 1 == image->constant_count || uses[i].order < uses[i + 1].order;
        if (image->constants[i].name[0] != '\0' || uses[i].uses != 1 || !ordered || !is_small(d, &image->constants[i]))
            break;
        d->first_inline = i;
    }
    return XCVM_OK;
}

static xcvm_status name_constants(disassembler *d)
{
    for (size_t i = 0; i < d->image->constant_count; i++) {
        const char *name = d->image->constants[i].name;
        XCVM_CHECK(d->error, xcvm_name_index_add(&d->names, &d->arena, name, strlen(name), i), OUT_OF_MEMORY,
                   "no memory to write the text");
    }
    xcvm_name_index_sort(&d->names);
    return XCVM_OK;
}

static int64_t target_of(const xcvm_field *f, const void *args) { return *XCVM_CFIELD(int64_t, f, args); }

static bool has_label(const disassembler *d, int64_t target)
{
    return target >= 0 && (uint64_t)target <= d->image->instruction_count;
}

static xcvm_status find_labels(disassembler *d)
{
    const xcvm_image *image = d->image;
    d->labeled = xcvm_arena_allocate(&d->arena, image->instruction_count + 1);
    XCVM_CHECK(d->error, d->labeled != NULL, OUT_OF_MEMORY, "no memory to write the text");
    for (size_t i = 0; i < image->instruction_count; i++) {
        const xcvm_instruction *instruction = &image->instructions[i];
        for (size_t j = 0; j < instruction->schema->field_count; j++) {
            const xcvm_field *f = &instruction->schema->fields[j];
            if (f->kind == XCVM_FIELD_TARGET && has_label(d, target_of(f, instruction->args)))
                d->labeled[target_of(f, instruction->args)] = true;
        }
    }
    return XCVM_OK;
}

/* ---- Header ---- */

static void write_parameters(disassembler *d, const char *word, const xcvm_value_info *parameters, size_t count)
{
    for (size_t i = 0; i < count && !d->w.failed; i++) {
        xcvm_writer_text(&d->w, word);
        xcvm_writer_name(&d->w, parameters[i].name);
        xcvm_writer_text(&d->w, " ");
        xcvm_type_write(&d->w, &parameters[i].type);
        xcvm_writer_text(&d->w, "\n");
    }
}

static void write_library(xcvm_writer *w, const xcvm_library *library)
{
    xcvm_writer_text(w, "library ");
    xcvm_writer_quoted(w, library->file, strlen(library->file));
    xcvm_writer_text(w, " sha256:");
    for (size_t i = 0; i < sizeof library->hash; i++)
        xcvm_writer_format(w, "%02x", library->hash[i]);
    xcvm_writer_format(w, " abi=%u isa=", library->abi);
    xcvm_writer_quoted(w, library->isa, strlen(library->isa));
    xcvm_writer_text(w, "\n");
}

static void write_constant(disassembler *d, const xcvm_constant *constant)
{
    xcvm_writer *w = &d->w;
    xcvm_type type = {
        .kind = XCVM_KIND_TENSOR, .dtype = (xcvm_dtype)constant->value.dtype, .rank = constant->value.rank};
    memcpy(type.dims, constant->value.dims, sizeof type.dims);
    xcvm_writer_text(w, "constant ");
    xcvm_writer_name(w, constant->name);
    xcvm_writer_text(w, " ");
    xcvm_type_write(w, &type);
    xcvm_writer_text(w, " =");
    const char *path = d->options.program_path;
    if (path != NULL && !is_small(d, constant)) {
        xcvm_writer_text(w, " @");
        xcvm_writer_quoted(w, path, strlen(path));
        xcvm_writer_format(w, ":%llu", (unsigned long long)(d->image->data_offset + constant->offset));
        if (constant->value.dtype == XCVM_STRING)
            xcvm_writer_format(w, "+%zu", constant->value.bytes);
    } else if (xcvm_element_count(&constant->value) > 0) {
        xcvm_writer_text(w, " ");
        xcvm_elements_write(w, &constant->value);
    }
    xcvm_writer_text(w, "\n");
}

static void write_reference(disassembler *d, size_t index)
{
    const char *name = d->image->constants[index].name;
    const xcvm_indexed_name *first;
    if (name[0] == '\0' || xcvm_name_index_find(&d->names, name, strlen(name), &first) > 1) {
        xcvm_writer_format(&d->w, "@#%zu", index);
    } else {
        xcvm_writer_text(&d->w, "@");
        xcvm_writer_name(&d->w, name);
    }
}

static void write_state(disassembler *d, const xcvm_state_declaration *state)
{
    xcvm_writer *w = &d->w;
    xcvm_writer_text(w, "state ");
    xcvm_writer_name(w, state->declared.name);
    xcvm_writer_text(w, " ");
    xcvm_type_write(w, &state->declared.type);
    if (state->initial != 0) {
        xcvm_writer_text(w, " = ");
        write_reference(d, state->initial - 1);
    }
    xcvm_writer_text(w, "\n");
}

static void write_header(disassembler *d)
{
    const xcvm_image *image = d->image;
    xcvm_writer *w = &d->w;
    xcvm_writer_format(w, "xcvm %d\n", XCVM_FORMAT);
    if (image->producer[0] != '\0') {
        xcvm_writer_text(w, "producer ");
        xcvm_writer_quoted(w, image->producer, strlen(image->producer));
        xcvm_writer_text(w, "\n");
    }
    for (size_t i = 0; i < image->metadata_count; i++) {
        xcvm_writer_text(w, "metadata ");
        xcvm_writer_quoted(w, image->metadata[i].key, strlen(image->metadata[i].key));
        xcvm_writer_text(w, " ");
        xcvm_writer_quoted(w, image->metadata[i].value, strlen(image->metadata[i].value));
        xcvm_writer_text(w, "\n");
    }
    write_parameters(d, "input ", image->inputs, image->input_count);
    write_parameters(d, "output ", image->outputs, image->output_count);
    for (size_t i = 0; i < image->state_count; i++)
        write_state(d, &image->states[i]);
    for (size_t i = 0; i < image->library_count; i++)
        write_library(w, &image->libraries[i]);
    if (image->arena_bytes > 0)
        xcvm_writer_format(w, "arena %llu\n", (unsigned long long)image->arena_bytes);
    for (size_t i = 0; i < d->first_inline && !w->failed; i++)
        write_constant(d, &image->constants[i]);
}

/* ---- Instructions ---- */

static void write_operand(disassembler *d, int32_t operand)
{
    if (operand > 0) {
        xcvm_writer_format(&d->w, "$%d", operand);
    } else if (operand == 0) {
        xcvm_writer_text(&d->w, "_");
    } else {
        size_t index = (size_t)(-1 - operand);
        if (index >= d->first_inline)
            xcvm_literal_write(&d->w, &d->image->constants[index].value);
        else
            write_reference(d, index);
    }
}

static void write_operands(disassembler *d, const int32_t *operands, size_t count)
{
    for (size_t i = 0; i < count && !d->w.failed; i++) {
        if (i > 0)
            xcvm_writer_text(&d->w, ", ");
        write_operand(d, operands[i]);
    }
}

static void write_field(disassembler *d, const xcvm_instruction *instruction, const xcvm_field *f, size_t *next)
{
    xcvm_writer *w = &d->w;
    if (xcvm_field_is_input(f)) {
        size_t count = xcvm_field_count(f, instruction->args);
        if (xcvm_field_is_list(f))
            xcvm_writer_text(w, "[");
        write_operands(d, instruction->in + *next, count);
        if (xcvm_field_is_list(f))
            xcvm_writer_text(w, "]");
        *next += count;
        return;
    }
    xcvm_writer_text(w, f->name);
    xcvm_writer_text(w, "=");
    if (f->kind == XCVM_FIELD_TARGET && has_label(d, target_of(f, instruction->args)))
        xcvm_writer_text(w, "L");
    xcvm_attribute_write(w, f, instruction->args);
}

static void write_debug(disassembler *d, const xcvm_instruction *instruction)
{
    const xcvm_debug *debug = &instruction->debug;
    xcvm_writer *w = &d->w;
    size_t count = instruction->out_count;
    for (size_t i = 0; instruction->slots != NULL && i < count; i++) {
        const xcvm_slot *slot = &instruction->slots[i];
        xcvm_writer_text(w, i > 0 ? "," : " slot=");
        if (slot->offset == 0 && slot->bytes == 0)
            xcvm_writer_text(w, "_");
        else
            xcvm_writer_format(w, "%llu+%llu", (unsigned long long)slot->offset, (unsigned long long)slot->bytes);
    }
    if (debug->node[0] != '\0') {
        xcvm_writer_text(w, " node=");
        xcvm_writer_quoted(w, debug->node, strlen(debug->node));
    }
    for (size_t i = 0; debug->types != NULL && i < count; i++) {
        xcvm_writer_text(w, i > 0 ? "," : " type=");
        xcvm_type_write(w, &debug->types[i]);
    }
    for (size_t i = 0; debug->names != NULL && i < count; i++) {
        xcvm_writer_text(w, i > 0 ? "," : " name=");
        xcvm_writer_quoted(w, debug->names[i], strlen(debug->names[i]));
    }
    if (debug->flops > 0)
        xcvm_writer_format(w, " flops=%llu", (unsigned long long)debug->flops);
}

/* Writes the operands or results of the field named `word` in a summary. Returns false if there is no such field. */
static bool explain_word(disassembler *d, const xcvm_instruction *instruction, const char *word, size_t length)
{
    const int32_t *in = instruction->in, *out = instruction->out;
    for (size_t i = 0; i < instruction->schema->field_count; i++) {
        const xcvm_field *f = &instruction->schema->fields[i];
        bool operand = xcvm_field_is_operand(f);
        size_t count = operand ? xcvm_field_count(f, instruction->args) : 0;
        const int32_t **next = xcvm_field_is_input(f) ? &in : &out;
        if (strlen(f->name) != length || memcmp(f->name, word, length) != 0) {
            *next += count;
            continue;
        }
        bool value = f->kind == XCVM_FIELD_FLOAT || f->kind == XCVM_FIELD_TEXT || f->kind == XCVM_FIELD_TARGET;
        if (operand)
            write_operands(d, *next, count);
        else if (value && xcvm_field_is_attribute(f))
            xcvm_attribute_write(&d->w, f, instruction->args);
        return operand || value;
    }
    return false;
}

static void write_explanation(disassembler *d, const xcvm_instruction *instruction)
{
    xcvm_reader words;
    const char *summary = instruction->schema->summary;
    xcvm_reader_start(&words, summary, strlen(summary), NULL, NULL);
    /* Messages and traces use the same instruction number. */
    xcvm_writer_format(&d->w, "  # %td: ", instruction - d->image->instructions);
    while (words.at < words.end) {
        const char *word = words.at;
        size_t length = *word == ' ' || *word == '#' ? 0 : xcvm_reader_word(&words, &word);
        if (length == 0) {
            xcvm_writer_put(&d->w, words.at, 1);
            words.at++;
        } else if (!explain_word(d, instruction, word, length)) {
            xcvm_writer_put(&d->w, word, length);
        }
    }
}

static void write_instruction(disassembler *d, const xcvm_instruction *instruction)
{
    const xcvm_schema *schema = instruction->schema;
    xcvm_writer *w = &d->w;
    size_t next = 0;
    bool first = true;
    write_operands(d, instruction->out, instruction->out_count);
    if (instruction->out_count > 0)
        xcvm_writer_text(w, " = ");
    xcvm_writer_text(w, schema->name);
    xcvm_writer_text(w, "(");
    for (size_t i = 0; i < schema->field_count && !w->failed; i++) {
        const xcvm_field *f = &schema->fields[i];
        if (!xcvm_field_is_input(f) && !xcvm_field_is_attribute(f))
            continue;
        if (!first)
            xcvm_writer_text(w, ", ");
        first = false;
        write_field(d, instruction, f, &next);
    }
    xcvm_writer_text(w, ")");
    write_debug(d, instruction);
    if (d->options.explain)
        write_explanation(d, instruction);
    xcvm_writer_text(w, "\n");
}

static void write_instructions(disassembler *d)
{
    size_t count = d->image->instruction_count;
    if (count > 0)
        xcvm_writer_text(&d->w, "\n");
    for (size_t i = 0; i <= count && !d->w.failed; i++) {
        if (d->labeled[i])
            xcvm_writer_format(&d->w, "L%zu:\n", i);
        if (i < count)
            write_instruction(d, &d->image->instructions[i]);
    }
}

xcvm_status xcvm_image_disassemble(const xcvm_image *image, const xcvm_disassemble_options *options, xcvm_sink sink,
                                   xcvm_error *error)
{
    disassembler d = {.image = image, .error = error};
    if (options != NULL)
        memcpy(&d.options, options, options->size < sizeof d.options ? options->size : sizeof d.options);
    if (d.options.literal_limit == 0)
        d.options.literal_limit = LITERAL_LIMIT;
    xcvm_writer_start(&d.w, sink);
    xcvm_status status = choose_literals(&d);
    if (status == XCVM_OK)
        status = name_constants(&d);
    if (status == XCVM_OK)
        status = find_labels(&d);
    if (status == XCVM_OK) {
        write_header(&d);
        write_instructions(&d);
        status = xcvm_writer_finish(&d.w, error);
    }
    xcvm_arena_release(&d.arena);
    return status;
}

xcvm_status xcvm_disassemble(const void *bytes, size_t count, const xcvm_disassemble_options *options, xcvm_sink sink,
                             xcvm_error *error)
{
    xcvm_arena arena = {0};
    xcvm_image image;
    xcvm_status status = xcvm_image_decode(bytes, count, NULL, &arena, &image, error);
    status = xcvm_recognize_failure(status, bytes, count, XCVM_FILE_PROGRAM, error);
    if (status == XCVM_OK)
        status = xcvm_image_disassemble(&image, options, sink, error);
    xcvm_arena_release(&arena);
    return status;
}
