/* The decoder: program file to image. */
#include "proto/arguments.h"
#include "ops/table/table.h"
#include "proto/image.h"
#include "proto/literals.h"
#include "proto/wire.h"

#include "xcvm.pb-c.h"

#include <string.h>

typedef struct decoder {
    const uint8_t *bytes;
    xcvm_wire_layout layout;
    xcvm_arena *arena;      /* memory of the image */
    xcvm_arena scratch;     /* memory of the messages */
    bool out_of_memory;     /* set by the allocator, since protobuf-c reports no reason for failures */
    uint64_t constants_end; /* end of the constants decoded so far */
    xcvm_image *image;
    xcvm_error *error;
} decoder;

#define ALLOCATE(d, pointer, count)                                                                                    \
    XCVM_CHECK((d)->error, ((pointer) = allocate_array((d)->arena, (count), sizeof *(pointer))) != NULL,               \
               OUT_OF_MEMORY, "no memory for the program")

static void *allocate_array(xcvm_arena *arena, size_t count, size_t size)
{
    size_t bytes;
    return xcvm_size_mul(count, size, &bytes) ? xcvm_arena_allocate(arena, bytes) : NULL;
}

static xcvm_status copy_string(decoder *d, const char *string, const char **copy)
{
    if (string[0] == '\0') {
        *copy = "";
        return XCVM_OK;
    }
    *copy = xcvm_arena_string(d->arena, string, strlen(string));
    XCVM_CHECK(d->error, *copy != NULL, OUT_OF_MEMORY, "no memory for the program");
    return XCVM_OK;
}

/* ---- Program messages, unpacked one at a time ---- */

typedef xcvm_status (*message_decoder)(decoder *d, const ProtobufCMessage *message, size_t index);

static void *scratch_allocate(void *user, size_t bytes)
{
    decoder *d = user;
    void *memory = xcvm_arena_allocate(&d->scratch, bytes);
    if (memory == NULL)
        d->out_of_memory = true;
    return memory;
}

/* Single messages are not freed: the scratch arena is released at once. */
static void scratch_release(void *user, void *memory)
{
    (void)user;
    (void)memory;
}

/* Decodes the messages of field `number` in file order. */
static xcvm_status decode_messages(decoder *d, uint32_t number, message_decoder decode)
{
    enum { SCRATCH = 64 << 10 }; /* bytes of messages after which the scratch arena is released */
    ProtobufCAllocator scratch = {scratch_allocate, scratch_release, d};
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(&xcvm__xcprogram__descriptor, number);
    xcvm_wire wire = xcvm_wire_of(d->bytes, d->layout.message_bytes);
    xcvm_wire_field e;
    for (size_t index = 0; xcvm_wire_next(&wire, &e) == XCVM_WIRE_READ;) {
        if (e.number != number)
            continue;
        const ProtobufCMessage *message =
            protobuf_c_message_unpack(field->descriptor, &scratch, (size_t)e.value, e.inside.at);
        XCVM_CHECK(d->error, message != NULL || !d->out_of_memory, OUT_OF_MEMORY, "no memory for the program");
        XCVM_CHECK(d->error, message != NULL, INVALID_PROGRAM, "the program's messages are broken");
        XCVM_TRY(decode(d, message, index++));
        if (d->scratch.used > SCRATCH)
            xcvm_arena_release(&d->scratch);
    }
    return XCVM_OK;
}

static xcvm_status copy_text(decoder *d, const ProtobufCBinaryData *bytes, xcvm_text *text)
{
    *text = (xcvm_text){xcvm_arena_string(d->arena, (const char *)bytes->data, bytes->len), bytes->len};
    XCVM_CHECK(d->error, text->at != NULL, OUT_OF_MEMORY, "no memory for the program");
    return XCVM_OK;
}

/* ---- Types, parameters, constants ---- */

/* 0 means no type. */
static xcvm_status decode_dtype(decoder *d, uint32_t number, xcvm_dtype *dtype)
{
    /* In ONNX's range, but not assigned by ONNX. */
    enum { FORMER_F24 = 28 };
    XCVM_CHECK(d->error, number != FORMER_F24, UNSUPPORTED,
               "element type %u was f24 in programs of earlier versions; compile the model again", number);
    XCVM_CHECK(d->error, number == 0 || xcvm_dtype_bits((xcvm_dtype)number) != 0, INVALID_PROGRAM,
               "%u is not an element type", number);
    *dtype = (xcvm_dtype)number;
    return XCVM_OK;
}

