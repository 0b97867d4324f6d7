/* Reads a ModelInferRequest as it arrives. */
#include "server/grpc/infer_read.h"

#include "base/utf8.h"
#include "proto/wire_reader.h"
#include "server/grpc/contents.h"
#include "server/grpc/protobuf.h"
#include "server/oip/datatype.h"
#include "server/oip/input.h"
#include "server/oip/parameters.h"

#include <string.h>

/* The fields of ModelInferRequest. */
enum { MODEL_NAME = 1, MODEL_VERSION = 2, ID = 3, PARAMETERS = 4, INPUTS = 5, OUTPUTS = 6, RAW_CONTENTS = 7 };

enum { LONGEST_ID = 4096, MOST_OUTPUTS = 4096 };

#define MALFORMED(error, ...) XCVM_FAIL(error, INVALID_PROGRAM, "the message is no ModelInferRequest: " __VA_ARGS__)

/* ---- Strings ---- */

static size_t size_of(xcvm_wire wire) { return (size_t)(wire.end - wire.at); }

/* Strings of proto3 are UTF-8. A NUL is valid there, but has no place in a name. */
static bool is_text(xcvm_wire wire)
{
    while (wire.at < wire.end) {
        uint32_t c;
        const size_t length = xcvm_utf8_decode(wire.at, size_of(wire), &c);
        if (c == 0 || (length == 1 && c >= 0x80) || (c >= 0xd800 && c < 0xe000))
            return false;
        wire.at += length;
    }
    return true;
}

static xcvm_status copy_text(xcvm_wire from, const char *what, char *to, size_t size, xcvm_error *error)
{
    XCVM_CHECK(error, is_text(from), INVALID_ARGUMENT, "\"%s\" is not valid UTF-8, or contains a NUL", what);
    XCVM_CHECK(error, size_of(from) < size, INVALID_ARGUMENT, "\"%s\" has %zu bytes; at most %zu are possible", what,
               size_of(from), size - 1);
    if (size_of(from) > 0)
        memcpy(to, from.at, size_of(from));
    to[size_of(from)] = '\0';
    return XCVM_OK;
}

/* The model is chosen when the first field needs it. */
static xcvm_status read_name(xcs_infer_reader *r, xcvm_wire content, const char *what, char *to, size_t size,
                             xcvm_error *error)
{
    char old[sizeof r->name];
    strcpy(old, to);
    XCVM_TRY(copy_text(content, what, to, size, error));
    XCVM_CHECK(error, !r->has_model || strcmp(old, to) == 0, INVALID_ARGUMENT,
               "\"%s\" follows the inputs. Send the fields in the order of their numbers", what);
    return XCVM_OK;
}

static xcvm_status read_id(xcs_infer_reader *r, xcvm_wire content, xcvm_error *error)
{
    XCVM_CHECK(error, is_text(content), INVALID_ARGUMENT, "\"id\" is not valid UTF-8, or contains a NUL");
    XCVM_CHECK(error, size_of(content) <= LONGEST_ID, INVALID_ARGUMENT, "\"id\" has %zu bytes; at most %d are possible",
               size_of(content), LONGEST_ID);
    r->id.count = 0;
    xcs_text_add(&r->id, content.at, size_of(content));
    return XCVM_OK;
}

/* ---- The model ---- */

static xcvm_status choose_model(xcs_infer_reader *r, xcvm_error *error)
{
    XCVM_CHECK(error, r->has_name, INVALID_ARGUMENT, "the request has no \"model_name\"");
    const char *version = r->version[0] != '\0' ? r->version : NULL;
    r->infer.model = xcs_server_find_model(r->server, r->name, version);
    r->is_unknown = r->infer.model == NULL;
    XCVM_CHECK(error, !r->is_unknown, INVALID_ARGUMENT, "no model \"%.100s\"%s%.20s is ready", r->name,
               version != NULL ? ", version " : "", r->version);
    r->has_model = true;
    const xcvm_allocator *allocator = xcs_model_allocator(r->infer.model);
    r->infer.input_count = xcvm_program_input_count(xcs_model_program(r->infer.model));
    r->infer.inputs = xcvm_allocate_zeroed(allocator, (r->infer.input_count + 1) * sizeof *r->infer.inputs);
    r->sent = xcvm_allocate(r->allocator, (r->infer.input_count + 1) * sizeof *r->sent);
    XCVM_CHECK(error, r->infer.inputs != NULL && r->sent != NULL, OUT_OF_MEMORY, "no memory for a request");
    return XCVM_OK;
}

