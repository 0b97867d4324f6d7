/* The encoder: image to program file. */
#include "proto/arguments.h"
#include "proto/image.h"
#include "proto/literals.h"
#include "proto/wire.h"
#include "proto/writer.h"

#include "xcvm.pb-c.h"

#include <string.h>

/* The smallest page size, so that the data can be mapped. */
enum { DATA_ALIGNMENT = 4096 };

typedef struct encoder {
    const xcvm_image *image;
    xcvm_arena arena; /* memory of the messages */
    xcvm_error *error;
} encoder;

static xcvm_status no_memory(encoder *e)
{
    return xcvm_error_set(e->error, XCVM_OUT_OF_MEMORY, "no memory to write the program");
}

static void *allocate_array(encoder *e, size_t count, size_t size)
{
    size_t bytes;
    return xcvm_size_mul(count, size, &bytes) ? xcvm_arena_allocate(&e->arena, bytes) : NULL;
}

/* Sets `pointer` to an array of `count`, or fails the function. */
#define ALLOCATE(e, pointer, count)                                                                                    \
    do {                                                                                                               \
        if (((pointer) = allocate_array((e), (count), sizeof *(pointer))) == NULL)                                     \
            return no_memory(e);                                                                                       \
    } while (0)

/* Sets `pointer` to a message initialized by the generated function, or fails the function. */
#define TAKE_MESSAGE(e, pointer, init)                                                                                 \
    do {                                                                                                               \
        ALLOCATE(e, pointer, 1);                                                                                       \
        init(pointer);                                                                                                 \
    } while (0)

/* The messages are only read, but protobuf-c declares their pointers non-const. */
static char *lend(const char *string) { return (char *)(string != NULL ? string : ""); }

static ProtobufCBinaryData lend_text(const xcvm_text *text)
{
    return (ProtobufCBinaryData){text->length, (uint8_t *)lend(text->at)};
}

/* ---- Types, parameters ---- */

static xcvm_status encode_type(encoder *e, const xcvm_type *type, Xcvm__XCType **out)
{
    Xcvm__XCType *message;
    TAKE_MESSAGE(e, message, xcvm__xctype__init);
    *out = message;
    message->kind = (uint32_t)type->kind;
    if (type->kind == XCVM_KIND_NULL || type->kind == XCVM_KIND_OPAQUE)
        return XCVM_OK;
    message->dtype = (uint32_t)type->dtype;
    message->has_shape = type->rank >= 0;
    if (type->rank <= 0)
        return XCVM_OK;
    message->n_dims = (size_t)type->rank;
    ALLOCATE(e, message->dims, message->n_dims);
    for (size_t i = 0; i < message->n_dims; i++) {
        TAKE_MESSAGE(e, message->dims[i], xcvm__xcdim__init);
        if (type->dims[i] >= 0) {
            message->dims[i]->dim_case = XCVM__XCDIM__DIM_SIZE;
            message->dims[i]->size = (uint64_t)type->dims[i];
        } else if (type->dim_names[i] != NULL) {
            message->dims[i]->dim_case = XCVM__XCDIM__DIM_NAME;
            message->dims[i]->name = lend(type->dim_names[i]);
        }
    }
    return XCVM_OK;
}

static xcvm_status encode_parameters(encoder *e, const xcvm_value_info *parameters, size_t count,
                                     Xcvm__XCParameter ***out)
{
    ALLOCATE(e, *out, count);
    for (size_t i = 0; i < count; i++) {
        TAKE_MESSAGE(e, (*out)[i], xcvm__xcparameter__init);
        (*out)[i]->name = lend(parameters[i].name);
        XCVM_TRY(encode_type(e, &parameters[i].type, &(*out)[i]->type));
    }
    return XCVM_OK;
}

/* ---- Constants ---- */

/* Computes the encoded bytes of a constant. In memory, strings of a tensor may share characters. */
static bool constant_bytes(const xcvm_value *tensor, size_t *bytes)
{
    size_t count;
    if (!xcvm_tensor_size((xcvm_dtype)tensor->dtype, tensor->rank, tensor->dims, &count, bytes))
        return false;
    for (size_t i = 0; tensor->dtype == XCVM_STRING && i < count; i++)
        if (!xcvm_size_add(*bytes, (size_t)xcvm_string_span(tensor->data, i).length, bytes))
            return false;
    return *bytes <= PTRDIFF_MAX;
}