static xcvm_status decode_type(decoder *d, const Xcvm__XCType *message, xcvm_type *type)
{
    *type = (xcvm_type){.rank = -1};
    if (message == NULL)
        return XCVM_OK;
    XCVM_CHECK(d->error, message->kind <= XCVM_KIND_OPAQUE, INVALID_PROGRAM, "%u is not a kind of value",
               message->kind);
    XCVM_TRY(decode_dtype(d, message->dtype, &type->dtype));
    type->kind = (xcvm_kind)message->kind;
    bool typed = type->kind != XCVM_KIND_NULL && type->kind != XCVM_KIND_OPAQUE;
    XCVM_CHECK(d->error, typed || (type->dtype == XCVM_NO_DTYPE && !message->has_shape), INVALID_PROGRAM,
               "a type other than a tensor's has an element type or a shape");
    XCVM_CHECK(d->error, message->has_shape || message->n_dims == 0, INVALID_PROGRAM,
               "a type without shape has dimensions");
    XCVM_CHECK(d->error, message->n_dims <= XCVM_MAX_RANK, INVALID_PROGRAM, "rank %zu is above %d", message->n_dims,
               XCVM_MAX_RANK);
    if (message->has_shape)
        type->rank = (int)message->n_dims;
    for (size_t i = 0; i < message->n_dims; i++) {
        const Xcvm__XCDim *dim = message->dims[i];
        type->dims[i] = XCVM_ANY_DIM;
        if (dim->dim_case == XCVM__XCDIM__DIM_SIZE) {
            XCVM_CHECK(d->error, dim->size <= INT64_MAX, INVALID_PROGRAM, "a dimension is %llu",
                       (unsigned long long)dim->size);
            type->dims[i] = (int64_t)dim->size;
        } else if (dim->dim_case == XCVM__XCDIM__DIM_NAME) {
            XCVM_TRY(copy_string(d, dim->name, &type->dim_names[i]));
        }
    }
    return XCVM_OK;
}

static xcvm_status decode_parameter(decoder *d, const char *what, const ProtobufCMessage *message, size_t index,
                                    xcvm_value_info *parameter)
{
    const Xcvm__XCParameter *from = (const Xcvm__XCParameter *)message;
    XCVM_TRY(copy_string(d, from->name, &parameter->name));
    xcvm_status status = decode_type(d, from->type, &parameter->type);
    if (status != XCVM_OK)
        xcvm_error_prefix(d->error, "%s %zu (%s)", what, index, from->name);
    return status;
}

static xcvm_status decode_input(decoder *d, const ProtobufCMessage *message, size_t index)
{
    return decode_parameter(d, "input", message, index, &d->image->inputs[index]);
}

static xcvm_status decode_output(decoder *d, const ProtobufCMessage *message, size_t index)
{
    return decode_parameter(d, "output", message, index, &d->image->outputs[index]);
}

/* Returns true if the spans are followed by the characters, in order and without gaps. */
static bool strings_in_order(const void *data, size_t bytes, size_t count)
{
    size_t end = count * sizeof(xcvm_string);
    for (size_t i = 0; i < count; i++) {
        xcvm_string span = xcvm_string_span(data, i);
        if (span.offset != end || span.length > bytes - end)
            return false;
        end += (size_t)span.length;
    }
    return end == bytes;
}

static xcvm_status check_elements(decoder *d, const xcvm_value *tensor, size_t count)
{
    const uint8_t *data = tensor->data;
    size_t bits = (size_t)xcvm_dtype_bits((xcvm_dtype)tensor->dtype);
    if (tensor->dtype == XCVM_STRING) {
        XCVM_CHECK(d->error, strings_in_order(data, tensor->bytes, count), INVALID_PROGRAM,
                   "its strings do not follow each other within its %zu bytes", tensor->bytes);
    } else if (tensor->dtype == XCVM_BOOL) {
        for (size_t i = 0; i < count; i++)
            XCVM_CHECK(d->error, data[i] <= 1, INVALID_PROGRAM, "element %zu is %u, which is not a bool", i, data[i]);
    } else if (count * bits % 8 != 0) {
        XCVM_CHECK(d->error, data[tensor->bytes - 1] >> count * bits % 8 == 0, INVALID_PROGRAM,
                   "the unused bits of its last byte are not 0");
    }
    return XCVM_OK;
}

