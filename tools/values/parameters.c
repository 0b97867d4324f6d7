/* Inputs, outputs and states of a program as a table. */
#include "values/parameters.h"
#include "cli/table.h"
#include "values/type.h"

static void add_parameters(struct table *table, const char *title, const xcvm_program *program, size_t count,
                           const xcvm_value_info *(*get)(const xcvm_program *program, size_t index))
{
    for (size_t i = 0; i < count; i++) {
        const xcvm_value_info *parameter = get(program, i);
        struct buffer type = {0};
        type_print(&type, &parameter->type);
        table_cell(table, "%s", title);
        table_cell(table, "%s", parameter->name);
        table_cell(table, "%s", buffer_string(&type));
        table_end_row(table);
        buffer_release(&type);
    }
}

void parameters_print(const xcvm_program *program)
{
    struct table table = {0};
    add_parameters(&table, "input", program, xcvm_program_input_count(program), xcvm_program_input_at);
    add_parameters(&table, "output", program, xcvm_program_output_count(program), xcvm_program_output_at);
    add_parameters(&table, "state", program, xcvm_program_state_count(program), xcvm_program_state_at);
    table_print(&table, stdout);
}
