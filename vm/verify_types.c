/* Type checking of kinds and element types that are known before the run. */
#include "vm/verify.h"

#include <stdio.h>

static xcvm_static_type type_of_operand(const xcvm_verifier *v, int32_t id)
{
    if (id > 0)
        return v->types[id];
    const xcvm_value *constant = &v->image->constants[-1 - id].value;
    return (xcvm_static_type){constant->kind, constant->dtype, 0};
}

static xcvm_static_type type_of_parameter(const xcvm_value_info *parameter)
{
    const xcvm_type *type = &parameter->type;
    return (xcvm_static_type){type->kind == XCVM_KIND_NULL ? XCVM_KIND_UNKNOWN : (uint8_t)type->kind,
                              (uint8_t)type->dtype, 0};
}

/* Writes "f32 tensor" and the like for messages. */
static const char *describe_static_type(xcvm_static_type type, char *text, size_t size)
{
    static const char *const kinds[] = {
#define KIND(name, number, word) [number] = word,
        XCVM_KIND_LIST(KIND)
#undef KIND
    };
    const char *kind = type.kind < sizeof kinds / sizeof *kinds ? kinds[type.kind] : "value";
    if (type.dtype != XCVM_NO_DTYPE)
        snprintf(text, size, "%s %s", xcvm_dtype_name(type.dtype), kind);
    else
        snprintf(text, size, "%s", kind);
    return text;
}

static const char *describe_operand(int32_t id, char *text, size_t size)
{
    snprintf(text, size, id > 0 ? "$%d" : "constant %d", id > 0 ? (int)id : (int)(-1 - id));
    return text;
}

enum { VARIABLES = 3 };

static uint32_t variable_index(xcvm_dtypes variable) { return 31 - (uint32_t)__builtin_ctz(variable); }

/* Values of an op definition's type variables in one instruction. */
typedef struct bindings {
    uint8_t dtype[VARIABLES];
    const xcvm_field *by[VARIABLES];
} bindings;

static xcvm_kind kind_needed(const xcvm_field *field)
{
    switch (field->kind) {
    case XCVM_FIELD_TENSOR:
    case XCVM_FIELD_OPTIONAL:
    case XCVM_FIELD_LIST:
        return XCVM_KIND_TENSOR;
    case XCVM_FIELD_SEQUENCE:
        return XCVM_KIND_SEQUENCE;
    default:
        return XCVM_KIND_NULL;
    }
}

static xcvm_status check_operand(xcvm_verifier *v, uint32_t pc, const xcvm_field *field, int32_t id,
                                 const bindings *bound)
{
    const xcvm_schema *schema = v->image->instructions[pc].schema;
    xcvm_static_type type = type_of_operand(v, id);
    xcvm_kind needed = kind_needed(field);
    char text[64], operand[32], types[256];
    if (needed != XCVM_KIND_NULL && type.kind != XCVM_KIND_UNKNOWN && type.kind != needed)
        return xcvm_verifier_fail(v, pc, XCVM_TYPE_MISMATCH, "operand %s (%s) is a %s, but must be a %s", field->name,
                                  describe_operand(id, operand, sizeof operand),
                                  describe_static_type(type, text, sizeof text),
                                  needed == XCVM_KIND_TENSOR ? "tensor" : "sequence");
    if (type.dtype == XCVM_NO_DTYPE)
        return XCVM_OK;
    xcvm_dtypes allowed = xcvm_field_types(schema, field);
    if (!xcvm_dtype_in(type.dtype, allowed))
        return xcvm_verifier_fail(v, pc, XCVM_TYPE_MISMATCH, "operand %s (%s) is %s, but must be one of: %s",
                                  field->name, describe_operand(id, operand, sizeof operand),
                                  xcvm_dtype_name(type.dtype), xcvm_dtypes_describe(allowed, types, sizeof types));
    if (field->types & XCVM_TYPE_VARIABLES) {
        uint32_t variable = variable_index(field->types);
        if (bound->dtype[variable] != type.dtype)
            return xcvm_verifier_fail(
                v, pc, XCVM_TYPE_MISMATCH, "operand %s (%s) is %s, but %s is %s; both must be the same, one of: %s",
                field->name, describe_operand(id, operand, sizeof operand), xcvm_dtype_name(type.dtype),
                bound->by[variable]->name, xcvm_dtype_name(bound->dtype[variable]),
                xcvm_dtypes_describe(allowed, types, sizeof types));
    }
    return XCVM_OK;
}

/* Returns the element type that a DTYPE attribute gives to results whose type is otherwise only a set. */
static uint8_t dtype_attribute(const xcvm_schema *schema, const void *args)
{
    for (size_t i = 0; i < schema->field_count; i++)
        if (schema->fields[i].kind == XCVM_FIELD_DTYPE)
            return (uint8_t) * (const xcvm_dtype *)(const void *)((const char *)args + schema->fields[i].offset);
    return XCVM_NO_DTYPE;
}