static xcvm_status take_constant(decoder *d, const Xcvm__XCConstant *message, xcvm_constant *constant)
{
    char text[200];
    xcvm_type type;
    size_t count, bytes;
    XCVM_TRY(copy_string(d, message->name, &constant->name));
    XCVM_TRY(decode_type(d, message->type, &type));
    XCVM_CHECK(d->error,
               type.kind == XCVM_KIND_TENSOR && type.dtype != XCVM_NO_DTYPE &&
                   xcvm_tensor_size(type.dtype, type.rank, type.dims, &count, &bytes),
               INVALID_PROGRAM, "%s cannot be the type of a constant", xcvm_type_describe(&type, text, sizeof text));
    XCVM_CHECK(d->error, message->bytes == bytes || (type.dtype == XCVM_STRING && message->bytes > bytes),
               INVALID_PROGRAM, "it has %llu bytes, but %s needs %zu", (unsigned long long)message->bytes,
               xcvm_type_describe(&type, text, sizeof text), bytes);
    XCVM_CHECK(d->error, message->offset % XCVM_ALIGNMENT == 0, INVALID_PROGRAM,
               "its offset %llu is not a multiple of %d", (unsigned long long)message->offset, XCVM_ALIGNMENT);
    XCVM_CHECK(d->error, message->offset >= d->constants_end, INVALID_PROGRAM,
               "it begins at %llu, before the end of the preceding one", (unsigned long long)message->offset);
    /* The offset of an empty constant may be beyond the end of the data. */
    bool inside = message->offset <= d->layout.data_bytes && message->bytes <= d->layout.data_bytes - message->offset;
    XCVM_CHECK(d->error, inside || message->bytes == 0, INVALID_PROGRAM,
               "its bytes %llu + %llu are not inside the data, which has %zu", (unsigned long long)message->offset,
               (unsigned long long)message->bytes, d->layout.data_bytes);
    d->constants_end = message->offset + message->bytes;
    constant->offset = message->offset;
    constant->value.memory_kind = XCVM_MEMORY_CONSTANT;
    xcvm_value_set_tensor(&constant->value, type.dtype, type.rank, type.dims);
    constant->value.bytes = (size_t)message->bytes;
    constant->value.data = (void *)(d->bytes + d->layout.data_offset + (inside ? (size_t)message->offset : 0));
    return check_elements(d, &constant->value, count);
}

static xcvm_status decode_constant(decoder *d, const ProtobufCMessage *message, size_t index)
{
    const Xcvm__XCConstant *from = (const Xcvm__XCConstant *)message;
    xcvm_status status = take_constant(d, from, &d->image->constants[index]);
    if (status != XCVM_OK)
        xcvm_error_prefix(d->error, "constant %zu (%s)", index, from->name);
    return status;
}

/* ---- Instructions ---- */

static xcvm_status decode_operand(decoder *d, const Xcvm__XCValue *message, bool optional, int32_t *operand)
{
    if (message->value_case == XCVM__XCVALUE__VALUE_CONSTANT) {
        XCVM_CHECK(d->error, message->constant < d->image->constant_count, INVALID_PROGRAM,
                   "constant %u is not one of the %zu", message->constant, d->image->constant_count);
        *operand = -1 - (int32_t)message->constant;
        return XCVM_OK;
    }
    XCVM_CHECK(d->error, message->value_case == XCVM__XCVALUE__VALUE_REGISTER, INVALID_PROGRAM,
               "a register or a constant is expected");
    XCVM_CHECK(d->error, message->register_ != 0 || optional, INVALID_PROGRAM, "it is absent (expected a register)");
    *operand = (int32_t)message->register_;
    return XCVM_OK;
}

