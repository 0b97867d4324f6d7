/* Reads inference requests. Arrays of numbers become tensors directly; jansson reads the rest. */
#include "server/oip/infer.h"

#include "server/json/document.h"
#include "server/json/elements.h"
#include "server/json/split.h"
#include "server/oip/datatype.h"
#include "server/oip/input.h"
#include "server/oip/parameters.h"

#include <string.h>

/* Bytes of a document without its arrays, and inputs in it. */
enum { REST_LIMIT = 1 << 20, MOST_INPUTS = 1024, FEW_INPUTS = 16, MOST_OUTPUTS = 4096 };

typedef struct reader {
    xcs_infer *infer;
    const xcvm_program *program;
    const xcvm_allocator *allocator;
    xcs_span *arrays;
    size_t array_count;
    const char *binary, *binary_end; /* what has not been read */
    xcvm_error *error;
} reader;

static xcvm_status read_shape(const xcs_json *shape, const char *name, int *rank, int64_t *dims, xcvm_error *error)
{
    XCVM_CHECK(error, xcs_json_is_array(shape), INVALID_ARGUMENT, "input \"%.100s\" has no \"shape\" (an array)", name);
    const size_t count = xcs_json_count(shape);
    XCVM_CHECK(error, count <= XCVM_MAX_RANK, INVALID_ARGUMENT,
               "input \"%.100s\" has %zu dimensions; at most %d are possible", name, count, XCVM_MAX_RANK);
    for (size_t i = 0; i < count; i++)
        XCVM_CHECK(error, xcs_json_integer(xcs_json_at(shape, i), &dims[i]) && dims[i] >= 0, INVALID_ARGUMENT,
                   "input \"%.100s\": dimension %zu of the shape is not a natural number", name, i);
    *rank = (int)count;
    return XCVM_OK;
}

static xcvm_status read_binary(reader *r, int64_t size, xcvm_dtype dtype, int rank, const int64_t *dims,
                               xcvm_value **tensor)
{
    XCVM_CHECK(r->error, size >= 0 && size <= r->binary_end - r->binary, INVALID_ARGUMENT,
               "\"binary_data_size\" is %lld, but %lld bytes of binary data are left", (long long)size,
               (long long)(r->binary_end - r->binary));
    const char *at = r->binary;
    r->binary += size;
    if (dtype == XCVM_STRING)
        return xcs_input_read_strings(r->allocator, at, (size_t)size, rank, dims, tensor, r->error);
    /* Before the tensor is created, so that a small body cannot make a large one. */
    size_t expected;
    XCVM_TRY(xcs_input_bytes(dtype, rank, dims, &expected, r->error));
    XCVM_CHECK(r->error, (size_t)size == expected, SHAPE_MISMATCH,
               "\"binary_data_size\" is %lld; the shape and datatype have %zu bytes", (long long)size, expected);
    if (dtype == XCVM_BOOL)
        XCVM_TRY(xcs_input_check_bools(at, (size_t)size, r->error));
    XCVM_TRY(xcvm_tensor_create(r->allocator, dtype, rank, dims, tensor, r->error));
    if (size > 0)
        memcpy(xcvm_value_data(*tensor), at, (size_t)size);
    return XCVM_OK;
}

static xcvm_status read_data(reader *r, const xcs_json *input, xcvm_dtype dtype, int rank, const int64_t *dims,
                             xcvm_value **tensor)
{
    int64_t size, number;
    if (xcs_json_integer(xcs_json_get(xcs_json_get(input, "parameters"), "binary_data_size"), &size))
        return read_binary(r, size, dtype, rank, dims, tensor);
    XCVM_CHECK(r->error,
               xcs_json_integer(xcs_json_get(input, "data"), &number) && number >= 0 &&
                   (uint64_t)number < r->array_count,
               INVALID_ARGUMENT, "neither \"data\" nor \"parameters.binary_data_size\"");
    const xcs_span *array = &r->arrays[number];
    if (dtype == XCVM_STRING)
        return xcs_strings_read(array->at, array->end, r->allocator, rank, dims, tensor, r->error);
    /* Each element takes at least two characters, so a small body cannot make a large tensor. */
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        XCVM_CHECK(r->error, !__builtin_mul_overflow(count, dims[i], &count) && count <= array->end - array->at,
                   SHAPE_MISMATCH, "fewer elements than the shape has");
    XCVM_TRY(xcvm_tensor_create(r->allocator, dtype, rank, dims, tensor, r->error));
    xcvm_status status = xcs_elements_read(array->at, array->end, *tensor, r->error);
    if (status != XCVM_OK) {
        xcvm_value_release(*tensor);
        *tensor = NULL;
    }
    return status;
}