/* ---- Parameters ---- */

static xcvm_status read_value(xcvm_wire message, xcs_parameter *value, char *text, size_t size, xcvm_error *error)
{
    enum { BOOL_PARAM = 1, INT64_PARAM = 2, STRING_PARAM = 3, UINT64_PARAM = 5 };
    xcvm_wire_field field;
    xcvm_wire_state state;
    while ((state = xcvm_wire_next(&message, &field)) == XCVM_WIRE_READ) {
        *value = (xcs_parameter){.kind = XCS_PARAMETER_OTHER};
        if (field.number == BOOL_PARAM && field.type == XCVM_WIRE_VARINT) {
            value->kind = XCS_PARAMETER_BOOL;
            value->boolean = field.value != 0;
        } else if ((field.number == INT64_PARAM && field.type == XCVM_WIRE_VARINT) ||
                   (field.number == UINT64_PARAM && field.type == XCVM_WIRE_VARINT && field.value <= INT64_MAX)) {
            value->kind = XCS_PARAMETER_INTEGER;
            value->integer = (int64_t)field.value;
        } else if (field.number == STRING_PARAM && field.type == XCVM_WIRE_BYTES && is_text(field.inside)) {
            /* A text that does not fit is cut. It stays too long for any parameter. */
            const size_t length = field.value < size ? field.value : size - 1;
            value->kind = XCS_PARAMETER_TEXT;
            value->text = text;
            memcpy(text, field.inside.at, length);
            text[length] = '\0';
        }
    }
    if (state != XCVM_WIRE_END)
        MALFORMED(error, "a parameter is broken");
    return XCVM_OK;
}

/* Finds the two fields of an entry of a map. */
static xcvm_status read_entry(xcvm_wire entry, xcvm_wire *key, xcvm_wire *value, xcvm_error *error)
{
    xcvm_wire_field field;
    xcvm_wire_state state;
    *key = *value = xcvm_wire_of("", 0);
    while ((state = xcvm_wire_next(&entry, &field)) == XCVM_WIRE_READ)
        if (field.type == XCVM_WIRE_BYTES && (field.number == 1 || field.number == 2))
            *(field.number == 1 ? key : value) = field.inside;
    if (state != XCVM_WIRE_END)
        MALFORMED(error, "a parameter is broken");
    return XCVM_OK;
}

static xcvm_status read_parameter(xcs_infer_reader *r, xcvm_wire content, xcvm_error *error)
{
    xcvm_wire key, message;
    char text[2 * sizeof r->infer.client];
    xcs_parameter value = {.kind = XCS_PARAMETER_OTHER};
    XCVM_TRY(read_entry(content, &key, &message, error));
    for (size_t i = 0; xcs_parameter_name(i) != NULL; i++) {
        const char *name = xcs_parameter_name(i);
        if (strlen(name) != size_of(key) || memcmp(name, key.at, size_of(key)) != 0)
            continue;
        XCVM_TRY(read_value(message, &value, text, sizeof text, error));
        return xcs_infer_set_parameter(&r->infer, name, &value, error);
    }
    return XCVM_OK;
}

/* ---- Inputs ---- */

typedef struct tensor_fields {
    xcvm_wire name, datatype, contents;
    bool has_contents;
    int rank;
    int64_t dims[XCVM_MAX_RANK];
} tensor_fields;

static xcvm_status add_dimension(tensor_fields *t, uint64_t dim, xcvm_error *error)
{
    XCVM_CHECK(error, t->rank < XCVM_MAX_RANK, INVALID_ARGUMENT, "more than %d dimensions, which are possible",
               XCVM_MAX_RANK);
    XCVM_CHECK(error, dim <= INT64_MAX, INVALID_ARGUMENT, "dimension %d of the shape is negative", t->rank);
    t->dims[t->rank++] = (int64_t)dim;
    return XCVM_OK;
}