static const Xcvm__XCValue__ValueCase attribute_cases[] = {
    [XCVM_FIELD_INT] = XCVM__XCVALUE__VALUE_INT,       [XCVM_FIELD_INTS] = XCVM__XCVALUE__VALUE_INTS,
    [XCVM_FIELD_FLOAT] = XCVM__XCVALUE__VALUE_FLOAT,   [XCVM_FIELD_FLOATS] = XCVM__XCVALUE__VALUE_FLOATS,
    [XCVM_FIELD_TEXT] = XCVM__XCVALUE__VALUE_TEXT,     [XCVM_FIELD_TEXTS] = XCVM__XCVALUE__VALUE_TEXTS,
    [XCVM_FIELD_DTYPE] = XCVM__XCVALUE__VALUE_DTYPE,   [XCVM_FIELD_CHOICE] = XCVM__XCVALUE__VALUE_CHOICE,
    [XCVM_FIELD_TARGET] = XCVM__XCVALUE__VALUE_TARGET,
};

static xcvm_status decode_ints(decoder *d, const xcvm_field *f, const Xcvm__XCInts *message, xcvm_ints *ints)
{
    int64_t *at;
    for (size_t i = 0; i < message->n_ints; i++)
        XCVM_TRY(xcvm_field_check_int(d->error, f, message->ints[i]));
    ALLOCATE(d, at, message->n_ints);
    if (message->n_ints > 0)
        memcpy(at, message->ints, message->n_ints * sizeof *at);
    *ints = (xcvm_ints){at, message->n_ints};
    return XCVM_OK;
}

static xcvm_status decode_floats(decoder *d, const Xcvm__XCFloats *message, xcvm_floats *floats)
{
    double *at;
    ALLOCATE(d, at, message->n_floats);
    if (message->n_floats > 0)
        memcpy(at, message->floats, message->n_floats * sizeof *at);
    *floats = (xcvm_floats){at, message->n_floats};
    return XCVM_OK;
}

static xcvm_status decode_texts(decoder *d, const Xcvm__XCTexts *message, xcvm_texts *texts)
{
    xcvm_text *at;
    ALLOCATE(d, at, message->n_texts);
    for (size_t i = 0; i < message->n_texts; i++)
        XCVM_TRY(copy_text(d, &message->texts[i], &at[i]));
    *texts = (xcvm_texts){at, message->n_texts};
    return XCVM_OK;
}

static xcvm_status decode_attribute(decoder *d, const xcvm_field *f, const Xcvm__XCValue *message, void *args)
{
    XCVM_CHECK(d->error, message->value_case == attribute_cases[f->kind], INVALID_PROGRAM, "a %s is expected",
               xcvm_field_kind_name(f));
    switch (f->kind) {
    case XCVM_FIELD_INT:
        *XCVM_FIELD(int64_t, f, args) = message->int_;
        return xcvm_field_check_int(d->error, f, message->int_);
    case XCVM_FIELD_INTS:
        return decode_ints(d, f, message->ints, XCVM_FIELD(xcvm_ints, f, args));
    case XCVM_FIELD_FLOAT:
        *XCVM_FIELD(double, f, args) = message->float_;
        return XCVM_OK;
    case XCVM_FIELD_FLOATS:
        return decode_floats(d, message->floats, XCVM_FIELD(xcvm_floats, f, args));
    case XCVM_FIELD_TEXT:
        return copy_text(d, &message->text, XCVM_FIELD(xcvm_text, f, args));
    case XCVM_FIELD_TEXTS:
        return decode_texts(d, message->texts, XCVM_FIELD(xcvm_texts, f, args));
    case XCVM_FIELD_DTYPE:
        XCVM_TRY(decode_dtype(d, message->dtype, XCVM_FIELD(xcvm_dtype, f, args)));
        return XCVM_OK;
    case XCVM_FIELD_CHOICE: {
        int index = xcvm_choice_index(f, message->choice, strlen(message->choice));
        XCVM_CHECK(d->error, index >= 0, INVALID_PROGRAM, "`%.100s` is none of its choices", message->choice);
        *XCVM_FIELD(int, f, args) = index;
        return XCVM_OK;
    }
    default: /* XCVM_FIELD_TARGET */
        *XCVM_FIELD(int64_t, f, args) = message->target;
        return XCVM_OK;
    }
}

