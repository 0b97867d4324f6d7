/* Assembles one instruction: results, operands, attributes and debug data. */
#include "proto/assembler.h"
#include "ops/table/table.h"
#include "proto/attributes.h"
#include "proto/literals.h"

#include <string.h>

/* ---- Messages ---- */

static int shorter_of(int a, int b) { return a < b ? a : b; }

/* Case-insensitive Levenshtein distance of two names. */
static int distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    enum { LONGEST = 40 };
    int costs[LONGEST + 1];
    if (a_length > LONGEST || b_length > LONGEST)
        return LONGEST;
    for (size_t j = 0; j <= b_length; j++)
        costs[j] = (int)j;
    for (size_t i = 1; i <= a_length; i++) {
        int diagonal = costs[0];
        costs[0] = (int)i;
        for (size_t j = 1; j <= b_length; j++) {
            int same = (a[i - 1] | 0x20) == (b[j - 1] | 0x20) ? 0 : 1;
            int best = shorter_of(diagonal + same, shorter_of(costs[j], costs[j - 1]) + 1);
            diagonal = costs[j];
            costs[j] = best;
        }
    }
    return costs[b_length];
}

static xcvm_status unknown_instruction(xcvm_reader *r, const char *name, size_t length)
{
    const char *nearest = NULL;
    int least = 3;
    for (int64_t i = 0; i < XCVM_OPCODE_LIMIT; i++) {
        const xcvm_schema *schema = xcvm_schema_of(i);
        int far = schema != NULL ? distance(name, length, schema->name, strlen(schema->name)) : least;
        if (far < least) {
            least = far;
            nearest = schema->name;
        }
    }
    return xcvm_reader_fail(r, "there is no instruction `%.*s`%s%s%s", (int)(length < 60 ? length : 60), name,
                            nearest != NULL ? "; did you mean " : "", nearest != NULL ? nearest : "",
                            nearest != NULL ? "?" : "");
}

static xcvm_status unknown_attribute(xcvm_reader *r, const xcvm_schema *schema, const char *name, size_t length)
{
    char names[400] = "";
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *f = &schema->fields[i];
        if (!xcvm_field_is_attribute(f) || strlen(names) + strlen(f->name) + 3 > sizeof names)
            continue;
        strcat(names, names[0] != '\0' ? ", " : "");
        strcat(names, f->name);
    }
    return xcvm_reader_fail(r, "%s has no attribute `%.*s`; it has %s", schema->name, (int)(length < 60 ? length : 60),
                            name, names[0] != '\0' ? names : "none");
}

/* ---- Operands ---- */

static xcvm_status add_reference(xcvm_assembler *a, xcvm_reference **reference)
{
    XCVM_APPEND(a, &a->scratch, a->references, a->reference_count, a->reference_capacity, *reference);
    (*reference)->line = a->r.line;
    return XCVM_OK;
}

static xcvm_status read_register(xcvm_reader *r, int32_t *number)
{
    uint64_t value;
    XCVM_TRY(xcvm_reader_uint(r, INT32_MAX, &value));
    if (value == 0)
        return xcvm_reader_fail(r, "registers begin with $1; an absent value is written _");
    *number = (int32_t)value;
    return XCVM_OK;
}

static bool accept_absent(xcvm_reader *r)
{
    const char *word;
    if (xcvm_reader_peek_word(r, &word) != 1 || *word != '_')
        return false;
    r->at++;
    return true;
}

/* Reads what follows @: a name, or # and a number. The operand is filled in at the end of the text. */
xcvm_status xcvm_assemble_reference(xcvm_assembler *a, xcvm_reference **reference)
{
    xcvm_reader *r = &a->r;
    XCVM_TRY(add_reference(a, reference));
    if (r->at < r->end && *r->at == '#') {
        uint64_t number;
        r->at++;
        XCVM_TRY(xcvm_reader_uint(r, INT32_MAX, &number));
        (*reference)->number = (size_t)number;
        return XCVM_OK;
    }
    return xcvm_reader_name(r, &(*reference)->name);
}