static xcvm_status read_input(reader *r, const xcs_json *input, size_t position)
{
    int64_t dims[XCVM_MAX_RANK];
    int rank = 0;
    size_t index = 0;
    const char *name = xcs_json_string(xcs_json_get(input, "name"));
    const char *datatype = xcs_json_string(xcs_json_get(input, "datatype"));
    XCVM_CHECK(r->error, name != NULL, INVALID_ARGUMENT, "input %zu has no \"name\"", position);
    XCVM_CHECK(r->error, xcs_input_find(r->program, name, strlen(name), &index), INVALID_ARGUMENT,
               "the model has no input \"%.100s\"", name);
    XCVM_CHECK(r->error, r->infer->inputs[index] == NULL, INVALID_ARGUMENT, "input \"%.100s\" is given twice", name);
    XCVM_CHECK(r->error, datatype != NULL, INVALID_ARGUMENT, "input \"%.100s\" has no \"datatype\"", name);
    const xcvm_dtype dtype = xcs_datatype_from_name(datatype);
    XCVM_CHECK(r->error, dtype != XCVM_NO_DTYPE, INVALID_ARGUMENT, "input \"%.100s\": \"%.40s\" is not a datatype",
               name, datatype);
    XCVM_TRY(read_shape(xcs_json_get(input, "shape"), name, &rank, dims, r->error));
    XCVM_TRY(xcs_input_check(xcvm_program_input_at(r->program, index), dtype, rank, dims, r->error));
    xcvm_status status = read_data(r, input, dtype, rank, dims, &r->infer->inputs[index]);
    if (status != XCVM_OK)
        xcvm_error_prefix(r->error, "input \"%.100s\"", name);
    return status;
}

static xcvm_status read_inputs(reader *r, const xcs_json *inputs)
{
    XCVM_CHECK(r->error, xcs_json_is_array(inputs), INVALID_ARGUMENT, "the request has no \"inputs\" (an array)");
    for (size_t i = 0; i < xcs_json_count(inputs); i++)
        XCVM_TRY(read_input(r, xcs_json_at(inputs, i), i));
    for (size_t i = 0; i < r->infer->input_count; i++)
        XCVM_CHECK(r->error, r->infer->inputs[i] != NULL, INVALID_ARGUMENT, "input \"%.100s\" is missing",
                   xcvm_program_input_at(r->program, i)->name);
    XCVM_CHECK(r->error, r->binary == r->binary_end, INVALID_ARGUMENT, "%zu bytes of binary data belong to no input",
               (size_t)(r->binary_end - r->binary));
    return XCVM_OK;
}

static xcvm_status read_output(const reader *r, const xcs_json *output, xcs_infer_output *to)
{
    const char *name = xcs_json_string(xcs_json_get(output, "name"));
    const xcs_json *parameters = xcs_json_get(output, "parameters");
    XCVM_CHECK(r->error, name != NULL, INVALID_ARGUMENT, "an output has no \"name\"");
    XCVM_CHECK(r->error, xcs_json_get(parameters, "classification") == NULL, UNSUPPORTED,
               "output \"%.100s\": \"classification\" is not supported", name);
    const size_t count = xcvm_program_output_count(r->program);
    to->index = 0;
    while (to->index < count && strcmp(xcvm_program_output_at(r->program, to->index)->name, name) != 0)
        to->index++;
    XCVM_CHECK(r->error, to->index < count, INVALID_ARGUMENT, "the model has no output \"%.100s\"", name);
    to->binary = r->infer->binary_outputs;
    const xcs_json *binary = xcs_json_get(parameters, "binary_data");
    XCVM_CHECK(r->error, binary == NULL || xcs_json_bool(binary, &to->binary), INVALID_ARGUMENT,
               "output \"%.100s\": \"binary_data\" is not a boolean", name);
    return XCVM_OK;
}

