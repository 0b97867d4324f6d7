/* Assembles declarations: producer, inputs, constants and all other statements that are not instructions. */
#include "proto/assembler.h"
#include "proto/literals.h"

#include <string.h>

static bool is_word(const char *word, size_t length, const char *name)
{
    return strlen(name) == length && memcmp(word, name, length) == 0;
}

static xcvm_status read_text(xcvm_reader *r, const char **text)
{
    size_t length;
    XCVM_TRY(xcvm_reader_string(r, text, &length));
    return strlen(*text) == length ? XCVM_OK : xcvm_reader_fail(r, "this text may not have a NUL in it");
}

static xcvm_status expect_word(xcvm_reader *r, const char *name)
{
    char here[48];
    const char *word;
    size_t length = xcvm_reader_peek_word(r, &word);
    if (!is_word(word, length, name))
        return xcvm_reader_fail(r, "`%s` is expected, not %s", name, xcvm_reader_here(r, here));
    r->at += length;
    return XCVM_OK;
}

static xcvm_status read_parameter(xcvm_reader *r, xcvm_value_info *parameter)
{
    XCVM_TRY(xcvm_reader_name(r, &parameter->name));
    return xcvm_type_read(r, &parameter->type);
}

static xcvm_status read_hash(xcvm_reader *r, uint8_t hash[32])
{
    char token[XCVM_TOKEN_SIZE];
    XCVM_TRY(xcvm_reader_token(r, "a hash of 64 digits", token));
    if (strlen(token) != 64)
        return xcvm_reader_fail(r, "a hash has 64 digits, not %zu", strlen(token));
    for (size_t i = 0; i < 32; i++) {
        char digits[] = {'0', 'x', token[2 * i], token[2 * i + 1], '\0'};
        uint64_t byte;
        if (!xcvm_uint_parse(digits, &byte))
            return xcvm_reader_fail(r, "`%.2s` is not hexadecimal", digits + 2);
        hash[i] = (uint8_t)byte;
    }
    return XCVM_OK;
}

static xcvm_status read_library(xcvm_reader *r, xcvm_library *library)
{
    uint64_t abi;
    XCVM_TRY(read_text(r, &library->file));
    XCVM_TRY(expect_word(r, "sha256"));
    XCVM_TRY(xcvm_reader_expect(r, ':'));
    XCVM_TRY(read_hash(r, library->hash));
    XCVM_TRY(expect_word(r, "abi"));
    XCVM_TRY(xcvm_reader_expect(r, '='));
    XCVM_TRY(xcvm_reader_uint(r, INT32_MAX, &abi));
    library->abi = (uint32_t)abi;
    XCVM_TRY(expect_word(r, "isa"));
    XCVM_TRY(xcvm_reader_expect(r, '='));
    return read_text(r, &library->isa);
}

static xcvm_status read_constant(xcvm_assembler *a)
{
    xcvm_reader *r = &a->r;
    xcvm_constant *constant;
    xcvm_type type;
    XCVM_APPEND(a, a->r.arena, a->image.constants, a->image.constant_count, a->constant_capacity, constant);
    XCVM_TRY(xcvm_reader_name(r, &constant->name));
    if (!xcvm_name_index_add(&a->constants, &a->scratch, constant->name, strlen(constant->name),
                             a->image.constant_count - 1))
        return xcvm_reader_no_memory(r);
    XCVM_TRY(xcvm_type_read(r, &type));
    XCVM_TRY(xcvm_reader_expect(r, '='));
    XCVM_TRY(xcvm_tensor_of_type(r, &type, &constant->value));
    return xcvm_elements_read(r, &constant->value);
}

/* Reads a name and a type and, after =, the initial constant of the state. */
static xcvm_status read_state(xcvm_assembler *a)
{
    xcvm_reader *r = &a->r;
    xcvm_state_declaration *state;
    xcvm_reference *reference = NULL;
    XCVM_APPEND(a, a->r.arena, a->image.states, a->image.state_count, a->state_capacity, state);
    XCVM_TRY(read_parameter(r, &state->declared));
    if (!xcvm_reader_accept(r, '='))
        return XCVM_OK;
    XCVM_TRY(xcvm_reader_expect(r, '@'));
    XCVM_TRY(xcvm_assemble_reference(a, &reference));
    reference->state = a->image.state_count;
    return XCVM_OK;
}

static xcvm_status read_metadata(xcvm_assembler *a)
{
    xcvm_metadata *entry;
    XCVM_APPEND(a, a->r.arena, a->image.metadata, a->image.metadata_count, a->metadata_capacity, entry);
    XCVM_TRY(read_text(&a->r, &entry->key));
    return read_text(&a->r, &entry->value);
}

xcvm_status xcvm_assemble_header(xcvm_assembler *a, const char *word, size_t length)
{
    xcvm_image *image = &a->image;
    xcvm_reader *r = &a->r;
    xcvm_value_info *parameter;
    xcvm_library *library;
    if (is_word(word, length, "producer"))
        return read_text(r, &image->producer);
    if (is_word(word, length, "arena"))
        return xcvm_reader_uint(r, UINT64_MAX, &image->arena_bytes);
    if (is_word(word, length, "metadata"))
        return read_metadata(a);
    if (is_word(word, length, "constant"))
        return read_constant(a);
    if (is_word(word, length, "input")) {
        XCVM_APPEND(a, a->r.arena, image->inputs, image->input_count, a->input_capacity, parameter);
        return read_parameter(r, parameter);
    }
    if (is_word(word, length, "output")) {
        XCVM_APPEND(a, a->r.arena, image->outputs, image->output_count, a->output_capacity, parameter);
        return read_parameter(r, parameter);
    }
    if (is_word(word, length, "state"))
        return read_state(a);
    if (is_word(word, length, "library")) {
        XCVM_APPEND(a, a->r.arena, image->libraries, image->library_count, a->library_capacity, library);
        return read_library(r, library);
    }
    return xcvm_reader_fail(r,
                            "`%.*s` begins no statement; instructions, labels (`name:`) and producer, metadata, input, "
                            "output, state, constant, library, arena do",
                            (int)(length < 60 ? length : 60), word);
}
