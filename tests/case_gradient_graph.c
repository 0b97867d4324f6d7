/* The program of a text case as a graph that the compiler differentiates. */
#include "tests/case_gradient_parts.h"

#include <stdio.h>
#include <string.h>

/* ---- What is differentiated by ---- */

static bool decides_shape(const xcvm_image *image, size_t constant)
{
    for (size_t pc = 0; pc < image->instruction_count; pc++) {
        const xcvm_instruction *instruction = &image->instructions[pc];
        uint32_t next = 0;
        for (size_t f = 0; f < instruction->schema->field_count; f++) {
            const xcvm_field *field = &instruction->schema->fields[f];
            const size_t values = xcvm_field_is_input(field) ? xcvm_field_count(field, instruction->args) : 0;
            for (size_t k = 0; k < values; k++, next++)
                if (field->role == XCVM_ROLE_IN_SHAPE && instruction->in[next] == -1 - (int32_t)constant)
                    return true;
        }
    }
    return false;
}

bool case_gradient_literals(case_checking *c)
{
    for (size_t i = 0; i < c->image.constant_count; i++) {
        if (c->image.constants[i].value.dtype != XCVM_F64 || decides_shape(&c->image, i))
            continue;
        if (c->count == CASE_LITERALS)
            return case_fail(c->why, "gradient: there are more than %d literals of f64", CASE_LITERALS);
        snprintf(c->names[c->count], sizeof c->names[0], "x%zu", c->count);
        c->wrt[c->count] = c->names[c->count];
        c->literals[c->count++] = i;
    }
    return c->count > 0 || case_fail(c->why, "gradient: no literal is f64");
}

/* ---- The program as a graph ---- */

static xcc_value *make_literal(const case_checking *c, xcc_graph *g, const case_form *f, size_t constant)
{
    const xcvm_value *literal = &c->image.constants[constant].value;
    size_t i = 0;
    while (i < c->count && c->literals[i] != constant)
        i++;
    if (i == c->count)
        return xcc_constant(g, NULL, (xcvm_dtype)literal->dtype, literal->rank, literal->dims, literal->data, false);
    xcc_value *v = xcc_value_create(g, c->names[i]);
    int64_t dims[XCVM_MAX_RANK];
    for (int k = 0; k < literal->rank; k++)
        dims[k] = f->open ? xcc_symbol(g->module, NULL) : literal->dims[k];
    if (v != NULL)
        xcvm_value_set_tensor(&v->type, (uint8_t)f->dtype, literal->rank, dims);
    return v;
}

/* The arguments of an instruction with its operands and results. */
static const void *bind(xcc_graph *g, const xcvm_instruction *instruction, xcc_value *const *constants,
                        xcc_value **registers)
{
    const xcvm_schema *schema = instruction->schema;
    char *args = xcc_alloc(g->module, schema->args_size);
    uint32_t in = 0, out = 0;
    if (args == NULL)
        return NULL;
    memcpy(args, instruction->args, schema->args_size);
    for (size_t f = 0; f < schema->field_count; f++) {
        const xcvm_field *field = &schema->fields[f];
        if (!xcvm_field_is_operand(field))
            continue;
        const size_t count = xcvm_field_count(field, instruction->args);
        xcvm_value **list = xcc_alloc(g->module, count * sizeof *list);
        for (size_t k = 0; list != NULL && k < count; k++) {
            const bool result = field->role == XCVM_ROLE_OUT;
            const int32_t at = result ? instruction->out[out++] : instruction->in[in++];
            if (at >= CASE_REGISTERS)
                return NULL;
            if (result && at > 0)
                registers[at] = xcc_value_create(g, NULL);
            list[k] = at > 0 ? XCC_OUT(registers[at]) : at < 0 ? XCC_OUT(constants[-1 - at]) : NULL;
        }
        if (list == NULL)
            return NULL;
        /* Lists of operands and of results are laid out alike. */
        if (xcvm_field_is_list(field))
            ((xcvm_outputs *)(void *)(args + field->offset))->at = list;
        else
            *(xcvm_value **)(void *)(args + field->offset) = list[0];
    }
    return args;
}

xcc_value *case_gradient_loss(const case_checking *c, xcc_builder *b, xcc_value *const *registers)
{
    xcc_value *loss = NULL;
    for (size_t i = 0; i < c->gradient->register_count; i++) {
        xcc_value *y = registers[c->gradient->registers[i]];
        if (y != NULL && c->gradient->value_count == 0)
            y = xcc_build_add(b, y, xcc_build_mul(b, xcc_build_mul(b, y, y), xcc_build_number(b, y, 0.25)));
        xcc_value *sum = xcc_build_reduce(b, XCVM_OP_ReduceSum, y, NULL, false);
        loss = loss == NULL ? sum : xcc_build_add(b, loss, sum);
    }
    return loss;
}

bool case_gradient_append(const case_checking *c, xcc_builder *b, xcc_value *const *constants, xcc_value **registers)
{
    for (size_t pc = 0; pc < c->image.instruction_count; pc++) {
        const xcvm_instruction *instruction = &c->image.instructions[pc];
        if (instruction->schema->effect == XCVM_CONTROL)
            continue;
        const void *args = bind(b->graph, instruction, constants, registers);
        if (args == NULL || xcc_append(b, instruction->schema->opcode, args) == NULL)
            return false;
    }
    return true;
}

bool case_gradient_graph(const case_checking *c, xcc_module *m, const case_form *f)
{
    xcc_graph *g = m->graph;
    xcc_builder b = {.graph = g, .name = "case", .origin = "case"};
    xcc_value **constants = xcc_alloc(m, (c->image.constant_count + 1) * sizeof *constants),
              *registers[CASE_REGISTERS] = {NULL};
    xcc_value *inputs[CASE_LITERALS];
    for (size_t i = 0; i < c->image.constant_count; i++)
        if ((constants[i] = make_literal(c, g, f, i)) == NULL)
            return false;
    for (size_t i = 0; i < c->count; i++)
        inputs[i] = constants[c->literals[i]];
    if (xcc_graph_set_inputs(g, c->count, inputs) != XCVM_OK)
        return false;
    if (!case_gradient_append(c, &b, constants, registers))
        return false;
    xcc_value *loss = case_gradient_loss(c, &b, registers), *named = xcc_value_create(g, "loss");
    return loss != NULL && named != NULL && xcc_emit(&b, Identity, .y = XCC_OUT(named), .x = XCC_IN(loss)) != NULL &&
           xcc_graph_set_outputs(g, 1, &named) == XCVM_OK;
}
