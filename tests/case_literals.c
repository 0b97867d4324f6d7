/* Literals of a case as inputs of its program. */
#include "tests/case_literals.h"
#include "ops/table/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The program ---- */

static int32_t last_register(const xcvm_image *image)
{
    int32_t last = 0;
    for (size_t pc = 0; pc < image->instruction_count; pc++)
        for (uint32_t i = 0; i < image->instructions[pc].out_count; i++)
            last = image->instructions[pc].out[i] > last ? image->instructions[pc].out[i] : last;
    return last;
}

static bool lift_parameter(case_literals *lifted, bool typed, size_t i, xcvm_value_info *input)
{
    char name[32];
    const xcvm_value *literal = &lifted->constants[i].value;
    const int length = snprintf(name, sizeof name, "literal %zu", i);
    input->name = xcvm_arena_string(&lifted->arena, name, (size_t)length);
    input->type = (xcvm_type){.kind = XCVM_KIND_NULL};
    if (typed) {
        input->type = (xcvm_type){.kind = XCVM_KIND_TENSOR, .dtype = (xcvm_dtype)literal->dtype, .rank = literal->rank};
        memcpy(input->type.dims, literal->dims, sizeof input->type.dims);
    }
    return input->name != NULL;
}

/* Reads input `name` into `reg`. */
static bool make_in(case_literals *lifted, const char *name, int32_t reg, xcvm_instruction *in)
{
    const xcvm_schema *schema = xcvm_schema_of(XCVM_OP_In);
    xcvm_In_args *args = xcvm_arena_allocate(&lifted->arena, sizeof *args);
    int32_t *out = xcvm_arena_allocate(&lifted->arena, sizeof *out);
    if (args == NULL || out == NULL)
        return false;
    args->name = (xcvm_text){name, strlen(name)};
    *out = reg;
    *in = (xcvm_instruction){.schema = schema, .args = args, .out = out, .out_count = 1, .debug = {.node = ""}};
    return true;
}

/* Replaces constants by registers, and shifts jump targets after the inserted instructions. */
static bool move_instruction(case_literals *lifted, int32_t first_register, xcvm_instruction *instruction)
{
    int32_t *in = xcvm_arena_allocate(&lifted->arena, (instruction->in_count + 1) * sizeof *in);
    char *args = xcvm_arena_allocate(&lifted->arena, instruction->schema->args_size);
    if (in == NULL || args == NULL)
        return false;
    for (uint32_t i = 0; i < instruction->in_count; i++)
        in[i] = instruction->in[i] < 0 ? first_register - 1 - instruction->in[i] : instruction->in[i];
    memcpy(args, instruction->args, instruction->schema->args_size);
    for (size_t i = 0; i < instruction->schema->field_count; i++)
        if (instruction->schema->fields[i].kind == XCVM_FIELD_TARGET)
            *(int64_t *)(void *)(args + instruction->schema->fields[i].offset) += (int64_t)lifted->count;
    instruction->in = in;
    instruction->args = args;
    return true;
}

static bool lift(case_literals *lifted, bool typed, xcvm_image *image)
{
    const size_t n = lifted->count;
    const int32_t first_register = last_register(image) + 1;
    xcvm_value_info *inputs = xcvm_arena_allocate(&lifted->arena, (image->input_count + n) * sizeof *inputs);
    xcvm_instruction *instructions =
        xcvm_arena_allocate(&lifted->arena, (image->instruction_count + n) * sizeof *instructions);
    bool good = inputs != NULL && instructions != NULL;
    for (size_t i = 0; good && i < image->input_count; i++)
        inputs[i] = image->inputs[i];
    for (size_t i = 0; good && i < n; i++)
        good = lift_parameter(lifted, typed, i, &inputs[image->input_count + i]) &&
               make_in(lifted, inputs[image->input_count + i].name, first_register + (int32_t)i, &instructions[i]);
    for (size_t pc = 0; good && pc < image->instruction_count; pc++) {
        instructions[n + pc] = image->instructions[pc];
        good = move_instruction(lifted, first_register, &instructions[n + pc]);
    }
    image->inputs = inputs;
    image->input_count += n;
    image->instructions = instructions;
    image->instruction_count += n;
    /* States begin with constants. */
    if (image->state_count == 0)
        image->constant_count = 0;
    return good;
}