/* Computes the offset of a constant after *end bytes of data and advances *end. */
static bool place_constant(uint64_t *end, size_t bytes, uint64_t *offset)
{
    if (*end > PTRDIFF_MAX || bytes > PTRDIFF_MAX)
        return false;
    *offset = xcvm_round_up((size_t)*end, XCVM_ALIGNMENT);
    if (bytes > 0)
        *end = *offset + bytes;
    return true;
}

static xcvm_status encode_constants(encoder *e, Xcvm__XCProgram *program, uint64_t *data_bytes)
{
    const xcvm_image *image = e->image;
    *data_bytes = 0;
    program->n_constants = image->constant_count;
    ALLOCATE(e, program->constants, image->constant_count);
    for (size_t i = 0; i < image->constant_count; i++) {
        const xcvm_constant *constant = &image->constants[i];
        const xcvm_value *tensor = &constant->value;
        Xcvm__XCConstant *message;
        size_t bytes;
        TAKE_MESSAGE(e, message, xcvm__xcconstant__init);
        program->constants[i] = message;
        XCVM_CHECK(e->error, tensor->kind == XCVM_KIND_TENSOR && constant_bytes(tensor, &bytes), INTERNAL,
                   "constant %zu is not a tensor of known size", i);
        XCVM_CHECK(e->error, place_constant(data_bytes, bytes, &message->offset), OUT_OF_RANGE,
                   "the constants are too large");
        xcvm_type type = {.kind = XCVM_KIND_TENSOR, .dtype = (xcvm_dtype)tensor->dtype, .rank = tensor->rank};
        memcpy(type.dims, tensor->dims, sizeof type.dims);
        message->name = lend(constant->name);
        message->bytes = bytes;
        XCVM_TRY(encode_type(e, &type, &message->type));
    }
    return XCVM_OK;
}

static void write_strings(xcvm_writer *w, const xcvm_value *tensor)
{
    size_t count = xcvm_element_count(tensor);
    xcvm_string span = {count * sizeof span, 0};
    for (size_t i = 0; i < count; i++) {
        span.length = xcvm_string_span(tensor->data, i).length;
        xcvm_writer_put(w, &span, sizeof span);
        span.offset += span.length;
    }
    for (size_t i = 0; i < count && !w->failed; i++) {
        span = xcvm_string_span(tensor->data, i);
        xcvm_writer_put(w, (const char *)tensor->data + span.offset, (size_t)span.length);
    }
}

static void write_elements(xcvm_writer *w, const xcvm_value *tensor)
{
    size_t count, bytes;
    const uint8_t *data = tensor->data;
    /* encode_constants has checked the size. */
    if (!xcvm_tensor_size((xcvm_dtype)tensor->dtype, tensor->rank, tensor->dims, &count, &bytes) || count == 0)
        return;
    size_t used_bits = count * (size_t)xcvm_dtype_bits((xcvm_dtype)tensor->dtype) % 8;
    if (tensor->dtype == XCVM_STRING) {
        write_strings(w, tensor);
    } else if (tensor->dtype == XCVM_BOOL) {
        for (size_t i = 0; i < count && !w->failed; i++)
            xcvm_writer_put(w, &(uint8_t){data[i] != 0}, 1);
    } else if (used_bits != 0) {
        xcvm_writer_put(w, data, bytes - 1);
        xcvm_writer_put(w, &(uint8_t){(uint8_t)(data[bytes - 1] & ((1u << used_bits) - 1))}, 1);
    } else {
        xcvm_writer_put(w, data, bytes);
    }
}

/* ---- Instructions ---- */

static void encode_operand(int32_t operand, Xcvm__XCValue *message)
{
    if (operand < 0) {
        message->value_case = XCVM__XCVALUE__VALUE_CONSTANT;
        message->constant = (uint32_t)(-1 - operand);
    } else {
        message->value_case = XCVM__XCVALUE__VALUE_REGISTER;
        message->register_ = (uint32_t)operand;
    }
}

static xcvm_status encode_list(encoder *e, const int32_t *operands, size_t count, Xcvm__XCValue *message)
{
    message->value_case = XCVM__XCVALUE__VALUE_OPERANDS;
    TAKE_MESSAGE(e, message->operands, xcvm__xcoperands__init);
    message->operands->n_operands = count;
    ALLOCATE(e, message->operands->operands, count);
    for (size_t i = 0; i < count; i++) {
        TAKE_MESSAGE(e, message->operands->operands[i], xcvm__xcvalue__init);
        encode_operand(operands[i], message->operands->operands[i]);
    }
    return XCVM_OK;
}

