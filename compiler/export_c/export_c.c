/* Export as C: the entry, and the instructions in their order. */
#include "compiler/export_c/export_c.h"
#include "xcvm/export_c.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- Refusals ---- */

bool xcc_c_refuse(xcc_c_export *x, const char *format, ...)
{
    char reason[200], line[420];
    va_list list;
    va_start(list, format);
    vsnprintf(reason, sizeof reason, format, list);
    va_end(list);
    if (x->pc == SIZE_MAX) {
        snprintf(line, sizeof line, "%s", reason);
    } else {
        const xcvm_instruction *instruction = &x->image->instructions[x->pc];
        const bool named = instruction->debug.node != NULL && instruction->debug.node[0] != '\0';
        snprintf(line, sizeof line, "%s%s%s (instruction %zu): %s", named ? instruction->debug.node : "",
                 named ? ": " : "", instruction->schema->name, x->pc, reason);
    }
    x->refused++;
    const size_t used = strlen(x->refusals), left = sizeof x->refusals - used;
    if (strlen(line) + 3 < left)
        snprintf(x->refusals + used, left, "%s%s", used > 0 ? "; " : "", line);
    return false;
}

/* ---- Instructions ---- */

static const xcc_c_row *find_row(xcvm_opcode opcode)
{
    const xcc_c_rows *const all[] = {
        &xcc_c_move_rows,  &xcc_c_index_rows,     &xcc_c_reduction_rows, &xcc_c_product_rows,  &xcc_c_conv_rows,
        &xcc_c_norm_rows,  &xcc_c_recurrent_rows, &xcc_c_blocked_rows,   &xcc_c_training_rows, &xcc_c_quantized_rows,
        &xcc_c_cache_rows, &xcc_c_signal_rows,    &xcc_c_tree_rows,      &xcc_c_image_rows};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t k = 0; k < all[i]->count; k++)
            if (all[i]->at[k].opcode == opcode)
                return &all[i]->at[k];
    return NULL;
}

bool xcc_c_has_instruction(const xcvm_schema *schema)
{
    switch (schema->opcode) {
    case XCVM_OP_In:
    case XCVM_OP_Out:
    case XCVM_OP_Load:
    case XCVM_OP_Store:
    case XCVM_OP_Free:
    case XCVM_OP_Jmp:
    case XCVM_OP_JmpTrue:
    case XCVM_OP_JmpFalse:
        return true;
    default:
        return find_row(schema->opcode) != NULL || xcc_c_is_elementwise(schema) || xcc_c_is_of_stacks(schema->opcode);
    }
}

static bool operands_known(const xcc_c_step *step)
{
    for (uint32_t i = 0; i < step->instruction->in_count; i++)
        if (step->in[i] == NULL ? step->instruction->in[i] != 0 : !xcc_c_value_of(step->in[i])->set)
            return false;
    for (uint32_t i = 0; i < step->instruction->out_count; i++)
        if (step->out[i] != NULL && !xcc_c_value_of(step->out[i])->set)
            return false;
    return true;
}

static void write_kernel(xcc_c_export *x, xcc_c_step *step)
{
    if (!operands_known(step)) /* what that comes from has been refused */
        return;
    for (uint32_t i = 0; i < step->instruction->out_count; i++)
        if (step->out[i] != NULL && i == 0 && step->is_view)
            return;
    bool empty = step->instruction->out_count > 0;
    for (uint32_t i = 0; i < step->instruction->out_count; i++)
        empty = empty && (step->out[i] == NULL || step->out[i]->bytes == 0);
    if (empty)
        return;
    xcc_c_line(x, "    { /* %s", step->schema->name);
    if (step->instruction->debug.node[0] != '\0') {
        xcc_c_line(x, ": ");
        xcc_c_put_quoted(&x->body, step->instruction->debug.node);
    }
    xcc_c_line(x, " */\n");
    bool known = false;
    if (!xcc_c_write_elementwise(x, step, &known) && !known) {
        const xcc_c_row *row = find_row(step->schema->opcode);
        if (row == NULL)
            (void)xcc_c_refuse(x, "C export does not support it");
        else
            (void)row->write(x, step);
    }
    xcc_c_line(x, "    }\n");
}

/* A state that another one's value is stored in is copied before states change. */
static void write_copy_out(xcc_c_export *x, const xcc_c_step *step, const char *to)
{
    const xcvm_value *v = step->in[0];
    if (v != NULL && xcc_c_value_of(v)->set && v->bytes > 0)
        xcc_c_line(x, "    memcpy(%s, %s, %zu);\n", to, xcc_c_read(x, v), v->bytes);
}