static xcvm_status read_constant_reference(xcvm_assembler *a)
{
    xcvm_reference *reference = NULL;
    XCVM_TRY(xcvm_assemble_reference(a, &reference));
    reference->position = a->operand_count - 1;
    return XCVM_OK;
}

static xcvm_status add_literal(xcvm_assembler *a, int32_t *operand)
{
    xcvm_constant *constant;
    XCVM_APPEND(a, a->r.arena, a->image.constants, a->image.constant_count, a->constant_capacity, constant);
    constant->name = "";
    if (a->image.constant_count > INT32_MAX)
        return xcvm_reader_fail(&a->r, "there are too many constants");
    *operand = -(int32_t)a->image.constant_count;
    if (!xcvm_name_index_add(&a->constants, &a->scratch, "", 0, a->image.constant_count - 1))
        return xcvm_reader_no_memory(&a->r);
    return xcvm_literal_read(&a->r, &constant->value);
}

/* Adds one operand to the instruction. */
static xcvm_status read_operand(xcvm_assembler *a, const xcvm_schema *schema, const xcvm_field *f, bool optional)
{
    char here[48];
    xcvm_reader *r = &a->r;
    int32_t *operand;
    const char *word;
    XCVM_APPEND(a, &a->scratch, a->operands, a->operand_count, a->operand_capacity, operand);
    if (accept_absent(r))
        return optional ? XCVM_OK : xcvm_reader_fail(r, "%s needs %s", schema->name, f->name);
    if (xcvm_reader_accept(r, '$'))
        return read_register(r, operand);
    if (xcvm_reader_accept(r, '@'))
        return read_constant_reference(a);
    if (xcvm_reader_peek_word(r, &word) > 0)
        return add_literal(a, operand);
    return xcvm_reader_fail(r,
                            "%s of %s: a register ($1), a constant (@name), a literal (f32[2] 1 2) or _ is expected, "
                            "not %s",
                            f->name, schema->name, xcvm_reader_here(r, here));
}

static xcvm_status read_list(xcvm_assembler *a, const xcvm_schema *schema, const xcvm_field *f, void *args)
{
    xcvm_reader *r = &a->r;
    size_t count = 0;
    char here[48];
    if (!xcvm_reader_accept(r, '['))
        return xcvm_reader_fail(r, "%s of %s: a list in brackets is expected, not %s", f->name, schema->name,
                                xcvm_reader_here(r, here));
    r->depth++;
    while (xcvm_reader_peek(r) != ']') {
        if (count++ > 0)
            XCVM_TRY(xcvm_reader_expect(r, ','));
        XCVM_TRY(read_operand(a, schema, f, false));
    }
    XCVM_TRY(xcvm_reader_expect(r, ']'));
    r->depth--;
    xcvm_args_set_count(f, args, count);
    return XCVM_OK;
}

/* Returns true if `name =` comes next. */
static bool at_attribute(const xcvm_reader *r)
{
    xcvm_reader ahead = *r;
    const char *word;
    return xcvm_reader_word(&ahead, &word) > 0 && xcvm_reader_peek(&ahead) == '=';
}

/* Reads the comma before every argument except the first. */
static xcvm_status next_argument(xcvm_reader *r, bool *first)
{
    char here[48];
    if (!*first && !xcvm_reader_accept(r, ','))
        return xcvm_reader_fail(r, "`,` or `)` is expected, not %s", xcvm_reader_here(r, here));
    *first = false;
    return XCVM_OK;
}