static xcvm_status read_shape(tensor_fields *t, const xcvm_wire_field *field, xcvm_error *error)
{
    if (field->type == XCVM_WIRE_VARINT)
        return add_dimension(t, field->value, error);
    for (xcvm_wire packed = field->inside; packed.at < packed.end;) {
        uint64_t dim;
        if (!xcvm_wire_varint(&packed, &dim))
            MALFORMED(error, "a shape is broken");
        XCVM_TRY(add_dimension(t, dim, error));
    }
    return XCVM_OK;
}

static xcvm_status read_tensor_fields(xcvm_wire message, tensor_fields *t, xcvm_error *error)
{
    enum { NAME = 1, DATATYPE = 2, SHAPE = 3, CONTENTS = 5 };
    xcvm_wire_field field;
    xcvm_wire_state state;
    *t = (tensor_fields){.name = xcvm_wire_of("", 0), .datatype = xcvm_wire_of("", 0)};
    while ((state = xcvm_wire_next(&message, &field)) == XCVM_WIRE_READ) {
        if (field.number == SHAPE && (field.type == XCVM_WIRE_VARINT || field.type == XCVM_WIRE_BYTES))
            XCVM_TRY(read_shape(t, &field, error));
        if (field.type != XCVM_WIRE_BYTES)
            continue;
        if (field.number == NAME)
            t->name = field.inside;
        else if (field.number == DATATYPE)
            t->datatype = field.inside;
        XCVM_CHECK(error, field.number != CONTENTS || !t->has_contents, INVALID_ARGUMENT,
                   "an input has \"contents\" twice");
        if (field.number == CONTENTS) {
            t->has_contents = true;
            t->contents = field.inside;
        }
    }
    if (state != XCVM_WIRE_END)
        MALFORMED(error, "input fields are broken");
    return XCVM_OK;
}

static const xcvm_value_info *info_of(const xcs_infer_reader *r, size_t index)
{
    return xcvm_program_input_at(xcs_model_program(r->infer.model), index);
}

static xcvm_status read_input(xcs_infer_reader *r, xcvm_wire content, xcvm_error *error)
{
    tensor_fields t;
    char datatype[32];
    size_t index;
    XCVM_TRY(read_tensor_fields(content, &t, error));
    const int length = size_of(t.name) < 100 ? (int)size_of(t.name) : 100;
    const char *name = (const char *)t.name.at;
    XCVM_CHECK(error, length > 0, INVALID_ARGUMENT, "input %zu has no \"name\"", r->sent_count);
    XCVM_CHECK(error, xcs_input_find(xcs_model_program(r->infer.model), name, size_of(t.name), &index),
               INVALID_ARGUMENT, "the model has no input \"%.*s\"", length, name);
    name = info_of(r, index)->name;
    for (size_t i = 0; i < r->sent_count; i++)
        XCVM_CHECK(error, r->sent[i].index != index, INVALID_ARGUMENT, "input \"%.100s\" is given twice", name);
    XCVM_CHECK(error, size_of(t.datatype) > 0, INVALID_ARGUMENT, "input \"%.100s\" has no \"datatype\"", name);
    XCVM_CHECK(error,
               copy_text(t.datatype, "datatype", datatype, sizeof datatype, NULL) == XCVM_OK &&
                   xcs_datatype_from_name(datatype) != XCVM_NO_DTYPE,
               INVALID_ARGUMENT, "input \"%.100s\": \"%.*s\" is not a datatype", name,
               size_of(t.datatype) < 40 ? (int)size_of(t.datatype) : 40, (const char *)t.datatype.at);
    const xcvm_dtype dtype = xcs_datatype_from_name(datatype);
    XCVM_TRY(xcs_input_check(info_of(r, index), dtype, t.rank, t.dims, error));
    xcs_sent_input *sent = &r->sent[r->sent_count++];
    *sent = (xcs_sent_input){.index = index, .dtype = dtype, .rank = t.rank};
    memcpy(sent->dims, t.dims, sizeof t.dims);
    if (!t.has_contents || size_of(t.contents) == 0)
        return XCVM_OK;
    r->typed = true;
    xcvm_status status = xcs_contents_read(t.contents, xcs_model_allocator(r->infer.model), dtype, t.rank, t.dims,
                                           &r->infer.inputs[index], error);
    if (status != XCVM_OK)
        xcvm_error_prefix(error, "input \"%.100s\"", name);
    return status;
}