static xcvm_status encode_attribute(encoder *e, const xcvm_field *f, const void *args, Xcvm__XCValue *message)
{
    switch (f->kind) {
    case XCVM_FIELD_INT:
        message->value_case = XCVM__XCVALUE__VALUE_INT;
        message->int_ = *XCVM_CFIELD(int64_t, f, args);
        return XCVM_OK;
    case XCVM_FIELD_INTS: {
        const xcvm_ints *ints = XCVM_CFIELD(xcvm_ints, f, args);
        message->value_case = XCVM__XCVALUE__VALUE_INTS;
        TAKE_MESSAGE(e, message->ints, xcvm__xcints__init);
        message->ints->n_ints = ints->count;
        message->ints->ints = (int64_t *)ints->at;
        return XCVM_OK;
    }
    case XCVM_FIELD_FLOAT:
        message->value_case = XCVM__XCVALUE__VALUE_FLOAT;
        message->float_ = *XCVM_CFIELD(double, f, args);
        return XCVM_OK;
    case XCVM_FIELD_FLOATS: {
        const xcvm_floats *floats = XCVM_CFIELD(xcvm_floats, f, args);
        message->value_case = XCVM__XCVALUE__VALUE_FLOATS;
        TAKE_MESSAGE(e, message->floats, xcvm__xcfloats__init);
        message->floats->n_floats = floats->count;
        message->floats->floats = (double *)floats->at;
        return XCVM_OK;
    }
    case XCVM_FIELD_TEXT:
        message->value_case = XCVM__XCVALUE__VALUE_TEXT;
        message->text = lend_text(XCVM_CFIELD(xcvm_text, f, args));
        return XCVM_OK;
    case XCVM_FIELD_TEXTS: {
        const xcvm_texts *texts = XCVM_CFIELD(xcvm_texts, f, args);
        message->value_case = XCVM__XCVALUE__VALUE_TEXTS;
        TAKE_MESSAGE(e, message->texts, xcvm__xctexts__init);
        message->texts->n_texts = texts->count;
        ALLOCATE(e, message->texts->texts, texts->count);
        for (size_t i = 0; i < texts->count; i++)
            message->texts->texts[i] = lend_text(&texts->at[i]);
        return XCVM_OK;
    }
    case XCVM_FIELD_DTYPE:
        message->value_case = XCVM__XCVALUE__VALUE_DTYPE;
        message->dtype = (uint32_t)*XCVM_CFIELD(xcvm_dtype, f, args);
        return XCVM_OK;
    case XCVM_FIELD_CHOICE:
        message->value_case = XCVM__XCVALUE__VALUE_CHOICE;
        message->choice = lend(f->choices[*XCVM_CFIELD(int, f, args)]);
        return XCVM_OK;
    default: { /* XCVM_FIELD_TARGET */
        int64_t target = *XCVM_CFIELD(int64_t, f, args);
        XCVM_CHECK(e->error, target >= 0 && target <= INT32_MAX, INTERNAL, "jump target %lld", (long long)target);
        message->value_case = XCVM__XCVALUE__VALUE_TARGET;
        message->target = (uint32_t)target;
        return XCVM_OK;
    }
    }
}

static xcvm_status encode_inputs(encoder *e, const xcvm_instruction *instruction, Xcvm__XCInstruction *message)
{
    const xcvm_schema *schema = instruction->schema;
    size_t used = 0;
    ALLOCATE(e, message->inputs, schema->field_count);
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *f = &schema->fields[i];
        bool input = xcvm_field_is_input(f);
        if (!input && !xcvm_field_is_attribute(f))
            continue;
        Xcvm__XCValue *value;
        TAKE_MESSAGE(e, value, xcvm__xcvalue__init);
        message->inputs[message->n_inputs++] = value;
        if (!input) {
            XCVM_TRY(encode_attribute(e, f, instruction->args, value));
            continue;
        }
        size_t count = xcvm_field_count(f, instruction->args);
        XCVM_CHECK(e->error, count <= instruction->in_count - used, INTERNAL, "%s has too few operands", schema->name);
        if (xcvm_field_is_list(f))
            XCVM_TRY(encode_list(e, instruction->in + used, count, value));
        else
            encode_operand(instruction->in[used], value);
        used += count;
    }
    XCVM_CHECK(e->error, used == instruction->in_count, INTERNAL, "%s has too many operands", schema->name);
    return XCVM_OK;
}