static bool same_type(const xcvm_value *a, const xcvm_value *b)
{
    return a != NULL && b != NULL && a->dtype == b->dtype && xcvm_same_shape(a, b);
}

static bool is_jump(xcvm_action action)
{
    return action == XCVM_ACTION_JUMP || action == XCVM_ACTION_JUMP_TRUE || action == XCVM_ACTION_JUMP_FALSE;
}

/* States are written at the end of a run. So each run must reach a Store, and no jump may follow it. */
static bool may_store(const xcc_c_export *x, size_t pc)
{
    const xcvm_value *v = x->steps[pc].in[0];
    for (size_t i = 0; i < x->image->instruction_count; i++) {
        const xcvm_step *step = &x->program->steps[i];
        if (is_jump((xcvm_action)step->action) && (i > pc || (size_t)step->target > pc))
            return false;
    }
    return v == NULL || xcc_c_value_of(v)->definitions <= 1;
}

static void write_out(xcc_c_export *x, size_t pc)
{
    const size_t result = (size_t)x->program->steps[pc].target, outputs = x->image->output_count;
    const xcvm_value *given = x->steps[pc].in[0];
    if (given == NULL || !xcc_c_value_of(given)->set) /* refused before */
        return;
    const xcvm_value *declared = result < outputs ? xcc_c_output_value(x, result) : &x->states[result - outputs].type;
    if (!same_type(given, declared))
        (void)xcc_c_refuse(x, "its type or shape differs from that of %s",
                           result < outputs ? "elsewhere" : "its state has");
    else if (result >= outputs && !may_store(x, pc))
        (void)xcc_c_refuse(x, "a state is stored in a branch or before a jump");
    else if (result < x->image->output_count)
        write_copy_out(x, &x->steps[pc], xcc_c_output_name(x, result));
    else if (x->steps[pc].in[0] != NULL && xcc_c_value_of(x->steps[pc].in[0])->place == XCC_C_STATE &&
             xcc_c_value_of(x->steps[pc].in[0])->index != result - x->image->output_count)
        (void)xcc_c_refuse(x, "a state stores another state without a copy");
}

static void write_stores(xcc_c_export *x)
{
    for (size_t pc = 0; pc < x->image->instruction_count; pc++) {
        const xcvm_step *step = &x->program->steps[pc];
        const size_t result = step->action == XCVM_ACTION_OUT ? (size_t)step->target : 0;
        if (result >= x->image->output_count && step->action == XCVM_ACTION_OUT)
            write_copy_out(x, &x->steps[pc],
                           xcc_c_format(x, "context->%s", xcc_c_state_name(x, result - x->image->output_count)));
    }
}

static void write_jump(xcc_c_export *x, size_t pc, const char *condition)
{
    const xcc_c_step *step = &x->steps[pc];
    const long long to = x->program->steps[pc].target;
    const bool back = to <= (long long)pc;
    if (condition != NULL && !operands_known(step))
        return;
    if (condition != NULL)
        xcc_c_line(x, "    if ((%s)[0] %s 0) {\n", xcc_c_read(x, step->in[0]), condition);
    if (back) /* all instructions from there to here were run, or passed over by a jump */
        xcc_c_line(x,
                   "    taken_steps += %llu;\n    if (context->max_steps != 0 && taken_steps > context->max_steps)\n"
                   "        return %zu;\n",
                   (unsigned long long)((long long)pc - to + 1), xcc_c_steps_status(x));
    x->loops = x->loops || back;
    xcc_c_line(x, "    goto at_%lld;\n%s", to, condition != NULL ? "    }\n" : "");
}

static void write_steps(xcc_c_export *x)
{
    for (size_t pc = 0; pc <= x->image->instruction_count; pc++) {
        x->pc = pc;
        x->fails = false;
        if (x->steps[pc].is_target)
            xcc_c_line(x, "at_%zu:;\n", pc);
        if (pc == x->image->instruction_count)
            break;
        switch (x->program->steps[pc].action) {
        case XCVM_ACTION_OUT:
            write_out(x, pc);
            break;
        case XCVM_ACTION_JUMP:
            write_jump(x, pc, NULL);
            break;
        case XCVM_ACTION_JUMP_TRUE:
            write_jump(x, pc, "!=");
            break;
        case XCVM_ACTION_JUMP_FALSE:
            write_jump(x, pc, "==");
            break;
        case XCVM_ACTION_KERNEL:
            if (x->steps[pc].stack != NULL) {
                if (x->refused == 0)
                    xcc_c_write_stack(x, &x->steps[pc]);
                break;
            }
            write_kernel(x, &x->steps[pc]);
            break;
        default:
            break;
        }
        x->steps[pc].fails = x->fails;
    }
    write_stores(x);
}