static xcvm_status read_operands(xcvm_assembler *a, const xcvm_schema *schema, void *args, bool *first)
{
    xcvm_reader *r = &a->r;
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *f = &schema->fields[i];
        if (!xcvm_field_is_input(f))
            continue;
        xcvm_reader ahead = *r;
        bool comma = !*first && xcvm_reader_accept(&ahead, ',');
        bool more = (*first || comma) && xcvm_reader_peek(&ahead) != ')' && !at_attribute(&ahead);
        if (!more) {
            int32_t *absent;
            if (f->kind != XCVM_FIELD_OPTIONAL)
                return xcvm_reader_fail(r, "%s needs %s", schema->name, f->name);
            XCVM_APPEND(a, &a->scratch, a->operands, a->operand_count, a->operand_capacity, absent);
            continue;
        }
        XCVM_TRY(next_argument(r, first));
        if (xcvm_field_is_list(f))
            XCVM_TRY(read_list(a, schema, f, args));
        else
            XCVM_TRY(read_operand(a, schema, f, f->kind == XCVM_FIELD_OPTIONAL));
    }
    return XCVM_OK;
}

/* ---- Attributes ---- */

/* Reads a label or an instruction number. */
static xcvm_status read_target(xcvm_assembler *a, int64_t *target)
{
    xcvm_reader *r = &a->r;
    xcvm_reference *reference = NULL;
    const char *word;
    size_t length = xcvm_reader_word(r, &word);
    if (length == 0)
        return xcvm_reader_int(r, 0, INT32_MAX, target);
    XCVM_TRY(add_reference(a, &reference));
    reference->target = target;
    reference->name = xcvm_arena_string(r->arena, word, length);
    return reference->name != NULL ? XCVM_OK : xcvm_reader_no_memory(r);
}

static xcvm_status read_attributes(xcvm_assembler *a, const xcvm_schema *schema, void *args, bool *first)
{
    xcvm_reader *r = &a->r;
    uint64_t seen = 0;
    while (xcvm_reader_peek(r) != ')') {
        const char *word;
        char here[48];
        size_t i = 0;
        XCVM_TRY(next_argument(r, first));
        if (!at_attribute(r))
            return xcvm_reader_fail(r, "%s has no more operands; `name=` or `)` is expected, not %s", schema->name,
                                    xcvm_reader_here(r, here));
        size_t length = xcvm_reader_word(r, &word);
        while (i < schema->field_count &&
               !(xcvm_field_is_attribute(&schema->fields[i]) && strlen(schema->fields[i].name) == length &&
                 memcmp(schema->fields[i].name, word, length) == 0))
            i++;
        if (i == schema->field_count)
            return unknown_attribute(r, schema, word, length);
        if (i < 64 && (seen >> i & 1) != 0)
            return xcvm_reader_fail(r, "%s is given twice", schema->fields[i].name);
        seen |= i < 64 ? UINT64_C(1) << i : 0;
        XCVM_TRY(xcvm_reader_expect(r, '='));
        if (schema->fields[i].kind == XCVM_FIELD_TARGET)
            XCVM_TRY(read_target(a, XCVM_FIELD(int64_t, &schema->fields[i], args)));
        else
            XCVM_TRY(xcvm_attribute_read(r, &schema->fields[i], args));
    }
    for (size_t i = 0; i < schema->field_count && i < 64; i++)
        if (schema->fields[i].kind == XCVM_FIELD_TARGET && (seen >> i & 1) == 0)
            return xcvm_reader_fail(r, "%s needs %s=, where to jump", schema->name, schema->fields[i].name);
    return XCVM_OK;
}

/* ---- Results, and debug data after the instruction ---- */

/* Reads registers or _, separated by commas and followed by =. They are collected in the operand array too. */
static xcvm_status read_results(xcvm_assembler *a)
{
    xcvm_reader *r = &a->r;
    char here[48];
    a->operand_count = 0;
    if (xcvm_reader_peek(r) != '$' && xcvm_reader_peek(r) != '_')
        return XCVM_OK;
    do {
        int32_t *result;
        XCVM_APPEND(a, &a->scratch, a->operands, a->operand_count, a->operand_capacity, result);
        if (accept_absent(r))
            continue;
        if (!xcvm_reader_accept(r, '$'))
            return xcvm_reader_fail(r, "a register ($1) or _ is expected, not %s", xcvm_reader_here(r, here));
        XCVM_TRY(read_register(r, result));
    } while (xcvm_reader_accept(r, ','));
    return xcvm_reader_expect(r, '=');
}