static xcvm_status encode_outputs(encoder *e, const xcvm_instruction *instruction, Xcvm__XCInstruction *message)
{
    size_t count = instruction->out_count;
    message->n_outputs = count;
    ALLOCATE(e, message->outputs, count);
    for (size_t i = 0; i < count; i++)
        message->outputs[i] = (uint32_t)instruction->out[i];
    if (instruction->slots == NULL)
        return XCVM_OK;
    message->n_slots = count;
    ALLOCATE(e, message->slots, count);
    for (size_t i = 0; i < count; i++) {
        TAKE_MESSAGE(e, message->slots[i], xcvm__xcslot__init);
        message->slots[i]->offset = instruction->slots[i].offset;
        message->slots[i]->bytes = instruction->slots[i].bytes;
    }
    return XCVM_OK;
}

static xcvm_status encode_debug(encoder *e, const xcvm_instruction *instruction, Xcvm__XCInstruction *message)
{
    const xcvm_debug *debug = &instruction->debug;
    size_t count = instruction->out_count;
    bool names = debug->names != NULL && count > 0, types = debug->types != NULL && count > 0;
    bool node = debug->node != NULL && debug->node[0] != '\0';
    if (!node && !names && !types && debug->flops == 0)
        return XCVM_OK;
    TAKE_MESSAGE(e, message->debug, xcvm__xcdebug__init);
    message->debug->node = lend(debug->node);
    message->debug->flops = debug->flops;
    if (names) {
        message->debug->n_names = count;
        ALLOCATE(e, message->debug->names, count);
        for (size_t i = 0; i < count; i++)
            message->debug->names[i] = lend(debug->names[i]);
    }
    if (types) {
        message->debug->n_types = count;
        ALLOCATE(e, message->debug->types, count);
        for (size_t i = 0; i < count; i++)
            XCVM_TRY(encode_type(e, &debug->types[i], &message->debug->types[i]));
    }
    return XCVM_OK;
}

static xcvm_status encode_instructions(encoder *e, Xcvm__XCProgram *program)
{
    size_t count = e->image->instruction_count;
    program->n_instructions = count;
    ALLOCATE(e, program->instructions, count);
    for (size_t i = 0; i < count; i++) {
        const xcvm_instruction *instruction = &e->image->instructions[i];
        Xcvm__XCInstruction *message;
        TAKE_MESSAGE(e, message, xcvm__xcinstruction__init);
        program->instructions[i] = message;
        message->op = (Xcvm__XCOp)instruction->schema->opcode;
        XCVM_TRY(encode_inputs(e, instruction, message));
        XCVM_TRY(encode_outputs(e, instruction, message));
        XCVM_TRY(encode_debug(e, instruction, message));
    }
    return XCVM_OK;
}

/* ---- The file ---- */

static xcvm_status encode_program(encoder *e, Xcvm__XCProgram *program, uint64_t *data_bytes)
{
    const xcvm_image *image = e->image;
    xcvm__xcprogram__init(program);
    program->format = XCVM_FORMAT;
    program->producer = lend(image->producer);
    program->arena_bytes = image->arena_bytes;
    program->n_inputs = image->input_count;
    XCVM_TRY(encode_parameters(e, image->inputs, image->input_count, &program->inputs));
    program->n_outputs = image->output_count;
    XCVM_TRY(encode_parameters(e, image->outputs, image->output_count, &program->outputs));
    XCVM_TRY(encode_constants(e, program, data_bytes));
    program->n_states = image->state_count;
    ALLOCATE(e, program->states, image->state_count);
    for (size_t i = 0; i < image->state_count; i++) {
        const xcvm_state_declaration *state = &image->states[i];
        TAKE_MESSAGE(e, program->states[i], xcvm__xcstate__init);
        program->states[i]->name = lend(state->declared.name);
        program->states[i]->initial = state->initial;
        XCVM_TRY(encode_type(e, &state->declared.type, &program->states[i]->type));
    }
    program->n_libraries = image->library_count;
    ALLOCATE(e, program->libraries, image->library_count);
    for (size_t i = 0; i < image->library_count; i++) {
        const xcvm_library *library = &image->libraries[i];
        Xcvm__XCLibrary *message;
        TAKE_MESSAGE(e, message, xcvm__xclibrary__init);
        program->libraries[i] = message;
        message->file = lend(library->file);
        message->hash = (ProtobufCBinaryData){sizeof library->hash, (uint8_t *)library->hash};
        message->abi = library->abi;
        message->isa = lend(library->isa);
    }
    program->n_metadata = image->metadata_count;
    ALLOCATE(e, program->metadata, image->metadata_count);
    for (size_t i = 0; i < image->metadata_count; i++) {
        TAKE_MESSAGE(e, program->metadata[i], xcvm__xcmetadata__init);
        program->metadata[i]->key = lend(image->metadata[i].key);
        program->metadata[i]->value = lend(image->metadata[i].value);
    }
    return encode_instructions(e, program);
}