/* ---- Raw contents ---- */

/* Checks the size of raw contents that begin, except for strings. */
static xcvm_status check_raw(const xcs_infer_reader *r, const xcs_sent_input *sent, size_t length, xcvm_error *error)
{
    size_t expected = length;
    XCVM_CHECK(error, r->infer.inputs[sent->index] == NULL, INVALID_ARGUMENT,
               "both \"contents\" and \"raw_input_contents\"");
    if (sent->dtype != XCVM_STRING)
        XCVM_TRY(xcs_input_bytes(sent->dtype, sent->rank, sent->dims, &expected, error));
    XCVM_CHECK(error, length == expected, SHAPE_MISMATCH,
               "\"raw_input_contents\" have %zu bytes; the shape and datatype have %zu", length, expected);
    return XCVM_OK;
}

static xcvm_status create_tensor(const xcs_infer_reader *r, const xcs_sent_input *sent, xcvm_error *error)
{
    return xcvm_tensor_create(xcs_model_allocator(r->infer.model), sent->dtype, sent->rank, sent->dims,
                              &r->infer.inputs[sent->index], error);
}

static xcvm_status read_whole_raw(const xcs_infer_reader *r, const xcs_sent_input *sent, xcvm_wire content,
                                  xcvm_error *error)
{
    const size_t length = size_of(content);
    XCVM_TRY(check_raw(r, sent, length, error));
    if (sent->dtype == XCVM_STRING)
        return xcs_input_read_strings(xcs_model_allocator(r->infer.model), (const char *)content.at, length, sent->rank,
                                      sent->dims, &r->infer.inputs[sent->index], error);
    if (sent->dtype == XCVM_BOOL)
        XCVM_TRY(xcs_input_check_bools(content.at, length, error));
    XCVM_TRY(create_tensor(r, sent, error));
    if (length > 0)
        memcpy(xcvm_value_data(r->infer.inputs[sent->index]), content.at, length);
    return XCVM_OK;
}

static xcvm_status read_raw(xcs_infer_reader *r, xcvm_wire content, xcvm_error *error)
{
    XCVM_CHECK(error, r->raw_count < r->sent_count, INVALID_ARGUMENT,
               "there are more \"raw_input_contents\" than inputs (%zu)", r->sent_count);
    const xcs_sent_input *sent = &r->sent[r->raw_count++];
    xcvm_status status = read_whole_raw(r, sent, content, error);
    if (status != XCVM_OK)
        xcvm_error_prefix(error, "input \"%.100s\"", info_of(r, sent->index)->name);
    return status;
}

/* Contents that arrive in pieces: lets them arrive in the tensor, unless the announced tensors are too large. */
static xcvm_status begin_raw(xcs_infer_reader *r, xcvm_error *error)
{
    const xcs_sent_input *sent = &r->sent[r->raw_count];
    xcvm_status status = check_raw(r, sent, r->length, error);
    const bool fits = r->length <= r->unfilled_limit - *r->unfilled;
    if (status == XCVM_OK && sent->dtype != XCVM_STRING && fits) {
        status = create_tensor(r, sent, error);
        if (status == XCVM_OK) {
            r->to = xcvm_value_data(r->infer.inputs[sent->index]);
            *r->unfilled += r->length;
        }
    }
    if (status != XCVM_OK)
        xcvm_error_prefix(error, "input \"%.100s\"", info_of(r, sent->index)->name);
    return status;
}

static xcvm_status end_raw(xcs_infer_reader *r, xcvm_error *error)
{
    const xcs_sent_input *sent = &r->sent[r->raw_count++];
    *r->unfilled -= r->length;
    r->to = NULL;
    if (sent->dtype != XCVM_BOOL)
        return XCVM_OK;
    xcvm_status status = xcs_input_check_bools(xcvm_value_data(r->infer.inputs[sent->index]), r->length, error);
    if (status != XCVM_OK)
        xcvm_error_prefix(error, "input \"%.100s\"", info_of(r, sent->index)->name);
    return status;
}

/* ---- Outputs ---- */