/* ---- The entry ---- */

static xcvm_status check_include(const char *name, const char *what, xcvm_error *error)
{
    for (const char *at = name; at != NULL && *at != '\0'; at++)
        XCVM_CHECK(error, *at != '"' && *at != '\\' && (unsigned char)*at >= ' ', INVALID_ARGUMENT,
                   "%s contains \", \\ or a control character, which cannot be in an #include", what);
    return XCVM_OK;
}

static xcvm_status check_options(const xcc_export_c_options *o, xcvm_error *error)
{
    XCVM_CHECK(error, o != NULL && o->size == sizeof *o && o->source.call != NULL && o->header.call != NULL,
               INVALID_ARGUMENT,
               "the options need sinks for source and header, and size = sizeof(xcc_export_c_options)");
    const bool module = o->script.call != NULL;
    XCVM_CHECK(
        error,
        module == (o->types.call != NULL) &&
            (!module || (o->weights.call != NULL && o->weights_name != NULL && o->module_name != NULL &&
                         o->arena_in == NULL && !o->with_main)),
        INVALID_ARGUMENT,
        "an ES module needs sinks for script, types and weights, weights_name and module_name, but neither arena_in "
        "nor with_main");
    XCVM_TRY(check_include(o->header_name, "the header's name", error));
    XCVM_TRY(check_include(o->weights_name, "the name of the weights", error));
    const char *const names[] = {o->name, o->arena_in};
    for (size_t i = 0; i < 2; i++) {
        const char *name = names[i];
        bool good = name == NULL || (name[0] != '\0' && !isdigit((unsigned char)name[0]));
        for (; name != NULL && *name != '\0'; name++)
            good = good && (isalnum((unsigned char)*name) || *name == '_' || (i == 1 && *name == '.'));
        XCVM_CHECK(
            error, good && (names[i] == NULL || strlen(names[i]) < 64), INVALID_ARGUMENT,
            i == 0 ? "%s is no name of a C function"
                   : "the option has the value %s; expected the name of an array, or of a section with a leading point",
            names[i]);
    }
    static const char *const taken[] = {"arena", "context", "weights"};
    for (size_t i = 0; o->arena_in != NULL && i < sizeof taken / sizeof *taken; i++)
        XCVM_CHECK(error,
                   strcmp(o->arena_in, taken[i]) != 0 && strncmp(o->arena_in, "in_", 3) != 0 &&
                       strncmp(o->arena_in, "out_", 4) != 0,
                   INVALID_ARGUMENT, "%s is a name that the C has already", o->arena_in);
    return XCVM_OK;
}

static xcvm_status export_program(xcc_c_export *x)
{
    XCVM_TRY(xcc_c_index_names(x));
    XCVM_TRY(xcc_c_read_values(x));
    XCVM_TRY(xcc_c_place_values(x));
    write_steps(x);
    XCVM_CHECK(x->error, x->refused == 0, UNSUPPORTED, "the program cannot be exported as C: %s%s", x->refusals,
               strlen(x->refusals) + 220 > sizeof x->refusals ? " ..." : "");
    x->memory_bytes = x->scratch_offset + x->scratch_bytes;
    return xcc_c_write_files(x);
}

xcvm_status xcc_export_c(const void *program, size_t count, const xcc_export_c_options *options, xcvm_error *error)
{
    xcvm_error own;
    error = error != NULL ? error : &own;
    XCVM_TRY(check_options(options, error));
    xcc_export_c_options o = *options;
    o.header_name = o.header_name != NULL ? o.header_name : "net.h";
    const xcvm_load_options load = {.size = sizeof load, .allocator = o.allocator, .no_libraries = true};
    xcvm_program *loaded;
    XCVM_TRY(xcvm_program_load(program, count, &load, &loaded, error));
    const xcvm_allocator *allocator = xcvm_allocator_or_default(o.allocator);
    xcc_c_export x = {.file = program,
                      .file_bytes = count,
                      .program = loaded,
                      .image = &loaded->image,
                      .options = &o,
                      .name = o.name != NULL ? o.name : "net",
                      .vectors = o.target != NULL,
                      .arena = {.allocator = allocator},
                      .error = error,
                      .body = {.allocator = allocator},
                      .tables = {.allocator = allocator}};
    xcvm_status status = export_program(&x);
    if (status == XCVM_OUT_OF_MEMORY)
        status = xcvm_error_set(error, status, "no memory for the C");
    xcc_c_text_release(&x.body);
    xcc_c_text_release(&x.tables);
    xcvm_arena_release(&x.arena);
    xcvm_program_destroy(loaded);
    return status;
}