/* The header between message and data: the padding field, and tag and length of the data field. */
typedef struct data_header {
    size_t padding; /* zeros that align the data to DATA_ALIGNMENT */
    size_t bytes;   /* total size */
} data_header;

static data_header make_data_header(size_t message_bytes, uint64_t data_bytes)
{
    uint8_t length[XCVM_VARINT_SIZE];
    size_t fixed = 1 + 1 + xcvm_varint_put(length, data_bytes); /* two tags and one length */
    /* The length of the padding takes one byte below 128, and two bytes up to twice the alignment. */
    size_t before = message_bytes + fixed + 1;
    size_t padding = xcvm_round_up(before, DATA_ALIGNMENT) - before;
    if (padding >= 128) {
        before++;
        padding = xcvm_round_up(before, DATA_ALIGNMENT) - before;
        if (padding < 128)
            padding += DATA_ALIGNMENT;
    }
    return (data_header){padding, before + padding - message_bytes};
}

static void write_data_header(xcvm_writer *w, const data_header *header, uint64_t data_bytes)
{
    static const uint8_t padding_tag = 14 << 3 | 2, data_tag = 15 << 3 | 2;
    uint8_t length[XCVM_VARINT_SIZE];
    xcvm_writer_put(w, &padding_tag, 1);
    xcvm_writer_put(w, length, xcvm_varint_put(length, header->padding));
    xcvm_writer_zeros(w, header->padding);
    xcvm_writer_put(w, &data_tag, 1);
    xcvm_writer_put(w, length, xcvm_varint_put(length, data_bytes));
}

static void write_data(xcvm_writer *w, const xcvm_image *image, uint64_t data_bytes)
{
    uint64_t written = 0, end = 0, offset;
    for (size_t i = 0; i < image->constant_count && written < data_bytes && !w->failed; i++) {
        const xcvm_value *tensor = &image->constants[i].value;
        size_t bytes;
        if (!constant_bytes(tensor, &bytes) || !place_constant(&end, bytes, &offset) || bytes == 0)
            continue;
        xcvm_writer_zeros(w, (size_t)(offset - written));
        write_elements(w, tensor);
        written = end;
    }
}

static xcvm_status write_program(encoder *e, Xcvm__XCProgram *program, uint64_t data_bytes, xcvm_sink sink)
{
    /* Encoded with fixed width, but omitted if it is 0; so it must be nonzero when sizes are computed. */
    program->file_bytes = 1;
    size_t bytes = xcvm__xcprogram__get_packed_size(program);
    XCVM_CHECK(e->error, bytes <= INT32_MAX, OUT_OF_RANGE, "%zu bytes of instructions are more than a message may have",
               bytes);
    data_header header = {0};
    if (data_bytes > 0)
        header = make_data_header(bytes, data_bytes);
    program->file_bytes = bytes + header.bytes + data_bytes;
    uint8_t *packed = xcvm_allocate(e->arena.allocator, bytes);
    if (packed == NULL)
        return no_memory(e);
    xcvm__xcprogram__pack(program, packed);
    xcvm_writer w;
    xcvm_writer_start(&w, sink);
    xcvm_writer_put(&w, packed, bytes);
    xcvm_deallocate(e->arena.allocator, packed, bytes);
    if (data_bytes > 0) {
        write_data_header(&w, &header, data_bytes);
        write_data(&w, e->image, data_bytes);
    }
    return xcvm_writer_finish(&w, e->error);
}

xcvm_status xcvm_image_encode(const xcvm_image *image, const xcvm_allocator *allocator, xcvm_sink sink,
                              xcvm_error *error)
{
    encoder e = {.image = image, .arena = {.allocator = allocator}, .error = error};
    Xcvm__XCProgram program;
    uint64_t data_bytes;
    xcvm_status status = encode_program(&e, &program, &data_bytes);
    if (status == XCVM_OK)
        status = write_program(&e, &program, data_bytes, sink);
    xcvm_arena_release(&e.arena);
    return status;
}