/* Moves the collected results to the instruction. Adds omitted optional results of its op definition. */
static xcvm_status set_results(xcvm_assembler *a, xcvm_instruction *instruction)
{
    const xcvm_schema *schema = instruction->schema;
    xcvm_reader *r = &a->r;
    xcvm_arity arity = xcvm_schema_results(schema);
    size_t given = a->operand_count, count = given > arity.fixed ? given : arity.fixed, next = 0;
    if (given > arity.fixed && !arity.list)
        return xcvm_reader_fail(r, "%s has %zu results, not %zu", schema->name, arity.fixed, given);
    int32_t *out = xcvm_arena_allocate(r->arena, count * sizeof *out);
    if (out == NULL)
        return xcvm_reader_no_memory(r);
    if (given > 0)
        memcpy(out, a->operands, given * sizeof *out);
    instruction->out = out;
    instruction->out_count = (uint32_t)count;
    (void)xcvm_args_set_results(schema, instruction->args, count);
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *f = &schema->fields[i];
        size_t here = f->role == XCVM_ROLE_OUT ? xcvm_field_count(f, instruction->args) : 0;
        for (size_t j = 0; j < here; j++, next++)
            if (out[next] == 0 && !xcvm_field_may_be_absent(f))
                return xcvm_reader_fail(r, "%s needs a register for its result %s", schema->name, f->name);
    }
    return XCVM_OK;
}

static xcvm_status set_operands(xcvm_assembler *a, xcvm_instruction *instruction, size_t first_reference)
{
    int32_t *in = xcvm_arena_allocate(a->r.arena, a->operand_count * sizeof *in);
    if (in == NULL)
        return xcvm_reader_no_memory(&a->r);
    if (a->operand_count > 0)
        memcpy(in, a->operands, a->operand_count * sizeof *in);
    for (size_t i = first_reference; i < a->reference_count; i++)
        if (a->references[i].target == NULL)
            a->references[i].operand = in + a->references[i].position;
    instruction->in = in;
    instruction->in_count = (uint32_t)a->operand_count;
    return XCVM_OK;
}

static xcvm_status read_slots(xcvm_assembler *a, xcvm_instruction *instruction)
{
    xcvm_reader *r = &a->r;
    xcvm_slot *slots = xcvm_arena_allocate(r->arena, instruction->out_count * sizeof *slots);
    if (slots == NULL)
        return xcvm_reader_no_memory(r);
    for (uint32_t i = 0; i < instruction->out_count; i++) {
        if (i > 0)
            XCVM_TRY(xcvm_reader_expect(r, ','));
        if (accept_absent(r))
            continue;
        XCVM_TRY(xcvm_reader_uint(r, UINT64_MAX, &slots[i].offset));
        XCVM_TRY(xcvm_reader_expect(r, '+'));
        XCVM_TRY(xcvm_reader_uint(r, UINT64_MAX, &slots[i].bytes));
    }
    instruction->slots = instruction->out_count > 0 ? slots : NULL;
    return XCVM_OK;
}

static xcvm_status read_types(xcvm_assembler *a, xcvm_instruction *instruction)
{
    xcvm_reader *r = &a->r;
    xcvm_type *types = xcvm_arena_allocate(r->arena, instruction->out_count * sizeof *types);
    if (types == NULL)
        return xcvm_reader_no_memory(r);
    for (uint32_t i = 0; i < instruction->out_count; i++) {
        if (i > 0)
            XCVM_TRY(xcvm_reader_expect(r, ','));
        XCVM_TRY(xcvm_type_read(r, &types[i]));
    }
    instruction->debug.types = instruction->out_count > 0 ? types : NULL;
    return XCVM_OK;
}