/* Without a list, all outputs are requested. */
static xcvm_status read_outputs(const reader *r, const xcs_json *outputs)
{
    const size_t count = outputs != NULL ? xcs_json_count(outputs) : xcvm_program_output_count(r->program);
    XCVM_CHECK(r->error, outputs == NULL || xcs_json_is_array(outputs), INVALID_ARGUMENT,
               "\"outputs\" is not an array");
    XCVM_CHECK(r->error, count <= MOST_OUTPUTS, INVALID_ARGUMENT, "%zu outputs; at most %d are possible", count,
               MOST_OUTPUTS);
    r->infer->outputs = xcvm_allocate_zeroed(r->allocator, count * sizeof *r->infer->outputs + 1);
    XCVM_CHECK(r->error, r->infer->outputs != NULL, OUT_OF_MEMORY, "no memory for a request");
    r->infer->output_count = count;
    for (size_t i = 0; i < count; i++) {
        r->infer->outputs[i] = (xcs_infer_output){i, r->infer->binary_outputs};
        if (outputs != NULL)
            XCVM_TRY(read_output(r, xcs_json_at(outputs, i), &r->infer->outputs[i]));
    }
    return XCVM_OK;
}

static xcvm_status read_parameters(xcs_infer *infer, const xcs_json *parameters, xcvm_error *error)
{
    xcs_infer_set_defaults(infer);
    for (size_t i = 0; xcs_parameter_name(i) != NULL; i++) {
        const xcs_json *json = xcs_json_get(parameters, xcs_parameter_name(i));
        xcs_parameter value = {.kind = XCS_PARAMETER_OTHER};
        if (json == NULL)
            continue;
        value.text = xcs_json_string(json);
        if (value.text != NULL)
            value.kind = XCS_PARAMETER_TEXT;
        else if (xcs_json_integer(json, &value.integer))
            value.kind = XCS_PARAMETER_INTEGER;
        else if (xcs_json_bool(json, &value.boolean))
            value.kind = XCS_PARAMETER_BOOL;
        XCVM_TRY(xcs_infer_set_parameter(infer, xcs_parameter_name(i), &value, error));
    }
    return XCVM_OK;
}

static xcvm_status read_document(reader *r, const xcs_json *document)
{
    xcs_infer *infer = r->infer;
    const xcs_json *id = xcs_json_get(document, "id");
    XCVM_CHECK(r->error, id == NULL || xcs_json_string(id) != NULL, INVALID_ARGUMENT, "\"id\" is not a string");
    if (id != NULL) {
        const size_t bytes = strlen(xcs_json_string(id)) + 1;
        infer->id = xcvm_allocate(r->allocator, bytes);
        XCVM_CHECK(r->error, infer->id != NULL, OUT_OF_MEMORY, "no memory for a request");
        memcpy(infer->id, xcs_json_string(id), bytes);
    }
    XCVM_TRY(read_parameters(infer, xcs_json_get(document, "parameters"), r->error));
    infer->input_count = xcvm_program_input_count(r->program);
    infer->inputs = xcvm_allocate_zeroed(r->allocator, (infer->input_count + 1) * sizeof *infer->inputs);
    XCVM_CHECK(r->error, infer->inputs != NULL, OUT_OF_MEMORY, "no memory for a request");
    XCVM_TRY(read_inputs(r, xcs_json_get(document, "inputs")));
    return read_outputs(r, xcs_json_get(document, "outputs"));
}

/* ---- Documents of earlier requests ---- */

static size_t slot_of(const xcs_text *text)
{
    uint32_t hash = (uint32_t)text->count;
    for (size_t i = 0; i < text->count; i += 7)
        hash = hash * 31 + (unsigned char)text->at[i];
    return (hash ^ hash >> 16) % XCS_INFER_MEMO_SLOTS;
}