static xcvm_static_type type_of_result(const xcvm_verifier *v, uint32_t pc, const xcvm_field *field,
                                       const bindings *bound)
{
    const xcvm_instruction *instruction = &v->image->instructions[pc];
    const xcvm_schema *schema = instruction->schema;
    xcvm_static_type type = {XCVM_KIND_UNKNOWN, XCVM_NO_DTYPE, 0};
    if (v->program->steps[pc].action == XCVM_ACTION_LOAD)
        return type_of_parameter(&v->image->states[v->program->steps[pc].target].declared);
    switch (field->kind) {
    case XCVM_FIELD_TENSOR:
    case XCVM_FIELD_OPTIONAL:
    case XCVM_FIELD_LIST:
        type.kind = XCVM_KIND_TENSOR;
        break;
    case XCVM_FIELD_SEQUENCE:
        type.kind = XCVM_KIND_SEQUENCE;
        break;
    default:
        if (v->program->steps[pc].action == XCVM_ACTION_IN)
            return type_of_parameter(&v->image->inputs[v->program->steps[pc].target]);
        for (uint32_t i = 0; i < instruction->in_count; i++)
            if (instruction->in[i] != 0 && xcvm_operand_field(instruction, i)->role == XCVM_ROLE_IN_VIEW)
                return type_of_operand(v, instruction->in[i]);
        return type;
    }
    if (field->types & XCVM_TYPE_VARIABLES)
        type.dtype = bound->dtype[variable_index(field->types)];
    xcvm_dtypes types = xcvm_field_types(schema, field);
    if (type.dtype == XCVM_NO_DTYPE && types != 0 && (types & (types - 1)) == 0)
        type.dtype = (uint8_t)__builtin_ctz(types);
    else if (type.kind == XCVM_KIND_TENSOR && !(field->types & XCVM_TYPE_VARIABLES) && (types & (types - 1)) != 0)
        type.dtype = dtype_attribute(schema, instruction->args);
    return type;
}

static xcvm_status check_output(xcvm_verifier *v, uint32_t pc)
{
    const size_t index = (size_t)v->program->steps[pc].target;
    const xcvm_value_info *output = xcvm_program_result(v->program, index);
    xcvm_static_type declared = type_of_parameter(output);
    xcvm_static_type given = type_of_operand(v, v->image->instructions[pc].in[0]);
    bool kinds_agree =
        declared.kind == given.kind || declared.kind == XCVM_KIND_UNKNOWN || given.kind == XCVM_KIND_UNKNOWN;
    bool dtypes_agree =
        declared.dtype == given.dtype || declared.dtype == XCVM_NO_DTYPE || given.dtype == XCVM_NO_DTYPE;
    char a[64], b[64];
    if (!kinds_agree || !dtypes_agree)
        return xcvm_verifier_fail(v, pc, XCVM_TYPE_MISMATCH, "%s \"%.100s\" is declared as %s, but is given a %s",
                                  xcvm_program_result_word(v->program, index), output->name,
                                  describe_static_type(declared, a, sizeof a),
                                  describe_static_type(given, b, sizeof b));
    return XCVM_OK;
}

/* The state of the first result: Load lends a state, and a view may share the memory of its operands. */
static uint32_t state_of_result(const xcvm_verifier *v, uint32_t pc)
{
    const xcvm_instruction *instruction = &v->image->instructions[pc];
    const xcvm_step *step = &v->program->steps[pc];
    uint32_t state = step->action == XCVM_ACTION_LOAD ? (uint32_t)step->target + 1 : 0;
    for (uint32_t i = 0; i < instruction->in_count; i++)
        if (instruction->in[i] > 0 && v->types[instruction->in[i]].state != 0 &&
            xcvm_operand_field(instruction, i)->role == XCVM_ROLE_IN_VIEW)
            state = xcvm_either_state(state, v->types[instruction->in[i]].state);
    return state;
}

xcvm_status xcvm_verify_types(xcvm_verifier *v, uint32_t pc, bool report)
{
    const xcvm_instruction *instruction = &v->image->instructions[pc];
    const xcvm_schema *schema = instruction->schema;
    const uint32_t state = v->image->state_count > 0 && instruction->out_count > 0 ? state_of_result(v, pc) : 0;
    bindings bound = {{0}, {NULL}};
    uint32_t in = 0, out = 0;
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *field = &schema->fields[i];
        if (!xcvm_field_is_input(field))
            continue;
        for (size_t left = xcvm_field_count(field, instruction->args); left > 0; left--, in++) {
            int32_t id = instruction->in[in];
            if (id == 0)
                continue;
            if (field->types & XCVM_TYPE_VARIABLES) {
                uint32_t variable = variable_index(field->types);
                if (bound.by[variable] == NULL || bound.dtype[variable] == XCVM_NO_DTYPE) {
                    bound.dtype[variable] = type_of_operand(v, id).dtype;
                    bound.by[variable] = field;
                }
            }
            if (report)
                XCVM_TRY(check_operand(v, pc, field, id, &bound));
        }
    }
    if (report && v->program->steps[pc].action == XCVM_ACTION_OUT)
        XCVM_TRY(check_output(v, pc));
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *field = &schema->fields[i];
        if (field->role != XCVM_ROLE_OUT)
            continue;
        for (size_t left = xcvm_field_count(field, instruction->args); left > 0; left--, out++)
            if (instruction->out[out] != 0) {
                v->types[instruction->out[out]] = type_of_result(v, pc, field, &bound);
                v->types[instruction->out[out]].state = out == 0 ? state : 0;
            }
    }
    return XCVM_OK;
}