static xcvm_status read_output(xcs_infer_reader *r, xcvm_wire content, xcvm_error *error)
{
    xcvm_wire_field field;
    xcvm_wire_state state;
    xcvm_wire name = xcvm_wire_of("", 0), key, value;
    const xcvm_program *program = xcs_model_program(r->infer.model);
    while ((state = xcvm_wire_next(&content, &field)) == XCVM_WIRE_READ) {
        if (field.number == 1 && field.type == XCVM_WIRE_BYTES)
            name = field.inside;
        if (field.number != 2 || field.type != XCVM_WIRE_BYTES)
            continue;
        XCVM_TRY(read_entry(field.inside, &key, &value, error));
        XCVM_CHECK(error, size_of(key) != 14 || memcmp(key.at, "classification", 14) != 0, UNSUPPORTED,
                   "\"classification\" of an output is not supported");
    }
    if (state != XCVM_WIRE_END)
        MALFORMED(error, "an output is broken");
    const int length = size_of(name) < 100 ? (int)size_of(name) : 100;
    XCVM_CHECK(error, length > 0, INVALID_ARGUMENT, "an output has no \"name\"");
    xcs_infer_output output = {.index = 0};
    for (; output.index < xcvm_program_output_count(program); output.index++) {
        const char *own = xcvm_program_output_at(program, output.index)->name;
        if (strlen(own) == size_of(name) && memcmp(own, name.at, size_of(name)) == 0)
            break;
    }
    XCVM_CHECK(error, output.index < xcvm_program_output_count(program), INVALID_ARGUMENT,
               "the model has no output \"%.*s\"", length, (const char *)name.at);
    XCVM_CHECK(error, r->outputs.count / sizeof output < MOST_OUTPUTS, INVALID_ARGUMENT,
               "more than %d outputs, which are possible", MOST_OUTPUTS);
    xcs_text_add(&r->outputs, &output, sizeof output);
    return XCVM_OK;
}

/* ---- Fields ---- */

static xcvm_status read_field(xcs_infer_reader *r, uint32_t number, xcvm_wire content, xcvm_error *error)
{
    switch (number) {
    case MODEL_NAME:
        r->has_name = size_of(content) > 0;
        return read_name(r, content, "model_name", r->name, sizeof r->name, error);
    case MODEL_VERSION:
        return read_name(r, content, "model_version", r->version, sizeof r->version, error);
    case ID:
        return read_id(r, content, error);
    case PARAMETERS:
        return read_parameter(r, content, error);
    case INPUTS:
        return read_input(r, content, error);
    case OUTPUTS:
        return read_output(r, content, error);
    default:
        return read_raw(r, content, error);
    }
}

/* Returns the bytes that complete the key and the length or number of a field; 0: more are needed; -1: not valid. */
static int head_length(const uint8_t *head, unsigned count)
{
    unsigned key = 0, end;
    while (key < count && head[key] >= 0x80)
        key++;
    if (key >= count || key >= XCVM_VARINT_SIZE)
        return count >= XCVM_VARINT_SIZE ? -1 : 0;
    key++;
    switch (head[0] & 7) {
    case XCVM_WIRE_64BIT:
        return count >= key + 8 ? (int)key + 8 : 0;
    case XCVM_WIRE_32BIT:
        return count >= key + 4 ? (int)key + 4 : 0;
    case XCVM_WIRE_VARINT:
    case XCVM_WIRE_BYTES:
        for (end = key; end < count && head[end] >= 0x80;)
            end++;
        return end < count ? (int)end + 1 : end - key >= XCVM_VARINT_SIZE ? -1 : 0;
    default:
        return -1;
    }
}

/* Whether the field must wait until the end of the message, because fields precede those that they depend on. */
static xcvm_status decide_order(xcs_infer_reader *r, xcvm_error *error)
{
    r->is_deferred = false;
    if (r->is_skipped || r->number < INPUTS)
        return XCVM_OK;
    if (!r->defers && !r->has_model && r->has_name)
        XCVM_TRY(choose_model(r, error));
    r->defers = r->defers || !r->has_model || (r->number == RAW_CONTENTS && r->raw_count >= r->sent_count);
    r->is_deferred = r->defers;
    return XCVM_OK;
}