xcvm_status case_literals_lift(const test_bytes *file, bool typed, case_literals *lifted, xcvm_error *error)
{
    xcvm_image image;
    *lifted = (case_literals){.count = 0};
    xcvm_status status = xcvm_image_decode(file->at, file->length, NULL, &lifted->arena, &image, error);
    if (status != XCVM_OK)
        return status;
    lifted->constants = image.constants;
    lifted->count = image.constant_count;
    lifted->first = image.input_count;
    if (!lift(lifted, typed, &image))
        return xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "no memory for a case");
    return xcvm_image_encode(&image, NULL, (xcvm_sink){test_bytes_sink, &lifted->file}, error);
}

void case_literals_free(case_literals *lifted)
{
    test_bytes_free(&lifted->file);
    xcvm_arena_release(&lifted->arena);
}

/* ---- Binding ---- */

static bool make_variant(const xcvm_value *literal, case_variant variant, int *rank, int64_t dims[XCVM_MAX_RANK])
{
    const size_t count = xcvm_element_count(literal);
    *rank = literal->rank;
    memcpy(dims, literal->dims, sizeof literal->dims);
    switch (variant) {
    case CASE_AS_IT_IS:
        return true;
    case CASE_EMPTY:
        *rank = 1;
        dims[0] = 0;
        return count != 0;
    case CASE_EMPTY_AXIS:
        dims[0] = 0;
        return count != 0 && *rank > 1;
    default:
        *rank = 1;
        dims[0] = 2;
        return count == 1;
    }
}

/* The elements at the very end of an allocation, which is *block. */
static xcvm_status bind_elements(const xcvm_value *literal, int rank, const int64_t *dims, xcvm_value **value,
                                 void **block, xcvm_error *error)
{
    enum { BEFORE = 8 }; /* so that it is aligned to no more than that */
    size_t count, bytes;
    const xcvm_dtype dtype = (xcvm_dtype)literal->dtype;
    if (!xcvm_tensor_size(dtype, rank, dims, &count, &bytes))
        return xcvm_error_set(error, XCVM_INTERNAL, "a literal has no size");
    char *at = *block = malloc(BEFORE + bytes);
    if (at == NULL)
        return xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "no memory for a literal");
    at += BEFORE;
    for (size_t done = 0; done < bytes;) {
        const size_t left = bytes - done, piece = left < literal->bytes ? left : literal->bytes;
        memcpy(at + done, literal->data, piece);
        done += piece;
    }
    return xcvm_tensor_wrap(dtype, rank, dims, at, (xcvm_finalizer){free, *block}, value, error);
}

static xcvm_status bind_strings(const xcvm_value *literal, int rank, const int64_t *dims, xcvm_value **value,
                                xcvm_error *error)
{
    size_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= (size_t)dims[i];
    const char **strings = calloc(count + 1, sizeof *strings);
    size_t *lengths = calloc(count + 1, sizeof *lengths);
    xcvm_status status = XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; strings != NULL && lengths != NULL && i < count; i++)
        strings[i] = xcvm_string_at(literal, i % xcvm_element_count(literal), &lengths[i]);
    if (strings != NULL && lengths != NULL)
        status = xcvm_string_tensor_create(NULL, rank, dims, strings, lengths, value, error);
    free(strings);
    free(lengths);
    return status;
}

bool case_literals_bind(const case_literals *lifted, xcvm_session *session, size_t index, case_variant variant,
                        xcvm_status *status, xcvm_error *error)
{
    const xcvm_value *literal = &lifted->constants[index].value;
    int rank;
    int64_t dims[XCVM_MAX_RANK];
    xcvm_value *value;
    void *block = NULL;
    if (!make_variant(literal, variant, &rank, dims))
        return false;
    const bool strings = literal->dtype == XCVM_STRING;
    *status = strings ? bind_strings(literal, rank, dims, &value, error)
                      : bind_elements(literal, rank, dims, &value, &block, error);
    if (*status != XCVM_OK) {
        free(block);
        return true;
    }
    *status = xcvm_session_set_input(session, lifted->first + index, value, error);
    xcvm_value_release(value);
    return true;
}