/* Finds the message of each field; NULL if a field of the op definition has none. Also counts the operands. */
static xcvm_status count_inputs(decoder *d, const xcvm_schema *schema, const Xcvm__XCInstruction *message,
                                size_t *in_count)
{
    size_t fields = 0;
    *in_count = 0;
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *f = &schema->fields[i];
        bool input = xcvm_field_is_input(f);
        if (!input && !xcvm_field_is_attribute(f))
            continue;
        if (fields < message->n_inputs && input) {
            const Xcvm__XCValue *value = message->inputs[fields];
            bool list = value->value_case == XCVM__XCVALUE__VALUE_OPERANDS;
            XCVM_CHECK(d->error, list == xcvm_field_is_list(f), INVALID_PROGRAM, "%s: a %s is expected", f->name,
                       xcvm_field_kind_name(f));
            *in_count += list ? value->operands->n_operands : 1;
        }
        fields++;
    }
    XCVM_CHECK(d->error, message->n_inputs == fields, INVALID_PROGRAM, "it has %zu operands and attributes, not %zu",
               message->n_inputs, fields);
    XCVM_CHECK(d->error, *in_count <= INT32_MAX, INVALID_PROGRAM, "it has too many operands");
    return XCVM_OK;
}

static xcvm_status decode_field(decoder *d, const xcvm_field *f, const Xcvm__XCValue *message, int32_t **in, void *args)
{
    if (xcvm_field_is_attribute(f))
        return decode_attribute(d, f, message, args);
    if (!xcvm_field_is_list(f))
        return decode_operand(d, message, f->kind == XCVM_FIELD_OPTIONAL, (*in)++);
    size_t count = message->operands->n_operands;
    xcvm_args_set_count(f, args, count);
    for (size_t i = 0; i < count; i++)
        XCVM_TRY(decode_operand(d, message->operands->operands[i], false, (*in)++));
    return XCVM_OK;
}

static xcvm_status decode_inputs(decoder *d, const Xcvm__XCInstruction *message, xcvm_instruction *instruction)
{
    const xcvm_schema *schema = instruction->schema;
    size_t in_count, next = 0;
    int32_t *in;
    XCVM_TRY(count_inputs(d, schema, message, &in_count));
    ALLOCATE(d, in, in_count);
    instruction->in = in;
    instruction->in_count = (uint32_t)in_count;
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *f = &schema->fields[i];
        if (!xcvm_field_is_input(f) && !xcvm_field_is_attribute(f))
            continue;
        xcvm_status status = decode_field(d, f, message->inputs[next++], &in, instruction->args);
        if (status != XCVM_OK) {
            xcvm_error_prefix(d->error, "%s", f->name);
            return status;
        }
    }
    return XCVM_OK;
}

static xcvm_status decode_outputs(decoder *d, const Xcvm__XCInstruction *message, xcvm_instruction *instruction)
{
    const xcvm_schema *schema = instruction->schema;
    xcvm_arity arity = xcvm_schema_results(schema);
    int32_t *out;
    size_t count = message->n_outputs, next = 0;
    XCVM_CHECK(d->error, count <= INT32_MAX && xcvm_args_set_results(schema, instruction->args, count), INVALID_PROGRAM,
               "it has %zu results, not %zu%s", count, arity.fixed, arity.list ? " or more" : "");
    ALLOCATE(d, out, count);
    instruction->out = out;
    instruction->out_count = (uint32_t)count;
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *f = &schema->fields[i];
        size_t here = f->role == XCVM_ROLE_OUT ? xcvm_field_count(f, instruction->args) : 0;
        for (size_t j = 0; j < here; j++, next++) {
            XCVM_CHECK(d->error, message->outputs[next] != 0 || xcvm_field_may_be_absent(f), INVALID_PROGRAM,
                       "%s: the result is absent (expected a register)", f->name);
            out[next] = (int32_t)message->outputs[next];
        }
    }
    return XCVM_OK;
}

static xcvm_status decode_slots(decoder *d, const Xcvm__XCInstruction *message, xcvm_instruction *instruction)
{
    xcvm_slot *slots;
    if (message->n_slots == 0)
        return XCVM_OK;
    XCVM_CHECK(d->error, message->n_slots == instruction->out_count, INVALID_PROGRAM, "it has %zu slots for %u results",
               message->n_slots, instruction->out_count);
    ALLOCATE(d, slots, message->n_slots);
    for (size_t i = 0; i < message->n_slots; i++)
        slots[i] = (xcvm_slot){message->slots[i]->offset, message->slots[i]->bytes};
    instruction->slots = slots;
    return XCVM_OK;
}