/* The head of a field is complete. */
static xcvm_status begin_field(xcs_infer_reader *r, xcvm_error *error)
{
    xcvm_wire head = xcvm_wire_of(r->head, r->head_count);
    uint64_t key, length = 0;
    if (!xcvm_wire_varint(&head, &key) || key >> 3 == 0 || key >> 3 >= UINT64_C(1) << 29)
        MALFORMED(error, "a field has no valid number");
    r->number = (uint32_t)(key >> 3);
    r->head_count = 0;
    if ((key & 7) == XCVM_WIRE_VARINT && !xcvm_wire_varint(&head, &length))
        MALFORMED(error, "a number has more than 64 bits");
    if ((key & 7) != XCVM_WIRE_BYTES)
        return XCVM_OK; /* the message has no such fields */
    if (!xcvm_wire_varint(&head, &length) || length > UINT32_MAX)
        MALFORMED(error, "a field is longer than a message");
    r->length = r->left = (size_t)length;
    r->in_content = true;
    r->is_skipped = r->number > RAW_CONTENTS;
    r->content.count = 0;
    XCVM_TRY(decide_order(r, error));
    if (r->is_deferred) {
        xcs_put_varint(&r->deferred, key);
        xcs_put_varint(&r->deferred, length);
    }
    return XCVM_OK;
}

/* `whole` is the content, unless it was received piece by piece. */
static xcvm_status end_field(xcs_infer_reader *r, const uint8_t *whole, xcvm_error *error)
{
    r->in_content = false;
    if (r->is_skipped || r->is_deferred)
        return XCVM_OK;
    if (r->to != NULL)
        return end_raw(r, error);
    const void *at = whole != NULL ? whole : (const uint8_t *)r->content.at;
    XCVM_CHECK(error, !r->content.failed, OUT_OF_MEMORY, "no memory for a request");
    return read_field(r, r->number, xcvm_wire_of(at != NULL ? at : "", r->length), error);
}

static xcvm_status receive_content(xcs_infer_reader *r, const uint8_t *bytes, size_t count, xcvm_error *error)
{
    const bool is_first = r->left == r->length;
    if (is_first && count == r->length && !r->is_deferred) {
        r->left = 0;
        return end_field(r, bytes, error);
    }
    if (is_first && r->number == RAW_CONTENTS && !r->is_skipped && !r->is_deferred)
        XCVM_TRY(begin_raw(r, error));
    if (r->to != NULL) {
        memcpy(r->to, bytes, count);
        r->to += count;
    } else if (!r->is_skipped) {
        xcs_text_add(r->is_deferred ? &r->deferred : &r->content, bytes, count);
    }
    r->left -= count;
    return r->left == 0 ? end_field(r, NULL, error) : XCVM_OK;
}

xcvm_status xcs_infer_reader_feed(xcs_infer_reader *r, const uint8_t *bytes, size_t count, xcvm_error *error)
{
    while (count > 0) {
        size_t used = 1;
        if (r->in_content) {
            used = count < r->left ? count : r->left;
            XCVM_TRY(receive_content(r, bytes, used, error));
        } else {
            r->head[r->head_count++] = *bytes;
            const int length = head_length(r->head, r->head_count);
            if (length < 0)
                MALFORMED(error, "a field has no valid key or length");
            if (length > 0)
                XCVM_TRY(begin_field(r, error));
            if (r->in_content && r->left == 0)
                XCVM_TRY(end_field(r, (const uint8_t *)"", error));
        }
        bytes += used;
        count -= used;
    }
    return XCVM_OK;
}

/* ---- The end ---- */

/* Reads the deferred fields: raw contents after the inputs. */
static xcvm_status read_deferred(xcs_infer_reader *r, bool raw, xcvm_error *error)
{
    xcvm_wire rest = xcvm_wire_of(r->deferred.at != NULL ? r->deferred.at : "", r->deferred.count);
    xcvm_wire_field field;
    while (xcvm_wire_next(&rest, &field) == XCVM_WIRE_READ)
        if ((field.number == RAW_CONTENTS) == raw)
            XCVM_TRY(read_field(r, field.number, field.inside, error));
    return XCVM_OK;
}