static xcvm_status read_names(xcvm_assembler *a, xcvm_instruction *instruction)
{
    xcvm_reader *r = &a->r;
    const char **names = xcvm_arena_allocate(r->arena, instruction->out_count * sizeof *names);
    if (names == NULL)
        return xcvm_reader_no_memory(r);
    for (uint32_t i = 0; i < instruction->out_count; i++) {
        if (i > 0)
            XCVM_TRY(xcvm_reader_expect(r, ','));
        XCVM_TRY(xcvm_reader_name(r, &names[i]));
    }
    instruction->debug.names = instruction->out_count > 0 ? names : NULL;
    return XCVM_OK;
}

static xcvm_status read_notes(xcvm_assembler *a, xcvm_instruction *instruction)
{
    static const char *const notes[] = {"slot", "node", "type", "name", "flops"};
    enum { SLOT, NODE, TYPE, NAME, FLOPS, COUNT };
    xcvm_reader *r = &a->r;
    unsigned seen = 0;
    char here[48];
    while (!xcvm_reader_at_line_end(r)) {
        const char *word;
        unsigned note = 0;
        size_t length = xcvm_reader_peek_word(r, &word);
        while (note < COUNT && !(strlen(notes[note]) == length && memcmp(notes[note], word, length) == 0))
            note++;
        if (note == COUNT)
            return xcvm_reader_fail(r, "slot=, node=, type=, name=, flops= or the end of the line is expected, not %s",
                                    xcvm_reader_here(r, here));
        if ((seen >> note & 1) != 0)
            return xcvm_reader_fail(r, "%s is given twice", notes[note]);
        seen |= 1u << note;
        r->at += length;
        XCVM_TRY(xcvm_reader_expect(r, '='));
        if (note == SLOT)
            XCVM_TRY(read_slots(a, instruction));
        else if (note == NODE)
            XCVM_TRY(xcvm_reader_name(r, &instruction->debug.node));
        else if (note == TYPE)
            XCVM_TRY(read_types(a, instruction));
        else if (note == NAME)
            XCVM_TRY(read_names(a, instruction));
        else
            XCVM_TRY(xcvm_reader_uint(r, UINT64_MAX, &instruction->debug.flops));
    }
    return XCVM_OK;
}

static xcvm_status read_body(xcvm_assembler *a, xcvm_instruction *instruction)
{
    xcvm_reader *r = &a->r;
    bool first = true;
    size_t first_reference = a->reference_count;
    XCVM_TRY(xcvm_reader_expect(r, '('));
    r->depth++;
    a->operand_count = 0;
    XCVM_TRY(read_operands(a, instruction->schema, instruction->args, &first));
    XCVM_TRY(read_attributes(a, instruction->schema, instruction->args, &first));
    XCVM_TRY(xcvm_reader_expect(r, ')'));
    r->depth--;
    return set_operands(a, instruction, first_reference);
}

xcvm_status xcvm_assemble_instruction(xcvm_assembler *a)
{
    xcvm_reader *r = &a->r;
    xcvm_instruction *instruction;
    const char *word;
    char here[48];
    XCVM_TRY(read_results(a));
    size_t length = xcvm_reader_peek_word(r, &word);
    if (length == 0)
        return xcvm_reader_fail(r, "the name of an instruction is expected, not %s", xcvm_reader_here(r, here));
    const xcvm_schema *schema = xcvm_schema_named(word, length);
    if (schema == NULL)
        return unknown_instruction(r, word, length);
    r->at += length;
    if (a->image.instruction_count >= INT32_MAX)
        return xcvm_reader_fail(r, "there are too many instructions");
    XCVM_APPEND(a, a->r.arena, a->image.instructions, a->image.instruction_count, a->instruction_capacity, instruction);
    instruction->schema = schema;
    instruction->debug.node = "";
    instruction->args = xcvm_args_create(r->arena, schema);
    if (instruction->args == NULL)
        return xcvm_reader_no_memory(r);
    XCVM_TRY(set_results(a, instruction));
    XCVM_TRY(read_body(a, instruction));
    return read_notes(a, instruction);
}