static xcs_json *recall(xcs_infer_memo *memo, const xcs_text *text)
{
    if (memo == NULL || text->count == 0 || text->count > XCS_INFER_MEMO_BYTES)
        return NULL;
    const size_t i = slot_of(text);
    const xcs_text *known = &memo->slots[i].text;
    return known->count == text->count && memcmp(known->at, text->at, text->count) == 0 ? memo->slots[i].document
                                                                                        : NULL;
}

/* Takes a document over. Returns false if it does not. */
static bool remember(xcs_infer_memo *memo, const xcs_text *text, xcs_json *document)
{
    if (memo == NULL || text->count > XCS_INFER_MEMO_BYTES)
        return false;
    const size_t i = slot_of(text);
    xcs_text copy = {0};
    xcs_text_add(&copy, text->at, text->count);
    if (copy.failed)
        return false;
    xcs_text_free(&memo->slots[i].text);
    xcs_json_release(memo->slots[i].document);
    memo->slots[i].text = copy;
    memo->slots[i].document = document;
    return true;
}

void xcs_infer_memo_free(xcs_infer_memo *memo)
{
    for (size_t i = 0; i < XCS_INFER_MEMO_SLOTS; i++) {
        xcs_text_free(&memo->slots[i].text);
        xcs_json_release(memo->slots[i].document);
    }
    *memo = (xcs_infer_memo){0};
}

xcvm_status xcs_infer_read(xcs_infer *infer, const char *body, size_t length, size_t json_length, xcvm_error *error)
{
    xcs_span few[FEW_INPUTS];
    reader r = {.infer = infer,
                .program = xcs_model_program(infer->model),
                .allocator = xcs_model_allocator(infer->model),
                .arrays = few,
                .binary = body + json_length,
                .binary_end = body + length,
                .error = error};
    xcs_text rest = {.allocator = r.allocator};
    xcs_json *document = NULL, *known = NULL;
    const size_t most = xcvm_program_input_count(r.program) <= FEW_INPUTS ? FEW_INPUTS : MOST_INPUTS;
    if (most > FEW_INPUTS)
        r.arrays = xcvm_allocate(r.allocator, most * sizeof *r.arrays);
    XCVM_CHECK(error, r.arrays != NULL, OUT_OF_MEMORY, "no memory for a request");
    xcvm_status status = xcs_json_split(body, json_length, REST_LIMIT, &rest, r.arrays, most, &r.array_count, error);
    if (status == XCVM_OK)
        known = recall(infer->memo, &rest);
    if (status == XCVM_OK && known == NULL)
        status = xcs_json_parse(rest.at, rest.count, &document, error);
    if (status == XCVM_OK)
        status = read_document(&r, known != NULL ? known : document);
    if (status == XCVM_OK && known == NULL && remember(infer->memo, &rest, document))
        document = NULL;
    xcs_json_release(document);
    xcs_text_free(&rest);
    if (r.arrays != few)
        xcvm_deallocate(r.allocator, r.arrays, most * sizeof *r.arrays);
    return status;
}

void xcs_infer_release_inputs(xcs_infer *infer)
{
    if (infer->inputs == NULL)
        return;
    for (size_t i = 0; i < infer->input_count; i++)
        xcvm_value_release(infer->inputs[i]);
    xcvm_deallocate(xcs_model_allocator(infer->model), infer->inputs, (infer->input_count + 1) * sizeof *infer->inputs);
    infer->inputs = NULL;
}

void xcs_infer_release(xcs_infer *infer)
{
    if (infer->model == NULL)
        return;
    const xcvm_allocator *allocator = xcs_model_allocator(infer->model);
    xcs_infer_release_inputs(infer);
    if (infer->outputs != NULL)
        xcvm_deallocate(allocator, infer->outputs, infer->output_count * sizeof *infer->outputs + 1);
    if (infer->id != NULL)
        xcvm_deallocate(allocator, infer->id, strlen(infer->id) + 1);
    *infer = (xcs_infer){.model = infer->model, .memo = infer->memo};
}