/* Inputs without contents are empty tensors. */
static xcvm_status complete_inputs(xcs_infer_reader *r, xcvm_error *error)
{
    XCVM_CHECK(error, r->raw_count == 0 || r->raw_count == r->sent_count, INVALID_ARGUMENT,
               "there are %zu \"raw_input_contents\"; the request has %zu inputs", r->raw_count, r->sent_count);
    for (size_t i = 0; i < r->sent_count; i++) {
        const xcs_sent_input *sent = &r->sent[i];
        bool is_empty = false;
        for (int d = 0; d < sent->rank; d++)
            is_empty = is_empty || sent->dims[d] == 0;
        if (r->infer.inputs[sent->index] != NULL)
            continue;
        XCVM_CHECK(error, is_empty, INVALID_ARGUMENT,
                   "input \"%.100s\" has neither \"contents\" nor \"raw_input_contents\"",
                   info_of(r, sent->index)->name);
        XCVM_TRY(read_whole_raw(r, sent, xcvm_wire_of("", 0), error));
    }
    for (size_t i = 0; i < r->infer.input_count; i++)
        XCVM_CHECK(error, r->infer.inputs[i] != NULL, INVALID_ARGUMENT, "input \"%.100s\" is missing",
                   info_of(r, i)->name);
    return XCVM_OK;
}

/* Without a list, all outputs are requested. */
static xcvm_status complete_outputs(xcs_infer_reader *r, xcvm_error *error)
{
    xcs_infer *infer = &r->infer;
    const xcvm_allocator *allocator = xcs_model_allocator(infer->model);
    const size_t listed = r->outputs.count / sizeof *infer->outputs;
    const size_t count = listed > 0 ? listed : xcvm_program_output_count(xcs_model_program(infer->model));
    infer->output_count = count;
    infer->outputs = xcvm_allocate_zeroed(allocator, count * sizeof *infer->outputs + 1);
    XCVM_CHECK(error, infer->outputs != NULL && !r->outputs.failed && !r->id.failed, OUT_OF_MEMORY,
               "no memory for a request");
    for (size_t i = 0; i < count && listed == 0; i++)
        infer->outputs[i].index = i;
    if (listed > 0)
        memcpy(infer->outputs, r->outputs.at, r->outputs.count);
    if (r->id.count == 0)
        return XCVM_OK;
    infer->id = xcvm_allocate(allocator, r->id.count + 1);
    XCVM_CHECK(error, infer->id != NULL, OUT_OF_MEMORY, "no memory for a request");
    memcpy(infer->id, r->id.at, r->id.count);
    infer->id[r->id.count] = '\0';
    return XCVM_OK;
}

xcvm_status xcs_infer_reader_end(xcs_infer_reader *r, xcvm_error *error)
{
    if (r->in_content || r->head_count > 0)
        MALFORMED(error, "it ends within a field");
    XCVM_CHECK(error, !r->deferred.failed, OUT_OF_MEMORY, "no memory for a request");
    if (!r->has_model)
        XCVM_TRY(choose_model(r, error));
    XCVM_TRY(read_deferred(r, false, error));
    XCVM_TRY(read_deferred(r, true, error));
    XCVM_TRY(complete_inputs(r, error));
    XCVM_TRY(complete_outputs(r, error));
    /* The tensors have what these had. */
    xcs_text_free(&r->content);
    xcs_text_free(&r->deferred);
    return XCVM_OK;
}

size_t xcs_infer_reader_held(const xcs_infer_reader *r)
{
    size_t bytes = r->content.capacity + r->deferred.capacity + r->id.capacity + r->outputs.capacity;
    for (size_t i = 0; r->infer.inputs != NULL && i < r->infer.input_count; i++)
        bytes += r->infer.inputs[i] != NULL ? xcvm_value_bytes(r->infer.inputs[i]) : 0;
    return bytes;
}

void xcs_infer_reader_drop_inputs(xcs_infer_reader *r)
{
    if (r->to != NULL)
        *r->unfilled -= r->length;
    r->to = NULL;
    xcs_infer_release_inputs(&r->infer);
    xcs_text_free(&r->content);
    xcs_text_free(&r->deferred);
}

void xcs_infer_reader_release(xcs_infer_reader *r)
{
    xcs_infer_reader_drop_inputs(r);
    if (r->sent != NULL)
        xcvm_deallocate(r->allocator, r->sent, (r->infer.input_count + 1) * sizeof *r->sent);
    r->sent = NULL;
    xcs_infer_release(&r->infer);
    xcs_text_free(&r->id);
    xcs_text_free(&r->outputs);
    xcs_model_release(r->infer.model);
    r->infer.model = NULL;
}