static xcvm_status decode_debug(decoder *d, const Xcvm__XCDebug *message, xcvm_instruction *instruction)
{
    xcvm_debug *debug = &instruction->debug;
    debug->node = "";
    if (message == NULL)
        return XCVM_OK;
    size_t results = instruction->out_count;
    XCVM_CHECK(d->error, message->n_names == 0 || message->n_names == results, INVALID_PROGRAM,
               "it has %zu names for %zu results", message->n_names, results);
    XCVM_CHECK(d->error, message->n_types == 0 || message->n_types == results, INVALID_PROGRAM,
               "it has %zu types for %zu results", message->n_types, results);
    XCVM_TRY(copy_string(d, message->node, &debug->node));
    debug->flops = message->flops;
    if (message->n_names > 0) {
        ALLOCATE(d, debug->names, results);
        for (size_t i = 0; i < results; i++)
            XCVM_TRY(copy_string(d, message->names[i], &debug->names[i]));
    }
    if (message->n_types > 0) {
        xcvm_type *types;
        ALLOCATE(d, types, results);
        for (size_t i = 0; i < results; i++)
            XCVM_TRY(decode_type(d, message->types[i], &types[i]));
        debug->types = types;
    }
    return XCVM_OK;
}

static xcvm_status take_instruction(decoder *d, const Xcvm__XCInstruction *message, xcvm_instruction *instruction)
{
    const xcvm_schema *schema = instruction->schema;
    instruction->args = xcvm_args_create(d->arena, schema);
    XCVM_CHECK(d->error, instruction->args != NULL, OUT_OF_MEMORY, "no memory for the program");
    XCVM_TRY(decode_inputs(d, message, instruction));
    XCVM_TRY(decode_outputs(d, message, instruction));
    XCVM_TRY(decode_slots(d, message, instruction));
    return decode_debug(d, message->debug, instruction);
}

static xcvm_status decode_instruction(decoder *d, const ProtobufCMessage *message, size_t index)
{
    const Xcvm__XCInstruction *from = (const Xcvm__XCInstruction *)message;
    xcvm_instruction *to = &d->image->instructions[index];
    to->schema = xcvm_schema_of(from->op);
    XCVM_CHECK(d->error, to->schema != NULL, INVALID_PROGRAM,
               "instruction %zu: there is no instruction of number %d; the program may be made for a newer library",
               index, (int)from->op);
    xcvm_status status = take_instruction(d, from, to);
    if (status != XCVM_OK) {
        xcvm_error_prefix(d->error, "instruction %zu (%s)", index, to->schema->name);
        if (d->error != NULL) {
            d->error->pc = (int32_t)index;
            strncpy(d->error->instruction, to->schema->name, sizeof d->error->instruction - 1);
        }
    }
    return status;
}

/* ---- Scalars and entry point ---- */

static xcvm_status decode_library(decoder *d, const ProtobufCMessage *message, size_t index)
{
    const Xcvm__XCLibrary *from = (const Xcvm__XCLibrary *)message;
    xcvm_library *to = &d->image->libraries[index];
    XCVM_CHECK(d->error, from->hash.len == sizeof to->hash, INVALID_PROGRAM,
               "library %zu (%.100s): its hash has %zu bytes, not %zu", index, from->file, from->hash.len,
               sizeof to->hash);
    memcpy(to->hash, from->hash.data, sizeof to->hash);
    to->abi = from->abi;
    XCVM_TRY(copy_string(d, from->file, &to->file));
    return copy_string(d, from->isa, &to->isa);
}

static xcvm_status decode_metadata(decoder *d, const ProtobufCMessage *message, size_t index)
{
    const Xcvm__XCMetadata *from = (const Xcvm__XCMetadata *)message;
    XCVM_TRY(copy_string(d, from->key, &d->image->metadata[index].key));
    return copy_string(d, from->value, &d->image->metadata[index].value);
}

static xcvm_status decode_state(decoder *d, const ProtobufCMessage *message, size_t index)
{
    const Xcvm__XCState *from = (const Xcvm__XCState *)message;
    xcvm_state_declaration *to = &d->image->states[index];
    XCVM_TRY(copy_string(d, from->name, &to->declared.name));
    XCVM_CHECK(d->error, from->initial <= d->image->constant_count, INVALID_PROGRAM,
               "state %zu (%.100s) begins with constant %u, but there are %zu constants", index, from->name,
               from->initial - 1, d->image->constant_count);
    to->initial = from->initial;
    xcvm_status status = decode_type(d, from->type, &to->declared.type);
    if (status != XCVM_OK)
        xcvm_error_prefix(d->error, "state %zu (%s)", index, from->name);
    return status;
}

/* Decodes the fields that are not messages. */
static xcvm_status decode_scalars(decoder *d)
{
    xcvm_image *image = d->image;
    xcvm_wire wire = xcvm_wire_of(d->bytes, d->layout.message_bytes);
    xcvm_wire_field e;
    image->producer = "";
    while (xcvm_wire_next(&wire, &e) == XCVM_WIRE_READ) {
        if (e.number == XCVM_WIRE_ARENA_BYTES)
            image->arena_bytes = e.value;
        if (e.number == XCVM_WIRE_PRODUCER)
            image->producer = xcvm_arena_string(d->arena, (const char *)e.inside.at, (size_t)e.value);
    }
    XCVM_CHECK(d->error, image->producer != NULL, OUT_OF_MEMORY, "no memory for the program");
    image->format = (uint32_t)d->layout.format;
    image->data_offset = d->layout.data_offset;
    image->data_bytes = d->layout.data_bytes;
    return XCVM_OK;
}

static xcvm_status decode_program(decoder *d)
{
    xcvm_image *image = d->image;
    const size_t *counts = d->layout.counts;
    XCVM_CHECK(d->error, counts[XCVM_WIRE_INSTRUCTIONS] <= INT32_MAX, INVALID_PROGRAM,
               "there are too many instructions");
    XCVM_TRY(decode_scalars(d));
    image->input_count = counts[XCVM_WIRE_INPUTS];
    ALLOCATE(d, image->inputs, image->input_count);
    XCVM_TRY(decode_messages(d, XCVM_WIRE_INPUTS, decode_input));
    image->output_count = counts[XCVM_WIRE_OUTPUTS];
    ALLOCATE(d, image->outputs, image->output_count);
    XCVM_TRY(decode_messages(d, XCVM_WIRE_OUTPUTS, decode_output));
    image->constant_count = counts[XCVM_WIRE_CONSTANTS];
    ALLOCATE(d, image->constants, image->constant_count);
    XCVM_TRY(decode_messages(d, XCVM_WIRE_CONSTANTS, decode_constant));
    image->state_count = counts[XCVM_WIRE_STATES];
    ALLOCATE(d, image->states, image->state_count);
    XCVM_TRY(decode_messages(d, XCVM_WIRE_STATES, decode_state));
    image->library_count = counts[XCVM_WIRE_LIBRARIES];
    ALLOCATE(d, image->libraries, image->library_count);
    XCVM_TRY(decode_messages(d, XCVM_WIRE_LIBRARIES, decode_library));
    image->metadata_count = counts[XCVM_WIRE_METADATA];
    ALLOCATE(d, image->metadata, image->metadata_count);
    XCVM_TRY(decode_messages(d, XCVM_WIRE_METADATA, decode_metadata));
    image->instruction_count = counts[XCVM_WIRE_INSTRUCTIONS];
    ALLOCATE(d, image->instructions, image->instruction_count);
    return decode_messages(d, XCVM_WIRE_INSTRUCTIONS, decode_instruction);
}

xcvm_status xcvm_image_decode(const void *bytes, size_t count, const xcvm_allocator *allocator, xcvm_arena *arena,
                              xcvm_image *image, xcvm_error *error)
{
    XCVM_CHECK(error, bytes != NULL || count == 0, INVALID_ARGUMENT, "there are no bytes");
    xcvm_image decoded = {0};
    decoder d = {
        .bytes = bytes, .arena = arena, .scratch = {.allocator = allocator}, .image = &decoded, .error = error};
    XCVM_TRY(xcvm_wire_check(bytes, count, &d.layout, error));
    const xcvm_status status = decode_program(&d);
    xcvm_arena_release(&d.scratch);
    if (status == XCVM_OK)
        *image = decoded;
    return status;
}
